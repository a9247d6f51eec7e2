//! Whether the node's converter answers: asked as by a client (RFC 8803), so that one that hangs is found as well as one
//! that is gone.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

/// From one answer to the next question. Together with what follows: a converter is found silent within 2.7 s.
const EVERY: Duration = Duration::from_secs(1);
/// A converter that takes longer does not answer.
const WITHIN: Duration = Duration::from_millis(700);
/// One that is started anew is back after this time.
const AGAIN_AFTER: Duration = Duration::from_millis(300);

/// A header of two words, and an Info TLV: what does the converter support (RFC 8803 sections 6.1 and 6.2.3)?
const QUESTION: [u8; 8] = [1, 2, 0x22, 0x63, 1, 1, 0, 0];
/// Where the header's magic number is, between version and total length before and TLVs after it.
const MAGIC: std::ops::Range<usize> = 2..4;

/// Ask `converter`, and tell when it no longer answers twice in a row, or answers again, until nobody wants to know.
pub async fn watch(converter: SocketAddr, told: watch::Sender<bool>) {
    while !told.is_closed() {
        let answers = answers(converter).await || {
            sleep(AGAIN_AFTER).await;
            answers(converter).await
        };
        if told.send_if_modified(|before| std::mem::replace(before, answers) != answers) {
            if answers {
                info!("{converter}, the converter, answers");
            } else {
                warn!("{converter}, the converter, does not answer: no chain passes this node");
            }
        }
        sleep(EVERY).await;
    }
}

/// Whether it answers now.
pub async fn answers(converter: SocketAddr) -> bool {
    matches!(timeout(WITHIN, ask(converter)).await, Ok(Ok(true)))
}

/// Whether a message of RFC 8803's comes back, be it an error.
async fn ask(converter: SocketAddr) -> io::Result<bool> {
    let mut stream = TcpStream::connect(converter).await?;
    stream.write_all(&QUESTION).await?;
    let mut header = [0; 4];
    stream.read_exact(&mut header).await?;
    Ok(header[0] == QUESTION[0] && header[MAGIC] == QUESTION[MAGIC])
}
