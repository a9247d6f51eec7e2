//! What a client hears that is refused before it said anything: in its own protocol, so that it knows why.

use tributary_wire::convert::ErrorTlv;
use tributary_wire::socks5::AuthMethod;

use crate::config::ListenerKind;
use crate::policy::admission::NotAdmitted;

/// The last words to a refused client; `None`: a reset.
pub fn refuse(kind: ListenerKind, refusal: NotAdmitted) -> Option<Vec<u8>> {
    match kind {
        ListenerKind::Http | ListenerKind::Handoff => Some(super::http::refusal(refusal)),
        ListenerKind::Socks5 => Some(AuthMethod::NoneAcceptable.encode().to_vec()),
        ListenerKind::Convert => Some(convert(refusal).encode()),
        ListenerKind::Transparent => None,
    }
}

fn convert(refusal: NotAdmitted) -> ErrorTlv {
    match refusal {
        NotAdmitted::UnknownClient => ErrorTlv::NotAuthorized,
        NotAdmitted::Full
        | NotAdmitted::ClientFull
        | NotAdmitted::Buffered
        | NotAdmitted::ClientBuffered => ErrorTlv::ResourceExceeded { delay: 0 },
    }
}
