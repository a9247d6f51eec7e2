//! Prometheus metrics over HTTP.

use std::future;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use super::accept::accepted;
use super::activation::InheritedSockets;
use crate::bytes::stream::ResetOnDrop;
use crate::failure::Failure;

const TIMEOUT: Duration = Duration::from_secs(5);
const LONGEST: usize = 8 << 10;
const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The socket at this address: one that was passed, or a new one.
pub fn socket(
    address: Option<SocketAddr>,
    inherited: &mut InheritedSockets,
) -> Result<Option<std::net::TcpListener>, Failure> {
    let Some(address) = address else {
        return Ok(None);
    };
    let listen = || {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    inherited
        .claim_address(address)
        .map(|socket| socket.listener)
        .map_or_else(listen, Ok)
        .map(Some)
        .map_err(|error| Failure::from_io(&format!("metrics on {address}"), &error))
}

/// A socket within the event loop.
pub fn watched(listener: std::net::TcpListener) -> Result<TcpListener, Failure> {
    TcpListener::from_std(listener).map_err(|error| Failure::from_io("metrics", &error))
}

/// Accepts the next scrape; waits for ever without a socket.
pub async fn accept(listener: Option<&TcpListener>) -> Option<TcpStream> {
    match listener {
        Some(listener) => accepted(listener.accept()).await.map(|(stream, _)| stream),
        None => future::pending().await,
    }
}

/// Answers one request with `exposition`.
pub async fn answer(stream: TcpStream, exposition: impl FnOnce() -> String) {
    let mut stream = ResetOnDrop::new(stream);
    let deadline = Instant::now() + TIMEOUT;
    let mut inbox = Vec::new();
    while !inbox.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read_more(&mut inbox, LONGEST, Some(deadline)).await {
            Ok(count) if count > 0 && inbox.len() < LONGEST => {}
            _ => return,
        }
    }
    let (status, body) = if inbox.starts_with(b"GET /metrics ") {
        ("200 OK", exposition())
    } else {
        ("404 Not Found", "metrics are at /metrics\n".to_owned())
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {TYPE}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream
        .send_and_linger(&[head.as_bytes(), body.as_bytes()].concat())
        .await;
}
