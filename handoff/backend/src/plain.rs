//! Clients that come by themselves: what a front relays, for one.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use handoff_link::accepted;
use socket2::SockRef;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::guest::{After, Guest, Server};

/// Serves clients until this process is `leaving`; ready when their answers have ended. `most` come at the same time, and each
/// may take as long as `idle` for the next byte.
pub async fn serve_plain<S: Server>(
    listener: TcpListener,
    server: Arc<S>,
    most: u32,
    idle: Duration,
    mut leaving: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(most as usize));
    loop {
        let came = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, accepted(|| listener.accept()).await)
        };
        let (place, (stream, _)) = tokio::select! {
            came = came => came,
            () = told(&mut leaving) => break,
        };
        let (server, leaving) = (Arc::clone(&server), leaving.clone());
        tokio::spawn(async move {
            // An error of the socket's shows when it is read.
            let _ = stream.set_nodelay(true);
            let Ok(ends) = stream
                .peer_addr()
                .and_then(|client| Ok([client, stream.local_addr()?]))
            else {
                // It is gone already.
                return;
            };
            serve_one(
                Guest::new(stream, ends, Vec::new(), idle),
                server.as_ref(),
                leaving,
            )
            .await;
            drop(place);
        });
    }
    drop(listener);
    // It is never closed.
    let _ = places.acquire_many(most).await;
}

async fn told(leaving: &mut watch::Receiver<bool>) {
    // Without who tells, nobody leaves in order.
    let _ = leaving.wait_for(|leaving| *leaving).await;
}

async fn serve_one<S: Server>(mut guest: Guest, server: &S, mut leaving: watch::Receiver<bool>) {
    let mut kept = S::Kept::default();
    while asks(&mut guest, &mut leaving).await {
        match server.serve(&mut guest, &mut kept).await {
            After::Next => {}
            After::Close => break,
            After::Reset => {
                let _: io::Result<()> =
                    SockRef::from(&guest.stream).set_linger(Some(Duration::ZERO));
                return;
            }
        }
    }
    guest.close().await;
}

/// Whether another request begins, which is answered then whoever leaves.
async fn asks(guest: &mut Guest, leaving: &mut watch::Receiver<bool>) -> bool {
    if *leaving.borrow() {
        return false;
    }
    if !guest.inbox.is_empty() {
        return true;
    }
    tokio::select! {
        read = guest.read_more() => read.is_ok_and(|count| count > 0),
        () = told(leaving) => false,
    }
}
