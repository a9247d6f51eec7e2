//! How large the transfer of a request will be, as far as that can be known before it.

use tributary_wire::http::{Body, Request, RequestTarget};

use crate::config::RequestSize;
use crate::dial::{ExpectedSize, KnownBy};
use crate::session::Session;

/// How large the transfer of a client's `request` will be, if that is known by the request and decides its way.
pub fn known_size(session: &Session, request: &Request) -> Option<ExpectedSize> {
    let via_gateway = session.listener.listen.via_gateway;
    let gateway = session.config.gateway.as_ref().filter(|_| via_gateway)?;
    expected_size(request, &gateway.sizes)
}

/// That of the request's content, if it has some and says how much; otherwise what the first of `sizes` says that is for it.
/// `None` if neither does.
fn expected_size(request: &Request, sizes: &[RequestSize]) -> Option<ExpectedSize> {
    if let Body::Length(bytes @ 1..) = request.body {
        let by = KnownBy::ContentLength;
        return Some(ExpectedSize { bytes, by });
    }
    let RequestTarget::Absolute { path_and_query, .. } = &request.target else {
        return None;
    };
    let mut known = sizes.iter();
    let known = known.find(|each| each.covers(request.method.as_str(), path_and_query));
    known.map(|each| ExpectedSize {
        bytes: each.size as u64,
        by: KnownBy::Path,
    })
}
