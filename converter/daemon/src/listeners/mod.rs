//! What clients speak: each file takes a session from its first byte to its end.

mod convert;
mod handoff;
mod http;
mod message;
mod refuse;
mod socks5;
mod transparent;

pub use refuse::refuse;

use std::future::Future;
use std::pin::Pin;

use crate::config::ListenerKind;
use crate::session::Session;

/// Serves a session in its listener's protocol, to the end.
pub fn serve(session: Session) -> Pin<Box<dyn Future<Output = ()>>> {
    match session.listener.listen.kind {
        ListenerKind::Http => Box::pin(http::serve(session)),
        ListenerKind::Socks5 => Box::pin(socks5::serve(session)),
        ListenerKind::Convert => Box::pin(convert::serve(session)),
        ListenerKind::Transparent => Box::pin(transparent::serve(session)),
        ListenerKind::Handoff => Box::pin(handoff::serve(session)),
    }
}
