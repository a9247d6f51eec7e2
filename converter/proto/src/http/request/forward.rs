//! The request as the origin server gets it (RFC 9110 section 7.6, RFC 9112 section 3.2).

use super::super::body::{Declared, write_framing};
use super::super::fields::FieldKind;
use super::super::{Authority, Body, Hop, Method, Refused, RequestTarget};
use super::Request;

const EXTRA: usize = 128; // what we add at most, the pseudonym apart

impl Request {
    /// Appends the head for the origin server: origin-form, Host from the target, one framing, no fields that
    /// were meant for this hop. Refuses, writing nothing, what is not in absolute-form (400) or must end here (400):
    /// see [`Request::is_for_proxy`].
    pub fn forward(&self, hop: &Hop<'_>, out: &mut Vec<u8>) -> Result<(), Refused> {
        let RequestTarget::Absolute {
            authority,
            path_and_query,
        } = &self.target
        else {
            return Err(self.not_forwarded("the request target must be an absolute http URI"));
        };
        if self.is_for_proxy() {
            return Err(self.not_forwarded("Max-Forwards is used up"));
        }
        out.reserve(self.fields.head_len() + hop.name_len() + EXTRA);
        self.write_first_lines(authority, path_and_query, out);
        self.write_fields(hop, out);
        out.extend_from_slice(b"\r\n");
        Ok(())
    }

    fn not_forwarded(&self, reason: &'static str) -> Refused {
        Refused::bad_request(reason).to_head(self.method == Method::Head)
    }

    fn write_first_lines(&self, authority: &Authority, path_and_query: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(self.method.as_str().as_bytes());
        out.push(b' ');
        out.extend_from_slice(path_and_query.as_bytes());
        out.extend_from_slice(b" HTTP/1.1\r\nHost: "); // our version, not the client's (RFC 9110 section 2.5)
        authority.write_host(out); // RFC 9112 section 3.2.2: the target's, whatever the client's Host says
        out.extend_from_slice(b"\r\n");
    }

    fn write_fields(&self, hop: &Hop<'_>, out: &mut Vec<u8>) {
        self.fields.write_end_to_end(self.left_out(), out);
        if let Some(left) = self.max_forwards {
            let field = format!("Max-Forwards: {}\r\n", left.saturating_sub(1));
            out.extend_from_slice(field.as_bytes());
        }
        if self.expect_continue {
            out.extend_from_slice(b"Expect: 100-continue\r\n");
        }
        write_framing(self.declared(), out);
        hop.write_via(self.version, out);
        if self.upgrade {
            self.fields.write_upgrade(out);
        } else if !hop.keep_alive {
            out.extend_from_slice(b"Connection: close\r\n");
        }
    }

    /// What is rewritten or has lost its meaning.
    fn left_out(&self) -> &'static [FieldKind] {
        match (self.max_forwards, self.body) {
            (Some(_), Body::Chunked) => &[FieldKind::Expect, FieldKind::MaxForwards],
            (Some(_), _) => &[
                FieldKind::Expect,
                FieldKind::Trailer,
                FieldKind::MaxForwards,
            ],
            (None, Body::Chunked) => &[FieldKind::Expect],
            (None, _) => &[FieldKind::Expect, FieldKind::Trailer],
        }
    }

    fn declared(&self) -> Declared {
        match self.body {
            Body::Length(length) => Declared::Length(length),
            Body::Chunked => Declared::Chunked,
            Body::None | Body::UntilClose => Declared::Nothing,
        }
    }
}
