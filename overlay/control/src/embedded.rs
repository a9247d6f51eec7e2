//! An etcd of the controller's own, for one machine: on loopback, with a data folder, gone when the controller is.

use std::env;
use std::fs::{self, DirBuilder};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::failure::{Exit, Failure};
use crate::members::Members;
use crate::store::Store;

/// It reads its data, and elects itself.
const STARTS_WITHIN: Duration = Duration::from_secs(30);
const ENDS_WITHIN: Duration = Duration::from_secs(5);
const ASKED_EVERY: Duration = Duration::from_millis(100);

/// The process.
pub struct Etcd {
    child: Child,
    /// Where it answers.
    pub endpoint: String,
}

impl Etcd {
    /// One that answers on this port of loopback (0: a free one), with its data in `folder`.
    pub async fn start(folder: &Path, port: u16) -> Result<Self, Failure> {
        // setpriv(1) is what is started: it would tell by its exit code alone that there is no etcd.
        if !is_installed("etcd") {
            let line =
                "etcd: not found: install Debian's etcd-server, or name members by --endpoints";
            return Err(Failure::new(Exit::Unavailable, line));
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|error| Failure::from_io(&folder.display().to_string(), &error))?;
        let endpoint = format!("http://127.0.0.1:{}", free(port)?);
        let child = command(folder, &endpoint, &format!("http://127.0.0.1:{}", free(0)?))
            .spawn()
            .map_err(|error| {
                Failure::from_io(
                    "etcd cannot be started by setpriv (Debian's util-linux)",
                    &error,
                )
            })?;
        let mut etcd = Self { child, endpoint };
        etcd.ready().await?;
        Ok(etcd)
    }

    async fn ready(&mut self) -> Result<(), Failure> {
        let end = Instant::now() + STARTS_WITHIN;
        while Instant::now() < end {
            tokio::select! {
                failure = ended(&mut self.child) => return Err(failure),
                answers = answers(&self.endpoint) => if answers { return Ok(()) },
            }
            sleep(ASKED_EVERY).await;
        }
        let waited = STARTS_WITHIN.as_secs();
        Err(Failure::new(
            Exit::System,
            format!("etcd at {} does not answer after {waited} s", self.endpoint),
        ))
    }

    /// Wait until it ends, which it should not.
    pub async fn ended(&mut self) -> Failure {
        ended(&mut self.child).await
    }

    /// Have it write what it has to, and end.
    pub async fn stop(mut self) {
        if let Some(id) = self.child.id() {
            let _ = Command::new("kill").arg(id.to_string()).status().await;
        }
        // One that does not end is killed when it is dropped.
        let _ = timeout(ENDS_WITHIN, self.child.wait()).await;
    }
}

async fn ended(child: &mut Child) -> Failure {
    match child.wait().await {
        Ok(status) => Failure::new(Exit::System, format!("etcd ended: {status}")),
        Err(error) => Failure::from_io("etcd", &error),
    }
}

async fn answers(endpoint: &str) -> bool {
    Store::connect(&Members::here(endpoint.into()))
        .await
        .is_ok()
}

fn is_installed(program: &str) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).any(|folder| {
        let found = fs::metadata(folder.join(program));
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}

/// This port of loopback, or a free one in place of 0; an error if it is in use.
fn free(port: u16) -> Result<u16, Failure> {
    let attempted = format!("127.0.0.1:{port}, where etcd should answer");
    let listener = TcpListener::bind(("127.0.0.1", port));
    let address = listener.and_then(|listener| listener.local_addr());
    address
        .map(|address| address.port())
        .map_err(|error| Failure::from_io(&attempted, &error))
}

/// setpriv(1) has the kernel end it when we are killed.
fn command(folder: &Path, endpoint: &str, peers: &str) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args([
            "--pdeathsig",
            "TERM",
            "etcd",
            "--name",
            "overlay",
            "--data-dir",
        ])
        .arg(folder)
        .args([
            "--listen-client-urls",
            endpoint,
            "--advertise-client-urls",
            endpoint,
        ])
        .args([
            "--listen-peer-urls",
            peers,
            "--initial-advertise-peer-urls",
            peers,
        ])
        .args(["--initial-cluster", &format!("overlay={peers}")])
        // Of what was before only the last hour is kept.
        .args([
            "--auto-compaction-mode",
            "periodic",
            "--auto-compaction-retention",
            "1h",
        ])
        .args([
            "--logger",
            "zap",
            "--log-outputs",
            "stderr",
            "--log-level",
            "error",
        ])
        // Ctrl-C is for the controller, which ends it when it has no use for it any more.
        .process_group(0)
        .kill_on_drop(true);
    command
}
