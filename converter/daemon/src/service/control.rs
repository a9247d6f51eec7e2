//! The local socket: `status` and `top` connect, and read one JSON object.

use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::net::{UnixListener, UnixStream};

use super::successor::Predecessor;
use crate::accounting::registry::ConnectionStatus;
use crate::failure::{Exit, Failure};
use crate::kernel::netstat::MptcpCounters;

/// How long either side waits for the other.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The status of a converter.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Status {
    /// The program's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Since it was started.
    pub uptime_seconds: f64,
    /// Whether it is shutting down.
    pub draining: bool,
    /// Client connections that are open.
    pub open_connections: usize,
    /// The limit of client connections.
    pub most_connections: usize,
    /// Bytes that wait for a peer.
    pub buffered_bytes: usize,
    /// Lines of the access log that were lost.
    pub log_lines_dropped: u64,
    /// The kernel's counters of this network namespace; an older converter has none.
    #[serde(default)]
    pub kernel_mptcp: MptcpCounters,
    /// In the configuration's order.
    pub listeners: Vec<ListenerStatus>,
    /// Those with the most bytes, at most 1,000.
    pub connections: Vec<ConnectionStatus>,
}

/// A listener, and its counts since the start.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ListenerStatus {
    /// In logs and metrics.
    pub name: String,
    /// The protocol of its clients.
    pub kind: String,
    /// Where it listens.
    pub address: std::net::SocketAddr,
    /// Whether it takes MPTCP.
    pub mptcp: bool,
    /// Connections.
    pub accepted: u64,
    /// From clients to servers.
    pub up_bytes: u64,
    /// From servers to clients.
    pub down_bytes: u64,
}

/// The control socket; dropping it removes its file, unless a successor has replaced that.
pub struct ControlSocket {
    /// Readable by this user alone.
    pub listener: UnixListener,
    path: PathBuf,
    /// Its path until [`Self::show`].
    file: PathBuf,
    inode: u64,
}

impl ControlSocket {
    /// Listens at a temporary path beside `path` until [`ControlSocket::show`]. Fails if another converter than the
    /// predecessor uses `path`.
    pub fn listen(path: &Path, predecessor: Option<&Predecessor>) -> Result<Self, Failure> {
        let attempted = format!("control socket {}", path.display());
        if StdUnixStream::connect(path).is_ok() && !is_of(path, predecessor) {
            return Err(Failure::new(
                Exit::InUse,
                format!("{attempted}: another converter uses it (control.socket)"),
            ));
        }
        Self::beside(path).map_err(|error| Failure::from_io(&attempted, &error))
    }

    fn beside(path: &Path) -> io::Result<Self> {
        let mut file = path.as_os_str().to_owned();
        file.push(".new");
        let file = PathBuf::from(file);
        let listener = bind(&file)?;
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600))?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            inode: std::fs::metadata(&file)?.ino(),
            file,
        })
    }

    /// Renames the socket to its path, and replaces that of a killed converter or a predecessor.
    pub fn show(&mut self) -> Result<(), Failure> {
        let shown = std::fs::rename(&self.file, &self.path);
        let attempted = format!("control socket {}", self.path.display());
        shown.map_err(|error| Failure::from_io(&attempted, &error))?;
        self.file.clone_from(&self.path);
        Ok(())
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if std::fs::metadata(&self.file).is_ok_and(|file| file.ino() == self.inode) {
            // It is replaced at the next start anyhow.
            let _ = std::fs::remove_file(&self.file);
        }
    }
}

fn is_of(path: &Path, predecessor: Option<&Predecessor>) -> bool {
    predecessor.is_some_and(|known| ask(path).is_ok_and(|status| known.is(status.pid)))
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(folder)?;
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => UnixListener::bind(path),
    }
}

/// Sends the status.
pub async fn answer(stream: UnixStream, status: &Status) {
    let Ok(text) = serde_json::to_vec(status) else {
        return;
    };
    let sent = async {
        let mut rest = &text[..];
        while !rest.is_empty() {
            stream.writable().await?;
            match stream.try_write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        io::Result::Ok(())
    };
    // A client that does not read gets nothing.
    let _ = tokio::time::timeout(TIMEOUT, sent).await;
}

/// Reads the status of the converter that listens on `path`.
pub fn ask(path: &Path) -> Result<Status, Failure> {
    let unavailable = |what: String| {
        Failure::new(
            Exit::Unavailable,
            format!("no converter answers at {}: {what}", path.display()),
        )
    };
    let mut stream =
        StdUnixStream::connect(path).map_err(|error| unavailable(error.to_string()))?;
    stream
        .set_read_timeout(Some(TIMEOUT))
        .map_err(|error| unavailable(error.to_string()))?;
    let mut text = Vec::new();
    stream
        .read_to_end(&mut text)
        .map_err(|error| unavailable(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| unavailable(error.to_string()))
}
