//! SIGHUP: the configuration's file anew.

use std::sync::Arc;

use sd_notify::NotifyState;

use super::activation::Passed;
use super::exposition;
use super::plan::Plan;
use super::run::{Service, notify, syn_watcher};
use super::worker::Phase;
use crate::config::{self, Config};
use crate::failure::{Exit, Failure};

impl Service {
    /// Takes the file anew; if it is wrong, everything stays as it was. It is over when all threads go by the new plan.
    pub async fn reload(&mut self) {
        notify(&[
            NotifyState::Reloading,
            NotifyState::monotonic_usec_now().unwrap_or(NotifyState::Reloading),
        ]);
        match self.take_anew() {
            Ok(()) => {
                let entered = self
                    .pool
                    .enter(Phase::Serving(Arc::clone(&self.plan)))
                    .await;
                match entered {
                    Ok(()) => tracing::info!("reloaded: {} listeners", self.plan.bound.len()),
                    Err(error) => tracing::error!("reloaded, but not in whole: {error}"),
                }
            }
            Err(failure) => tracing::error!("not reloaded, everything stays as it was: {failure}"),
        }
        notify(&[NotifyState::Ready]);
    }

    /// The file becomes the plan. On a failure nothing has changed.
    fn take_anew(&mut self) -> Result<(), Failure> {
        let config = self
            .file
            .as_deref()
            .map_or_else(|| Ok(Config::default()), config::load)?;
        for (key, changed) in [
            ("workers", config.workers != self.plan.config.workers),
            ("offload", config.offload != self.plan.config.offload),
            (
                "leave where no listener has had it",
                config.offloads() && self.shared.offloader.is_none(),
            ),
            (
                "timeouts.unused",
                config.timeouts.unused != self.plan.config.timeouts.unused,
            ),
            ("control.socket", config.control != self.plan.config.control),
        ] {
            if changed {
                return Err(Failure::new(
                    Exit::Usage,
                    format!("{key} can change by a restart only"),
                ));
            }
        }
        let passed = &mut Passed::default();
        let new_metrics = if config.metrics == self.plan.config.metrics {
            None
        } else {
            let socket = exposition::socket(config.metrics.address, passed)?;
            Some(socket.map(exposition::watched).transpose()?)
        };
        let registry = &self.shared.registry;
        let plan = Plan::new(config, Some(&self.plan), passed, &registry.metrics)?;
        let syn_watcher = syn_watcher(&plan, &self.shared)?;
        let log = registry.log.open(plan.config.log.access.as_deref())?;
        if plan.config.limits.backlog != self.plan.config.limits.backlog {
            plan.take_backlog().map_err(|error| {
                // Those that were set go back to what they had.
                let _ = self.plan.take_backlog();
                Failure::from_io("limits.backlog", &error)
            })?;
        }
        // From here on nothing fails.
        registry.log.take(log);
        self.shared.admission.take_limits(&plan.config.limits);
        if let Some(metrics) = new_metrics {
            self.metrics = metrics;
        }
        self.syn_watcher = syn_watcher;
        self.plan = Arc::new(plan);
        Ok(())
    }
}
