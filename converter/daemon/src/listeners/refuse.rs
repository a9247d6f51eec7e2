//! What a client hears that is refused before it said anything: in its own protocol, so that it knows why.

use tributary_wire::convert::ErrorTlv;
use tributary_wire::socks5::Method;

use crate::admission::Refusal;
use crate::config::Kind;

/// The last words to a refused client; `None`: a reset.
pub fn refuse(kind: Kind, refusal: Refusal) -> Option<Vec<u8>> {
    match kind {
        Kind::Http => Some(super::http::refusal(refusal)),
        Kind::Socks5 => Some(Method::NoneAcceptable.encode().to_vec()),
        Kind::Convert => Some(convert(refusal).encode()),
        Kind::Transparent => None,
    }
}

fn convert(refusal: Refusal) -> ErrorTlv {
    match refusal {
        Refusal::Stranger => ErrorTlv::NotAuthorized,
        Refusal::Full | Refusal::ClientFull | Refusal::Buffered => {
            ErrorTlv::ResourceExceeded { delay: 0 }
        }
    }
}
