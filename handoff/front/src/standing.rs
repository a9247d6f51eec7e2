//! A connection that is made again whenever it breaks.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use handoff_link::{Sender, carry, queue};
use handoff_protocol::{Message, What};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{sleep, timeout};

use crate::work::Overhead;

/// Between two attempts, and for one.
const PAUSE: Duration = Duration::from_millis(200);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// What to do about the other end.
pub trait Far {
    /// For the log.
    fn name(&self) -> &str;
    /// It is there; what is sent to it goes this way.
    fn is_there(&self, sender: &Sender);
    /// It said this.
    fn said(&self, message: Message);
    /// It is gone.
    fn is_gone(&self);
}

/// Keeps `far` connected, for ever. What its messages take is added to `overhead`, and not what it takes to connect.
pub async fn stand<S: AsyncRead + AsyncWrite>(
    far: Rc<impl Far>,
    connect: impl AsyncFn() -> io::Result<S>,
    overhead: Rc<Overhead>,
) {
    // The first time, and each time that it was there, is worth a line.
    let mut worth_telling = true;
    loop {
        let error = match timeout(CONNECT_TIMEOUT, connect()).await {
            Ok(Ok(stream)) => {
                let (error, was_there) = once(far.as_ref(), stream, &overhead).await;
                worth_telling |= was_there;
                error
            }
            Ok(Err(error)) => error,
            Err(_) => io::ErrorKind::TimedOut.into(),
        };
        if worth_telling {
            tracing::warn!("{} is away: {error}", far.name());
        }
        worth_telling = false;
        sleep(PAUSE).await;
    }
}

/// Why the connection broke, and whether the other end had said hello.
async fn once(
    far: &impl Far,
    stream: impl AsyncRead + AsyncWrite,
    overhead: &Overhead,
) -> (io::Error, bool) {
    let (sender, outgoing) = queue();
    let sender = RefCell::new(Some(sender));
    let was_there = RefCell::new(false);
    let take = |message: Message| {
        overhead.heard(&message.what);
        match message.what {
            What::Hello => {
                if let Some(sender) = sender.borrow().as_ref() {
                    far.is_there(sender);
                    was_there.replace(true);
                }
            }
            What::Alive => {}
            _ => far.said(message),
        }
    };
    let error = overhead.meter.run(carry(stream, outgoing, take)).await;
    far.is_gone();
    (error, was_there.into_inner())
}
