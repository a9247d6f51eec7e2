//! A response as the origin server sends it.

mod forward;

pub use forward::Delivery;

use super::body::{Declared, framing_of_response};
use super::fields::{
    ConnectionOptionPolicy, ConnectionOptions, FieldKind, Fields, field_error, with_room,
};
use super::grammar::Reason;
use super::malformed::{MalformedFields, without_malformed_fields};
use super::request::{RequestContext, ResponseBodyRule};
use super::{Body, Version};

/// Why a response cannot be relayed; the client gets 502 (`Refused::from`), and the origin's connection closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadResponse(
    /// One sentence.
    pub &'static str,
);

/// A response head that has one meaning only.
#[derive(Clone, Debug)]
pub struct Response {
    /// The version that the origin server speaks.
    pub version: Version,
    /// The status code, 100 to 999. RFC 9110 section 15 stops at 599, but servers do not: higher ones are relayed.
    pub status: u16,
    /// What follows the head.
    pub body: Body,
    /// Whether the origin's connection can take another request after the body (RFC 9112 section 9.3).
    pub keep_alive: bool,
    /// After this head both directions carry another protocol: 101, or 2xx to CONNECT.
    pub switching_protocols: bool,
    /// Field lines that were malformed, and are left out.
    pub malformed: MalformedFields,
    declared: Declared,
    phrase: Box<str>,
    fields: Fields,
}

impl Response {
    /// `head` ends with its empty line and holds `field_count` field lines.
    pub(crate) fn from_head(
        head: &[u8],
        field_count: usize,
        awaited: RequestContext,
    ) -> Result<Self, BadResponse> {
        let Parts {
            version,
            status,
            phrase,
            mut fields,
            malformed,
        } = read(head, field_count).map_err(BadResponse)?;
        let options = fields
            .take_connection_options(ConnectionOptionPolicy::Lenient)
            .map_err(BadResponse)?;
        let switching_protocols = status == 101 || is_tunnel(status, awaited);
        if status == 101 && !(awaited.upgrade && options.upgrade && fields.has(FieldKind::Upgrade))
        {
            return Err(BadResponse("a change of protocol that nobody asked for")); // RFC 9110 section 7.8
        }
        let declared = match status {
            // RFC 9112 section 6.1 and RFC 9110 section 8.6: no framing fields may stand here; they are not passed on
            100..200 | 204 => Some(Declared::Nothing),
            _ if is_tunnel(status, awaited) => Some(Declared::Nothing),
            _ => match framing_of_response(&fields, version) {
                // RFC 9112 section 6.3, item 1: no body, whatever the fields say; what is not understood is not passed on
                Err(_) if has_no_body(status, awaited) => None,
                declared => Some(declared.map_err(BadResponse)?),
            },
        };
        let is_understood = declared.is_some() && malformed.count == 0;
        let declared = declared.unwrap_or(Declared::Nothing);
        let body = body(status, awaited, declared);
        let keep_alive = body != Body::UntilClose
            && !switching_protocols
            && is_understood
            && persists(version, options);
        Ok(Self {
            version,
            status,
            body,
            keep_alive,
            switching_protocols,
            malformed,
            declared,
            phrase,
            fields,
        })
    }

    /// 1xx: the final response is still to come (RFC 9110 section 15.2), unless the protocol changes.
    pub fn is_informational(&self) -> bool {
        self.status < 200 && !self.switching_protocols
    }

    /// The field lines as they came: names, and values without the white space around them.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter()
    }
}

struct Parts {
    version: Version,
    status: u16,
    phrase: Box<str>,
    fields: Fields,
    malformed: MalformedFields,
}

/// Reads the head; if a field line is malformed, without that.
fn read(head: &[u8], field_count: usize) -> Result<Parts, Reason> {
    match parse(head, field_count) {
        Err(httparse::Error::HeaderName | httparse::Error::HeaderValue) => {
            let repaired = without_malformed_fields(head)?;
            let fields = field_count - repaired.malformed.count;
            let parts = parse(&repaired.head, fields).map_err(field_error)??;
            Ok(Parts {
                malformed: repaired.malformed,
                ..parts
            })
        }
        parsed => parsed.map_err(field_error)?,
    }
}

/// A second parser reads the whole head, and must see what the line-by-line pass saw.
fn parse(head: &[u8], field_count: usize) -> Result<Result<Parts, Reason>, httparse::Error> {
    with_room(field_count, |headers| {
        let mut parsed = httparse::Response::new(&mut []);
        let mut config = httparse::ParserConfig::default();
        // RFC 9112 section 5.1: a proxy removes white space before the colon of a response's field
        config.allow_spaces_after_header_name_in_responses(true);
        let status = config.parse_response_with_uninit_headers(&mut parsed, head, headers)?;
        if status != httparse::Status::Complete(head.len()) || parsed.headers.len() != field_count {
            return Ok(Err("malformed header section"));
        }
        let version = match parsed.version {
            Some(1) => Version::Http11,
            _ => Version::Http10,
        };
        let Some(status) = parsed.code.filter(|code| *code >= 100) else {
            return Ok(Err("malformed status"));
        };
        let phrase = parsed.reason.unwrap_or_default().into();
        Ok(Fields::collect(head, parsed.headers).map(|fields| Parts {
            version,
            status,
            phrase,
            fields,
            malformed: MalformedFields::default(),
        }))
    })
}

/// RFC 9112 section 6.3, in its order.
fn body(status: u16, awaited: RequestContext, declared: Declared) -> Body {
    match (status, declared) {
        _ if has_no_body(status, awaited) => Body::None,
        (_, Declared::Chunked) => Body::Chunked,
        (_, Declared::Length(length)) => Body::Length(length),
        (_, Declared::Nothing) => Body::UntilClose,
    }
}

fn has_no_body(status: u16, awaited: RequestContext) -> bool {
    matches!(status, 100..200 | 204 | 304)
        || awaited.content == ResponseBodyRule::Absent
        || is_tunnel(status, awaited)
}

fn is_tunnel(status: u16, awaited: RequestContext) -> bool {
    awaited.content == ResponseBodyRule::Tunnel && (200..300).contains(&status)
}

/// RFC 9112 section 9.3.
fn persists(version: Version, options: ConnectionOptions) -> bool {
    !options.close && (version == Version::Http11 || options.keep_alive)
}
