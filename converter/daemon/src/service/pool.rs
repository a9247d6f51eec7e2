//! The worker threads and their common phase.

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
    /// The result of each phase change.
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

    /// Sets the phase, and waits until all threads are in it. Returns the first error; all that works is done.
    pub async fn set_phase(&mut self, phase: Phase) -> io::Result<()> {
        self.phase.send_replace(phase);
        self.wait_acks().await
    }

    /// Waits until all threads are in the phase that was set last.
    pub async fn wait_acks(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        for thread in &mut self.threads {
            let ack = thread.acks.recv().await;
            result = result.and(ack.unwrap_or_else(|| Err(io::Error::other("a thread is gone"))));
        }
        result
    }

    /// Resets all open connections, and waits for the threads to end.
    pub fn end(self) {
        self.phase.send_replace(Phase::Ended);
        for thread in self.threads {
            if thread.handle.join().is_err() {
                tracing::error!("a thread ended by a panic");
            }
        }
    }
}
