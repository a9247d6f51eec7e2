//! The client's side of RFC 8803: connections that the next converter opens for this one, mostly over MPTCP.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use socket2::Socket;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tributary_proto::convert::client::{Answer, parse};
use tributary_proto::convert::{ErrorTlv, Request};

use super::{DialError, Upstream};
use crate::config::{Gateway, UpstreamSettings};
use crate::io::stream::ResetOnDrop;
use crate::kernel::sockets;
use crate::kernel::sockets::IcmpError;
use crate::kernel::syn_option::SynOption;
use crate::policy::targets::Forbidden;

const PIECE: usize = 16 << 10;

/// The next converter, and its state for all threads.
#[derive(Debug)]
pub struct NextHop {
    /// Its address and port.
    pub address: SocketAddr,
    /// When it may be tried again.
    retry_at: Mutex<Option<Instant>>,
    /// The cookie that it expects (RFC 8803 section 6.2.7).
    cookie: Mutex<Option<Vec<u8>>>,
    /// Adds the destination to SYNs, if configured.
    pub option: Option<Arc<SynOption>>,
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
            retry_at: Mutex::default(),
            cookie: Mutex::default(),
            option,
        }
    }

    /// Whether it may be tried.
    pub fn is_available(&self) -> bool {
        self.retry_at.lock().is_none_or(|at| Instant::now() >= at)
    }

    /// Marks it unavailable for `retry`.
    fn mark_down(&self, retry: Duration, why: &str) {
        let retry_at = Instant::now() + retry;
        if self.retry_at.lock().replace(retry_at).is_none() {
            tracing::warn!("gateway {} is unavailable: {why}", self.address);
        }
    }

    fn mark_up(&self) {
        if self.retry_at.lock().take().is_some() {
            tracing::info!("gateway {} is back", self.address);
        }
    }

    /// Asks for a connection, and waits for the answer until the `deadline` if there is one. `early` goes with the request,
    /// and at most once to a converter that may pass it on.
    pub async fn ask(
        self: &Arc<Self>,
        request: &ConnectRequest,
        early: &[u8],
        gateway: &Gateway,
        settings: &UpstreamSettings,
        deadline: Option<Instant>,
    ) -> Result<Upstream, Unserved> {
        if !self.is_available() {
            return Err(Unserved::Elsewhere);
        }
        let mut early_left = false;
        let served =
            self.ask_with_cookies(request, early, gateway, settings, deadline, &mut early_left);
        let served = served.await;
        served.map_err(|error| self.unserved(error, early_left, gateway))
    }

    /// Repeats the request with a cookie if it asks for one: twice, and once more if the earlier cookie has expired. The
    /// refusal of a cookie that it has just given is that of the request.
    async fn ask_with_cookies(
        self: &Arc<Self>,
        request: &ConnectRequest,
        early: &[u8],
        gateway: &Gateway,
        settings: &UpstreamSettings,
        deadline: Option<Instant>,
        early_left: &mut bool,
    ) -> Result<Upstream, HopError> {
        let mut cookie = self.cookie.lock().clone();
        let mut is_fresh = false;
        loop {
            let shown = cookie.take();
            let had_one = shown.is_some();
            let pending = self.begin_with(request.clone(), shown, early, gateway, settings)?;
            match self
                .end(pending, &[], gateway, deadline, early_left)
                .await?
            {
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
            HopError::NoAnswer => DialError::TimedOut,
            HopError::Unavailable(why) => {
                self.mark_down(gateway.retry, &why);
                DialError::GatewayFailed
            }
            HopError::Busy(delay, code) => {
                let seconds = delay.as_secs();
                let why = format!("it wants no requests for {seconds} s (Convert error {code})");
                self.mark_down(delay, &why);
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
        self.begin_with(request, cookie, &[], gateway, settings)
            .map_err(|error| self.unserved(error, false, gateway))
    }

    /// The same with this cookie, and with `early` behind the request.
    fn begin_with(
        self: &Arc<Self>,
        request: ConnectRequest,
        cookie: Option<Vec<u8>>,
        early: &[u8],
        gateway: &Gateway,
        settings: &UpstreamSettings,
    ) -> Result<PendingRequest, HopError> {
        let mut message = message(&request, cookie.as_deref())?;
        let length = message.len();
        message.extend_from_slice(early);
        let socket = sockets::to_next_hop(self.address, gateway.mptcp, gateway.fast_open, settings)
            .map_err(HopError::connecting)?;
        // It tells nothing of a way that is named, and what is begun then would be in vain.
        let option = self
            .option
            .as_ref()
            .filter(|_| request.source_route.is_none());
        if let (Some(option), SocketAddr::V4(server)) = (option, request.server) {
            option.tell(&socket, server).map_err(HopError::connecting)?;
        }
        let sent =
            sockets::connect_with(&socket, self.address, &message).map_err(HopError::connecting)?;
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
    /// and `early`, and waits for the answer as [`Self::ask`] does. `None`: ask again.
    pub async fn end_begun(
        &self,
        mut pending: PendingRequest,
        path_trace: Vec<u64>,
        early: &[u8],
        gateway: &Gateway,
        deadline: Option<Instant>,
    ) -> Result<Option<Upstream>, Unserved> {
        let had_one = pending.cookie.is_some();
        let mut early_left = false;
        let answered = async {
            if pending.sent == 0 {
                pending.request.path_trace = path_trace;
                pending.message = message(&pending.request, pending.cookie.as_deref())?;
                pending.length = pending.message.len();
            }
            match self
                .end(pending, early, gateway, deadline, &mut early_left)
                .await?
            {
                HopAnswer::Connected(server) => Ok(Some(server)),
                HopAnswer::NotAuthorized if !had_one => Err(HopError::NOT_AUTHORIZED),
                HopAnswer::RetryWithCookie(_) | HopAnswer::NotAuthorized => Ok(None),
            }
        };
        let answered = answered.await;
        answered.map_err(|error| self.unserved(error, early_left, gateway))
    }

    /// Sends the rest and `early`, which came since, and waits for the answer, until the `deadline` if there is one: it
    /// may be late because of the server, so that the converter is not marked unavailable then. Sets `early_left`
    /// as soon as bytes behind the request may have left.
    async fn end(
        &self,
        mut pending: PendingRequest,
        early: &[u8],
        gateway: &Gateway,
        deadline: Option<Instant>,
        early_left: &mut bool,
    ) -> Result<HopAnswer, HopError> {
        pending.message.extend_from_slice(early);
        let server = pending.request.server;
        let is_source_routed = pending.request.source_route.is_some();
        let has_early = pending.message.len() > pending.length;
        *early_left = pending.sent > pending.length;
        let said = timeout_at(Instant::now() + gateway.timeout, async {
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
        let stream = said
            .await
            .unwrap_or_else(|_| Err(HopError::Unavailable("it does not answer".into())))?;
        let mut inbox = Vec::new();
        loop {
            match parse(&inbox) {
                Ok(Some((Answer::Established(_), length))) => {
                    self.mark_up();
                    inbox.drain(..length);
                    return Ok(HopAnswer::Connected(Upstream {
                        stream,
                        address: server,
                        early: inbox,
                        early_sent: has_early,
                        size: None,
                    }));
                }
                Ok(Some((Answer::Refused(error), _))) => {
                    self.mark_up();
                    return match error {
                        ErrorTlv::MissingCookie(cookie) => {
                            *self.cookie.lock() = Some(cookie.clone());
                            Ok(HopAnswer::RetryWithCookie(cookie))
                        }
                        ErrorTlv::NotAuthorized => Ok(HopAnswer::NotAuthorized),
                        error => Err(HopError::answered(&error, is_source_routed)),
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
            let more = stream.read_more(&mut inbox, PIECE, None);
            let more = match deadline {
                Some(deadline) => timeout_at(deadline, more).await,
                None => Ok(more.await),
            };
            let Ok(count) = more else {
                // Another way is taken: should it go on some time, it must not send the same to the server.
                sockets::reset_on_close(&*stream);
                return Err(HopError::NoAnswer);
            };
            if count.map_err(HopError::connected)? == 0 {
                return Err(HopError::Unavailable(
                    "it ended the connection without an answer".into(),
                ));
            }
        }
    }
}

fn message(request: &ConnectRequest, cookie: Option<&[u8]>) -> Result<Vec<u8>, HopError> {
    let request = Request::connect(request.server)
        .with_path_trace(request.path_trace.clone())
        .with_source_route(request.source_route.clone());
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

/// Why the next converter gave no connection.
#[derive(Debug)]
pub enum HopError {
    /// There is no connection to it, no answer, or no Convert: for what reason.
    Unavailable(String),
    /// It wants no requests for so long (RFC 8803 section 6.2.8, a delay that is not zero): by which error.
    Busy(Duration, u8),
    /// It did not answer before the deadline, or the next one of a named chain is away.
    NoAnswer,
    /// It works, and this one request failed.
    Request(DialError),
}

impl HopError {
    /// It may not have this.
    pub const NOT_AUTHORIZED: Self = Self::Request(DialError::Forbidden(Forbidden::Denied));

    /// What an error means (RFC 8803 section 6.2.8), of a request that named a chain if it `is_source_routed`: it is that of the one
    /// request, unless it says that no other would fare better.
    pub fn answered(error: &ErrorTlv, is_source_routed: bool) -> Self {
        let code = error.code();
        Self::Request(match *error {
            // The Convert that it speaks is another one.
            ErrorTlv::UnsupportedVersion(_) | ErrorTlv::UnsupportedMessage(_) => {
                return Self::Unavailable(format!("it answers with Convert error {code}"));
            }
            ErrorTlv::ResourceExceeded { delay } | ErrorTlv::NetworkFailure { delay }
                if delay > 0 =>
            {
                return Self::Busy(Duration::from_secs(delay.into()), code);
            }
            // It is there itself, but the next one of those that were named to it is not.
            ErrorTlv::NetworkFailure { .. } if is_source_routed => return Self::NoAnswer,
            ErrorTlv::NetworkFailure { .. } => DialError::TimedOut,
            ErrorTlv::ConnectionReset => DialError::Reset,
            ErrorTlv::DestinationUnreachable { icmp_code } => {
                DialError::Unreachable(IcmpError { code: icmp_code })
            }
            ErrorTlv::NotAuthorized => return Self::NOT_AUTHORIZED,
            ErrorTlv::ResourceExceeded { .. }
            | ErrorTlv::MalformedMessage(_)
            | ErrorTlv::MissingCookie(_)
            | ErrorTlv::UnsupportedTcpOption(_)
            | ErrorTlv::Unknown { .. } => DialError::GatewayFailed,
        })
    }

    /// Before there was a connection: what this machine lacks says nothing of the other.
    pub fn connecting(error: io::Error) -> Self {
        let why = error.to_string();
        match DialError::from(error) {
            exhausted @ DialError::Exhausted => Self::Request(exhausted),
            _ => Self::Unavailable(why),
        }
    }

    /// Once there was one: a converter resets a connection when it has no errors to send any more (RFC 8803 section 6.2.5).
    pub fn connected(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ECONNRESET | libc::EPIPE) => Self::Request(DialError::GatewayFailed),
            _ => Self::connecting(error),
        }
    }
}

/// Why a request was not served, and whether another way may be tried.
#[derive(Debug)]
pub enum Unserved {
    /// By this way it cannot be: another one may serve it.
    Elsewhere,
    /// The next converter says this of it. Another one may say something else.
    Refused(DialError),
    /// No other way may be tried: the server itself refuses, or what the client sent early may have reached it.
    Final(DialError),
}
