//! The field lines of a head: one owned copy of the bytes, and where in it each name and value lies.

use std::mem::MaybeUninit;

use super::grammar::{Reason, is_token};

/// The fields that a proxy acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldKind {
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
        14 => &[
            (b"content-length", FieldKind::ContentLength),
            (b"content_length", FieldKind::FramingAlias),
            (b"http2-settings", FieldKind::HopByHop), // RFC 7540 section 3.2.1
            (b"proxy-features", FieldKind::HopByHop), // RFC 2068's experiment; Squid and Apache drop it as well
        ],
        16 => &[(b"proxy-connection", FieldKind::HopByHop)],
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

#[derive(Clone, Debug)]
struct Field {
    kind: FieldKind,
    /// Named by Connection: it ends here.
    dropped: bool,
    name: Span,
    value: Span,
}

/// Where a name or a value lies in its head. Small: a head of short fields has many.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn of(self, head: &[u8]) -> &[u8] {
        &head[self.start as usize..self.end as usize]
    }
}

/// Calls `parse` with room for so many fields: for those of an ordinary head on the stack.
pub(crate) fn with_room<'h, T>(
    count: usize,
    parse: impl FnOnce(&mut [MaybeUninit<httparse::Header<'h>>]) -> T,
) -> T {
    let mut few = [const { MaybeUninit::uninit() }; FEW_FIELDS];
    if count <= FEW_FIELDS {
        parse(&mut few)
    } else {
        parse(&mut vec![MaybeUninit::uninit(); count])
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

#[derive(Clone, Debug)]
pub(crate) struct Fields {
    bytes: Box<[u8]>,
    fields: Vec<Field>,
}

/// A real Connection has two or three; every one is compared with every field.
const MOST_OPTIONS: usize = 32;

impl Fields {
    /// `headers` must be slices of `head`.
    pub(crate) fn collect(head: &[u8], headers: &[httparse::Header<'_>]) -> Result<Self, Reason> {
        let base = head.as_ptr().addr();
        let within = |part: &[u8]| {
            let start = part.as_ptr().addr() - base;
            let at = |position| u32::try_from(position).map_err(|_| "a head of 4 GiB");
            Ok::<_, Reason>(Span {
                start: at(start)?,
                end: at(start + part.len())?,
            })
        };
        let mut fields = Vec::with_capacity(headers.len());
        for header in headers {
            let (kind, dropped) = (kind_of(header.name.as_bytes()), false);
            if kind == FieldKind::FramingAlias {
                return Err("a field name that passes for Content-Length or Transfer-Encoding");
            }
            fields.push(Field {
                kind,
                dropped,
                name: within(header.name.as_bytes())?,
                value: within(header.value)?,
            });
        }
        Ok(Self {
            bytes: head.into(),
            fields,
        })
    }

    /// Bytes of the head that the fields were read from.
    pub(crate) fn head_len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory that they take.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.len() + self.fields.capacity() * size_of::<Field>()
    }

    /// All fields as they came, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields
            .iter()
            .map(|field| (field.name.of(&self.bytes), field.value.of(&self.bytes)))
    }

    /// The values of every field line of one kind, in order.
    pub(crate) fn all(&self, kind: FieldKind) -> impl Iterator<Item = &[u8]> {
        self.fields
            .iter()
            .filter(move |field| field.kind == kind)
            .map(|field| field.value.of(&self.bytes))
    }

    pub(crate) fn has(&self, kind: FieldKind) -> bool {
        self.fields.iter().any(|field| field.kind == kind)
    }

    /// The value of a field that must not stand twice.
    pub(crate) fn single(&self, kind: FieldKind, twice: Reason) -> Result<Option<&[u8]>, Reason> {
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
        if !self.has(FieldKind::Connection) {
            return Ok(options);
        }
        let values: Vec<_> = self.of_kind(FieldKind::Connection).collect();
        let bytes = &self.bytes;
        let tokens = values.iter().flat_map(|value| list(value.of(bytes)));
        for (count, token) in tokens.enumerate() {
            if !is_token(token) {
                return Err("malformed Connection");
            }
            if count == MOST_OPTIONS {
                return Err("more than 32 options in Connection");
            }
            match token {
                close if close.eq_ignore_ascii_case(b"close") => options.close = true,
                kept if kept.eq_ignore_ascii_case(b"keep-alive") => options.keep_alive = true,
                upgrade if upgrade.eq_ignore_ascii_case(b"upgrade") => options.upgrade = true,
                name if may_be_dropped(kind_of(name)) => drop_named(bytes, &mut self.fields, name),
                _ if nominations == ConnectionOptionPolicy::Lenient => {}
                _ => return Err("Connection names a field that must not be dropped"),
            }
        }
        Ok(options)
    }

    fn of_kind(&self, kind: FieldKind) -> impl Iterator<Item = Span> {
        self.fields
            .iter()
            .filter(move |field| field.kind == kind)
            .map(|field| field.value)
    }

    /// Writes the fields that pass through us unchanged; those of `but` are left out too.
    pub(crate) fn write_end_to_end(&self, but: &[FieldKind], out: &mut Vec<u8>) {
        for field in &self.fields {
            let regenerated = !matches!(
                field.kind,
                FieldKind::Other
                    | FieldKind::Via
                    | FieldKind::Date
                    | FieldKind::Trailer
                    | FieldKind::MaxForwards
                    | FieldKind::Expect
            );
            if regenerated || field.dropped || but.contains(&field.kind) {
                continue;
            }
            out.extend_from_slice(field.name.of(&self.bytes));
            out.extend_from_slice(b": ");
            out.extend_from_slice(field.value.of(&self.bytes));
            out.extend_from_slice(b"\r\n");
        }
    }
}

impl Fields {
    /// Writes Connection and Upgrade for a change of protocol on the next hop (RFC 9110 section 7.8).
    pub(crate) fn write_upgrade(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Connection: upgrade\r\n");
        for value in self.all(FieldKind::Upgrade) {
            out.extend_from_slice(b"Upgrade: ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Whether the message means the same without it.
fn may_be_dropped(kind: FieldKind) -> bool {
    matches!(
        kind,
        FieldKind::Other | FieldKind::HopByHop | FieldKind::Trailer | FieldKind::Connection
    )
}

fn drop_named(bytes: &[u8], fields: &mut [Field], name: &[u8]) {
    for field in fields {
        field.dropped |= field.name.of(bytes).eq_ignore_ascii_case(name);
    }
}

/// The elements of a comma-separated list, empty ones skipped (RFC 9110 section 5.6.1.2).
pub(crate) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|byte| *byte == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|element| !element.is_empty())
}
