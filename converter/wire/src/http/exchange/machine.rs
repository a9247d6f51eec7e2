//! The exchange itself.

use std::time::SystemTime;

use super::super::{
    Awaited, BodyReader, ContentRule, Delivery, HeadLimits, HeadReader, Hop, Refused, Request,
    Response, chunked,
};
use super::{Action, ClientAfter, Completed, Ending, Event, Fault, Input, ServerAfter};

/// One request and its response.
#[derive(Clone, Debug)]
pub struct Exchange<'a> {
    limits: &'a HeadLimits,
    clock: fn() -> SystemTime,
    awaited: Awaited,
    /// It can go to a second server connection if this one, kept from the request before, has just ended.
    repeatable: bool,
    draining: bool,
    /// The client gets this response, and no other one can take its place.
    committed: bool,
    upload: Upload,
    download: Download,
}

/// The request's body.
#[derive(Clone, Debug)]
enum Upload {
    Open(BodyReader),
    Whole,
    /// The server takes no more of it.
    Refused,
}

/// The response.
#[derive(Clone, Debug)]
enum Download {
    /// Its final head has not come. Whether anything has.
    Awaited { heads: HeadReader, begun: bool },
    Body {
        reader: BodyReader,
        decode: bool,
        kept: Kept,
    },
    /// All of it has been passed on.
    Whole(Kept),
    /// It was 101, and has been passed on.
    Switched { status: u16 },
}

/// What the head said of the time after the response.
#[derive(Clone, Copy, Debug)]
struct Kept {
    status: u16,
    client: bool,
    server: bool,
}

impl<'a> Exchange<'a> {
    /// Begins with `request`, whose head goes to the server as it is in `out`. `kept`: the server's connection served a request
    /// before. `clock` gives the Date of responses that have none.
    pub fn begin(
        request: &Request,
        kept: bool,
        limits: &'a HeadLimits,
        clock: fn() -> SystemTime,
        out: &mut Vec<u8>,
    ) -> Result<Self, Refused> {
        let hop = Hop {
            pseudonym: &limits.pseudonym,
            // Whoever ends a connection first keeps its port for a minute (RFC 9293 section 3.6): better the server's.
            keep_alive: request.keep_alive,
        };
        request.forward(&hop, out)?;
        Ok(Self {
            limits,
            clock,
            awaited: request.awaited(),
            repeatable: kept && request.is_repeatable(),
            draining: false,
            committed: false,
            upload: Upload::of(BodyReader::new(request.body)),
            download: Download::Awaited {
                heads: HeadReader::new(),
                begun: false,
            },
        })
    }

    /// From now on responses tell the client that its connection ends behind them.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// What is in `out` is about to be sent to the client.
    pub fn commit(&mut self) {
        self.committed = !matches!(self.download, Download::Awaited { .. });
    }

    /// Whether bytes of the client are for this exchange. Until then they stay where they are: behind its end they belong to
    /// the next request.
    pub fn reads_client(&self) -> bool {
        matches!(self.upload, Upload::Open(_)) && self.reads_server()
    }

    /// How many bytes of the client are known to be still to come, at least.
    pub fn client_owes(&self) -> u64 {
        match &self.upload {
            Upload::Open(reader) => reader.owes(),
            Upload::Whole | Upload::Refused => 0,
        }
    }

    /// Whether bytes of the server are for this exchange.
    pub fn reads_server(&self) -> bool {
        matches!(
            self.download,
            Download::Awaited { .. } | Download::Body { .. }
        )
    }

    /// Whether the response's body follows, so that what comes from the server is passed on as it is.
    pub fn is_in_body(&self) -> bool {
        matches!(self.download, Download::Body { .. })
    }

    /// What is to be done about `event`. Heads are appended to `out`.
    pub fn handle(&mut self, event: Event<'_>, out: &mut Vec<u8>) -> Action {
        match event {
            Event::Client(Input::Bytes(bytes)) => self.client_bytes(bytes),
            Event::Client(Input::End) if !matches!(self.upload, Upload::Open(_)) => Action::Wait,
            Event::Client(_) => self.broken(Fault::ClientReset),
            Event::Server(Input::Bytes(bytes)) => self.server_bytes(bytes, out),
            Event::Server(Input::End) => self.server_ended(),
            Event::Server(Input::Reset) => self.server_broke(),
            Event::ServerDeaf => {
                self.upload = Upload::Refused;
                Action::Wait
            }
            Event::Delivered => self.delivered(),
            Event::Silence { server_clogged } => self.silence(server_clogged),
        }
    }

    fn client_bytes(&mut self, bytes: &[u8]) -> Action {
        let Upload::Open(reader) = &mut self.upload else {
            return Action::Wait;
        };
        match reader.advance(bytes) {
            Ok(used) => {
                if reader.has_ended() {
                    self.upload = Upload::Whole;
                }
                Action::Pass {
                    used,
                    data: 0..used,
                }
            }
            Err(bad) => self.refuse_or(bad.into(), Fault::BadRequest),
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
        let Download::Awaited { heads, begun } = &mut self.download else {
            return Action::Wait;
        };
        *begun = true;
        match heads.response(bytes, self.awaited, self.limits) {
            Ok(Some((response, used))) => {
                self.pass_head(&response, out);
                Action::Head(used)
            }
            Ok(None) => Action::Wait,
            Err(bad) => self.refuse(bad.into()),
        }
    }

    fn pass_head(&mut self, response: &Response, out: &mut Vec<u8>) {
        let mut delivery = response.delivery(self.awaited);
        delivery.keep_alive &= !self.draining;
        if delivery.send {
            let hop = Hop {
                pseudonym: &self.limits.pseudonym,
                keep_alive: delivery.keep_alive,
            };
            response.forward(self.awaited, &hop, self.clock, out);
        }
        if !response.is_informational() {
            self.download = Download::after(response, delivery);
        }
    }

    fn server_body(&mut self, bytes: &[u8]) -> Action {
        let Download::Body {
            reader,
            decode,
            kept,
        } = &mut self.download
        else {
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
                self.refuse(Refused::new(502, "the server ended within its response"))
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
    fn server_broke(&mut self) -> Action {
        match &self.download {
            Download::Body { .. } => self.broken(Fault::ServerReset),
            _ => self.server_ended(),
        }
    }

    fn unanswered(&self) -> Action {
        if self.repeatable {
            return Action::End(Ending::Repeat);
        }
        self.refuse(Refused::new(502, "the server ended without a response"))
    }

    fn delivered(&self) -> Action {
        match &self.download {
            Download::Whole(kept) => Action::End(Ending::Completed(self.completed(*kept))),
            Download::Switched { status } => Action::End(Ending::Switched { status: *status }),
            Download::Awaited { .. } | Download::Body { .. } => Action::Wait,
        }
    }

    fn completed(&self, kept: Kept) -> Completed {
        let whole = matches!(self.upload, Upload::Whole);
        Completed {
            status: kept.status,
            client: match (whole, kept.client, self.awaited.keep_alive) {
                (true, true, _) => ClientAfter::Keep,
                (true, false, false) => ClientAfter::Close,
                // What is left of the request's body cannot be told from another request, and is on its way.
                _ => ClientAfter::Linger,
            },
            server: match (whole, kept.server) {
                (true, true) => ServerAfter::Keep,
                (true, false) => ServerAfter::Close,
                (false, _) => ServerAfter::Reset,
            },
        }
    }

    fn silence(&self, server_clogged: bool) -> Action {
        let refused = match &self.upload {
            Upload::Open(_) if !server_clogged => Refused::new(408, "the content took too long"),
            _ => Refused::new(504, "the server did not respond in time"),
        };
        self.refuse_or(refused, Fault::Silent)
    }

    fn refuse_or(&self, refused: Refused, fault: Fault) -> Action {
        if self.committed {
            self.broken(fault)
        } else {
            self.refuse(refused)
        }
    }

    fn refuse(&self, refused: Refused) -> Action {
        Action::End(Ending::Refused(
            refused.to_head(self.awaited.content == ContentRule::Absent),
        ))
    }

    fn broken(&self, fault: Fault) -> Action {
        let status = match &self.download {
            Download::Awaited { .. } => None,
            Download::Body { kept, .. } | Download::Whole(kept) => Some(kept.status),
            Download::Switched { status } => Some(*status),
        };
        Action::End(Ending::Broken { status, fault })
    }
}

impl Upload {
    fn of(reader: BodyReader) -> Self {
        if reader.has_ended() {
            Self::Whole
        } else {
            Self::Open(reader)
        }
    }
}

impl Download {
    fn after(response: &Response, delivery: Delivery) -> Self {
        let status = response.status;
        if response.switching_protocols {
            return Self::Switched { status };
        }
        let kept = Kept {
            status,
            client: delivery.keep_alive,
            server: response.keep_alive,
        };
        let reader = BodyReader::new(response.body);
        if reader.has_ended() {
            return Self::Whole(kept);
        }
        Self::Body {
            reader,
            decode: delivery.decode,
            kept,
        }
    }
}

/// All of the body that `bytes` have; or, for a reader that knows no chunks, the next stretch of content.
fn take(reader: &mut BodyReader, decode: bool, bytes: &[u8]) -> Result<Action, chunked::BadChunk> {
    if decode {
        let step = reader.step(bytes)?;
        return Ok(Action::Pass {
            used: step.used,
            data: step.data,
        });
    }
    let used = reader.advance(bytes)?;
    Ok(Action::Pass {
        used,
        data: 0..used,
    })
}
