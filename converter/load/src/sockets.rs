//! Sockets of TCP and of MPTCP, and limits that are there against misuse and would bend a load.

use std::io;
use std::net::SocketAddr;

use clap::Args;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tributary_program::print_ready;

use crate::failure::{self, Attempt as _, Failure};

/// Connections that may wait for their accept; the kernel takes the less of this and `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;
/// Of receive buffers that are to be filled: the kernel doubles it, for what it keeps beside the bytes (socket(7)).
const SMALL_BUFFER: usize = 64 << 10;
const MSG_FASTOPEN: i32 = 0x2000_0000; // include/linux/socket.h

/// Where a server listens.
#[derive(Args, Debug)]
pub struct Listen {
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Listen by MPTCP; plain TCP is taken too.
    #[arg(long)]
    mptcp: bool,
}

impl Listen {
    /// A listening socket, not blocking, of a process that may have so many descriptors, and has told that it is ready.
    pub fn listen(&self, descriptors: u64) -> Result<std::net::TcpListener, Failure> {
        allow_descriptors(descriptors);
        let listener = self.bind().attempt(format!("listening on {}", self.listen))?;
        print_ready();
        Ok(listener)
    }

    fn bind(&self) -> io::Result<std::net::TcpListener> {
        let socket = new(self.listen, self.mptcp)?;
        socket.set_reuse_address(true)?;
        socket.bind(&self.listen.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    }

    pub async fn serve<S>(&self, descriptors: u64, serve: impl Fn(TcpStream) -> S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::from_std(self.listen(descriptors)?).attempt("an event loop")?;
        loop {
            let (stream, _) = listener.accept().await.attempt("a connection")?;
            tokio::spawn(serve(stream));
        }
    }
}

/// A connection to `address`, from `source` if there is one.
pub async fn connect(address: SocketAddr, source: Option<SocketAddr>, mptcp: bool) -> io::Result<TcpStream> {
    let socket = new(address, mptcp)?;
    if let Some(source) = source {
        socket.bind(&source.into())?;
    }
    TcpSocket::from_std_stream(socket.into()).connect(address).await
}

/// A connection by TCP to `address` whose SYN carries `data` (RFC 7413); blocks until the peer has answered that.
pub fn connect_with(address: SocketAddr, data: &[u8]) -> io::Result<TcpStream> {
    let socket = new(address, false)?;
    socket.set_nonblocking(false)?;
    let sent = socket.send_to_with_flags(data, &address.into(), MSG_FASTOPEN)?;
    if sent < data.len() {
        return Err(io::Error::from(io::ErrorKind::WriteZero));
    }
    socket.set_nonblocking(true)?;
    TcpStream::from_std(socket.into())
}

/// Fixes the receive buffer, which would grow to megabytes: so the window of who reads nothing more closes.
pub fn keep_receive_buffer_small(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).set_recv_buffer_size(SMALL_BUFFER)
}

/// Ends `stream` by a reset, of all its subflows if it is MPTCP (RFC 8684 section 3.5).
///
/// `SO_LINGER` of zero seconds would do for TCP; an MPTCP socket still closes in order with it.
pub fn abort(stream: &TcpStream) -> io::Result<()> {
    rustix::net::connect_unspec(stream).map_err(Into::into)
}

/// Makes room for many descriptors, as long as there is one thread: later each growth of their table waits for the kernel
/// (RCU; fs/file.c), some 20 ms that a measurement would show.
pub fn make_room() {
    fcntl_dupfd_cloexec(std::io::stdin(), 16_383).ok(); // where fewer are allowed the table grows in time
}

/// Lets this process have so many descriptors, or as many as it may; gives how many that are.
pub fn allow_descriptors(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let enough = |has: Option<u64>| has.is_none_or(|has| has >= wanted);
    let maximum = if enough(limit.maximum) {
        limit.maximum
    } else {
        Some(wanted)
    };
    let raised = Rlimit {
        current: Some(wanted),
        maximum,
    };
    if enough(limit.current) || setrlimit(Resource::Nofile, raised).is_ok() {
        return wanted;
    }
    // More than the hard limit takes CAP_SYS_RESOURCE (getrlimit(2)).
    let most = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, most).ok(); // what is missing is told when it is needed
    limit.maximum.unwrap_or(wanted)
}

/// Fails unless this process may have so many descriptors.
pub fn need_descriptors(wanted: u64) -> Result<(), Failure> {
    match allow_descriptors(wanted) {
        count if count < wanted => {
            let why = format!("{wanted} descriptors are needed, and {count} allowed (ulimit -n; CAP_SYS_RESOURCE)");
            Err(failure::unavailable(why))
        }
        _ => Ok(()),
    }
}

fn new(address: SocketAddr, mptcp: bool) -> io::Result<Socket> {
    let protocol = if mptcp { Protocol::MPTCP } else { Protocol::TCP };
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(protocol))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}
