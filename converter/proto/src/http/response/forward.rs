//! The response as the client gets it.

use std::io::Write as _;
use std::time::SystemTime;

use httpdate::HttpDate;

use super::super::body::{Declared, write_framing};
use super::super::fields::FieldKind;
use super::super::grammar::write_decimal;
use super::super::{Body, Hop, RequestContext, Version};
use super::Response;

/// How a response reaches its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// False for 1xx and a client of HTTP/1.0, which does not know them (RFC 9110 section 15.2): send nothing.
    pub send: bool,
    /// The client is of HTTP/1.0 and the body chunked (RFC 9112 section 6.1): send the content that [`super::super::Chunked`]
    /// finds, without its framing, then close.
    pub decode: bool,
    /// The client's connection lives on after this response. A caller that wants to end it sets this to false.
    pub keep_alive: bool,
}

const EXTRA: usize = 160; // what we add at most, the pseudonym apart

impl Response {
    /// What the client's version and the body's framing ask for.
    pub fn delivery(&self, awaited: RequestContext) -> Delivery {
        let decode = self.body == Body::Chunked && awaited.version == Version::Http10;
        Delivery {
            send: awaited.version == Version::Http11 || self.status >= 200,
            decode,
            keep_alive: awaited.keep_alive
                && self.body != Body::UntilClose
                && !self.switching_protocols,
        }
    }

    /// Appends the head for the client, whose version `awaited` tells: one framing, no fields that were meant
    /// for this hop, and a Date by `clock` if the origin server gave none (RFC 9110 section 6.6.1). `hop.keep_alive` is
    /// that of the [`Delivery`].
    pub fn forward(
        &self,
        awaited: RequestContext,
        hop: &Hop<'_>,
        clock: fn() -> SystemTime,
        out: &mut Vec<u8>,
    ) {
        out.reserve(self.fields.head_len() + hop.name_len() + EXTRA);
        self.write_status_line(out);
        let declared = match self.declared {
            Declared::Chunked if awaited.version == Version::Http10 => Declared::Nothing,
            declared => declared,
        };
        // RFC 9110 section 6.6.2: Trailer tells of a chunked body's trailer section
        let left_out: &[FieldKind] = if declared == Declared::Chunked {
            &[]
        } else {
            &[FieldKind::Trailer]
        };
        self.fields.write_end_to_end(left_out, out);
        if self.status >= 200 && !self.fields.has(FieldKind::Date) {
            let date = HttpDate::from(clock().max(SystemTime::UNIX_EPOCH));
            let _ = write!(out, "Date: {date}\r\n"); // a Vec takes everything
        }
        write_framing(declared, out);
        hop.write_via(self.version, out);
        self.write_connection(hop, out);
        out.extend_from_slice(b"\r\n");
    }

    fn write_status_line(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"HTTP/1.1 "); // our version, not the origin's (RFC 9110 section 2.5)
        write_decimal(self.status, out);
        out.push(b' ');
        out.extend_from_slice(self.phrase.as_bytes());
        out.extend_from_slice(b"\r\n");
    }

    fn write_connection(&self, hop: &Hop<'_>, out: &mut Vec<u8>) {
        if self.status == 101 {
            self.fields.write_upgrade(out);
        } else if !hop.keep_alive && self.status >= 200 && !self.switching_protocols {
            out.extend_from_slice(b"Connection: close\r\n");
        }
    }
}
