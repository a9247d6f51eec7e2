//! The client's side of RFC 8803: connections that the gateway opens for this converter, asked for over MPTCP.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tributary_wire::convert::client::{Answer, parse};
use tributary_wire::convert::{ErrorTlv, Request};

use super::{DialError, Server};
use crate::config::{Downstream, Gateway};
use crate::sockets::{self, IcmpError};
use crate::streams::Stream;
use crate::targets::Forbidden;

const PIECE: usize = 16 << 10;

/// Why the gateway gave no connection.
#[derive(Debug)]
pub enum GatewayError {
    /// It is not there, or not working: for what reason.
    Away(String),
    /// It works, and says this of the server.
    Server(DialError),
}

/// What one thread knows of the gateway.
#[derive(Debug, Default)]
pub struct GatewayState {
    /// When it may be tried again.
    retry_at: Cell<Option<Instant>>,
    /// What it wants to see of us (RFC 8803 section 6.2.7).
    cookie: RefCell<Option<Vec<u8>>>,
}

impl GatewayState {
    /// Whether it is worth a try.
    pub fn is_worth_a_try(&self) -> bool {
        self.retry_at.get().is_none_or(|at| Instant::now() >= at)
    }

    /// It was found away.
    pub fn is_away(&self, gateway: &Gateway, why: &str) {
        if self.retry_at.get().is_none() {
            tracing::warn!("gateway {} is away: {why}", gateway.address);
        }
        self.retry_at.set(Some(Instant::now() + gateway.retry));
    }

    fn is_back(&self, gateway: &Gateway) {
        if self.retry_at.take().is_some() {
            tracing::info!("gateway {} is back", gateway.address);
        }
    }

    /// Asks for a connection to `server`, and again where the gateway wants a cookie first: twice, and once more if
    /// the cookie that it gave before is no longer good (RFC 8803 section 6.2.7).
    pub async fn connect(
        &self,
        server: SocketAddr,
        early: &[u8],
        gateway: &Gateway,
        settings: &Downstream,
    ) -> Result<Server, GatewayError> {
        for _ in 0..3 {
            let asked = self.ask(server, early, gateway, settings).await?;
            if let Asked::Connected(server) = asked {
                return Ok(server);
            }
        }
        Err(GatewayError::Away(
            "it asks for a cookie again and again".into(),
        ))
    }

    async fn ask(
        &self,
        server: SocketAddr,
        early: &[u8],
        gateway: &Gateway,
        settings: &Downstream,
    ) -> Result<Asked, GatewayError> {
        let away = |error: io::Error| GatewayError::Away(error.to_string());
        let deadline = Instant::now() + gateway.timeout;
        let mut message = self.message(server)?;
        message.extend_from_slice(early);
        let stream = timeout_at(deadline, open(gateway, &message, settings))
            .await
            .map_err(|_| GatewayError::Away("it does not answer".into()))?
            .map_err(away)?;
        self.is_back(gateway);
        let mut inbox = Vec::new();
        loop {
            match parse(&inbox) {
                Ok(Some((Answer::Established(_), length))) => {
                    inbox.drain(..length);
                    return Ok(Asked::Connected(Server {
                        stream,
                        address: server,
                        early: inbox,
                        early_sent: true,
                    }));
                }
                Ok(Some((Answer::Refused(error), _))) => return self.refused(error),
                Ok(None) => {}
                Err(fault) => {
                    return Err(GatewayError::Away(format!(
                        "its answer is no Convert message: {fault}"
                    )));
                }
            }
            // It answers when the connection to the server stands, and for that the caller has a limit of its own.
            if stream
                .read_more(&mut inbox, PIECE, None)
                .await
                .map_err(away)?
                == 0
            {
                return Err(GatewayError::Away(
                    "it ended the connection without an answer".into(),
                ));
            }
        }
    }

    fn message(&self, server: SocketAddr) -> Result<Vec<u8>, GatewayError> {
        let request = Request::connect(server);
        let request = match &*self.cookie.borrow() {
            Some(cookie) => request.with_cookie(cookie),
            None => request,
        };
        request
            .encode()
            .map_err(|_| GatewayError::Away("its cookie does not fit a message".into()))
    }

    fn refused(&self, error: ErrorTlv) -> Result<Asked, GatewayError> {
        match error {
            ErrorTlv::MissingCookie(cookie) => {
                *self.cookie.borrow_mut() = Some(cookie);
                Ok(Asked::Cookie)
            }
            ErrorTlv::ConnectionReset => Err(GatewayError::Server(DialError::Reset)),
            ErrorTlv::DestinationUnreachable { icmp_code } => {
                Err(GatewayError::Server(DialError::Unreachable(IcmpError {
                    code: icmp_code,
                })))
            }
            ErrorTlv::NotAuthorized if self.cookie.take().is_some() => Ok(Asked::Cookie),
            ErrorTlv::NotAuthorized => Err(GatewayError::Server(DialError::Forbidden(
                Forbidden::Denied,
            ))),
            other => Err(GatewayError::Away(format!(
                "it answers with Convert error {}",
                other.code()
            ))),
        }
    }
}

enum Asked {
    Connected(Server),
    /// The cookie has changed: ask again.
    Cookie,
}

/// Connects to the gateway; with `fast_open` as much of `message` as fits travels in the SYN, where the kernel allows it.
async fn open(gateway: &Gateway, message: &[u8], settings: &Downstream) -> io::Result<Stream> {
    let socket = sockets::to_gateway(gateway, settings)?;
    let sent = sockets::connect_with(&socket, gateway, message)?;
    let stream = Stream::new(TcpStream::from_std(socket.into())?);
    stream.writable().await?;
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    sockets::send_at_once(&stream);
    stream.send(&message[sent..], None).await?;
    Ok(stream)
}
