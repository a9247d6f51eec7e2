//! Checks whether the node's converter answers an Info request, as a client would send it (RFC 8803): that finds one that
//! hangs as well as one that is gone.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

/// From one answer to the next request. With the following ones: a converter is found silent within 2.7 s.
const INTERVAL: Duration = Duration::from_secs(1);
/// A converter that takes longer counts as silent.
const TIMEOUT: Duration = Duration::from_millis(700);
/// A converter that restarts is back after this time.
const RETRY_AFTER: Duration = Duration::from_millis(300);

/// A header of two words and an Info TLV (RFC 8803 sections 6.1 and 6.2.3).
const INFO_REQUEST: [u8; 8] = [1, 2, 0x22, 0x63, 1, 1, 0, 0];
const MAGIC: std::ops::Range<usize> = 2..4;

/// Publishes when `converter` fails to answer twice in a row, and when it answers again, until all receivers are dropped.
pub async fn watch(converter: SocketAddr, state: watch::Sender<bool>) {
    while !state.is_closed() {
        let answers = answers(converter).await || {
            sleep(RETRY_AFTER).await;
            answers(converter).await
        };
        if state.send_if_modified(|before| std::mem::replace(before, answers) != answers) {
            if answers {
                info!("{converter}, the converter, answers");
            } else {
                warn!("{converter}, the converter, does not answer: no chain passes this node");
            }
        }
        sleep(INTERVAL).await;
    }
}

pub async fn answers(converter: SocketAddr) -> bool {
    matches!(timeout(TIMEOUT, ask(converter)).await, Ok(Ok(true)))
}

/// Whether it replies with a message of RFC 8803, be it an error.
async fn ask(converter: SocketAddr) -> io::Result<bool> {
    let mut stream = TcpStream::connect(converter).await?;
    stream.write_all(&INFO_REQUEST).await?;
    let mut header = [0; 4];
    stream.read_exact(&mut header).await?;
    Ok(header[0] == INFO_REQUEST[0] && header[MAGIC] == INFO_REQUEST[MAGIC])
}
