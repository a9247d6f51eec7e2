//! Any HTTP server on this machine answers; what it says is passed on.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::SystemTime;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::WriteHalf;
use tokio::time::timeout;
use tokio::try_join;
use tributary_wire::http::exchange::{
    Action, ClientAfter, Event, Exchange, ExchangeResult, Fault, Input, ServerAfter,
};
use tributary_wire::http::{HeadLimits, Refused, Request};

use crate::guest::{After, Guest, Server, read_some, read_urgent_data_inline};
use crate::head::{next_request, refuse};

const PIECE: usize = 64 << 10;

/// Passes requests to a server, and its answers back.
#[derive(Debug)]
pub struct Relay {
    server: SocketAddr,
    tells_client: bool,
    limits: HeadLimits,
}

impl Relay {
    /// To the server at this address, which may compress its answers: no Via is added.
    pub fn to(server: SocketAddr) -> Self {
        Self {
            server,
            tells_client: false,
            limits: HeadLimits::default(),
        }
    }

    /// Each connection begins with a line that tells the server who the client is: version 1 of the PROXY protocol, as `HAProxy`
    /// describes it.
    #[must_use]
    pub fn telling_client(self, tells_client: bool) -> Self {
        Self {
            tells_client,
            ..self
        }
    }
}

impl Server for Relay {
    /// The server's connection that served the request before.
    type Kept = Option<TcpStream>;

    async fn serve(&self, guest: &mut Guest, kept: &mut Option<TcpStream>) -> After {
        let request = match next_request(guest, &self.limits).await {
            Ok(request) => request,
            Err(after) => return after,
        };
        let request = match request.for_origin() {
            Ok(request) => request,
            Err(refused) => return refuse(guest, refused).await,
        };
        loop {
            let reused = kept.take().filter(is_quiet);
            let is_kept = reused.is_some();
            let Ok(server) = self.connection(reused, &guest.ends).await else {
                return refuse(guest, Refused::new(502, "the server is away")).await;
            };
            match self.ask(guest, server, is_kept, &request, kept).await {
                ExchangeResult::Retry if is_kept => {}
                ending => return conclude(guest, ending).await,
            }
        }
    }
}

impl Relay {
    /// To the server. One that is kept is for the same client.
    async fn connection(
        &self,
        reused: Option<TcpStream>,
        ends: &[SocketAddr; 2],
    ) -> io::Result<TcpStream> {
        if let Some(server) = reused {
            return Ok(server);
        }
        let mut server = TcpStream::connect(self.server).await?;
        // Small writes are only slower without it.
        let _ = server.set_nodelay(true);
        read_urgent_data_inline(&server);
        if self.tells_client {
            server.write_all(told(ends).as_bytes()).await?;
        }
        Ok(server)
    }

    /// The whole exchange; the server's connection is kept if it can serve another one.
    async fn ask(
        &self,
        guest: &mut Guest,
        server: TcpStream,
        is_kept: bool,
        request: &Request,
        kept: &mut Option<TcpStream>,
    ) -> ExchangeResult {
        let mut head = Vec::new();
        let begun = Exchange::begin(request, is_kept, &self.limits, SystemTime::now, &mut head);
        let exchange = match begun {
            Ok(exchange) => exchange,
            Err(refused) => return ExchangeResult::Refused(refused),
        };
        let mut carrier = Carrier {
            exchange,
            guest,
            server,
            inbox: Vec::new(),
            to_server: head,
            to_client: Vec::new(),
        };
        let ending = carrier.carry().await;
        if let ExchangeResult::Upgraded { status } = ending {
            return carrier.pass_all(status).await;
        }
        if matches!(ending, ExchangeResult::Refused(_)) {
            // The rest of an interim response; a client that does not take it does not take the refusal either.
            let _ = carrier.guest.send(&carrier.to_client).await;
        }
        if let ExchangeResult::Completed(completed) = &ending {
            if completed.server == ServerAfter::Keep {
                *kept = Some(carrier.server);
            }
        }
        ending
    }
}

/// Whether its server has neither ended it nor sent anything unasked.
fn is_quiet(server: &TcpStream) -> bool {
    let read = server.try_read(&mut [0; 1]);
    read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// A client's connection, from its address to the other one.
fn told(ends: &[SocketAddr; 2]) -> String {
    let [from, to] = ends.map(|end| (end.ip().to_canonical(), end.port()));
    let family = match (from.0, to.0) {
        (IpAddr::V4(_), IpAddr::V4(_)) => "TCP4",
        (IpAddr::V6(_), IpAddr::V6(_)) => "TCP6",
        _ => return "PROXY UNKNOWN\r\n".to_owned(),
    };
    format!("PROXY {family} {} {} {} {}\r\n", from.0, to.0, from.1, to.1)
}

async fn conclude(guest: &mut Guest, ending: ExchangeResult) -> After {
    match ending {
        ExchangeResult::Completed(completed) => match completed.client {
            ClientAfter::Keep => After::Next,
            ClientAfter::Close | ClientAfter::Linger => After::Close,
        },
        ExchangeResult::Upgraded { .. } => After::Close,
        ExchangeResult::Refused(refused) => refuse(guest, refused).await,
        ExchangeResult::Retry | ExchangeResult::Aborted { .. } => After::Reset,
    }
}

/// Both directions go on side by side: a server may answer while its request is still coming, and neither end has to read
/// before the other one has.
struct Carrier<'a> {
    exchange: Exchange<'a>,
    guest: &'a mut Guest,
    server: TcpStream,
    /// What came from the server and was shown in vain.
    inbox: Vec<u8>,
    /// Until it is sent, no more of the request is taken.
    to_server: Vec<u8>,
    /// Until it is sent, no more of the response is taken.
    to_client: Vec<u8>,
}

type Step = Result<(), ExchangeResult>;

impl Carrier<'_> {
    async fn carry(&mut self) -> ExchangeResult {
        loop {
            if let Err(ending) = self.step().await {
                return ending;
            }
        }
    }

    /// Both ends speak another protocol from now on (RFC 9110 section 7.8), until both have ended. Fronts relay requests for
    /// that. It may rest as long as it likes, but not without its client.
    async fn pass_all(self, status: u16) -> ExchangeResult {
        let Self { guest, server, .. } = self;
        let first = [
            [self.to_client, self.inbox].concat(),
            [self.to_server, std::mem::take(&mut guest.inbox)].concat(),
        ];
        match pass_all(guest, server, first).await {
            Ok(()) => ExchangeResult::Upgraded { status },
            Err(_) => ExchangeResult::Aborted {
                status: Some(status),
                fault: Fault::ServerReset,
            },
        }
    }

    async fn step(&mut self) -> Step {
        if self.takes_request() && !self.guest.inbox.is_empty() {
            self.client_sent()?;
        }
        if self.to_server.is_empty() {
            self.happened(Event::RequestFlushed)?;
        }
        if self.to_client.is_empty() {
            self.happened(Event::ResponseFlushed)?;
        }
        let Ok(moved) = timeout(self.guest.idle, self.moved()).await else {
            let upstream_blocked = !self.to_server.is_empty();
            return self.happened(Event::IdleTimeout { upstream_blocked });
        };
        match moved {
            Moved::FromServer(Ok(0)) => self.happened(Event::Server(Input::End)),
            Moved::FromServer(Ok(_)) => self.server_sent(),
            Moved::FromServer(Err(_)) => self.happened(Event::Server(Input::Reset)),
            Moved::FromClient(Ok(0)) => self.happened(Event::Client(Input::End)),
            Moved::FromClient(Ok(_)) => Ok(()),
            Moved::FromClient(Err(_)) | Moved::ToClient(Err(_)) => {
                self.happened(Event::Client(Input::Reset))
            }
            Moved::ToServer(Ok(count)) => {
                self.to_server.drain(..count);
                Ok(())
            }
            Moved::ToServer(Err(_)) => {
                self.to_server.clear();
                self.happened(Event::UpstreamWriteFailed)
            }
            Moved::ToClient(Ok(count)) => {
                self.to_client.drain(..count);
                self.guest.sent += count as u64;
                Ok(())
            }
        }
    }

    fn takes_request(&self) -> bool {
        self.exchange.reads_client() && self.to_server.is_empty()
    }

    /// Waits until bytes go one of the four ways.
    async fn moved(&mut self) -> Moved {
        let takes_request = self.takes_request();
        let takes_response = self.exchange.reads_server() && self.to_client.is_empty();
        if takes_request {
            self.guest.inbox.reserve(PIECE);
        }
        self.inbox.reserve(PIECE);
        let (from_server, mut server) = self.server.split();
        let (from_client, mut client) = self.guest.stream.split();
        tokio::select! {
            read = read_some(from_server.as_ref(), &mut self.inbox), if takes_response => Moved::FromServer(read),
            read = read_some(from_client.as_ref(), &mut self.guest.inbox), if takes_request => Moved::FromClient(read),
            count = server.write(&self.to_server), if !self.to_server.is_empty() => Moved::ToServer(count),
            count = client.write(&self.to_client), if !self.to_client.is_empty() => Moved::ToClient(count),
        }
    }

    /// The request's body goes on.
    fn client_sent(&mut self) -> Step {
        let event = Event::Client(Input::Bytes(&self.guest.inbox));
        match self.exchange.handle(event, &mut self.to_client) {
            Action::End(ending) => Err(ending),
            Action::Pass { used, .. } => {
                self.to_server.extend(self.guest.inbox.drain(..used));
                Ok(())
            }
            Action::Wait | Action::Head(_) => Ok(()),
        }
    }

    /// A head and the content behind it leave in one write.
    fn server_sent(&mut self) -> Step {
        let inbox = std::mem::take(&mut self.inbox);
        let mut used = 0;
        while used < inbox.len() {
            let rest = Event::Server(Input::Bytes(&inbox[used..]));
            match self.exchange.handle(rest, &mut self.to_client) {
                Action::Wait => break,
                Action::End(ending) => {
                    // Of a response that is refused nothing goes on.
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

/// What comes `first` goes to the client, and to the server.
async fn pass_all(guest: &mut Guest, mut server: TcpStream, first: [Vec<u8>; 2]) -> io::Result<()> {
    let alive = TcpKeepalive::new().with_time(guest.idle);
    // A kernel that does not take it finds a client that vanished later.
    let _ = SockRef::from(&guest.stream).set_tcp_keepalive(&alive);
    let [to_client, to_server] = first;
    guest.send(&to_client).await?;
    server.write_all(&to_server).await?;
    let (from_server, mut to_server) = server.split();
    let (from_client, mut to_client) = guest.stream.split();
    let (_, sent) = try_join!(
        copy(from_client.as_ref(), &mut to_server),
        copy(from_server.as_ref(), &mut to_client),
    )?;
    guest.sent += sent;
    Ok(())
}

/// Passes all on until the end, and the end as well; how many bytes.
async fn copy(from: &TcpStream, to: &mut WriteHalf<'_>) -> io::Result<u64> {
    let (mut sent, mut bytes) = (0, Vec::with_capacity(PIECE));
    while read_some(from, &mut bytes).await? > 0 {
        to.write_all(&bytes).await?;
        sent += bytes.len() as u64;
        bytes.clear();
    }
    to.shutdown().await?;
    Ok(sent)
}

/// What became of the first direction that was ready: how many bytes went.
enum Moved {
    FromServer(io::Result<usize>),
    FromClient(io::Result<usize>),
    ToServer(io::Result<usize>),
    ToClient(io::Result<usize>),
}
