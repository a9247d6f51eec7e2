//! Any HTTP server on this machine answers; what it says is passed on.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tributary_wire::http::exchange::{
    Action, ClientAfter, Ending, Event, Exchange, Input, ServerAfter,
};
use tributary_wire::http::{HeadLimits, Pseudonym, Refused, Request};

use crate::guest::{After, Guest, Server};
use crate::head::{next_request, refuse};

/// Without a byte either way it is over.
const SILENCE: Duration = Duration::from_secs(60);
const PIECE: usize = 64 << 10;

/// Passes requests to a server, and its answers back.
#[derive(Debug)]
pub struct Relay {
    server: SocketAddr,
    limits: HeadLimits,
}

impl Relay {
    /// To the server at this address. `number` is this process' own, for its name in Via.
    pub fn to(server: SocketAddr, number: u64) -> Self {
        let name = Pseudonym::new(&format!("tributary-backend-{number:016x}"));
        Self {
            server,
            limits: HeadLimits::new(name.unwrap_or_default()),
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
            let reused = kept.take();
            let is_kept = reused.is_some();
            let Ok(server) = self.connection(reused).await else {
                return refuse(guest, Refused::new(502, "the server is away")).await;
            };
            match self.ask(guest, server, is_kept, &request, kept).await {
                Ending::Repeat if is_kept => {}
                ending => return conclude(guest, ending).await,
            }
        }
    }
}

impl Relay {
    async fn connection(&self, reused: Option<TcpStream>) -> io::Result<TcpStream> {
        if let Some(server) = reused {
            return Ok(server);
        }
        let server = TcpStream::connect(self.server).await?;
        server.set_nodelay(true)?;
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
    ) -> Ending {
        let mut head = Vec::new();
        let begun = Exchange::begin(request, is_kept, &self.limits, SystemTime::now, &mut head);
        let exchange = match begun {
            Ok(exchange) => exchange,
            Err(refused) => return Ending::Refused(refused),
        };
        let mut carrier = Carrier {
            exchange,
            guest,
            server,
            inbox: Vec::new(),
            out: Vec::new(),
        };
        let ending = carrier.carry(&head).await;
        if let Ending::Completed(completed) = &ending {
            if completed.server == ServerAfter::Keep && carrier.inbox.is_empty() {
                *kept = Some(carrier.server);
            }
        }
        ending
    }
}

async fn conclude(guest: &mut Guest, ending: Ending) -> After {
    match ending {
        Ending::Completed(completed) => match completed.client {
            ClientAfter::Keep => After::Next,
            ClientAfter::Close | ClientAfter::Linger => After::Close,
        },
        Ending::Refused(refused) => refuse(guest, refused).await,
        // Another protocol is none that a front could go on with.
        Ending::Repeat | Ending::Broken { .. } | Ending::Switched { .. } => After::Reset,
    }
}

struct Carrier<'a> {
    exchange: Exchange<'a>,
    guest: &'a mut Guest,
    server: TcpStream,
    /// What came from the server and was shown in vain.
    inbox: Vec<u8>,
    /// Heads on their way out.
    out: Vec<u8>,
}

type Step = Result<(), Ending>;

impl Carrier<'_> {
    async fn carry(&mut self, head: &[u8]) -> Ending {
        if self.server.write_all(head).await.is_err() {
            self.exchange.handle(Event::ServerDeaf, &mut self.out);
        }
        loop {
            if let Err(ending) = self.step().await {
                return ending;
            }
        }
    }

    async fn step(&mut self) -> Step {
        if self.exchange.reads_client() && !self.guest.inbox.is_empty() {
            self.client_sent().await?;
        }
        self.happened(Event::Delivered)?;
        self.inbox.reserve(PIECE);
        let reads_client = self.exchange.reads_client();
        let next = async {
            tokio::select! {
                read = self.server.read_buf(&mut self.inbox) => From::Server(read),
                read = self.guest.read_more(), if reads_client => From::Client(read),
            }
        };
        match timeout(SILENCE, next).await {
            Ok(From::Server(Ok(0))) => self.happened(Event::Server(Input::End)),
            Ok(From::Server(Ok(_))) => self.server_sent().await,
            Ok(From::Server(Err(_))) => self.happened(Event::Server(Input::Reset)),
            Ok(From::Client(Ok(0))) => self.happened(Event::Client(Input::End)),
            Ok(From::Client(Ok(_))) => Ok(()),
            Ok(From::Client(Err(_))) => self.happened(Event::Client(Input::Reset)),
            Err(_) => self.happened(Event::Silence {
                server_clogged: false,
            }),
        }
    }

    /// The request's body goes on.
    async fn client_sent(&mut self) -> Step {
        let event = Event::Client(Input::Bytes(&self.guest.inbox));
        match self.exchange.handle(event, &mut self.out) {
            Action::End(ending) => Err(ending),
            Action::Pass { used, .. } => {
                let body: Vec<u8> = self.guest.inbox.drain(..used).collect();
                match timeout(SILENCE, self.server.write_all(&body)).await {
                    Ok(Ok(())) => Ok(()),
                    _ => self.happened(Event::ServerDeaf),
                }
            }
            Action::Wait | Action::Head(_) => Ok(()),
        }
    }

    /// A head and the content behind it leave in one write.
    async fn server_sent(&mut self) -> Step {
        let inbox = std::mem::take(&mut self.inbox);
        let mut used = 0;
        while used < inbox.len() {
            let rest = Event::Server(Input::Bytes(&inbox[used..]));
            match self.exchange.handle(rest, &mut self.out) {
                Action::Wait => break,
                Action::End(ending) => return Err(ending),
                Action::Head(length) => used += length,
                Action::Pass { used: length, data } => {
                    let content = &inbox[used..][data];
                    self.out.extend_from_slice(content);
                    used += length;
                }
            }
        }
        self.exchange.commit();
        self.inbox.extend_from_slice(&inbox[used..]);
        let out = std::mem::take(&mut self.out);
        match self.guest.send(&out).await {
            Ok(()) => Ok(()),
            Err(_) => self.happened(Event::Client(Input::Reset)),
        }
    }

    fn happened(&mut self, event: Event<'_>) -> Step {
        match self.exchange.handle(event, &mut self.out) {
            Action::End(ending) => Err(ending),
            Action::Wait | Action::Head(_) | Action::Pass { .. } => Ok(()),
        }
    }
}

enum From {
    Client(io::Result<usize>),
    Server(io::Result<usize>),
}
