//! Answers to `status` and `top`, and to Prometheus.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future;
use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream, unix};
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::{Instant, timeout};
use tributary_program::{Exit, Failure};

use super::Service;
use super::upgrade::{InheritedSockets, Predecessor};
use super::worker::accepted;
use crate::io::stream::ResetOnDrop;
use crate::kernel::netstat::MptcpCounters;
use crate::kernel::sockets;
use crate::observe::ConnectionStatus;
use crate::observe::metrics::Gauges;

const SHOWN: usize = 1000;

/// Connections of one kind that are answered at a time: those of two kinds take half of the reserved descriptors.
const AT_A_TIME: usize = 32;

/// Answers in progress, on other connections than clients'. When there are too many, the oldest is aborted: a peer that
/// connects and asks nothing blocks no other, and takes no descriptor from clients.
#[derive(Debug, Default)]
pub struct Answers(RefCell<VecDeque<AbortHandle>>);

impl Answers {
    fn begin(&self, answer: impl Future<Output = ()> + 'static) {
        let mut begun = self.0.borrow_mut();
        begun.retain(|each| !each.is_finished());
        if begun.len() == AT_A_TIME {
            if let Some(oldest) = begun.pop_front() {
                oldest.abort();
            }
        }
        begun.push_back(spawn_local(answer).abort_handle());
    }
}

impl Service {
    pub(super) fn tell(&self, asked: Option<(UnixStream, unix::SocketAddr)>, draining: bool) {
        if let Some((stream, _)) = asked {
            let status = self.status(draining);
            self.answers[0].begin(async move { send_status(stream, &status).await });
        }
    }

    pub(super) fn expose(&self, stream: Option<TcpStream>) {
        if let Some(stream) = stream {
            let shared = Arc::clone(&self.shared);
            let front = self.active.handoff.as_ref();
            let front = front.map(|front| Arc::clone(&front.settings));
            self.answers[1].begin(answer_scrape(stream, move || {
                shared.registry.metrics.exposition(&Gauges {
                    open: shared.admission.open(),
                    buffered: shared.admission.buffered(),
                    log_lines_dropped: shared.registry.log.dropped(),
                    early_waiting: shared.early.waiting(),
                    handoff: front,
                    kernel: MptcpCounters::now(),
                })
            }));
        }
    }

    fn status(&self, draining: bool) -> Status {
        let listeners = self.active.bound.iter().map(|bound| ListenerStatus {
            name: bound.listen.label.to_string(),
            kind: bound.listen.kind.name().to_owned(),
            address: bound.listen.address,
            mptcp: sockets::is_mptcp(&bound.socket),
            accepted: bound.counters.accepted.get(),
            up_bytes: bound.counters.up.get(),
            down_bytes: bound.counters.down.get(),
        });
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_seconds: self.since.elapsed().as_secs_f64(),
            draining,
            open_connections: self.shared.admission.open(),
            most_connections: self.active.most,
            buffered_bytes: self.shared.admission.buffered(),
            log_lines_dropped: self.shared.registry.log.dropped(),
            kernel_mptcp: MptcpCounters::now(),
            listeners: listeners.collect(),
            connections: self.shared.registry.snapshot(SHOWN),
        }
    }
}

/// How long either side waits for the other.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Status {
    pub version: String,
    pub pid: u32,
    pub uptime_seconds: f64,
    pub draining: bool,
    pub open_connections: usize,
    pub most_connections: usize,
    pub buffered_bytes: usize,
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
    pub kind: String,
    pub address: SocketAddr,
    pub mptcp: bool,
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
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => UnixListener::bind(path),
    }
}

async fn send_status(stream: UnixStream, status: &Status) {
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
    let _ = timeout(TIMEOUT, sent).await;
}

/// Reads the status of the converter that listens on `path`.
pub fn ask(path: &Path) -> Result<Status, Failure> {
    let unavailable = |what: String| {
        Failure::new(
            Exit::Unavailable,
            format!("no converter answers at {}: {what}", path.display()),
        )
    };
    let mut stream = StdUnixStream::connect(path).map_err(|error| unavailable(error.to_string()))?;
    stream
        .set_read_timeout(Some(TIMEOUT))
        .map_err(|error| unavailable(error.to_string()))?;
    let mut text = Vec::new();
    stream
        .read_to_end(&mut text)
        .map_err(|error| unavailable(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| unavailable(error.to_string()))
}

const LONGEST: usize = 8 << 10;
const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The socket at this address: one that was passed, or a new one.
pub fn metrics_socket(
    address: Option<SocketAddr>,
    inherited: &mut InheritedSockets,
) -> Result<Option<std::net::TcpListener>, Failure> {
    let Some(address) = address else {
        return Ok(None);
    };
    let listen = || {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    inherited
        .claim_address(address)
        .map(|socket| socket.listener)
        .map_or_else(listen, Ok)
        .map(Some)
        .map_err(|error| Failure::from_io(&format!("metrics on {address}"), &error))
}

/// A socket within the event loop.
pub fn watched(listener: std::net::TcpListener) -> Result<TcpListener, Failure> {
    TcpListener::from_std(listener).map_err(|error| Failure::from_io("metrics", &error))
}

/// Accepts the next scrape; waits for ever without a socket.
pub async fn accept_scrape(listener: Option<&TcpListener>) -> Option<TcpStream> {
    match listener {
        Some(listener) => accepted(listener.accept()).await.map(|(stream, _)| stream),
        None => future::pending().await,
    }
}

/// Answers one request with `exposition`.
async fn answer_scrape(stream: TcpStream, exposition: impl FnOnce() -> String) {
    let mut stream = ResetOnDrop::new(stream);
    let deadline = Instant::now() + TIMEOUT;
    let mut inbox = Vec::new();
    while !inbox.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read_more(&mut inbox, LONGEST, Some(deadline)).await {
            Ok(count) if count > 0 && inbox.len() < LONGEST => {}
            _ => return,
        }
    }
    let (status, body) = if inbox.starts_with(b"GET /metrics ") {
        ("200 OK", exposition())
    } else {
        ("404 Not Found", "metrics are at /metrics\n".to_owned())
    };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {TYPE}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream
        .send_and_linger(&[head.as_bytes(), body.as_bytes()].concat())
        .await;
}
