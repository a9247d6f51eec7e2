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
use crate::bytes::stream::Stream;
use crate::config::{Gateway, UpstreamSettings};
use crate::kernel::sockets;
use crate::kernel::syn_option::SynOption;

const PIECE: usize = 16 << 10;

/// The next converter, and what all threads know of it.
#[derive(Debug)]
pub struct NextHop {
    /// Its address and port.
    pub address: SocketAddr,
    /// When it may be tried again.
    retry_at: Mutex<Option<Instant>>,
    /// What it wants to see of us (RFC 8803 section 6.2.7).
    cookie: Mutex<Option<Vec<u8>>>,
    /// What tells it in the SYN where a connection is to go, if anything does.
    pub option: Option<Arc<SynOption>>,
}

/// What the next converter is asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// A connection to this server.
    pub server: SocketAddr,
    /// The converters that have been passed, if it is to know.
    pub passed: Vec<u64>,
    /// Those to pass behind it, if it is to know.
    pub ahead: Option<Vec<SocketAddr>>,
}

/// A request to the next converter on its way.
#[derive(Debug)]
pub struct PendingRequest {
    socket: Socket,
    /// Where it goes.
    pub hop: Arc<NextHop>,
    /// What it asks for.
    pub asked: Asked,
    /// The request, and what else is to be sent.
    message: Vec<u8>,
    /// The length of the request alone.
    length: usize,
    /// How much of the message went with the SYN.
    sent: usize,
    /// The cookie that the request shows.
    cookie: Option<Vec<u8>>,
}

/// What the next converter answers.
enum HopAnswer {
    /// The connection to the server stands.
    Connected(Server),
    /// It wants to see this cookie first (RFC 8803 section 6.2.7).
    Cookie(Vec<u8>),
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
    /// One of which nothing is known yet, and which `option` tells in the SYN where a connection is to go.
    pub fn new(address: SocketAddr, option: Option<Arc<SynOption>>) -> Self {
        Self {
            address,
            retry_at: Mutex::default(),
            cookie: Mutex::default(),
            option,
        }
    }

    /// Whether it is worth a try.
    pub fn is_worth_a_try(&self) -> bool {
        lock(&self.retry_at).is_none_or(|at| Instant::now() >= at)
    }

    /// It was found away, and is left alone for so long.
    fn is_away(&self, retry: Duration, why: &str) {
        let retry_at = Instant::now() + retry;
        if lock(&self.retry_at).replace(retry_at).is_none() {
            tracing::warn!("gateway {} is unavailable: {why}", self.address);
        }
    }

    fn is_back(&self) {
        if lock(&self.retry_at).take().is_some() {
            tracing::info!("gateway {} is back", self.address);
        }
    }

    /// Asks for a connection, and waits for the answer until the `deadline` if there is one. `early` goes with the request,
    /// and at most once to a converter that may pass it on.
    pub async fn ask(
        self: &Arc<Self>,
        asked: &Asked,
        early: &[u8],
        gateway: &Gateway,
        settings: &UpstreamSettings,
        deadline: Option<Instant>,
    ) -> Result<Server, Unserved> {
        if !self.is_worth_a_try() {
            return Err(Unserved::Elsewhere);
        }
        let mut early_left = false;
        let served =
            self.ask_with_cookies(asked, early, gateway, settings, deadline, &mut early_left);
        let served = served.await;
        served.map_err(|error| self.unserved(error, early_left, gateway))
    }

    /// Asks again where a cookie is wanted first: twice, and once more if the cookie of before is no longer good. The
    /// refusal of a cookie that has just been given is that of the request.
    async fn ask_with_cookies(
        self: &Arc<Self>,
        asked: &Asked,
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
            let asking = self.begin_with(asked.clone(), shown, early, gateway, settings)?;
            match self.end(asking, &[], gateway, deadline, early_left).await? {
                HopAnswer::Connected(server) => return Ok(server),
                HopAnswer::Cookie(_) if is_fresh => {
                    let why = "it asks for the cookie that it was shown";
                    return Err(HopError::Away(why.into()));
                }
                HopAnswer::Cookie(new) => {
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

    /// Whether another way may serve the request after this `error`, and what it says of this converter. `early_left` says
    /// that bytes for the server have left with the request.
    fn unserved(&self, error: HopError, early_left: bool, gateway: &Gateway) -> Unserved {
        let lost = match error {
            HopError::Request(DialError::Reset) => return Unserved::Final(DialError::Reset),
            HopError::Request(error) => return Unserved::Refused(error),
            HopError::Silent => DialError::TimedOut,
            HopError::Away(why) => {
                self.is_away(gateway.retry, &why);
                DialError::GatewayFailed
            }
            HopError::Busy(delay, code) => {
                let seconds = delay.as_secs();
                let why = format!("it wants no requests for {seconds} s (Convert error {code})");
                self.is_away(delay, &why);
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
        asked: Asked,
        gateway: &Gateway,
        settings: &UpstreamSettings,
    ) -> Result<PendingRequest, Unserved> {
        let cookie = lock(&self.cookie).clone();
        self.begin_with(asked, cookie, &[], gateway, settings)
            .map_err(|error| self.unserved(error, false, gateway))
    }

    /// The same with this cookie, and with `early` behind the request.
    fn begin_with(
        self: &Arc<Self>,
        asked: Asked,
        cookie: Option<Vec<u8>>,
        early: &[u8],
        gateway: &Gateway,
        settings: &UpstreamSettings,
    ) -> Result<PendingRequest, HopError> {
        let mut message = message(&asked, cookie.as_deref())?;
        let length = message.len();
        message.extend_from_slice(early);
        let socket = sockets::to_next_hop(self.address, gateway.mptcp, gateway.fast_open, settings)
            .map_err(HopError::connecting)?;
        // It tells nothing of a way that is named, and what is begun then would be in vain.
        let option = self.option.as_ref().filter(|_| asked.ahead.is_none());
        if let (Some(option), SocketAddr::V4(server)) = (option, asked.server) {
            option.tell(&socket, server).map_err(HopError::connecting)?;
        }
        let sent =
            sockets::connect_with(&socket, self.address, &message).map_err(HopError::connecting)?;
        Ok(PendingRequest {
            socket,
            hop: Arc::clone(self),
            asked,
            message,
            length,
            sent,
            cookie,
        })
    }

    /// Sends the rest of what was begun before the client's own request was here, which says what it has `passed`, and
    /// `early`, which came since, and waits for the answer as [`Self::ask`] does. `None`: ask again.
    pub async fn end_begun(
        &self,
        mut asking: PendingRequest,
        passed: Vec<u64>,
        early: &[u8],
        gateway: &Gateway,
        deadline: Option<Instant>,
    ) -> Result<Option<Server>, Unserved> {
        let had_one = asking.cookie.is_some();
        let mut early_left = false;
        let answered = async {
            if asking.sent == 0 {
                asking.asked.passed = passed;
                asking.message = message(&asking.asked, asking.cookie.as_deref())?;
                asking.length = asking.message.len();
            }
            match self
                .end(asking, early, gateway, deadline, &mut early_left)
                .await?
            {
                HopAnswer::Connected(server) => Ok(Some(server)),
                HopAnswer::NotAuthorized if !had_one => Err(HopError::NOT_AUTHORIZED),
                HopAnswer::Cookie(_) | HopAnswer::NotAuthorized => Ok(None),
            }
        };
        let answered = answered.await;
        answered.map_err(|error| self.unserved(error, early_left, gateway))
    }

    /// Sends the rest and `early`, which came since, and waits for the answer, until the `deadline` if there is one: it
    /// may come late for the server's sake as well, so that the converter does not count as away then. Sets `early_left`
    /// as soon as bytes behind the request may have left.
    async fn end(
        &self,
        mut asking: PendingRequest,
        early: &[u8],
        gateway: &Gateway,
        deadline: Option<Instant>,
        early_left: &mut bool,
    ) -> Result<HopAnswer, HopError> {
        asking.message.extend_from_slice(early);
        let server = asking.asked.server;
        let is_named = asking.asked.ahead.is_some();
        let has_early = asking.message.len() > asking.length;
        *early_left = asking.sent > asking.length;
        let said = timeout_at(Instant::now() + gateway.timeout, async {
            let stream = connected(asking.socket).await.map_err(|error| {
                // Of a SYN that is refused the data is, too.
                *early_left &= error.kind() != io::ErrorKind::ConnectionRefused;
                HopError::connecting(error)
            })?;
            *early_left = has_early;
            let rest = &asking.message[asking.sent..];
            stream.send(rest, None).await.map_err(HopError::connected)?;
            Ok(stream)
        });
        let stream = said
            .await
            .unwrap_or_else(|_| Err(HopError::Away("it does not answer".into())))?;
        let mut inbox = Vec::new();
        loop {
            match parse(&inbox) {
                Ok(Some((Answer::Established(_), length))) => {
                    self.is_back();
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
                    self.is_back();
                    return match error {
                        ErrorTlv::MissingCookie(cookie) => {
                            *lock(&self.cookie) = Some(cookie.clone());
                            Ok(HopAnswer::Cookie(cookie))
                        }
                        ErrorTlv::NotAuthorized => Ok(HopAnswer::NotAuthorized),
                        error => Err(HopError::answered(&error, is_named)),
                    };
                }
                Ok(None) => {}
                Err(fault) => {
                    return Err(HopError::Away(format!(
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
                return Err(HopError::Silent);
            };
            if count.map_err(HopError::connected)? == 0 {
                return Err(HopError::Away(
                    "it ended the connection without an answer".into(),
                ));
            }
        }
    }
}

fn message(asked: &Asked, cookie: Option<&[u8]>) -> Result<Vec<u8>, HopError> {
    let request = Request::connect(asked.server)
        .with_passed(asked.passed.clone())
        .with_ahead(asked.ahead.clone());
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
async fn connected(socket: Socket) -> io::Result<Stream> {
    let stream = Stream::new(TcpStream::from_std(socket.into())?);
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
