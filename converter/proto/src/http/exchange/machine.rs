//! The exchange itself.

use std::time::SystemTime;

use super::super::response::is_success;
use super::super::{HeadLimits, MalformedFields, Refused, Request, RequestContext, Response, ResponseBodyRule};
use super::download::{Download, KeepAlive, take};
use super::upload::{Sent, Upload};
use super::{Action, ClientAfter, Completed, Event, ExchangeResult, Fault, Input, ServerAfter};

const REQUEST_TIMEOUT: u16 = 408;

#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // what happened to request and response, in any combination
pub struct Exchange<'a> {
    limits: &'a HeadLimits,
    clock: fn() -> SystemTime,
    awaited: RequestContext,
    /// It can go to a second server connection if this one, kept from a request before, has just ended.
    repeatable: bool,
    draining: bool,
    /// The client gets what was passed on to it, and nothing else can take its place.
    committed: bool,
    /// The server's connection serves this client alone: who logs in to it, or whose content the server may take for requests
    /// if it does not read it.
    is_private: bool,
    /// The server was told that its connection gets no other request, and may not get one (RFC 9112 section 9.6).
    is_last: bool,
    /// The server's connection broke, while what it said before is still read.
    server_broke: bool,
    /// Field lines that were left out of responses.
    malformed: MalformedFields,
    upload: Upload,
    download: Download,
}

impl<'a> Exchange<'a> {
    /// Begins with `request`, whose head goes to the server. `kept`: the server's connection served a request before. `clock`
    /// gives the Date of responses that have none.
    pub fn begin(request: &Request, kept: bool, limits: &'a HeadLimits, clock: fn() -> SystemTime) -> Self {
        Self {
            limits,
            clock,
            awaited: request.awaited(),
            repeatable: kept && request.is_repeatable(),
            draining: false,
            committed: false,
            is_private: request.authenticates_the_connection || request.body.has_content(),
            is_last: request.says_close,
            server_broke: false,
            malformed: MalformedFields::default(),
            upload: Upload::of(request.body),
            download: Download::new(),
        }
    }

    /// From now on responses tell the client that its connection ends behind them.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// What is in `out` is about to be sent to the client.
    pub fn commit(&mut self) {
        self.committed = match self.download {
            Download::Awaited { interim, .. } => interim,
            _ => true,
        };
    }

    /// Whether bytes of the client are for this exchange. Until then they stay where they are: behind its end they belong to
    /// the next request.
    pub fn reads_client(&self) -> bool {
        self.upload.is_open() && (self.reads_server() || self.needs_whole_request())
    }

    /// How many bytes of the client are known to be still to come, at least.
    pub fn client_owes(&self) -> u64 {
        if self.upload.is_open() {
            self.upload.body.owes()
        } else {
            0
        }
    }

    /// Whether the server's connection has taken all of the request that it will.
    pub fn request_is_sent(&self) -> bool {
        self.upload.sent != Sent::Part
    }

    /// Whether bytes of the server are for this exchange.
    pub fn reads_server(&self) -> bool {
        matches!(self.download, Download::Awaited { .. } | Download::Body { .. })
    }

    /// Whether nothing has come of the response, and the request may be sent to a second connection.
    pub fn may_go_elsewhere(&self) -> bool {
        let nothing_came = matches!(self.download, Download::Awaited { begun: false, .. });
        self.repeatable && nothing_came
    }

    /// Whether the head of the final response has yet to come.
    pub fn awaits_head(&self) -> bool {
        matches!(self.download, Download::Awaited { .. })
    }

    /// Whether the response's body follows, so that what comes from the server is passed on as it is.
    pub fn is_in_body(&self) -> bool {
        matches!(self.download, Download::Body { .. })
    }

    /// Malformed field lines that were left out of the server's responses.
    pub fn malformed_fields(&self) -> &MalformedFields {
        &self.malformed
    }

    /// What is to be done about `event`. Heads are appended to `out`.
    pub fn handle(&mut self, event: Event<'_>, out: &mut Vec<u8>) -> Action {
        match event {
            Event::Client(Input::Bytes(bytes)) => self.client_bytes(bytes),
            Event::Client(Input::End) if !self.upload.is_open() => Action::Wait,
            Event::Client(_) => self.broken(Fault::ClientReset),
            Event::Server(Input::Bytes(bytes)) => self.server_bytes(bytes, out),
            Event::Server(Input::End) if !self.server_broke => self.server_ended(),
            Event::Server(Input::End | Input::Reset) => self.cut_off(),
            Event::RequestFlushed => {
                self.upload.flushed();
                Action::Wait
            }
            Event::UpstreamWriteFailed { broke } => self.upstream_write_failed(broke),
            Event::ServerUnavailable if self.may_go_elsewhere() => Action::End(ExchangeResult::Retry),
            Event::ServerUnavailable => Action::Wait,
            Event::ResponseFlushed => self.delivered(),
            Event::IdleTimeout { upstream_blocked } => self.silence(upstream_blocked),
        }
    }

    fn client_bytes(&mut self, bytes: &[u8]) -> Action {
        if !self.upload.is_open() {
            return Action::Wait;
        }
        match self.upload.body.advance(bytes) {
            Ok(used) => Action::Pass { used, data: 0..used },
            Err(bad) => self.refuse_or(bad.into(), Fault::BadRequest),
        }
    }

    /// Why the server takes no more may still come, unless it has told the client already that all is well.
    fn upstream_write_failed(&mut self, broke: bool) -> Action {
        self.server_broke |= broke;
        self.upload.sent = Sent::Refused;
        if self.needs_whole_request() {
            self.cut_short()
        } else {
            Action::Wait
        }
    }

    fn server_bytes(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Action {
        match &mut self.download {
            Download::Awaited { .. } => self.server_head(bytes, out),
            Download::Body { .. } => self.server_body(bytes),
            // Nobody asked for them: what they mean is not certain, and the connection serves no other request.
            Download::Whole(kept) => {
                kept.server = false;
                Action::Pass {
                    used: bytes.len(),
                    data: 0..0,
                }
            }
            // They belong to the other protocol.
            Download::Switched { .. } => Action::Wait,
        }
    }

    fn server_head(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Action {
        let Download::Awaited { heads, begun, .. } = &mut self.download else {
            return Action::Wait;
        };
        *begun = true;
        let awaited = RequestContext {
            keep_alive: self.awaited.keep_alive && !self.draining,
            is_whole: self.upload.body.has_ended(),
            ..self.awaited
        };
        let before = out.len();
        match heads.response(bytes, awaited, self.limits, self.clock, out) {
            Ok(Some((response, _))) if self.upload.sent == Sent::Refused && response.is_success() => {
                out.truncate(before);
                self.cut_short()
            }
            // It had been about to end the connection, and speaks of that one (RFC 9110 section 15.5.9).
            Ok(Some((response, _))) if response.status == REQUEST_TIMEOUT && self.repeatable => {
                out.truncate(before);
                Action::End(ExchangeResult::Retry)
            }
            Ok(Some((response, used))) => {
                self.head_passed(&response);
                Action::Head(used)
            }
            Ok(None) => Action::Wait,
            Err(bad) => self.refuse_or(bad.into(), Fault::ServerReset),
        }
    }

    fn head_passed(&mut self, response: &Response) {
        self.malformed.extend(&response.malformed);
        self.is_private |= response.authenticates_the_connection;
        match &mut self.download {
            Download::Awaited { interim, .. } if response.is_informational() => {
                *interim |= response.delivery.send;
            }
            download => *download = Download::after(response),
        }
    }

    fn server_body(&mut self, bytes: &[u8]) -> Action {
        let Download::Body { reader, decode, kept } = &mut self.download else {
            return Action::Wait;
        };
        let (kept, taken) = (*kept, take(reader, *decode, bytes));
        if reader.has_ended() {
            self.download = Download::Whole(kept);
        }
        taken.unwrap_or_else(|_| {
            let refused = Refused::new(502, "malformed content");
            self.refuse_or(refused, Fault::MalformedBody)
        })
    }

    fn server_ended(&mut self) -> Action {
        match &self.download {
            Download::Awaited { begun: false, .. } => self.unanswered(),
            Download::Awaited { .. } => {
                let refused = Refused::new(502, "the server ended within its response");
                self.refuse_or(refused, Fault::ServerReset)
            }
            Download::Body { reader, kept, .. } if reader.ends_with_the_connection() => {
                self.download = Download::Whole(*kept);
                Action::Wait
            }
            Download::Body { .. } => self.broken(Fault::ServerReset),
            Download::Whole(_) | Download::Switched { .. } => Action::Wait,
        }
    }

    /// What a reset cuts short is never whole, whatever its framing.
    fn cut_off(&mut self) -> Action {
        match &self.download {
            Download::Body { .. } => self.broken(Fault::ServerReset),
            _ if self.upload.sent != Sent::Whole && self.needs_whole_request() => self.cut_short(),
            _ => self.server_ended(),
        }
    }

    /// Whether the response means that the server has the request, all of it (RFC 9110 sections 7.8 and 15.3), so that the
    /// rest of it goes on to the server, and no part of it may be taken for the whole.
    fn needs_whole_request(&self) -> bool {
        self.download.status().is_some_and(is_success)
    }

    fn cut_short(&self) -> Action {
        let refused = Refused::new(502, "the server did not take the whole request");
        self.refuse_or(refused, Fault::ServerReset)
    }

    fn unanswered(&self) -> Action {
        if self.repeatable {
            return Action::End(ExchangeResult::Retry);
        }
        let refused = Refused::new(502, "the server ended without a response");
        self.refuse_or(refused, Fault::ServerReset)
    }

    fn delivered(&mut self) -> Action {
        if let Download::Awaited { interim, .. } = &mut self.download {
            *interim = false;
        }
        self.commit();
        if self.upload.sent != Sent::Whole && self.needs_whole_request() {
            return Action::Wait;
        }
        match &self.download {
            Download::Whole(kept) => Action::End(ExchangeResult::Completed(self.completed(*kept))),
            Download::Switched { status } => Action::End(ExchangeResult::Upgraded { status: *status }),
            Download::Awaited { .. } | Download::Body { .. } => Action::Wait,
        }
    }

    fn completed(&self, kept: KeepAlive) -> Completed {
        let is_read = self.upload.body.has_ended();
        Completed {
            status: kept.status,
            client: match (kept.client, is_read && !self.awaited.keep_alive) {
                (true, _) => ClientAfter::Keep,
                (false, true) => ClientAfter::Close,
                // More may be on its way from a client that has yet to read that its connection ends.
                (false, false) => ClientAfter::Linger,
            },
            server: match (self.upload.sent, kept.server && !self.is_last) {
                (Sent::Whole, true) if self.is_private => ServerAfter::KeepForClient,
                (Sent::Whole, true) => ServerAfter::Keep,
                (Sent::Whole, false) => ServerAfter::Close,
                (Sent::Part | Sent::Refused, _) => ServerAfter::Reset,
            },
        }
    }

    fn silence(&self, upstream_blocked: bool) -> Action {
        let refused = if self.upload.is_open() && !upstream_blocked {
            Refused::new(408, "the content took too long")
        } else {
            Refused::new(504, "the server did not respond in time")
        };
        self.refuse_or(refused, Fault::IdleTimeout)
    }

    fn refuse_or(&self, refused: Refused, fault: Fault) -> Action {
        if self.committed {
            self.broken(fault)
        } else {
            let to_head = self.awaited.content == ResponseBodyRule::Absent;
            Action::End(ExchangeResult::Refused(refused.to_head(to_head)))
        }
    }

    fn broken(&self, fault: Fault) -> Action {
        Action::End(ExchangeResult::Aborted {
            status: self.download.status(),
            fault,
        })
    }
}
