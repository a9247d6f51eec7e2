//! The address and port at which handed-over connections continue.

use std::io;
use std::net::SocketAddrV4;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::TcpStream;
use tributary_offload::{Checkpoint, begin_dropping_all, restore_dropping_all};

/// Drops packets that are of no connection: the kernel would answer them by a reset, and a packet may be faster than the
/// message which hands its connection over.
#[derive(Debug)]
pub struct Port {
    address: SocketAddrV4,
    /// Listens, and drops everything.
    _deaf: Socket,
}

impl Port {
    /// Fails if the port is in use.
    pub fn open(address: SocketAddrV4) -> io::Result<Self> {
        let deaf = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        deaf.set_reuse_address(true)?;
        begin_dropping_all(&deaf)?;
        deaf.bind(&address.into())?;
        deaf.listen(1)?;
        Ok(Self { address, _deaf: deaf })
    }

    /// Restores the connection here, detached: dropped before its checkpoint is released it closes silently. From then on
    /// it times out if its client acknowledges nothing, or has no room, for `idle`: the kernel has one limit for both
    /// (`TCP_USER_TIMEOUT`, tcp(7)). It is reset when it is dropped, also when this process is killed.
    pub fn restore(&self, checkpoint: &Checkpoint, idle: Duration) -> io::Result<TcpStream> {
        let mut here = checkpoint.clone();
        here.local = self.address.into();
        let stream = std::net::TcpStream::from(restore_dropping_all(&here)?);
        let socket = SockRef::from(&stream);
        socket.set_linger(Some(Duration::ZERO))?;
        socket.set_tcp_user_timeout(Some(idle))?;
        // Without it small writes are only slower.
        let _ = socket.set_tcp_nodelay(true);
        stream.set_nonblocking(true)?;
        TcpStream::from_std(stream)
    }
}
