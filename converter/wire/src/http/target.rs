//! The four forms of a request target (RFC 9112 section 3.2).

use super::authority::HTTP_PORT;
use super::{Authority, Method, Refused};

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestTarget {
    /// `host:port`: a tunnel is asked for (CONNECT only).
    Connect(Authority),
    /// `http://host[:port]/path?query`: what a proxy forwards.
    Absolute {
        /// The origin server.
        authority: Authority,
        /// What goes into the forwarded request line: a path with its query, or `*` for OPTIONS without a path.
        path_and_query: Box<str>,
    },
    /// `/path?query`: meant for an origin server, not for a proxy. The caller refuses it or answers it.
    Origin {
        /// The path with its query.
        path: Box<str>,
    },
    /// `*`: OPTIONS for this proxy itself.
    Asterisk,
}

impl RequestTarget {
    pub(crate) fn parse(text: &str, method: &Method) -> Result<Self, Refused> {
        if !text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#')
            || text.is_empty()
        {
            return Err(Refused::bad_request(
                "invalid character in the request target",
            ));
        }
        match (method, text) {
            (Method::Connect, authority) => Authority::parse(authority, None)
                .map(Self::Connect)
                .map_err(Refused::bad_request),
            (Method::Options, "*") => Ok(Self::Asterisk),
            (_, path) if path.starts_with('/') => Ok(Self::Origin { path: path.into() }),
            (method, uri) => absolute(uri, method),
        }
    }

    /// The origin server, for the two forms that name one.
    pub fn authority(&self) -> Option<&Authority> {
        match self {
            Self::Connect(authority) | Self::Absolute { authority, .. } => Some(authority),
            Self::Origin { .. } | Self::Asterisk => None,
        }
    }
}

fn absolute(uri: &str, method: &Method) -> Result<RequestTarget, Refused> {
    let Some((scheme, rest)) = uri.split_once("://") else {
        return Err(Refused::bad_request("malformed request target"));
    };
    if !is_scheme(scheme.as_bytes()) {
        return Err(Refused::bad_request("malformed scheme"));
    }
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(Refused::new(
            501,
            "only http is spoken; use CONNECT for other schemes",
        ));
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let authority = Authority::parse(authority, Some(HTTP_PORT)).map_err(Refused::bad_request)?;
    Ok(RequestTarget::Absolute {
        authority,
        path_and_query: path_and_query(path, method),
    })
}

/// RFC 9112 sections 3.2.1 and 3.2.4: an empty path is sent as `/`, or as `*` in OPTIONS without a query.
fn path_and_query(path: &str, method: &Method) -> Box<str> {
    match (path, method) {
        ("", Method::Options) => "*".into(),
        ("", _) => "/".into(),
        (query, _) if query.starts_with('?') => format!("/{query}").into_boxed_str(),
        (path, _) => path.into(),
    }
}

/// RFC 3986 section 3.1.
fn is_scheme(scheme: &[u8]) -> bool {
    scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}
