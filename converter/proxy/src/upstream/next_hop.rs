//! The client's side of RFC 8803: connections that the next converter opens for this one, mostly over MPTCP.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use socket2::Socket;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tributary_proto::convert::client::{Answer, parse};
use tributary_proto::convert::{BadFrame, CLOSING, ErrorTlv, FrameReader, READY, Request, error_code, frame_header};
use tributary_sys::unacknowledged;

use super::hop_error::{HopError, Unserved};
use super::idle_pool::IdlePool;
use super::{DialError, KeptHop, Upstream, WaitingHop};
use crate::config::{Gateway, UpstreamSettings};
use crate::io::pipe::Early;
use crate::io::stream::ResetOnDrop;
use crate::kernel::sockets;
use crate::kernel::syn_option::SynOption;

const PIECE: usize = 16 << 10;

/// The next converter, and its state for all threads.
#[derive(Debug)]
pub struct NextHop {
    /// Its address and port.
    pub address: SocketAddr,
    /// Since it last failed, or said that it is full.
    away: Mutex<Option<Away>>,
    /// When something came from it last.
    heard_at: Mutex<Option<Instant>>,
    /// One at a time asks that.
    asking: tokio::sync::Mutex<()>,
    /// The cookie that it expects (RFC 8803 section 6.2.7).
    cookie: Mutex<Option<Vec<u8>>>,
    /// Adds the destination to SYNs, if configured.
    pub option: Option<Arc<SynOption>>,
}

/// It gets no requests for a while.
#[derive(Clone, Copy, Debug)]
struct Away {
    until: Instant,
    why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Why {
    /// Nothing comes from it: what it carries is lost.
    Silent,
    /// It served no request, or there was no way to it: that says nothing of what it carries.
    Failed,
    /// It wants no more than it has, and goes on with that.
    Full,
}

/// A request to the next converter.
#[derive(Clone, Debug)]
pub struct ConnectRequest {
    /// A connection to this server.
    pub server: SocketAddr,
    /// The converters that the request has passed, if the next one is to know.
    pub path_trace: Vec<u64>,
    /// The converters to pass after the next one, if it is to know.
    pub source_route: Option<Vec<SocketAddr>>,
}

/// How a request is made.
#[derive(Clone, Copy)]
pub struct Manner<'a> {
    /// What goes with it, and at most once to a converter that may pass it on.
    pub early: &'a [u8],
    /// The settings of next converters.
    pub gateway: &'a Gateway,
    /// Those of connections.
    pub settings: &'a UpstreamSettings,
    /// Until when an answer is waited for, if not for ever.
    pub deadline: Option<Instant>,
    /// Where connections that carry frames wait, if the connection may be one.
    pub pool: Option<&'a Rc<IdlePool>>,
}

/// A request that was sent, or part of it.
#[derive(Debug)]
pub struct PendingRequest {
    socket: Socket,
    /// The converter that gets it.
    pub hop: Arc<NextHop>,
    /// The request.
    pub request: ConnectRequest,
    /// The encoded request, and the bytes behind it.
    message: Vec<u8>,
    /// The length of the request alone.
    length: usize,
    /// How much of the message went with the SYN.
    sent: usize,
    /// The cookie in the request.
    cookie: Option<Vec<u8>>,
}

/// The next converter's answer.
enum HopAnswer {
    /// The connection to the server is established.
    Connected(Upstream),
    /// The request must be repeated with this cookie (RFC 8803 section 6.2.7).
    RetryWithCookie(Vec<u8>),
    /// The cookie is no longer good, or the request is not allowed: error 32 is for both.
    NotAuthorized,
}

impl PendingRequest {
    /// Resets it.
    pub fn give_up(self) {
        sockets::reset_on_close(&self.socket);
    }
}

impl NextHop {
    /// A converter of unknown state; `option` adds destinations to its SYNs.
    pub fn new(address: SocketAddr, option: Option<Arc<SynOption>>) -> Self {
        Self {
            address,
            away: Mutex::default(),
            heard_at: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
            cookie: Mutex::default(),
            option,
        }
    }

    /// Whether it may be tried.
    pub fn is_available(&self) -> bool {
        self.away().is_none()
    }

    /// Whether nothing will come by the connections that it carries.
    pub fn is_lost(&self) -> bool {
        self.away().is_some_and(|away| away.why == Why::Silent)
    }

    fn away(&self) -> Option<Away> {
        self.away.lock().filter(|away| Instant::now() < away.until)
    }

    /// It gets no requests for `retry`.
    fn mark_down(&self, retry: Duration, why: Why, text: &str) {
        let until = Instant::now() + retry;
        let before = self.away.lock().replace(Away { until, why });
        if before.is_none_or(|before| before.why != why) {
            tracing::warn!("gateway {} is unavailable: {text}", self.address);
        }
    }

    /// It has answered; whatever it says, one that is full wants no requests before its time.
    fn mark_up(&self) {
        let now = Instant::now();
        *self.heard_at.lock() = Some(now);
        let is_back = |away: &mut Away| away.why != Why::Full || now >= away.until;
        if self.away.lock().take_if(is_back).is_some() {
            tracing::info!("gateway {} is back", self.address);
        }
    }

    /// Something came by a connection that it carries.
    pub fn heard(&self) {
        *self.heard_at.lock() = Some(Instant::now());
    }

    /// Ready once it is unavailable, for a request that waits for an answer on a connection by way of it: where a process
    /// hangs, its kernel takes what is sent. A converter of which nothing was heard for a while is asked what it supports
    /// (RFC 8803 section 6.2.3), and is unavailable if it says nothing within the rest of `gateway.timeout`.
    pub async fn unavailable(&self, gateway: &Gateway, settings: &UpstreamSettings) {
        let doubt = gateway.timeout / 3;
        let rest = gateway.timeout.saturating_sub(doubt);
        let mut since = Instant::now();
        loop {
            since = since.max(self.heard_at.lock().unwrap_or(since));
            sleep_until(since + doubt).await;
            let _asking = self.asking.lock().await;
            if self.is_lost() {
                return;
            }
            if self.heard_at.lock().is_some_and(|at| at.elapsed() < doubt) {
                continue;
            }
            let asked = Instant::now();
            let why = match timeout(rest, self.hear(gateway, settings)).await {
                Ok(Ok(())) => {
                    self.mark_up();
                    continue;
                }
                Ok(Err(HopError::Unavailable(why))) => why,
                // What this machine lacks says nothing of the other.
                Ok(Err(_)) => {
                    since = Instant::now();
                    continue;
                }
                Err(_) => "it does not answer".to_owned(),
            };
            // The path of those that are there may be another one than a new connection's.
            if self.heard_at.lock().is_none_or(|at| at < asked) {
                self.mark_down(gateway.retry, Why::Silent, &why);
            }
        }
    }

    /// Asks it what it supports; any answer will do.
    async fn hear(&self, gateway: &Gateway, settings: &UpstreamSettings) -> Result<(), HopError> {
        let begin = || {
            let socket = sockets::to_next_hop(self.address, gateway.mptcp, false, settings)?;
            sockets::connect_with(&socket, self.address, &[]).map(|_| socket)
        };
        let socket = begin().map_err(|error| HopError::Request(error.into()))?;
        let mut stream = connected(socket).await.map_err(HopError::connecting)?;
        let message = Request::info().encode().unwrap_or_default(); // it is short
        let mut answer = Vec::new();
        let heard = async {
            stream.send(&message, None).await?;
            stream.read_more(&mut answer, PIECE, None).await
        };
        if heard.await.map_err(HopError::connected)? == 0 {
            return Err(HopError::no_answer());
        }
        stream.disarm();
        Ok(())
    }

    /// Asks for a connection, and waits for the answer.
    pub async fn ask(self: &Arc<Self>, request: &ConnectRequest, manner: Manner<'_>) -> Result<Upstream, Unserved> {
        if !self.is_available() {
            return Err(Unserved::Elsewhere);
        }
        let mut early_left = false;
        let served = self.ask_with_cookies(request, manner, &mut early_left);
        let served = served.await;
        served.map_err(|error| self.unserved(error, early_left, manner.gateway))
    }

    /// Repeats the request with a cookie if it asks for one: twice, and once more if the earlier cookie has expired. The
    /// refusal of a cookie that it has just given is that of the request.
    async fn ask_with_cookies(
        self: &Arc<Self>,
        request: &ConnectRequest,
        manner: Manner<'_>,
        early_left: &mut bool,
    ) -> Result<Upstream, HopError> {
        let mut cookie = self.cookie.lock().clone();
        let mut is_fresh = false;
        let waiting = |pool: &Rc<IdlePool>| KeptHop::waiting(pool, self.address);
        let mut kept = manner.pool.and_then(waiting);
        loop {
            let shown = cookie.take();
            let had_one = shown.is_some();
            let answered = if let Some(waiting) = kept.take() {
                let asked = self.ask_on(waiting, request, shown.as_deref(), manner, early_left);
                let answered = asked.await;
                // It says then that it has passed nothing on.
                *early_left &= !matches!(answered, Err(HopError::Closing));
                match answered {
                    Err(HopError::Gone | HopError::Closing) if !*early_left => {
                        cookie = shown;
                        continue;
                    }
                    answered => answered?,
                }
            } else {
                let pending = self.begin_with(request.clone(), shown, manner)?;
                self.end(pending, &[], manner, early_left).await?
            };
            match answered {
                HopAnswer::Connected(server) => return Ok(server),
                HopAnswer::RetryWithCookie(_) if is_fresh => {
                    let why = "it asks for the cookie that it was shown";
                    return Err(HopError::Unavailable(why.into()));
                }
                HopAnswer::RetryWithCookie(new) => {
                    cookie = Some(new);
                    is_fresh = true;
                }
                HopAnswer::NotAuthorized if had_one && !is_fresh => {}
                HopAnswer::NotAuthorized => return Err(HopError::NOT_AUTHORIZED),
            }
            // Where it wants a cookie it has passed nothing on.
            *early_left = false;
        }
    }

    /// Whether another route may serve the request after this `error`; marks the converter unavailable if the error says
    /// so. `early_left`: bytes for the server have been sent with the request.
    fn unserved(&self, error: HopError, early_left: bool, gateway: &Gateway) -> Unserved {
        let lost = match error {
            HopError::Request(DialError::Reset) => return Unserved::Final(DialError::Reset),
            HopError::Request(error) => return Unserved::Refused(error),
            HopError::Gone | HopError::Closing => {
                return Unserved::Final(DialError::GatewayFailed);
            }
            HopError::NoAnswer => DialError::TimedOut,
            HopError::Unavailable(why) => {
                if !self.is_lost() {
                    self.mark_down(gateway.retry, Why::Failed, &why);
                }
                DialError::GatewayFailed
            }
            HopError::Busy(delay, code) => {
                let seconds = delay.as_secs();
                let why = format!("it wants no requests for {seconds} s (Convert error {code})");
                self.mark_down(delay, Why::Full, &why);
                // Before it has read anything behind the request.
                if code == error_code::RESOURCE_EXCEEDED {
                    return Unserved::Elsewhere;
                }
                DialError::GatewayFailed
            }
        };
        if early_left {
            Unserved::Final(lost)
        } else {
            Unserved::Elsewhere
        }
    }

    /// Sends a SYN; with `fast_open` as much of the request as it takes goes with it, where the kernel allows that.
    pub fn begin(
        self: &Arc<Self>,
        request: ConnectRequest,
        gateway: &Gateway,
        settings: &UpstreamSettings,
    ) -> Result<PendingRequest, Unserved> {
        let cookie = self.cookie.lock().clone();
        let manner = Manner {
            early: &[],
            gateway,
            settings,
            deadline: None,
            pool: None,
        };
        self.begin_with(request, cookie, manner)
            .map_err(|error| self.unserved(error, false, gateway))
    }

    /// The same with this cookie, in this `manner`.
    fn begin_with(
        self: &Arc<Self>,
        request: ConnectRequest,
        cookie: Option<Vec<u8>>,
        manner: Manner<'_>,
    ) -> Result<PendingRequest, HopError> {
        let Manner { gateway, settings, .. } = manner;
        let mut message = message(&request, cookie.as_deref(), manner.pool.is_some())?;
        let length = message.len();
        manner.append_early(&mut message);
        let socket = sockets::to_next_hop(self.address, gateway.mptcp, gateway.fast_open, settings)
            .map_err(HopError::connecting)?;
        // It tells nothing of a way that is named, and what is begun then would be in vain.
        let option = self.option.as_ref().filter(|_| request.source_route.is_none());
        if let (Some(option), SocketAddr::V4(server)) = (option, request.server) {
            option.tell(&socket, server).map_err(HopError::connecting)?;
        }
        let sent = sockets::connect_with(&socket, self.address, &message).map_err(HopError::connecting)?;
        Ok(PendingRequest {
            socket,
            hop: Arc::clone(self),
            request,
            message,
            length,
            sent,
            cookie,
        })
    }

    /// Completes a request that was started before the client's own request arrived: sends the rest, the client's path trace
    /// and what came early, and waits for the answer as [`Self::ask`] does. `None`: ask again.
    pub async fn end_begun(
        self: &Arc<Self>,
        mut pending: PendingRequest,
        path_trace: Vec<u64>,
        manner: Manner<'_>,
    ) -> Result<Option<Upstream>, Unserved> {
        let had_one = pending.cookie.is_some();
        let mut early_left = false;
        let answered = async {
            if pending.sent == 0 {
                pending.request.path_trace = path_trace;
                pending.message = message(&pending.request, pending.cookie.as_deref(), false)?;
                pending.length = pending.message.len();
            }
            let ended = self.end(pending, manner.early, manner, &mut early_left);
            match ended.await? {
                HopAnswer::Connected(server) => Ok(Some(server)),
                HopAnswer::NotAuthorized if !had_one => Err(HopError::NOT_AUTHORIZED),
                HopAnswer::RetryWithCookie(_) | HopAnswer::NotAuthorized => Ok(None),
            }
        };
        let answered = answered.await;
        answered.map_err(|error| self.unserved(error, early_left, manner.gateway))
    }

    /// Sends the rest and `early`, which came since, and waits for the answer. Sets `early_left` as soon as bytes behind the
    /// request may have left.
    async fn end(
        self: &Arc<Self>,
        mut pending: PendingRequest,
        early: &[u8],
        manner: Manner<'_>,
        early_left: &mut bool,
    ) -> Result<HopAnswer, HopError> {
        pending.message.extend_from_slice(early);
        let has_early = pending.message.len() > pending.length;
        *early_left = pending.sent > pending.length;
        let said = timeout_at(Instant::now() + manner.gateway.timeout, async {
            let stream = connected(pending.socket).await.map_err(|error| {
                // Of a SYN that is refused the data is, too.
                *early_left &= error.kind() != io::ErrorKind::ConnectionRefused;
                HopError::connecting(error)
            })?;
            *early_left = has_early;
            let rest = &pending.message[pending.sent..];
            stream.send(rest, None).await.map_err(HopError::connected)?;
            Ok(stream)
        });
        let stream = said.await.unwrap_or_else(|_| Err(HopError::no_answer()))?;
        let sent = SentRequest {
            stream,
            has_early,
            established: None,
        };
        self.answer(sent, &pending.request, manner).await
    }

    /// Asks on a connection that has served others. One that is not acknowledged says nothing of a new one.
    async fn ask_on(
        self: &Arc<Self>,
        WaitingHop { stream, established }: WaitingHop,
        request: &ConnectRequest,
        cookie: Option<&[u8]>,
        manner: Manner<'_>,
        early_left: &mut bool,
    ) -> Result<HopAnswer, HopError> {
        let mut message = message(request, cookie, true)?;
        let length = message.len();
        manner.append_early(&mut message);
        let has_early = message.len() > length;
        *early_left = has_early;
        let by = Instant::now() + manner.gateway.timeout;
        let sent = async {
            stream.send(&message, Some(by)).await?;
            heard(&stream, by).await
        };
        if let Err(error) = sent.await {
            // The others go by the same path.
            if let (io::ErrorKind::TimedOut, Some(pool)) = (error.kind(), manner.pool) {
                pool.discard(&self.address.into());
            }
            return Err(HopError::Gone);
        }
        let sent = SentRequest {
            stream,
            has_early,
            established: Some(established),
        };
        self.answer(sent, request, manner).await
    }

    /// Waits for the answer to `request`, until the deadline if there is one: it may be late because of the server, so that
    /// the converter is not marked unavailable then. Without one, until the converter says nothing to anybody: one whose
    /// own next one hangs finds that out in the same time, and says so while its client still waits.
    async fn answer(
        self: &Arc<Self>,
        sent: SentRequest,
        request: &ConnectRequest,
        manner: Manner<'_>,
    ) -> Result<HopAnswer, HopError> {
        let mut inbox = Vec::new();
        let has_served = sent.established.is_some();
        let mut given_up = pin!(async {
            if let Some(deadline) = manner.deadline {
                sleep_until(deadline).await;
                return HopError::NoAnswer;
            }
            self.unavailable(manner.gateway, manner.settings).await;
            HopError::no_answer()
        });
        loop {
            let may_be_closing = has_served && CLOSING.starts_with(&inbox);
            match parse(&inbox) {
                _ if may_be_closing && inbox.len() == CLOSING.len() => {
                    return Err(HopError::Closing);
                }
                _ if may_be_closing => {}
                Ok(Some((Answer::Established(_), length))) => {
                    self.mark_up();
                    inbox.drain(..length);
                    let upstream = sent.upstream(self, request, inbox, manner.pool);
                    return upstream.map(HopAnswer::Connected);
                }
                Ok(Some((Answer::Refused(error), _))) => {
                    self.mark_up();
                    return match error {
                        ErrorTlv::MissingCookie(cookie) => {
                            *self.cookie.lock() = Some(cookie.clone());
                            Ok(HopAnswer::RetryWithCookie(cookie))
                        }
                        ErrorTlv::NotAuthorized => Ok(HopAnswer::NotAuthorized),
                        error => Err(HopError::answered(&error, request.source_route.is_some())),
                    };
                }
                Ok(None) => {}
                Err(fault) => {
                    return Err(HopError::Unavailable(format!(
                        "its answer is no Convert message: {fault}"
                    )));
                }
            }
            // It answers when the connection to the server stands, and for that the caller has a limit of its own.
            let count = tokio::select! {
                biased;
                count = sent.stream.read_more(&mut inbox, PIECE, None) => count,
                why = &mut given_up => {
                    // Another way is taken: should it go on some time, it must not send the same to the server.
                    sockets::reset_on_close(&*sent.stream);
                    return Err(why);
                }
            };
            match count {
                Ok(1..) => {}
                Ok(0) | Err(_) if has_served => return Err(HopError::Gone),
                Ok(0) => {
                    let why = "it ended the connection without an answer";
                    return Err(HopError::Unavailable(why.into()));
                }
                Err(error) => return Err(HopError::connected(error)),
            }
        }
    }
}

/// A request that the next converter has, or will have soon.
struct SentRequest {
    stream: ResetOnDrop,
    /// Whether bytes for the server went behind it.
    has_early: bool,
    /// When the connection was established, if it has served others.
    established: Option<Instant>,
}

impl SentRequest {
    /// Once the answer is there, behind which the `inbox` came; `pool`: of a connection that carries frames.
    fn upstream(
        self,
        hop: &Arc<NextHop>,
        request: &ConnectRequest,
        inbox: Vec<u8>,
        pool: Option<&Rc<IdlePool>>,
    ) -> Result<Upstream, HopError> {
        let early = match pool {
            Some(_) => Early::in_frames(inbox, READY.len())
                .map_err(|BadFrame| HopError::Unavailable("it sends no frames".into()))?,
            None => inbox.into(),
        };
        let keep = |(frames, pool): (FrameReader, &Rc<IdlePool>)| {
            let read = (frames, early.trailer);
            Box::new(KeptHop::new(hop.address, read, Rc::clone(pool), self.established))
        };
        Ok(Upstream {
            stream: self.stream,
            address: request.server,
            early: early.bytes,
            early_sent: self.has_early,
            size: None,
            hop: Some(Arc::clone(hop)),
            kept: early.frames.zip(pool).map(keep),
        })
    }
}

impl Manner<'_> {
    /// Adds what goes with the request to its `message`.
    fn append_early(&self, message: &mut Vec<u8>) {
        if self.pool.is_some() && !self.early.is_empty() {
            message.extend_from_slice(&frame_header(self.early.len()));
        }
        message.extend_from_slice(self.early);
    }
}

/// Waits until the peer has said something, or acknowledged all; fails at `by`. That the path of a connection which rested
/// has died since shows by nothing else.
async fn heard(stream: &ResetOnDrop, by: Instant) -> io::Result<()> {
    match timeout_at(by, stream.readable()).await {
        Ok(ready) => ready,
        Err(_) if unacknowledged(stream.as_fd())? == 0 => Ok(()),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

fn message(request: &ConnectRequest, cookie: Option<&[u8]>, reuse: bool) -> Result<Vec<u8>, HopError> {
    let request = Request::connect(request.server)
        .with_path_trace(request.path_trace.clone())
        .with_source_route(request.source_route.clone())
        .with_reuse(reuse);
    let request = match cookie {
        Some(cookie) => request.with_cookie(cookie),
        None => request,
    };
    request
        .encode()
        // The cookie and the way do not fit a message.
        .map_err(|_| HopError::Request(DialError::GatewayFailed))
}

/// Waits until the next converter has taken the connection.
async fn connected(socket: Socket) -> io::Result<ResetOnDrop> {
    let stream = ResetOnDrop::new(TcpStream::from_std(socket.into())?);
    stream.writable().await?;
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    sockets::send_at_once(&stream);
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use tokio::time::pause;

    use super::*;
    use crate::io::loopback;

    /// Where there is no route to it, nor for whoever asks whether it is there: connect(2) refuses multicast.
    #[test]
    fn a_converter_to_which_this_machine_has_no_route_gets_no_requests_and_loses_nothing() {
        loopback::block_on(async {
            pause();
            let hop = NextHop::new(([224, 0, 0, 1], 1).into(), None);
            let gateway: Gateway = toml::from_str("mptcp = false").expect("settings");
            let settings = UpstreamSettings::default();
            let waits = hop.unavailable(&gateway, &settings);
            timeout(10 * gateway.timeout, waits).await.expect_err("not lost");
            let unreachable = io::Error::from_raw_os_error(libc::ENETUNREACH);
            let unserved = hop.unserved(HopError::connecting(unreachable), false, &gateway);
            assert!(matches!(unserved, Unserved::Elsewhere));
            assert!(!hop.is_available() && !hop.is_lost());
        });
    }
}
