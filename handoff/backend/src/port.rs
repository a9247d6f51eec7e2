//! The address and port at which connections go on that are handed over.

use std::io;
use std::net::SocketAddrV4;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::TcpStream;
use tributary_offload::{Checkpoint, begin_dropping_all, restore};

/// Whatever comes here and is of no connection is dropped: the kernel would answer it by a reset, and a packet may be faster
/// than the message that its connection is to be taken over.
#[derive(Debug)]
pub struct Port {
    address: SocketAddrV4,
    /// It listens, and hears nothing.
    _deaf: Socket,
}

impl Port {
    /// Raises what the kernel does: the port is in use.
    pub fn open(address: SocketAddrV4) -> io::Result<Self> {
        let deaf = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        deaf.set_reuse_address(true)?;
        begin_dropping_all(&deaf)?;
        deaf.bind(&address.into())?;
        deaf.listen(1)?;
        Ok(Self {
            address,
            _deaf: deaf,
        })
    }

    /// Goes on with the connection from here, until its client acknowledges nothing, or has no room for more, for as long as
    /// `idle`: the kernel has one limit for both (`TCP_USER_TIMEOUT`, tcp(7)). If nobody finishes it, it is reset, also when
    /// this process is killed.
    pub fn thaw(&self, frozen: &Checkpoint, idle: Duration) -> io::Result<TcpStream> {
        let mut here = frozen.clone();
        here.local = self.address.into();
        let stream = std::net::TcpStream::from(restore(&here)?);
        let socket = SockRef::from(&stream);
        socket.set_linger(Some(Duration::ZERO))?;
        socket.set_tcp_user_timeout(Some(idle))?;
        // Small writes are only slower without it.
        let _ = socket.set_tcp_nodelay(true);
        stream.set_nonblocking(true)?;
        TcpStream::from_std(stream)
    }
}
