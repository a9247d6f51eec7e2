//! Shutdown: accepts no more clients, and lets open connections end until a deadline.

use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::time::{Instant, sleep, sleep_until};

use super::accept::accepted;
use super::exposition;
use super::run::{Service, ShutdownReason, first};
use super::worker::Phase;
use crate::failure::{Exit, Failure};

/// How often a drain checks whether all connections have ended.
const DRAIN_STEP: Duration = Duration::from_millis(20);
/// How long a predecessor may take to end at once.
const AT_ONCE: Duration = Duration::from_secs(1);
/// How long writing the last lines of the access log may take.
const LAST_LINES: Duration = Duration::from_secs(1);

impl Service {
    /// Waits until the last connection and a predecessor have ended, up to the deadline. If this process was superseded, a
    /// first signal shortens the deadline; another one ends it at once.
    pub async fn drain(
        mut self,
        end: &ShutdownReason,
        mut terminate: Signal,
        mut interrupt: Signal,
    ) -> Result<(), Failure> {
        // The active configuration holds the listeners open: new clients shall be refused at once.
        self.active = Arc::new(self.active.without_listeners());
        self.syn_watcher = None;
        if let Err(error) = self.pool.set_phase(Phase::Draining).await {
            tracing::error!("{error}");
        }
        let timeouts = &self.active.config.timeouts;
        let (mut signalled, timeout) = match end {
            ShutdownReason::Signalled => (true, timeouts.drain),
            ShutdownReason::Superseded(_) => (false, timeouts.hand_over),
        };
        let mut deadline = Instant::now() + timeout;
        tracing::info!(
            "ending: {} connections are open",
            self.shared.admission.open()
        );
        let is_over = || self.shared.admission.open() == 0 && !self.predecessor_is_there();
        while !is_over() && Instant::now() < deadline {
            tokio::select! {
                () = sleep(DRAIN_STEP) => {}
                () = sleep_until(deadline) => {}
                () = first(&mut terminate, &mut interrupt) => {
                    if signalled {
                        break;
                    }
                    signalled = true;
                    deadline = deadline.min(Instant::now() + timeouts.drain);
                    self.end_predecessor();
                }
                asked = accepted(self.control.listener.accept()) => self.tell(asked, true),
                scraped = exposition::accept(self.metrics.as_ref()) => self.expose(scraped),
            }
        }
        let left = self.shared.admission.open();
        self.end_predecessor();
        let deadline = Instant::now() + AT_ONCE;
        while self.predecessor_is_there() && Instant::now() < deadline {
            sleep(DRAIN_STEP).await;
        }
        self.pool.end();
        if !self.shared.registry.log.close(LAST_LINES) {
            tracing::error!(
                "the last lines of the access log are lost: {LAST_LINES:?} was not enough"
            );
        }
        if left == 0 {
            return Ok(());
        }
        Err(Failure::new(
            Exit::WrongResult,
            format!("{left} connections had not ended in time and were reset"),
        ))
    }
}
