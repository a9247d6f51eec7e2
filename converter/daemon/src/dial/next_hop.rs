//! The client's side of RFC 8803: connections that the next converter opens for this one, mostly over MPTCP.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use socket2::Socket;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tributary_wire::convert::client::{Answer, parse};
use tributary_wire::convert::{ErrorTlv, Request};

use super::hop_error::{HopError, Unserved};
use super::{DialError, Server};
use crate::bytes::stream::ResetOnDrop;
use crate::config::{Gateway, UpstreamSettings};
use crate::kernel::sockets;
use crate::kernel::syn_option::SynOption;

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
    Connected(Server),
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
        lock(&self.retry_at).is_none_or(|at| Instant::now() >= at)
    }

    /// Marks it unavailable for `retry`.
    fn mark_down(&self, retry: Duration, why: &str) {
        let retry_at = Instant::now() + retry;
        if lock(&self.retry_at).replace(retry_at).is_none() {
            tracing::warn!("gateway {} is unavailable: {why}", self.address);
        }
    }

    fn mark_up(&self) {
        if lock(&self.retry_at).take().is_some() {
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
    ) -> Result<Server, Unserved> {
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
    ) -> Result<Server, HopError> {
        let mut cookie = lock(&self.cookie).clone();
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
        let cookie = lock(&self.cookie).clone();
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
    ) -> Result<Option<Server>, Unserved> {
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
                    return Ok(HopAnswer::Connected(Server {
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
                            *lock(&self.cookie) = Some(cookie.clone());
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

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
