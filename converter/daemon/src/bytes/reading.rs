//! Reads by the thread's own buffer.

use std::io;
use std::task::{Context, Poll, ready};

use tokio::net::TcpStream;

use super::buffers::with_scratch;
use crate::kernel::sockets;

/// Reads once, `size` bytes at the most, and gives `action` what came: nothing, at the end.
pub fn poll_read<T>(
    from: &TcpStream,
    cx: &mut Context<'_>,
    size: usize,
    mut action: impl FnMut(&[u8]) -> T,
) -> Poll<io::Result<T>> {
    loop {
        ready!(from.poll_read_ready(cx))?;
        let read = with_scratch(size, |scratch| {
            let count = sockets::read(from, &mut scratch[..size])?;
            Ok(action(&scratch[..count]))
        });
        match read {
            Err(error) if io::Error::kind(&error) == io::ErrorKind::WouldBlock => {}
            read => return Poll::Ready(read),
        }
    }
}
