//! The threads, and the phase that all of them are in.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::sync::{mpsc, watch};

use super::worker::{Phase, Shared, run_worker};

/// All threads of the process that serve clients.
pub struct Pool {
    phase: watch::Sender<Phase>,
    threads: Vec<Thread>,
}

struct Thread {
    handle: JoinHandle<()>,
    /// One word for each phase that it came to: what of it could not be done, if anything.
    acks: mpsc::UnboundedReceiver<io::Result<()>>,
}

impl Pool {
    /// Starts `count` threads, which have entered the `first` phase when [`Pool::wait_acks`] returns.
    pub fn start(count: usize, shared: &Arc<Shared>, first: Phase) -> io::Result<Self> {
        let (phase, _) = watch::channel(first);
        let start = |number| {
            let (shared, phase) = (Arc::clone(shared), phase.subscribe());
            let (ack, acks) = mpsc::unbounded_channel();
            let handle = thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn(move || run_worker(&shared, phase, &ack))?;
            Ok(Thread { handle, acks })
        };
        let threads: io::Result<_> = (0..count).map(start).collect();
        Ok(Self {
            threads: threads?,
            phase,
        })
    }

    /// Takes all threads to `phase`, and waits until they are there. The first error of any of them; they do then what
    /// they can.
    pub async fn set_phase(&mut self, phase: Phase) -> io::Result<()> {
        self.phase.send_replace(phase);
        self.wait_acks().await
    }

    /// Waits until all threads have come to the last phase that was set.
    pub async fn wait_acks(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        for thread in &mut self.threads {
            let word = thread.acks.recv().await;
            result = result.and(word.unwrap_or_else(|| Err(io::Error::other("a thread is gone"))));
        }
        result
    }

    /// Resets all connections that are left, and waits for the threads' end.
    pub fn end(self) {
        self.phase.send_replace(Phase::Ended);
        for thread in self.threads {
            if thread.handle.join().is_err() {
                tracing::error!("a thread ended by a panic");
            }
        }
    }
}
