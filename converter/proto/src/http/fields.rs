//! The field lines of a head, where they came, and what each of them means to a proxy.

use std::mem::MaybeUninit;

use super::grammar::{Reason, is_token, is_token_byte};

/// The fields that a proxy acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldKind {
    /// Authorization, of a request, or WWW-Authenticate, of a response.
    Authentication,
    Connection,
    ContentLength,
    Date,
    Expect,
    Host,
    /// Meant for us alone and never forwarded (RFC 9110 section 7.6.1).
    HopByHop,
    /// What gateways that turn hyphens into underscores would take for a framing field.
    FramingAlias,
    MaxForwards,
    Trailer,
    TransferEncoding,
    Upgrade,
    Via,
    Other,
}

/// The field with this name. Most names are compared with one or two of the same length.
fn kind_of(name: &[u8]) -> FieldKind {
    let known: &[(&[u8], FieldKind)] = match name.len() {
        2 => &[(b"te", FieldKind::HopByHop)],
        3 => &[(b"via", FieldKind::Via)],
        4 => &[(b"date", FieldKind::Date), (b"host", FieldKind::Host)],
        6 => &[(b"expect", FieldKind::Expect)],
        7 => &[
            (b"upgrade", FieldKind::Upgrade),
            (b"trailer", FieldKind::Trailer),
        ],
        10 => &[
            (b"connection", FieldKind::Connection),
            (b"keep-alive", FieldKind::HopByHop),
        ],
        12 => &[(b"max-forwards", FieldKind::MaxForwards)],
        13 => &[(b"authorization", FieldKind::Authentication)],
        14 => &[
            (b"content-length", FieldKind::ContentLength),
            (b"content_length", FieldKind::FramingAlias),
            (b"http2-settings", FieldKind::HopByHop), // RFC 7540 section 3.2.1
            (b"proxy-features", FieldKind::HopByHop), // RFC 2068's experiment; Squid and Apache drop it as well
        ],
        16 => &[
            (b"proxy-connection", FieldKind::HopByHop),
            (b"www-authenticate", FieldKind::Authentication),
        ],
        17 => &[
            (b"transfer-encoding", FieldKind::TransferEncoding),
            (b"transfer_encoding", FieldKind::FramingAlias),
        ],
        // RFC 9110 sections 11.7.1 to 11.7.3: for the next proxy or client only
        18 => &[(b"proxy-authenticate", FieldKind::HopByHop)],
        19 => &[(b"proxy-authorization", FieldKind::HopByHop)],
        25 => &[(b"proxy-authentication-info", FieldKind::HopByHop)],
        _ => &[],
    };
    known
        .iter()
        .find(|(known, _)| name.eq_ignore_ascii_case(known))
        .map_or(FieldKind::Other, |(_, kind)| *kind)
}

/// Where the field lines of one head are put.
pub(crate) struct Room<'r, 'h> {
    pub headers: &'r mut [MaybeUninit<httparse::Header<'h>>],
    pub kinds: &'r mut [FieldKind],
}

/// Calls `parse` with room for so many fields: for those of an ordinary head on the stack.
pub(crate) fn with_room<'h, T>(count: usize, parse: impl FnOnce(Room<'_, 'h>) -> T) -> T {
    if count <= FEW_FIELDS {
        parse(Room {
            headers: &mut [const { MaybeUninit::uninit() }; FEW_FIELDS],
            kinds: &mut [FieldKind::Other; FEW_FIELDS],
        })
    } else {
        parse(Room {
            headers: &mut vec![MaybeUninit::uninit(); count],
            kinds: &mut vec![FieldKind::Other; count],
        })
    }
}

/// What the second parser objects to, in our words.
pub(crate) fn field_error(error: httparse::Error) -> Reason {
    match error {
        httparse::Error::HeaderName => "malformed field name",
        httparse::Error::HeaderValue => "invalid character in a field value",
        _ => "malformed head",
    }
}

const FEW_FIELDS: usize = 64;

/// What Connection says besides the names of fields (RFC 9110 section 7.6.1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConnectionOptions {
    pub close: bool,
    pub keep_alive: bool,
    pub upgrade: bool,
}

/// What to do where Connection names a field that is rewritten, or that the message's meaning hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionOptionPolicy {
    /// Refuse the message: we and the next hop might differ over it.
    Strict,
    /// Ignore the nomination: we act on such a field all the same, and rewrite it or pass it on. Servers name Transfer-Encoding
    /// beside a chunked body, which RFC 9110 section 7.6.1 allows.
    Lenient,
}

#[derive(Debug)]
pub(crate) struct Fields<'r, 'h> {
    headers: &'r [httparse::Header<'h>],
    /// That of each header; of one that Connection names, [`FieldKind::HopByHop`].
    kinds: &'r mut [FieldKind],
}

/// A real Connection has two or three; every one is compared with every field.
const MOST_OPTIONS: usize = 32;

impl<'r, 'h> Fields<'r, 'h> {
    /// `kinds` has room for one of each header.
    pub(crate) fn new(
        headers: &'r [httparse::Header<'h>],
        kinds: &'r mut [FieldKind],
    ) -> Result<Self, Reason> {
        let kinds = &mut kinds[..headers.len()];
        for (header, kind) in headers.iter().zip(kinds.iter_mut()) {
            *kind = kind_of(header.name.as_bytes());
        }
        if kinds.contains(&FieldKind::FramingAlias) {
            return Err("a field name that passes for Content-Length or Transfer-Encoding");
        }
        Ok(Self { headers, kinds })
    }

    /// Names and values, with their kinds.
    fn iter(&self) -> impl Iterator<Item = (&httparse::Header<'h>, FieldKind)> {
        self.headers.iter().zip(self.kinds.iter().copied())
    }

    /// The values of every field line of one kind, in order.
    pub(crate) fn all(&self, kind: FieldKind) -> impl Iterator<Item = &'h [u8]> {
        self.iter()
            .filter(move |(_, known)| *known == kind)
            .map(|(header, _)| header.value)
    }

    pub(crate) fn has(&self, kind: FieldKind) -> bool {
        self.kinds.contains(&kind)
    }

    /// The value of a field that must not stand twice.
    pub(crate) fn single(
        &self,
        kind: FieldKind,
        twice: Reason,
    ) -> Result<Option<&'h [u8]>, Reason> {
        let mut values = self.all(kind);
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(twice),
            (value, None) => Ok(value),
        }
    }

    /// Reads Connection and marks the fields that it names as not to be forwarded.
    pub(crate) fn take_connection_options(
        &mut self,
        nominations: ConnectionOptionPolicy,
    ) -> Result<ConnectionOptions, Reason> {
        let mut options = ConnectionOptions::default();
        let mut count = 0;
        for at in 0..self.headers.len() {
            if self.kinds[at] != FieldKind::Connection {
                continue;
            }
            for token in list(self.headers[at].value) {
                if !is_token(token) {
                    return Err("malformed Connection");
                }
                if count == MOST_OPTIONS {
                    return Err("more than 32 options in Connection");
                }
                count += 1;
                match token {
                    close if close.eq_ignore_ascii_case(b"close") => options.close = true,
                    kept if kept.eq_ignore_ascii_case(b"keep-alive") => options.keep_alive = true,
                    upgrade if upgrade.eq_ignore_ascii_case(b"upgrade") => options.upgrade = true,
                    name => self.drop_named(name, nominations)?,
                }
            }
        }
        Ok(options)
    }

    fn drop_named(
        &mut self,
        name: &[u8],
        nominations: ConnectionOptionPolicy,
    ) -> Result<(), Reason> {
        match kind_of(name) {
            FieldKind::Other | FieldKind::Trailer | FieldKind::Authentication => {
                for (header, kind) in self.headers.iter().zip(self.kinds.iter_mut()) {
                    if header.name.as_bytes().eq_ignore_ascii_case(name) {
                        *kind = FieldKind::HopByHop;
                    }
                }
                Ok(())
            }
            // They are not forwarded anyway.
            FieldKind::HopByHop | FieldKind::Connection => Ok(()),
            // The message would not mean the same without it.
            _ if nominations == ConnectionOptionPolicy::Lenient => Ok(()),
            _ => Err("Connection names a field that must not be dropped"),
        }
    }

    /// Whether the server's connection may be, or become, one user's, without another word in later requests: as with NTLM and
    /// Negotiate (RFC 4559 section 4.1), and with every scheme that is not known to be for one request alone.
    pub(crate) fn authenticate_the_connection(&self) -> bool {
        let mut elements = self.all(FieldKind::Authentication).flat_map(list);
        elements.any(|element| {
            let end = element.iter().position(|byte| !is_token_byte(*byte));
            let (name, rest) = element.split_at(end.unwrap_or(element.len()));
            // Parameters of the scheme before have commas between them as well.
            let is_parameter = rest.trim_ascii_start().starts_with(b"=");
            let mut known = [&b"basic"[..], b"bearer", b"digest"].into_iter();
            !is_parameter && !known.any(|scheme| name.eq_ignore_ascii_case(scheme))
        })
    }

    /// Writes the fields that pass through us unchanged; `too`: whether those of another kind do.
    pub(crate) fn write_end_to_end(&self, too: impl Fn(FieldKind) -> bool, out: &mut Vec<u8>) {
        for (header, kind) in self.iter() {
            let passes = matches!(
                kind,
                FieldKind::Other | FieldKind::Via | FieldKind::Date | FieldKind::Authentication
            );
            if passes || too(kind) {
                write_field(header.name, header.value, out);
            }
        }
    }

    /// Writes Connection and Upgrade for a change of protocol on the next hop (RFC 9110 section 7.8).
    pub(crate) fn write_upgrade(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Connection: upgrade\r\n");
        for value in self.all(FieldKind::Upgrade) {
            write_field("Upgrade", value, out);
        }
    }
}

fn write_field(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// The elements of a comma-separated list, empty ones skipped (RFC 9110 section 5.6.1.2).
pub(crate) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|element| !element.is_empty())
}
