//! The client's side of RFC 8803: connections that the next converter opens for this one, mostly over MPTCP.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use socket2::Socket;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tributary_wire::convert::client::{Answer, parse};
use tributary_wire::convert::{ErrorTlv, Request};

use super::{DialError, Server};
use crate::bytes::stream::Stream;
use crate::config::{Downstream, Gateway};
use crate::kernel::sockets::{self, IcmpError};
use crate::kernel::syn_option::SynOption;
use crate::policy::targets::Forbidden;

const PIECE: usize = 16 << 10;

/// Why the next converter gave no connection.
#[derive(Debug)]
pub enum HopError {
    /// It is not there, or not working: for what reason.
    Away(String),
    /// It is there, and said nothing of the server before the deadline.
    Silent,
    /// It works, and says this of the server.
    Server(DialError),
}

impl From<io::Error> for HopError {
    fn from(error: io::Error) -> Self {
        Self::Away(error.to_string())
    }
}

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
    /// How much of it went with the SYN.
    sent: usize,
}

/// What it came to.
pub enum HopAnswer {
    /// The connection to the server stands.
    Connected(Server),
    /// The cookie has changed: ask again.
    Cookie,
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

    /// It was found away.
    pub fn is_away(&self, gateway: &Gateway, why: &str) {
        let retry_at = Instant::now() + gateway.retry;
        if lock(&self.retry_at).replace(retry_at).is_none() {
            tracing::warn!("gateway {} is away: {why}", self.address);
        }
    }

    fn is_back(&self) {
        if lock(&self.retry_at).take().is_some() {
            tracing::info!("gateway {} is back", self.address);
        }
    }

    /// Asks for a connection; `None` where the converter is away, cannot get on from there, or says nothing before the
    /// `deadline`. Asks again where a cookie is wanted first: twice, and once more if the cookie of before is no longer
    /// good (RFC 8803 section 6.2.7).
    pub async fn ask(
        self: &Arc<Self>,
        asked: &Asked,
        early: &[u8],
        gateway: &Gateway,
        settings: &Downstream,
        deadline: Option<Instant>,
    ) -> Option<Result<Server, DialError>> {
        if !self.is_worth_a_try() {
            return None;
        }
        let answered = async {
            for _ in 0..3 {
                let asking = self.begin(asked.clone(), early, gateway, settings)?;
                let answer = self.end(asking, &[], gateway, deadline).await?;
                if let HopAnswer::Connected(server) = answer {
                    return Ok(server);
                }
            }
            let why = "it asks for a cookie again and again";
            Err(HopError::Away(why.into()))
        };
        match answered.await {
            Ok(server) => Some(Ok(server)),
            Err(HopError::Server(DialError::GatewayAway) | HopError::Silent) => None,
            Err(HopError::Server(error)) => Some(Err(error)),
            Err(HopError::Away(why)) => {
                self.is_away(gateway, &why);
                None
            }
        }
    }

    /// Sends a SYN; with `fast_open` as much of the request and of `early` as it takes goes with it, where the kernel
    /// allows that.
    pub fn begin(
        self: &Arc<Self>,
        asked: Asked,
        early: &[u8],
        gateway: &Gateway,
        settings: &Downstream,
    ) -> Result<PendingRequest, HopError> {
        let mut message = self.message(&asked)?;
        message.extend_from_slice(early);
        let socket =
            sockets::to_next_hop(self.address, gateway.mptcp, gateway.fast_open, settings)?;
        // It tells nothing of a way that is named, and what is begun then would be in vain.
        let option = self.option.as_ref().filter(|_| asked.ahead.is_none());
        if let (Some(option), SocketAddr::V4(server)) = (option, asked.server) {
            option.tell(&socket, server)?;
        }
        let sent = sockets::connect_with(&socket, self.address, &message)?;
        Ok(PendingRequest {
            socket,
            hop: Arc::clone(self),
            asked,
            message,
            sent,
        })
    }

    /// The same as [`Self::end`] for what was begun before the client's own request was here, which says what it has
    /// `passed`.
    pub async fn end_begun(
        &self,
        mut asking: PendingRequest,
        passed: Vec<u64>,
        early: &[u8],
        gateway: &Gateway,
        deadline: Option<Instant>,
    ) -> Result<HopAnswer, HopError> {
        if asking.sent == 0 {
            asking.asked.passed = passed;
            asking.message = self.message(&asking.asked)?;
        }
        self.end(asking, early, gateway, deadline).await
    }

    /// Sends the rest and `early`, which came since, and waits for the answer, until the `deadline` if there is one: it
    /// may come late for the server's sake as well, so that the converter does not count as away then.
    async fn end(
        &self,
        mut asking: PendingRequest,
        early: &[u8],
        gateway: &Gateway,
        deadline: Option<Instant>,
    ) -> Result<HopAnswer, HopError> {
        asking.message.extend_from_slice(early);
        let server = asking.asked.server;
        let is_named = asking.asked.ahead.is_some();
        let stream = timeout_at(Instant::now() + gateway.timeout, say(asking))
            .await
            .map_err(|_| HopError::Away("it does not answer".into()))??;
        self.is_back();
        let mut inbox = Vec::new();
        loop {
            match parse(&inbox) {
                Ok(Some((Answer::Established(_), length))) => {
                    inbox.drain(..length);
                    return Ok(HopAnswer::Connected(Server {
                        stream,
                        address: server,
                        early: inbox,
                        early_sent: true,
                        size: None,
                    }));
                }
                // It is there itself, but the next one of those that were named to it is not.
                Ok(Some((Answer::Refused(ErrorTlv::NetworkFailure { .. }), _))) if is_named => {
                    return Err(HopError::Server(DialError::GatewayAway));
                }
                Ok(Some((Answer::Refused(error), _))) => return self.refused(error),
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
            if count? == 0 {
                return Err(HopError::Away(
                    "it ended the connection without an answer".into(),
                ));
            }
        }
    }

    fn message(&self, asked: &Asked) -> Result<Vec<u8>, HopError> {
        let request = Request::connect(asked.server)
            .with_passed(asked.passed.clone())
            .with_ahead(asked.ahead.clone());
        let request = match &*lock(&self.cookie) {
            Some(cookie) => request.with_cookie(cookie),
            None => request,
        };
        request
            .encode()
            .map_err(|_| HopError::Away("its cookie and the way do not fit a message".into()))
    }

    fn refused(&self, error: ErrorTlv) -> Result<HopAnswer, HopError> {
        match error {
            ErrorTlv::MissingCookie(cookie) => {
                *lock(&self.cookie) = Some(cookie);
                Ok(HopAnswer::Cookie)
            }
            ErrorTlv::ConnectionReset => Err(HopError::Server(DialError::Reset)),
            ErrorTlv::DestinationUnreachable { icmp_code } => {
                Err(HopError::Server(DialError::Unreachable(IcmpError {
                    code: icmp_code,
                })))
            }
            ErrorTlv::NotAuthorized if lock(&self.cookie).take().is_some() => Ok(HopAnswer::Cookie),
            ErrorTlv::NotAuthorized => {
                Err(HopError::Server(DialError::Forbidden(Forbidden::Denied)))
            }
            other => Err(HopError::Away(format!(
                "it answers with Convert error {}",
                other.code()
            ))),
        }
    }
}

/// Waits until the gateway has taken the connection, and sends what it has not got yet.
async fn say(asking: PendingRequest) -> io::Result<Stream> {
    let stream = Stream::new(TcpStream::from_std(asking.socket.into())?);
    stream.writable().await?;
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    sockets::send_at_once(&stream);
    stream.send(&asking.message[asking.sent..], None).await?;
    Ok(stream)
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
