//! The field lines of a head, where they came, and what each of them means to a proxy.

use smallvec::SmallVec;

use super::grammar::{Reason, is_token, is_token_byte, is_value_byte};

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

/// The field with this name. By length and first letter there is one that it can be, which most senders spell like this.
fn kind_of(name: &[u8]) -> FieldKind {
    let first = name.first().map(u8::to_ascii_lowercase);
    let (known, kind): (&[u8], FieldKind) = match (name.len(), first) {
        (2, Some(b't')) => (b"TE", FieldKind::HopByHop),
        (3, Some(b'v')) => (b"Via", FieldKind::Via),
        (4, Some(b'd')) => (b"Date", FieldKind::Date),
        (4, Some(b'h')) => (b"Host", FieldKind::Host),
        (6, Some(b'e')) => (b"Expect", FieldKind::Expect),
        (7, Some(b't')) => (b"Trailer", FieldKind::Trailer),
        (7, Some(b'u')) => (b"Upgrade", FieldKind::Upgrade),
        (10, Some(b'c')) => (b"Connection", FieldKind::Connection),
        (10, Some(b'k')) => (b"Keep-Alive", FieldKind::HopByHop),
        (12, Some(b'm')) => (b"Max-Forwards", FieldKind::MaxForwards),
        (13, Some(b'a')) => (b"Authorization", FieldKind::Authentication),
        (14, Some(b'c')) if name[7] == b'_' => (b"Content_Length", FieldKind::FramingAlias),
        (14, Some(b'c')) => (b"Content-Length", FieldKind::ContentLength),
        (14, Some(b'h')) => (b"HTTP2-Settings", FieldKind::HopByHop), // RFC 7540 section 3.2.1
        // RFC 2068's experiment; Squid and Apache drop it as well
        (14, Some(b'p')) => (b"Proxy-Features", FieldKind::HopByHop),
        (16, Some(b'p')) => (b"Proxy-Connection", FieldKind::HopByHop),
        (16, Some(b'w')) => (b"WWW-Authenticate", FieldKind::Authentication),
        (17, Some(b't')) if name[8] == b'_' => (b"Transfer_Encoding", FieldKind::FramingAlias),
        (17, Some(b't')) => (b"Transfer-Encoding", FieldKind::TransferEncoding),
        // RFC 9110 sections 11.7.1 to 11.7.3: for the next proxy or client only
        (18, Some(b'p')) => (b"Proxy-Authenticate", FieldKind::HopByHop),
        (19, Some(b'p')) => (b"Proxy-Authorization", FieldKind::HopByHop),
        (25, Some(b'p')) => (b"Proxy-Authentication-Info", FieldKind::HopByHop),
        _ => return FieldKind::Other,
    };
    if name == known || name.eq_ignore_ascii_case(known) {
        kind
    } else {
        FieldKind::Other
    }
}

/// What Connection says besides the names of fields (RFC 9110 section 7.6.1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConnectionOptions {
    pub close: bool,
    pub keep_alive: bool,
    pub upgrade: bool,
}

/// How strictly field lines are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// A request's. Where Connection names a field that is rewritten, or that the message's meaning hangs on, we and the next hop
    /// might differ over it.
    Strict,
    /// A response's. White space before a colon is removed (RFC 9112 section 5.1). Such a nomination is ignored: we act on the
    /// field all the same, and rewrite it or pass it on. Servers name Transfer-Encoding beside a chunked body, which RFC 9110
    /// section 7.6.1 allows.
    Lenient,
}

#[derive(Clone, Copy, Debug)]
struct Field<'h> {
    name: &'h [u8],
    /// Without the white space around it.
    value: &'h [u8],
    /// Of one that Connection names, [`FieldKind::HopByHop`].
    kind: FieldKind,
}

impl<'h> Field<'h> {
    /// Reads the line at the start of `lines` (RFC 9112 section 5), and returns what is behind it as well.
    fn read(lines: &'h [u8], strictness: Strictness) -> Result<(Self, &'h [u8]), Reason> {
        let (name, mut rest) = lines.split_at(count(lines, is_token_byte));
        if strictness == Strictness::Lenient {
            rest = &rest[count(rest, is_blank)..];
        }
        let (false, [b':', rest @ ..]) = (name.is_empty(), rest) else {
            return Err("malformed field name");
        };
        let rest = &rest[count(rest, is_blank)..];
        let (value, rest) = rest.split_at(value_len(rest));
        let [b'\r', b'\n', rest @ ..] = rest else {
            return Err("invalid character in a field value");
        };
        let blanks = value.iter().rev().take_while(|byte| is_blank(**byte));
        let value = &value[..value.len() - blanks.count()];
        let kind = kind_of(name);
        Ok((Self { name, value, kind }, rest))
    }
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// How many bytes at the start are of this kind.
fn count(bytes: &[u8], kind: impl Fn(u8) -> bool) -> usize {
    let other = bytes.iter().position(|byte| !kind(*byte));
    other.unwrap_or(bytes.len())
}

/// How many bytes at the start a field value may hold: eight at a time while no control character is among them.
fn value_len(bytes: &[u8]) -> usize {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let has_control = |eight: &&[u8]| {
        let eight = u64::from_le_bytes((*eight).try_into().unwrap_or_default());
        let (less, not_del) = (eight.wrapping_sub(EACH * 0x20), eight ^ (EACH * 0x7f));
        ((less & !eight) | (not_del.wrapping_sub(EACH) & !not_del)) & (EACH * 0x80) != 0
    };
    let eights = bytes.chunks_exact(8);
    let plain = 8 * eights.take_while(|eight| !has_control(eight)).count();
    plain + count(&bytes[plain..], is_value_byte)
}

/// The field lines of a head: on the stack, if it is an ordinary one.
#[derive(Debug)]
pub(crate) struct Fields<'h> {
    strictness: Strictness,
    lines: SmallVec<[Field<'h>; FEW]>,
    /// A bit for each kind that is among them.
    kinds: u32,
}

const FEW: usize = 24;

/// A real Connection has two or three; every one is compared with every field.
const MOST_OPTIONS: usize = 32;

impl<'h> Fields<'h> {
    pub(crate) fn new(strictness: Strictness) -> Self {
        Self {
            strictness,
            lines: SmallVec::new(),
            kinds: 0,
        }
    }

    /// Reads `lines`, up to the empty line that ends them.
    pub(crate) fn read(&mut self, mut lines: &'h [u8]) -> Result<(), Reason> {
        while lines != b"\r\n" {
            let (field, rest) = Field::read(lines, self.strictness)?;
            self.lines.push(field);
            self.kinds |= bit(field.kind);
            lines = rest;
        }
        Ok(())
    }

    /// Refuses a name that gateways would take for another one.
    pub(crate) fn refuse_aliases(&self) -> Result<(), Reason> {
        if self.has(FieldKind::FramingAlias) {
            return Err("a field name that passes for Content-Length or Transfer-Encoding");
        }
        Ok(())
    }

    /// The values of every field line of one kind, in order.
    pub(crate) fn all(&self, kind: FieldKind) -> impl Iterator<Item = &'h [u8]> {
        let lines = if self.has(kind) { &self.lines[..] } else { &[] };
        lines
            .iter()
            .filter(move |field| field.kind == kind)
            .map(|field| field.value)
    }

    pub(crate) fn has(&self, kind: FieldKind) -> bool {
        self.kinds & bit(kind) != 0
    }

    /// The value of a field that must not stand twice.
    pub(crate) fn single(&self, kind: FieldKind, twice: Reason) -> Result<Option<&'h [u8]>, Reason> {
        let mut values = self.all(kind);
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(twice),
            (value, None) => Ok(value),
        }
    }

    /// Reads Connection and marks the fields that it names as not to be forwarded.
    pub(crate) fn take_connection_options(&mut self) -> Result<ConnectionOptions, Reason> {
        let mut options = ConnectionOptions::default();
        if !self.has(FieldKind::Connection) {
            return Ok(options);
        }
        let mut count = 0;
        for at in 0..self.lines.len() {
            if self.lines[at].kind != FieldKind::Connection {
                continue;
            }
            for token in list(self.lines[at].value) {
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
                    name => self.drop_named(name)?,
                }
            }
        }
        Ok(options)
    }

    fn drop_named(&mut self, name: &[u8]) -> Result<(), Reason> {
        match kind_of(name) {
            FieldKind::Other | FieldKind::Trailer | FieldKind::Authentication => {
                for field in &mut self.lines {
                    if field.name.eq_ignore_ascii_case(name) {
                        field.kind = FieldKind::HopByHop;
                    }
                }
                Ok(())
            }
            // They are not forwarded anyway.
            FieldKind::HopByHop | FieldKind::Connection => Ok(()),
            // The message would not mean the same without it.
            _ if self.strictness == Strictness::Lenient => Ok(()),
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
        for field in &self.lines {
            let passes = matches!(
                field.kind,
                FieldKind::Other | FieldKind::Via | FieldKind::Date | FieldKind::Authentication
            );
            if passes || too(field.kind) {
                write_field(field.name, field.value, out);
            }
        }
    }

    /// Writes Connection and Upgrade for a change of protocol on the next hop (RFC 9110 section 7.8).
    pub(crate) fn write_upgrade(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Connection: upgrade\r\n");
        for value in self.all(FieldKind::Upgrade) {
            write_field(b"Upgrade", value, out);
        }
    }
}

const fn bit(kind: FieldKind) -> u32 {
    1 << kind as u32
}

fn write_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name);
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
