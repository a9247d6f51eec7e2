//! SIGHUP: reads the configuration's file again.

use std::sync::Arc;

use sd_notify::NotifyState;

use super::activation::InheritedSockets;
use super::active_config::ActiveConfig;
use super::exposition;
use super::run::{Service, notify, syn_watcher};
use super::worker::Phase;
use crate::config::{self, Config};
use crate::failure::{Exit, Failure};

impl Service {
    /// Reads the file again; changes nothing if it is wrong. Returns when all threads use the new configuration.
    pub async fn reload(&mut self) {
        notify(&[
            NotifyState::Reloading,
            NotifyState::monotonic_usec_now().unwrap_or(NotifyState::Reloading),
        ]);
        match self.activate_file() {
            Ok(()) => {
                let entered = self
                    .pool
                    .set_phase(Phase::Serving(Arc::clone(&self.active)))
                    .await;
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
        let config = self
            .file
            .as_deref()
            .map_or_else(|| Ok(Config::default()), config::load)?;
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
            (
                "control.socket",
                config.control != self.active.config.control,
            ),
        ] {
            if changed {
                return Err(Failure::new(
                    Exit::Usage,
                    format!("{key} can change by a restart only"),
                ));
            }
        }
        let inherited = &mut InheritedSockets::default();
        let new_metrics = if config.metrics == self.active.config.metrics {
            None
        } else {
            let socket = exposition::socket(config.metrics.address, inherited)?;
            Some(socket.map(exposition::watched).transpose()?)
        };
        let registry = &self.shared.registry;
        let active = ActiveConfig::new(config, Some(&self.active), inherited, &registry.metrics)?;
        let syn_watcher = syn_watcher(&active, &self.shared)?;
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
