//! Forwards requests to an HTTP server on this machine.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::WriteHalf;
use tokio::time::timeout;
use tokio::try_join;
use tributary_proto::http::exchange::{
    Action, ClientAfter, Event, Exchange, ExchangeResult, Fault, Input, ServerAfter, is_break,
};
use tributary_proto::http::{HeadLimits, Refused};

use crate::connection::{ClientConnection, NextStep, Server, inline_urgent_data, read_some};
use crate::head::{next_request, refuse};

const READ_SIZE: usize = 64 << 10;
/// A server that ends a connection which has rested for so long may do so at the very moment at which a request is sent.
/// Servers' own limits begin at some two seconds.
const RESTED: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Relay {
    server: SocketAddr,
    tells_client: bool,
    limits: HeadLimits,
}

impl Relay {
    /// To the server at this address, which may compress its responses: no Via is added. If it `tells_client`, each
    /// connection begins with a line of the PROXY protocol, version 1, as specified by `HAProxy`.
    pub fn to(server: SocketAddr, tells_client: bool) -> Self {
        Self {
            server,
            tells_client,
            limits: HeadLimits::default(),
        }
    }
}

impl Server for Relay {
    /// The connection to the server that served the previous request, and when it had.
    type State = Option<Kept>;

    async fn serve(&self, client: &mut ClientConnection, state: &mut Option<Kept>) -> NextStep {
        let request = match next_request(client, &self.limits).await {
            Ok(request) => request,
            Err(next_step) => return next_step,
        };
        let request = match request.for_origin() {
            Ok(request) => request,
            Err(refused) => return refuse(client, refused).await,
        };
        let head = match request.forwarded() {
            Ok((_, head)) => head,
            Err(refused) => return refuse(client, refused).await,
        };
        loop {
            let kept = state.take().filter(|kept| may_serve(kept, request.is_repeatable()));
            let is_kept = kept.is_some();
            let server = match kept {
                Some((server, _)) => Ok(server),
                None => self.connect(&client.ends).await,
            };
            let Ok(server) = server else {
                return refuse(client, Refused::new(502, "the server is away")).await;
            };
            let mut driver = ExchangeDriver {
                exchange: Exchange::begin(&request, is_kept, &self.limits, SystemTime::now),
                client,
                server,
                inbox: Vec::new(),
                to_server: head.to_vec(),
                to_client: Vec::new(),
            };
            match driver.run().await {
                ExchangeResult::Retry if is_kept => {}
                result => return driver.conclude(result, state).await,
            }
        }
    }
}

impl Relay {
    /// A new connection to the server, for one client.
    async fn connect(&self, ends: &[SocketAddr; 2]) -> io::Result<TcpStream> {
        let mut server = TcpStream::connect(self.server).await?;
        // Without it small writes are only slower.
        let _ = server.set_nodelay(true);
        inline_urgent_data(&server);
        if self.tells_client {
            server.write_all(proxy_header(ends).as_bytes()).await?;
        }
        Ok(server)
    }
}

/// A connection to the server, and when it has served a request.
pub type Kept = (TcpStream, Instant);

/// Whether the server has neither closed the connection nor sent anything unasked, as the kernel knows at this moment. For a
/// request that must not be sent twice it must have served just now: the server will hardly end it then (RFC 9112 section
/// 9.3.1).
fn may_serve((server, since): &Kept, repeatable: bool) -> bool {
    let read = rustix::net::recv(server, &mut [0; 1], RecvFlags::DONTWAIT);
    matches!(read, Err(Errno::WOULDBLOCK)) && (repeatable || since.elapsed() < RESTED)
}

/// The line of the PROXY protocol for a client and the address that it connected to.
fn proxy_header(ends: &[SocketAddr; 2]) -> String {
    let [from, to] = ends.map(|end| (end.ip().to_canonical(), end.port()));
    let family = match (from.0, to.0) {
        (IpAddr::V4(_), IpAddr::V4(_)) => "TCP4",
        (IpAddr::V6(_), IpAddr::V6(_)) => "TCP6",
        _ => return "PROXY UNKNOWN\r\n".to_owned(),
    };
    format!("PROXY {family} {} {} {} {}\r\n", from.0, to.0, from.1, to.1)
}

/// Both directions at the same time: a server may respond while the request is still arriving, and neither end must read
/// before the other.
struct ExchangeDriver<'a> {
    exchange: Exchange<'a>,
    client: &'a mut ClientConnection,
    server: TcpStream,
    /// Bytes of the server's that are no complete head yet.
    inbox: Vec<u8>,
    /// Until it is sent, no more of the request is read.
    to_server: Vec<u8>,
    /// Until it is sent, no more of the response is read.
    to_client: Vec<u8>,
}

type Step = Result<(), ExchangeResult>;

impl ExchangeDriver<'_> {
    async fn run(&mut self) -> ExchangeResult {
        loop {
            if let Err(ending) = self.step().await {
                return ending;
            }
        }
    }

    /// What becomes of the client's connection; the server's is `kept` if it can serve another exchange.
    async fn conclude(self, result: ExchangeResult, kept: &mut Option<Kept>) -> NextStep {
        match result {
            ExchangeResult::Completed(completed) => {
                // It serves no other client.
                if matches!(completed.server, ServerAfter::Keep | ServerAfter::KeepForClient) {
                    *kept = Some((self.server, Instant::now()));
                }
                match completed.client {
                    ClientAfter::Keep => NextStep::KeepAlive,
                    ClientAfter::Close | ClientAfter::Linger => NextStep::Close,
                }
            }
            ExchangeResult::Upgraded { .. } => match self.pass_all().await {
                Ok(()) => NextStep::Close,
                Err(_) => NextStep::Reset,
            },
            ExchangeResult::Refused(refused) => {
                // The rest of an interim response; a client that does not read it does not read the refusal either.
                let _ = self.client.send(&self.to_client).await;
                refuse(self.client, refused).await
            }
            ExchangeResult::Aborted {
                fault: Fault::ServerReset,
                ..
            } => {
                // What came before is delivered: the reset that follows would discard it.
                if self.client.send(&self.to_client).await.is_ok() {
                    let _ = self.client.acknowledged().await;
                }
                NextStep::Reset
            }
            ExchangeResult::Retry | ExchangeResult::Aborted { .. } => NextStep::Reset,
        }
    }

    /// Both ends have switched to another protocol (RFC 9110 section 7.8): forwards all, until both have ended. Fronts relay
    /// such requests. It may pause as long as it likes, unless its client is dead.
    async fn pass_all(self) -> io::Result<()> {
        let Self { client, mut server, .. } = self;
        let alive = TcpKeepalive::new().with_time(client.idle);
        // Without keepalive, a dead client is only noticed later.
        let _ = SockRef::from(&client.stream).set_tcp_keepalive(&alive);
        client.send(&[self.to_client, self.inbox].concat()).await?;
        server.write_all(&self.to_server).await?;
        server.write_all(&std::mem::take(&mut client.inbox)).await?;
        let (from_server, mut to_server) = server.split();
        let (from_client, mut to_client) = client.stream.split();
        let server_broke = AtomicBool::new(false);
        let up = async {
            match copy(from_client.as_ref(), &mut to_server).await {
                // What the server sent before it took no more is still to be read.
                Err(Broken::Sink(error)) => {
                    server_broke.store(is_break(&error), Ordering::Relaxed);
                    Ok(false)
                }
                Err(Broken::Source(error)) => Err(error),
                Ok(_) => Ok(to_server.shutdown().await.is_ok()),
            }
        };
        let down = async {
            let copied = copy(from_server.as_ref(), &mut to_client).await;
            let sent = copied.map_err(|(Broken::Source(error) | Broken::Sink(error))| error)?;
            if !server_broke.load(Ordering::Relaxed) {
                to_client.shutdown().await?;
            }
            Ok(sent)
        };
        let passed = try_join!(up, down);
        if let Ok((true, sent)) = passed {
            client.sent += sent;
            return Ok(());
        }
        // The reset that follows would discard what is on its way.
        client.acknowledged().await?;
        passed.and(Err(io::ErrorKind::BrokenPipe.into()))
    }

    async fn step(&mut self) -> Step {
        if self.takes_request() && !self.client.inbox.is_empty() {
            self.client_sent()?;
        }
        if self.to_server.is_empty() {
            self.happened(Event::RequestFlushed)?;
        }
        if self.to_client.is_empty() {
            self.happened(Event::ResponseFlushed)?;
        }
        let Ok(moved) = timeout(self.client.idle, self.moved()).await else {
            let upstream_blocked = !self.to_server.is_empty();
            return self.happened(Event::IdleTimeout { upstream_blocked });
        };
        match moved {
            Moved::FromServer(Ok(0)) => self.happened(Event::Server(Input::End)),
            Moved::FromServer(Ok(_)) => self.server_sent(),
            Moved::FromServer(Err(_)) => self.happened(Event::Server(Input::Reset)),
            Moved::FromClient(Ok(0)) => self.happened(Event::Client(Input::End)),
            Moved::FromClient(Ok(_)) => Ok(()),
            Moved::FromClient(Err(_)) | Moved::ToClient(Err(_)) => self.happened(Event::Client(Input::Reset)),
            Moved::ToServer(Ok(count)) => {
                self.to_server.drain(..count);
                Ok(())
            }
            Moved::ToServer(Err(error)) => {
                self.to_server.clear();
                let broke = is_break(&error);
                self.happened(Event::UpstreamWriteFailed { broke })
            }
            Moved::ToClient(Ok(count)) => {
                self.to_client.drain(..count);
                self.client.sent += count as u64;
                Ok(())
            }
        }
    }

    fn takes_request(&self) -> bool {
        self.exchange.reads_client() && self.to_server.is_empty()
    }

    /// Waits until bytes move in one of the four directions.
    async fn moved(&mut self) -> Moved {
        let takes_request = self.takes_request();
        let takes_response = self.exchange.reads_server() && self.to_client.is_empty();
        if takes_request {
            self.client.inbox.reserve(READ_SIZE);
        }
        self.inbox.reserve(READ_SIZE);
        let (from_server, mut server) = self.server.split();
        let (from_client, mut client) = self.client.stream.split();
        tokio::select! {
            read = read_some(from_server.as_ref(), &mut self.inbox), if takes_response => Moved::FromServer(read),
            read = read_some(from_client.as_ref(), &mut self.client.inbox), if takes_request => Moved::FromClient(read),
            count = server.write(&self.to_server), if !self.to_server.is_empty() => Moved::ToServer(count),
            count = client.write(&self.to_client), if !self.to_client.is_empty() => Moved::ToClient(count),
        }
    }

    /// Forwards the request's body.
    fn client_sent(&mut self) -> Step {
        let event = Event::Client(Input::Bytes(&self.client.inbox));
        match self.exchange.handle(event, &mut self.to_client) {
            Action::End(ending) => Err(ending),
            Action::Pass { used, .. } => {
                self.to_server.extend(self.client.inbox.drain(..used));
                Ok(())
            }
            Action::Wait | Action::Head(_) => Ok(()),
        }
    }

    /// Head and content leave in one write.
    fn server_sent(&mut self) -> Step {
        let inbox = std::mem::take(&mut self.inbox);
        let mut used = 0;
        while used < inbox.len() {
            let rest = Event::Server(Input::Bytes(&inbox[used..]));
            match self.exchange.handle(rest, &mut self.to_client) {
                Action::Wait => break,
                Action::End(ending) => {
                    // Nothing of a refused response is forwarded.
                    self.to_client.clear();
                    return Err(ending);
                }
                Action::Head(length) => used += length,
                Action::Pass { used: length, data } => {
                    self.to_client.extend_from_slice(&inbox[used..][data]);
                    used += length;
                }
            }
        }
        self.exchange.commit();
        self.inbox.extend_from_slice(&inbox[used..]);
        Ok(())
    }

    fn happened(&mut self, event: Event<'_>) -> Step {
        match self.exchange.handle(event, &mut self.to_client) {
            Action::End(ending) => Err(ending),
            Action::Wait | Action::Head(_) | Action::Pass { .. } => Ok(()),
        }
    }
}

/// The end that a copy failed at.
enum Broken {
    Source(io::Error),
    Sink(io::Error),
}

/// Copies until the end; returns the number of bytes.
async fn copy(from: &TcpStream, to: &mut WriteHalf<'_>) -> Result<u64, Broken> {
    let (mut sent, mut bytes) = (0, Vec::with_capacity(READ_SIZE));
    while read_some(from, &mut bytes).await.map_err(Broken::Source)? > 0 {
        to.write_all(&bytes).await.map_err(Broken::Sink)?;
        sent += bytes.len() as u64;
        bytes.clear();
    }
    Ok(sent)
}

/// The direction that moved first, and how many bytes.
enum Moved {
    FromServer(io::Result<usize>),
    FromClient(io::Result<usize>),
    ToServer(io::Result<usize>),
    ToClient(io::Result<usize>),
}
