//! A request to the next converter.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use socket2::Socket;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tributary_proto::convert::{BadFrame, FrameReader, READY, Request, frame_header};

use super::NextHop;
use crate::config::{Gateway, UpstreamSettings};
use crate::io::pipe::Early;
use crate::io::stream::ResetOnDrop;
use crate::kernel::sockets;
use crate::upstream::hop_error::HopError;
use crate::upstream::idle_pool::IdlePool;
use crate::upstream::{DialError, KeptHop, Upstream};

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

impl Manner<'_> {
    /// Adds what goes with the request to its `message`.
    pub fn append_early(&self, message: &mut Vec<u8>) {
        if self.pool.is_some() && !self.early.is_empty() {
            message.extend_from_slice(&frame_header(self.early.len()));
        }
        message.extend_from_slice(self.early);
    }
}

/// A request that was sent, or part of it.
#[derive(Debug)]
pub struct PendingRequest {
    pub(super) socket: Socket,
    /// The converter that gets it.
    pub hop: Arc<NextHop>,
    /// The request.
    pub request: ConnectRequest,
    /// The encoded request, and the bytes behind it.
    pub(super) message: Vec<u8>,
    /// The length of the request alone.
    pub(super) length: usize,
    /// How much of the message went with the SYN.
    pub(super) sent: usize,
    /// The cookie in the request.
    pub(super) cookie: Option<Vec<u8>>,
}

impl PendingRequest {
    pub fn give_up(self) {
        sockets::reset_on_close(&self.socket);
    }
}

/// A request that the next converter has, or will have soon.
pub struct SentRequest {
    pub stream: ResetOnDrop,
    /// Whether bytes for the server went behind it.
    pub has_early: bool,
    /// When the connection was established, if it has served others.
    pub established: Option<Instant>,
}

impl SentRequest {
    /// Once the answer is there, behind which the `inbox` came; `pool`: of a connection that carries frames.
    pub fn upstream(
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

pub fn message(request: &ConnectRequest, cookie: Option<&[u8]>, reuse: bool) -> Result<Vec<u8>, HopError> {
    let request = Request {
        cookie: cookie.map(<[u8]>::to_vec),
        path_trace: request.path_trace.clone(),
        source_route: request.source_route.clone(),
        reuse,
        ..Request::connect(request.server)
    };
    // The cookie and the way may not fit a message.
    request
        .encode()
        .map_err(|_| HopError::Request(DialError::GatewayFailed))
}

/// Waits until the next converter has taken the connection.
pub async fn connected(socket: Socket) -> io::Result<ResetOnDrop> {
    let stream = ResetOnDrop::new(TcpStream::from_std(socket.into())?);
    stream.writable().await?;
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    sockets::send_at_once(&stream);
    Ok(stream)
}
