//! A client's next request.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tributary_wire::http::{Refused, Request};

use super::client_buffer::{ClientBuffer, NO_MEMORY};
use crate::listeners::message::PIECE;
use crate::session::Session;

/// When the process ends, the first request of a client that has come already may be on its way for so long.
const ON_ITS_WAY: Duration = Duration::from_secs(1);

/// What a client wants.
pub enum Next {
    /// An exchange, or a tunnel; bytes of its head, with which the inbox begins.
    Request(Request, usize),
    /// The client, or this process, wants no more.
    End,
    /// Something that it cannot have.
    Refused(Refused),
}

/// The next request; it must be whole at the deadline, or in time after its first byte where there is none yet.
pub async fn next_request(
    session: &Session,
    client_buffer: &mut ClientBuffer,
    deadline: Option<Instant>,
    mut draining: Pin<&mut impl Future<Output = ()>>,
) -> Next {
    let timeouts = &session.config.timeouts;
    let idle = Instant::now() + timeouts.idle;
    let mut whole_by = deadline;
    loop {
        match client_buffer
            .reader
            .request(&client_buffer.inbox, session.http_limits())
        {
            Ok(Some((request, length))) => {
                return match client_buffer.reserve(session, &request, 0) {
                    Ok(()) => Next::Request(request, length),
                    Err(refused) => Next::Refused(refused),
                };
            }
            Ok(None) => {}
            Err(refused) => return Next::Refused(refused),
        }
        client_buffer.shrink();
        if !session.reserve(client_buffer.inbox.len()) {
            return Next::Refused(NO_MEMORY);
        }
        let begun = client_buffer.reader.has_begun();
        if begun && whole_by.is_none() {
            whole_by = Some(Instant::now() + timeouts.request);
        }
        let wait = Some(whole_by.unwrap_or(idle));
        let read = session
            .stream
            .read_more(&mut client_buffer.inbox, PIECE, wait);
        tokio::select! {
            read = read => match read {
                Ok(count) if count > 0 => {}
                Ok(_) if begun => return Next::Refused(Refused::new(400, "the head was cut short")),
                Err(error) if error.kind() == io::ErrorKind::TimedOut && whole_by.is_some() => {
                    return Next::Refused(Refused::new(408, "the head took too long"));
                }
                _ => return Next::End,
            },
            () = told_to_end(session, draining.as_mut(), deadline.is_some()), if !begun => return Next::End,
        }
    }
}

/// Ready once this process is about to end and nobody waits for the client any more, who has not asked yet.
async fn told_to_end(
    session: &Session,
    draining: Pin<&mut impl Future<Output = ()>>,
    is_first: bool,
) {
    // It is ready once alone.
    if !session.is_draining() {
        draining.await;
    }
    if is_first {
        sleep(ON_ITS_WAY).await;
    }
}
