//! Reads the next request of a client.

use tributary_proto::http::{HeadLimits, HeadReader, Refused, Request};

use crate::connection::{ClientConnection, NextStep};

/// Reads a request's head, and removes it from the inbox. An error was answered.
pub async fn next_request(client: &mut ClientConnection, limits: &HeadLimits) -> Result<Request, NextStep> {
    let mut reader = HeadReader::new();
    loop {
        match reader.request(&client.inbox, limits) {
            Ok(Some((request, length))) => {
                client.inbox.drain(..length);
                return Ok(request);
            }
            Ok(None) => {}
            Err(refused) => return Err(refuse(client, refused).await),
        }
        match client.read_more().await {
            Ok(0) => return Err(NextStep::Close),
            Ok(_) => {}
            Err(_) => return Err(NextStep::Reset),
        }
    }
}

/// Sends the refusal; the connection then ends.
pub async fn refuse(client: &mut ClientConnection, refused: Refused) -> NextStep {
    let mut out = Vec::new();
    refused.write(&mut out);
    match client.send(&out).await {
        Ok(()) => NextStep::Close,
        Err(_) => NextStep::Reset,
    }
}
