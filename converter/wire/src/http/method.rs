//! Request methods (RFC 9110 section 9); names are case-sensitive.

/// A method; one that is not listed is forwarded as it came.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// CONNECT
    Connect,
    /// DELETE
    Delete,
    /// GET
    Get,
    /// HEAD
    Head,
    /// OPTIONS
    Options,
    /// PATCH
    Patch,
    /// POST
    Post,
    /// PUT
    Put,
    /// TRACE
    Trace,
    /// Any other token.
    Other(Box<str>),
}

impl Method {
    pub(crate) fn from_token(token: &str) -> Self {
        match token {
            "CONNECT" => Self::Connect,
            "DELETE" => Self::Delete,
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "OPTIONS" => Self::Options,
            "PATCH" => Self::Patch,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "TRACE" => Self::Trace,
            other => Self::Other(other.into()),
        }
    }

    /// Whether to ask twice has the effect of asking once (RFC 9110 section 9.2.2).
    pub const fn is_idempotent(&self) -> bool {
        matches!(
            self,
            Self::Get | Self::Head | Self::Options | Self::Trace | Self::Put | Self::Delete
        )
    }

    /// The method as it stands in a request line.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Connect => "CONNECT",
            Self::Delete => "DELETE",
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Options => "OPTIONS",
            Self::Patch => "PATCH",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Trace => "TRACE",
            Self::Other(name) => name,
        }
    }
}
