//! The client's side of RFC 8803: connections that the next converter opens for this one, mostly over MPTCP.

mod availability;
mod request;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until, timeout_at};
use tributary_proto::convert::client::{Answer, parse};
use tributary_proto::convert::{CLOSING, ErrorTlv, error_code};
use tributary_sys::unacknowledged;

use availability::{Away, Why};
pub use request::{ConnectRequest, Manner, PendingRequest};
use request::{SentRequest, connected, message};

use super::hop_error::{HopError, Unserved};
use super::idle_pool::IdlePool;
use super::{DialError, KeptHop, Upstream, WaitingHop};
use crate::config::{Gateway, UpstreamSettings};
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

/// The next converter's answer.
enum HopAnswer {
    /// The connection to the server is established.
    Connected(Upstream),
    /// The request must be repeated with this cookie (RFC 8803 section 6.2.7).
    RetryWithCookie(Vec<u8>),
    /// The cookie is no longer good, or the request is not allowed: error 32 is for both.
    NotAuthorized,
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

/// Waits until the peer has said something, or acknowledged all; fails at `by`. That the path of a connection which rested
/// has died since shows by nothing else.
async fn heard(stream: &ResetOnDrop, by: Instant) -> io::Result<()> {
    match timeout_at(by, stream.readable()).await {
        Ok(ready) => ready,
        Err(_) if unacknowledged(stream.as_fd())? == 0 => Ok(()),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}
