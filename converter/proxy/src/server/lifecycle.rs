//! Reload (SIGHUP) and shutdown.

use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::signal::unix::Signal;
use tokio::time::{Instant, sleep, sleep_until};
use tributary_program::{Exit, Failure};

use super::active_config::ActiveConfig;
use super::status::{accept_scrape, metrics_socket, watched};
use super::upgrade::InheritedSockets;
use super::worker::{Phase, accepted};
use super::{Service, ShutdownReason, first, notify, syn_watcher};
use crate::config;

impl Service {
    /// Reads the file again; changes nothing if it is wrong. Returns when all threads use the new configuration.
    pub(super) async fn reload(&mut self) {
        notify(&[
            NotifyState::Reloading,
            NotifyState::monotonic_usec_now().unwrap_or(NotifyState::Reloading),
        ]);
        match self.activate_file() {
            Ok(()) => {
                let entered = self.pool.set_phase(Phase::Serving(Arc::clone(&self.active))).await;
                match entered {
                    Ok(()) => tracing::info!("reloaded: {} listeners", self.active.bound.len()),
                    Err(error) => tracing::error!("reloaded, but not in whole: {error}"),
                }
            }
            Err(failure) => tracing::error!("not reloaded, everything stays as it was: {failure}"),
        }
        notify(&[NotifyState::Ready]);
    }

    /// Activates the file. Changes nothing on a failure.
    fn activate_file(&mut self) -> Result<(), Failure> {
        let config = config::load(self.file.as_deref())?;
        for (key, changed) in [
            ("workers", config.workers != self.active.config.workers),
            ("offload", config.offload != self.active.config.offload),
            (
                "offload where no listener had it",
                config.offloads() && self.shared.offloader.is_none(),
            ),
            (
                "timeouts.unused",
                config.timeouts.unused != self.active.config.timeouts.unused,
            ),
            ("control.socket", config.control != self.active.config.control),
        ] {
            if changed {
                return Err(Failure::new(Exit::Usage, format!("{key} can change by a restart only")));
            }
        }
        let inherited = &mut InheritedSockets::default();
        let new_metrics = if config.metrics == self.active.config.metrics {
            None
        } else {
            let socket = metrics_socket(config.metrics.address, inherited)?;
            Some(socket.map(watched).transpose()?)
        };
        let registry = &self.shared.registry;
        let active = ActiveConfig::new(config, Some(&self.active), inherited, &registry.metrics)?;
        let syn_watcher = syn_watcher(&active, &self.shared, Duration::ZERO)?;
        let log = registry.log.open(active.config.log.access.as_deref())?;
        if active.config.limits.backlog != self.active.config.limits.backlog {
            active.take_backlog().map_err(|error| {
                // Those that were set go back to what they had.
                let _ = self.active.take_backlog();
                Failure::from_io("limits.backlog", &error)
            })?;
        }
        // From here on nothing fails.
        registry.log.take(log);
        self.shared.admission.take_limits(&active.config.limits);
        if let Some(metrics) = new_metrics {
            self.metrics = metrics;
        }
        self.syn_watcher = syn_watcher;
        self.active = Arc::new(active);
        Ok(())
    }
}

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
        tracing::info!("ending: {} connections are open", self.shared.admission.open());
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
                scraped = accept_scrape(self.metrics.as_ref()) => self.expose(scraped),
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
            tracing::error!("the last lines of the access log are lost: {LAST_LINES:?} was not enough");
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
