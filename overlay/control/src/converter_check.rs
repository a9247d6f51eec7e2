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

/// A converter that was silent is back after two answers in a row, and each time after twice as many, up to this: one that
/// comes and goes would have all tables written again and again, and etcd keeps an hour of them.
const MAX_BACK_AFTER: u32 = 256;
/// After so many answers in a row it is as if it never was silent.
const STEADY_AFTER: u32 = 600;

/// A header of two words and an Info TLV (RFC 8803 sections 6.1 and 6.2.3).
const INFO_REQUEST: [u8; 8] = [1, 2, 0x22, 0x63, 1, 1, 0, 0];
const MAGIC: std::ops::Range<usize> = 2..4;

/// Publishes when `converter` fails to answer twice in a row, and when it is back, until all receivers are dropped.
pub async fn watch(converter: SocketAddr, state: watch::Sender<bool>) {
    let mut judgement = Judgement::new(*state.borrow());
    while !state.is_closed() {
        let answers = answers(converter).await || {
            sleep(RETRY_AFTER).await;
            answers(converter).await
        };
        let answers = judgement.next(answers);
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

/// Whether a converter counts as one that answers.
struct Judgement {
    answers: bool,
    /// Answers.
    in_a_row: u32,
    back_after: u32,
}

impl Judgement {
    fn new(answers: bool) -> Self {
        Self {
            answers,
            in_a_row: 0,
            back_after: 1,
        }
    }

    fn next(&mut self, answered: bool) -> bool {
        if answered {
            self.in_a_row = self.in_a_row.saturating_add(1);
            self.answers |= self.in_a_row >= self.back_after;
            return self.answers;
        }
        if std::mem::take(&mut self.answers) {
            let is_steady = self.in_a_row >= STEADY_AFTER;
            let before = if is_steady { 1 } else { self.back_after };
            self.back_after = (before * 2).min(MAX_BACK_AFTER);
        }
        self.in_a_row = 0;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many answers in a row it takes after a silence.
    fn back_after(judgement: &mut Judgement) -> usize {
        assert!(!judgement.next(false));
        1 + (0..1000).take_while(|_| !judgement.next(true)).count()
    }

    #[test]
    fn a_converter_that_comes_and_goes_is_back_later_each_time() {
        let mut judgement = Judgement::new(true);
        assert!(judgement.next(true));
        let found: Vec<usize> = (0..9).map(|_| back_after(&mut judgement)).collect();
        assert_eq!(found, [2, 4, 8, 16, 32, 64, 128, 256, 256]);
        for _ in 0..STEADY_AFTER {
            assert!(judgement.next(true));
        }
        assert_eq!(back_after(&mut judgement), 2);
        assert!(Judgement::new(false).next(true));
    }
}
