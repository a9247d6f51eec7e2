//! An etcd of the controller's own, for one machine: on loopback, with a data folder, ended with the controller.

use std::env;
use std::fs::{self, DirBuilder};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::members::Members;
use crate::store::Store;
use tributary_program::{Exit, Failure};

/// etcd reads its data and elects itself.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub struct Etcd {
    child: Child,
    /// Its URL.
    pub endpoint: String,
}

impl Etcd {
    /// Starts etcd at this port of loopback (0: any free one), with its data in `folder`.
    pub async fn start(folder: &Path, port: u16) -> Result<Self, Failure> {
        // Checked here, since the exit code of setpriv(1) would not tell that etcd is missing.
        if !is_installed("etcd") {
            let line = "etcd: not found: install Debian's etcd-server, or name members by --endpoints";
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
            .map_err(|error| Failure::from_io("etcd cannot be started by setpriv (Debian's util-linux)", &error))?;
        let mut etcd = Self { child, endpoint };
        etcd.ready().await?;
        Ok(etcd)
    }

    async fn ready(&mut self) -> Result<(), Failure> {
        let end = Instant::now() + START_TIMEOUT;
        while Instant::now() < end {
            tokio::select! {
                failure = ended(&mut self.child) => return Err(failure),
                answers = answers(&self.endpoint) => if answers { return Ok(()) },
            }
            sleep(POLL_INTERVAL).await;
        }
        let waited = START_TIMEOUT.as_secs();
        Err(Failure::new(
            Exit::System,
            format!("etcd at {} does not answer after {waited} s", self.endpoint),
        ))
    }

    /// Waits until etcd ends unexpectedly.
    pub async fn ended(&mut self) -> Failure {
        ended(&mut self.child).await
    }

    /// Ends etcd by SIGTERM, so that it writes its data.
    pub async fn stop(mut self) {
        if let Some(id) = self.child.id() {
            let _ = Command::new("kill").arg(id.to_string()).status().await;
        }
        // If it does not end it is killed when it is dropped.
        let _ = timeout(STOP_TIMEOUT, self.child.wait()).await;
    }
}

async fn ended(child: &mut Child) -> Failure {
    match child.wait().await {
        Ok(status) => Failure::new(Exit::System, format!("etcd ended: {status}")),
        Err(error) => Failure::from_io("etcd", &error),
    }
}

async fn answers(endpoint: &str) -> bool {
    Store::connect(&Members::here(endpoint.into())).await.is_ok()
}

fn is_installed(program: &str) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).any(|folder| {
        let found = fs::metadata(folder.join(program));
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}

/// This port of loopback, or any free one for 0; fails if it is in use.
fn free(port: u16) -> Result<u16, Failure> {
    let attempted = format!("127.0.0.1:{port}, where etcd should answer");
    let listener = TcpListener::bind(("127.0.0.1", port));
    let address = listener.and_then(|listener| listener.local_addr());
    address
        .map(|address| address.port())
        .map_err(|error| Failure::from_io(&attempted, &error))
}

/// setpriv(1) has the kernel end etcd when the controller is killed.
fn command(folder: &Path, endpoint: &str, peers: &str) -> Command {
    let cluster = format!("overlay={peers}");
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "etcd", "--data-dir"]).arg(folder);
    for (flag, value) in [
        ("--name", "overlay"),
        ("--listen-client-urls", endpoint),
        ("--advertise-client-urls", endpoint),
        ("--listen-peer-urls", peers),
        ("--initial-advertise-peer-urls", peers),
        ("--initial-cluster", &cluster),
        // Keeps one hour of history.
        ("--auto-compaction-mode", "periodic"),
        ("--auto-compaction-retention", "1h"),
        ("--logger", "zap"),
        ("--log-outputs", "stderr"),
        ("--log-level", "error"),
    ] {
        command.args([flag, value]);
    }
    // Ctrl-C reaches only the controller, which ends etcd itself.
    command.process_group(0).kill_on_drop(true);
    command
}
