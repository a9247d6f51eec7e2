//! The next request of a guest.

use tributary_wire::http::{HeadLimits, HeadReader, Refused, Request};

use crate::guest::{After, Guest};

/// Reads until a request's head is whole, and takes it out of the inbox. Otherwise what becomes of the connection; who sent
/// no request was told why.
pub async fn next_request(guest: &mut Guest, limits: &HeadLimits) -> Result<Request, After> {
    let mut reader = HeadReader::new();
    loop {
        match reader.request(&guest.inbox, limits) {
            Ok(Some((request, length))) => {
                guest.inbox.drain(..length);
                return Ok(request);
            }
            Ok(None) => {}
            Err(refused) => return Err(refuse(guest, refused).await),
        }
        match guest.read_more().await {
            Ok(0) => return Err(After::Close),
            Ok(_) => {}
            Err(_) => return Err(After::Reset),
        }
    }
}

/// Tells the client why it gets nothing; its connection ends.
pub async fn refuse(guest: &mut Guest, refused: Refused) -> After {
    let mut out = Vec::new();
    refused.write(&mut out);
    match guest.send(&out).await {
        Ok(()) => After::Close,
        Err(_) => After::Reset,
    }
}
