//! Prometheus metrics over HTTP.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::streams::Stream;

const PATIENCE: Duration = Duration::from_secs(5);
const LONGEST: usize = 8 << 10;
const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers one request with `exposition`.
pub async fn answer(stream: TcpStream, exposition: impl FnOnce() -> String) {
    let stream = Stream::new(stream);
    let deadline = Instant::now() + PATIENCE;
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
        .end_with(&[head.as_bytes(), body.as_bytes()].concat())
        .await;
}
