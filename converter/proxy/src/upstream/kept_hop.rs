//! A connection to the next converter that carries one transfer after another ([`tributary_proto::convert::Tlv::Reuse`]).

use std::mem;
use std::net::SocketAddr;
use std::rc::Rc;

use tokio::task::spawn_local;
use tokio::time::Instant;
use tributary_proto::convert::{FrameReader, READY};

use super::Upstream;
use super::idle_pool::{IdlePool, ServerConnection, TO_HOPS};
use crate::io::pipe::Early;
use crate::io::stream::ResetOnDrop;

/// What belongs to such a connection while it carries a transfer.
pub struct KeptHop {
    /// Where its frames are until the relay begins, and what came behind the last one.
    frames: FrameReader,
    trailer: Vec<u8>,
    hop: SocketAddr,
    pool: Rc<IdlePool>,
    established: Instant,
    /// Whether it has carried another transfer before.
    pub has_served: bool,
}

/// A connection that waits for a transfer.
pub struct WaitingHop {
    pub stream: ResetOnDrop,
    pub established: Instant,
}

impl KeptHop {
    /// Of a connection to `hop` whose answer was read as far as `frames` says, which ended before the `trailer`;
    /// `established` at this time if it has served others.
    pub fn new(
        hop: SocketAddr,
        (frames, trailer): (FrameReader, Vec<u8>),
        pool: Rc<IdlePool>,
        established: Option<Instant>,
    ) -> Self {
        Self {
            frames,
            trailer,
            hop,
            pool,
            has_served: established.is_some(),
            established: established.unwrap_or_else(Instant::now),
        }
    }

    /// One that waits for a transfer to `hop`.
    pub fn waiting(pool: &IdlePool, hop: SocketAddr) -> Option<WaitingHop> {
        let repeatable = true;
        let connection = pool.take(&hop.into(), repeatable)?;
        Some(WaitingHop {
            established: connection.established(),
            stream: connection.server.stream,
        })
    }

    pub(super) fn take_early(&mut self, bytes: Vec<u8>) -> Early {
        Early {
            bytes,
            frames: Some(mem::take(&mut self.frames)),
            trailer: mem::take(&mut self.trailer),
        }
    }

    /// The transfer is over here: keeps the connection as soon as the next converter has passed all of it on. Before that the
    /// next transfer would wait for a server that takes nothing, and its end would cost the first one its rest.
    pub(super) fn park(self, upstream: Upstream, mut trailer: Vec<u8>) {
        let Some(permit) = self.pool.fd_permit() else {
            return;
        };
        let deadline = Some(Instant::now() + TO_HOPS.rest);
        spawn_local(async move {
            while let missing @ 1.. = READY.len() - trailer.len() {
                let read = upstream.stream.read_more(&mut trailer, missing, deadline);
                if !matches!(read.await, Ok(1..)) {
                    return;
                }
            }
            if trailer == READY {
                let waits = ServerConnection::to_hop(self.hop, upstream, self.established);
                self.pool.park(Box::new(waits), Some(permit));
            }
        });
    }
}
