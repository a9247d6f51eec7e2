//! Serves clients that connect directly: relayed requests.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use handoff_link::accept_retrying;
use socket2::SockRef;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::connection::{ClientConnection, NextStep, Server};

/// Serves clients until the process is `draining`, and waits until their answers have ended. At most `max_connections` at
/// the same time, each at most `idle` without a byte.
pub async fn serve_plain<S: Server>(
    listener: TcpListener,
    server: Arc<S>,
    max_connections: u32,
    idle: Duration,
    mut draining: watch::Receiver<bool>,
) {
    let permits = Arc::new(Semaphore::new(max_connections as usize));
    loop {
        let came = async {
            let permit = Arc::clone(&permits).acquire_owned().await;
            (permit, accept_retrying(|| listener.accept()).await)
        };
        let (permit, (stream, _)) = tokio::select! {
            came = came => came,
            () = drain_signal(&mut draining) => break,
        };
        let (server, draining) = (Arc::clone(&server), draining.clone());
        tokio::spawn(async move {
            // An error shows at the next read.
            let _ = stream.set_nodelay(true);
            let Ok(ends) = stream.peer_addr().and_then(|client| Ok([client, stream.local_addr()?])) else {
                // It is already gone.
                return;
            };
            serve_one(
                ClientConnection::new(stream, ends, Vec::new(), idle),
                server.as_ref(),
                draining,
            )
            .await;
            drop(permit);
        });
    }
    drop(listener);
    // The semaphore is never closed.
    let _ = permits.acquire_many(max_connections).await;
}

async fn drain_signal(draining: &mut watch::Receiver<bool>) {
    // If the sender is gone there is no draining.
    let _ = draining.wait_for(|draining| *draining).await;
}

async fn serve_one<S: Server>(mut client: ClientConnection, server: &S, mut draining: watch::Receiver<bool>) {
    let mut state = S::State::default();
    while next_request_begins(&mut client, &mut draining).await {
        match server.serve(&mut client, &mut state).await {
            NextStep::KeepAlive => {}
            NextStep::Close => break,
            NextStep::Reset => {
                let _: io::Result<()> = SockRef::from(&client.stream).set_linger(Some(Duration::ZERO));
                return;
            }
        }
    }
    client.close().await;
}

/// Whether another request begins; it is then served even while draining.
async fn next_request_begins(client: &mut ClientConnection, draining: &mut watch::Receiver<bool>) -> bool {
    if *draining.borrow() {
        return false;
    }
    if !client.inbox.is_empty() {
        return true;
    }
    tokio::select! {
        read = client.read_more() => read.is_ok_and(|count| count > 0),
        () = drain_signal(draining) => false,
    }
}
