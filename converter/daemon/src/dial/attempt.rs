//! A connection to a server that is not established yet.

use std::net::SocketAddr;
use std::os::fd::AsFd as _;

use socket2::Socket;
use tokio::net::TcpStream;

use super::next_hop::PendingRequest;
use super::{DialError, DialOptions};
use crate::bytes::stream::ResetOnDrop;
use crate::config::UpstreamSettings;
use crate::kernel::sockets::{self, IcmpWatch};

/// A connection that is not established yet, and belongs to no thread.
#[derive(Debug)]
pub enum PendingConnect {
    /// To the server.
    Direct(Attempt),
    /// To the next converter, which is to connect to the server.
    ViaGateway(PendingRequest),
}

impl PendingConnect {
    /// Resets it, so that the server does not take it for a used one.
    pub fn give_up(self) {
        match self {
            Self::Direct(attempt) => sockets::reset_on_close(&attempt.socket),
            Self::ViaGateway(pending) => pending.give_up(),
        }
    }
}

/// A SYN that was sent to a server.
#[derive(Debug)]
pub struct Attempt {
    socket: Socket,
    /// The server's.
    pub address: SocketAddr,
    icmp: Option<IcmpWatch>,
    /// The early bytes that the SYN did not take, if this connection was to take them.
    unsent: Option<Vec<u8>>,
}

impl Attempt {
    /// Sends the SYN: with the client's `early` bytes, where the settings allow that and this machine has a cookie of the
    /// server (RFC 7413).
    pub fn begin(
        address: SocketAddr,
        options: &DialOptions,
        early: &[u8],
        settings: &UpstreamSettings,
    ) -> Result<Self, DialError> {
        let mptcp = options.mptcp || settings.mptcp;
        let socket = sockets::to_server(address, mptcp, settings, options.source)?;
        let icmp = options.icmp.then(|| IcmpWatch::on(&socket, address));
        // Without data the kernel would hold the SYN back, and a server that speaks first would wait for ever.
        let fast = settings.fast_open && !early.is_empty();
        if fast {
            sockets::open_fast(socket.as_fd());
        }
        let sent = sockets::connect_with(&socket, address, if fast { early } else { &[] })?;
        Ok(Self {
            socket,
            address,
            icmp,
            unsent: fast.then(|| early[sent..].to_vec()),
        })
    }

    /// Waits for the server's answer without a timeout of its own. Also returns whether the client's early bytes were sent.
    pub async fn end(self) -> Result<(ResetOnDrop, bool), DialError> {
        let stream = TcpStream::from_std(self.socket.into())?;
        stream.writable().await?;
        if let Some(error) = stream.take_error()? {
            let unreachable = self.icmp.and_then(|icmp| icmp.error(&stream));
            return Err(unreachable.map_or_else(|| error.into(), DialError::Unreachable));
        }
        if let Some(icmp) = self.icmp {
            icmp.off(&stream);
        }
        sockets::send_at_once(&stream);
        let stream = ResetOnDrop::new(stream);
        if let Some(unsent) = &self.unsent {
            stream.send(unsent, None).await?;
        }
        Ok((stream, self.unsent.is_some()))
    }
}
