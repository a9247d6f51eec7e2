//! How a client reaches the origin: directly, or through a proxy.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::http::{self, Head};
use crate::sockets;

/// Where connections go, and how.
#[derive(Args, Debug)]
pub struct Route {
    /// The origin, or a proxy that forwards TCP to it.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub to: SocketAddr,
    /// Ask this HTTP proxy by requests in absolute form (RFC 9112 section 3.2.2); --to is then the origin.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "via_connect")]
    pub via_http_proxy: Option<SocketAddr>,
    /// Ask this HTTP proxy for a tunnel by CONNECT (RFC 9110 section 9.3.6); --to is then the origin.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub via_connect: Option<SocketAddr>,
    /// Connect by MPTCP (RFC 8684), with TCP as what it falls back to.
    #[arg(long)]
    pub mptcp: bool,
    /// Connect from this address; may be repeated: connections then take the addresses in turn.
    #[arg(long, value_name = "ADDRESS")]
    pub source: Vec<IpAddr>,
    #[arg(skip)]
    opened: AtomicUsize,
}

impl Route {
    /// A connection that requests can be sent on.
    pub async fn open(&self) -> io::Result<TcpStream> {
        let proxy = self.via_http_proxy.or(self.via_connect);
        let mut stream = sockets::connect(proxy.unwrap_or(self.to), self.next_source(), self.mptcp).await?;
        stream.set_nodelay(true)?;
        if self.via_connect.is_some() {
            open_tunnel(&mut stream, self.to).await?;
        }
        Ok(stream)
    }

    /// The head of a request for `path` (which begins with a slash), with `fields`, each with its line end.
    pub fn request(&self, method: &str, path: &str, fields: &str) -> String {
        let origin = self.to;
        let before = match self.via_http_proxy {
            Some(_) => format!("http://{origin}"),
            None => String::new(),
        };
        format!("{method} {before}{path} HTTP/1.1\r\nHost: {origin}\r\n{fields}\r\n")
    }

    /// One byte from the origin, on a connection to it.
    pub async fn ask_for_a_byte(&self, stream: &mut TcpStream) -> io::Result<()> {
        let request = self.request("GET", "/1", "");
        let body = http::exchange(stream, request.as_bytes(), &mut Vec::new()).await?;
        http::check_length(&body, 1)
    }

    fn next_source(&self) -> Option<SocketAddr> {
        if self.source.is_empty() {
            return None;
        }
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        Some((self.source[number % self.source.len()], 0).into())
    }
}

async fn open_tunnel(stream: &mut TcpStream, origin: SocketAddr) -> io::Result<()> {
    let request = format!("CONNECT {origin} HTTP/1.1\r\nHost: {origin}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut received = Vec::with_capacity(512);
    loop {
        if stream.read_buf(&mut received).await? == 0 {
            return Err(http::malformed(
                "the proxy closed the connection instead of answering CONNECT",
            ));
        }
        if let Some((head, length)) = Head::of(&received)? {
            if head.status() != Some(200) {
                return Err(http::malformed(&format!(
                    "CONNECT was answered by {:?}",
                    head.start_line
                )));
            }
            // An origin of ours says nothing before it is asked.
            return match received.len() - length {
                0 => Ok(()),
                _ => Err(http::malformed(
                    "bytes after the answer to CONNECT that nobody asked for",
                )),
            };
        }
    }
}
