//! Pairs of connected sockets on loopback, for tests of what moves bytes.

use std::net::{TcpListener, TcpStream};

/// The converter's end of a connection.
pub struct Near(TcpStream);

impl Near {
    /// Within the event loop.
    pub fn into_tokio(self) -> tokio::net::TcpStream {
        self.0.set_nonblocking(true).expect("a socket");
        tokio::net::TcpStream::from_std(self.0).expect("an event loop")
    }
}

/// A peer's end, which waits, and the converter's.
pub fn pair() -> (TcpStream, Near) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("a bound socket");
    let peer = TcpStream::connect(address).expect("a listener");
    (peer, Near(listener.accept().expect("a connection").0))
}

/// Runs `action` as a thread of the converter would.
pub fn block_on<T>(action: impl Future<Output = T>) -> T {
    tributary_program::event_loop().expect("an event loop").block_on(action)
}
