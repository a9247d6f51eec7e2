//! The transfer of a client's connection to back ends, and back.
//!
//! Meanwhile its socket stays here in repair mode, and drops all packets: if the switch loses the rule, no packet is answered by a
//! reset. Two machines never send for it at the same time, except while its client is being reset.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::time::Duration;

use handoff_link::detach;
use handoff_protocol::{Payload, Rejection, Rule};
use rustix::net::connect_unspec;
use tokio::net::TcpStream;
use tokio::task::{spawn_local, yield_now};
use tokio::time::sleep;
use tributary_offload::{Checkpoint, is_unchanged, restore, send_probe};

use crate::back_end::RemoteConnection;
use crate::error::HandoffError;
use crate::links::Links;

/// The client of a lost connection is provoked several times, since packets may be lost.
const PROBES: u32 = 3;
const PROBE_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub enum Outcome {
    /// It is in its socket as before; all received bytes are in the buffer.
    NotHanded(HandoffError),
    /// It is back, in a new socket, with the beginning of a request. The old socket is closed.
    Returned { stream: TcpStream, bytes: Vec<u8> },
    /// The back end or the client has closed it.
    Closed,
    /// It was lost at the back end with this number, and the client was reset.
    Lost(HandoffError, usize),
}

/// Follows a connection's requests while it is away, and decides where it goes. Back ends are numbers.
pub trait RequestRouter {
    /// A back end has taken the connection over with the received bytes of the request.
    fn handed_over(&self);

    /// A back end has answered a request by `sent` bytes.
    fn answered(&self, by: usize, sent: u64, end: AnswerEnd);

    /// The back end for the next request, of which these bytes were received; `None` if it is to be served here.
    fn route(&self, from: usize, bytes: &[u8]) -> Option<usize>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerEnd {
    /// The client has acknowledged all of it.
    Whole,
    /// With the connection; the client may have closed it before the end of the answer.
    WithConnection,
}

/// Hands a connection to the back end with this number, with a request of which `bytes` were received.
pub async fn hand_over(
    links: &Rc<Links>,
    stream: &TcpStream,
    bytes: &mut Vec<u8>,
    to: usize,
    router: &impl RequestRouter,
) -> Outcome {
    let Some(mut transfer) = Transfer::begin(links, stream) else {
        return Outcome::NotHanded(HandoffError::Kernel(io::ErrorKind::AddrNotAvailable.into()));
    };
    match transfer.start(to, bytes).await {
        Ok(handed) => {
            *bytes = Vec::new();
            router.handed_over();
            transfer.follow(handed, router).await
        }
        Err(StepError::NotHanded(error)) => {
            if let Some(checkpoint) = &transfer.checkpoint {
                // If the socket cannot continue, its next reader finds out.
                let _ = checkpoint.release(stream);
            }
            Outcome::NotHanded(error)
        }
        Err(StepError::MaybeHanded(error, rule)) => transfer.reset_client(error, to, rule).await,
    }
}

/// A connection at a back end.
struct HandedOver {
    at: usize,
    remote: RemoteConnection,
    rule: Rule,
    /// The previous back end, until it has confirmed that it returned everything.
    previous: Option<RemoteConnection>,
    /// It will be closed without another answer.
    is_closing: bool,
}

enum StepError {
    /// No back end has the connection.
    NotHanded(HandoffError),
    /// A back end may have the connection, by this rule.
    MaybeHanded(HandoffError, Rule),
}

struct Transfer<'a> {
    links: &'a Rc<Links>,
    stream: &'a TcpStream,
    client: SocketAddrV4,
    service: SocketAddrV4,
    /// The last known state, with the addresses here.
    checkpoint: Option<Checkpoint>,
}

impl<'a> Transfer<'a> {
    fn begin(links: &'a Rc<Links>, stream: &'a TcpStream) -> Option<Self> {
        Some(Self {
            links,
            stream,
            client: to_v4(stream.peer_addr().ok()?)?,
            service: to_v4(stream.local_addr().ok()?)?,
            checkpoint: None,
        })
    }

    fn rule(&self, to: usize) -> Rule {
        Rule {
            client: self.client,
            service: self.service,
            back_end: self.links.back_ends[to].hand_off,
            number: self.links.rule_number(),
        }
    }

    /// From the socket here to a back end.
    async fn start(&mut self, to: usize, bytes: &mut Vec<u8>) -> Result<HandedOver, StepError> {
        let rule = self.rule(to);
        let installed = self.links.switch.install(rule);
        // The request to the switch is sent now, and the reply arrives meanwhile.
        yield_now().await;
        let checkpoint = match detach(self.stream, bytes) {
            Ok(checkpoint) => checkpoint,
            Err(parting) => return Err(self.not_handed(HandoffError::Detach(parting), rule).await),
        };
        self.checkpoint = Some(checkpoint.clone());
        let may_serve = async {
            if !installed.await {
                return Err(HandoffError::Switch);
            }
            if !self.is_still_unchanged() {
                return Err(HandoffError::TooLate);
            }
            Ok(())
        };
        self.hand(to, rule, checkpoint, bytes, may_serve).await
    }

    /// No socket receives or sends for the connection. While the switch is waited for, the back end restores it; only then
    /// it serves it: without a rule its answer would be lost, and the front could not relay what is served already.
    async fn hand(
        &self,
        to: usize,
        rule: Rule,
        checkpoint: Checkpoint,
        bytes: &[u8],
        may_serve: impl Future<Output = Result<(), HandoffError>>,
    ) -> Result<HandedOver, StepError> {
        let hand = Payload::HandOver {
            checkpoint: Box::new(checkpoint),
            bytes: bytes.to_vec(),
        };
        let id = self.links.number();
        let Some(mut remote) = self.links.back_ends[to].hand(id, hand) else {
            return Err(self.not_handed(HandoffError::BackEnd, rule).await);
        };
        if let Err(error) = may_serve.await {
            // The reply is of no interest: its socket there has taken nothing.
            remote.send(Payload::Release);
            return Err(self.not_handed(error, rule).await);
        }
        // A new session does not know the connection.
        if remote.is_lost() || !remote.send(Payload::Serve) {
            return Err(self.not_handed(HandoffError::BackEnd, rule).await);
        }
        // Without a time limit: a busy back end is no reason to reset a client, and a dead one ends the session.
        match remote.next().await {
            Some(Payload::Accepted) => Ok(HandedOver {
                at: to,
                remote,
                rule,
                previous: None,
                is_closing: false,
            }),
            Some(Payload::Rejected(rejection)) => {
                tracing::warn!("{} rejects a connection: {rejection}", rule.back_end);
                Err(self.not_handed(HandoffError::BackEnd, rule).await)
            }
            // It may have taken it over all the same.
            _ => {
                remote.send(Payload::Abort);
                Err(StepError::MaybeHanded(HandoffError::BackEnd, rule))
            }
        }
    }

    /// No back end serves the connection. The rule is removed, whether or not it was confirmed.
    async fn not_handed(&self, error: HandoffError, rule: Rule) -> StepError {
        self.links.switch.remove(rule).await;
        StepError::NotHanded(error)
    }

    /// Follows the connection from back end to back end, until it is closed or back here.
    async fn follow(mut self, mut handed: HandedOver, router: &impl RequestRouter) -> Outcome {
        if !self.is_still_unchanged() {
            handed.remote.send(Payload::Abort);
            return self.reset_client(HandoffError::TooLate, handed.at, handed.rule).await;
        }
        loop {
            let on_message = tokio::select! {
                biased;
                returned_all = returned_all(&mut handed.previous) => {
                    handed.previous = None;
                    if !returned_all {
                        handed.remote.send(Payload::Abort);
                        return self.reset_client(HandoffError::TooLate, handed.at, handed.rule).await;
                    }
                    continue;
                }
                on_message = handed.remote.next() => on_message,
            };
            let next = match on_message {
                Some(Payload::Returned {
                    sent,
                    mut checkpoint,
                    bytes,
                }) => {
                    router.answered(handed.at, sent, AnswerEnd::Whole);
                    checkpoint.local = self.service.into();
                    self.checkpoint = Some(*checkpoint);
                    self.route_returned(handed, bytes, router).await
                }
                Some(Payload::Undetachable { sent, bytes }) => {
                    router.answered(handed.at, sent, AnswerEnd::Whole);
                    let is_its_own = router.route(handed.at, &bytes) == Some(handed.at);
                    handed.is_closing = !is_its_own;
                    handed
                        .remote
                        .send(if is_its_own { Payload::Keep } else { Payload::Close });
                    Ok(handed)
                }
                Some(Payload::Closed { sent }) => {
                    if !handed.is_closing {
                        router.answered(handed.at, sent, AnswerEnd::WithConnection);
                    }
                    spawn_local(Rc::clone(&self.links.switch).remove_later(handed.rule));
                    return Outcome::Closed;
                }
                // Of no interest now.
                Some(_) => Ok(handed),
                None => {
                    return self.reset_client(HandoffError::BackEnd, handed.at, handed.rule).await;
                }
            };
            match next {
                Ok(next) => handed = next,
                Err(outcome) => return outcome,
            }
        }
    }

    /// Decides about a returned connection. Returns where it is then, or how the transfer ends.
    async fn route_returned(
        &mut self,
        mut handed: HandedOver,
        bytes: Vec<u8>,
        router: &impl RequestRouter,
    ) -> Result<HandedOver, Outcome> {
        let next = router.route(handed.at, &bytes).filter(|to| self.links.is_up(*to));
        if next == Some(handed.at) {
            handed.remote.send(Payload::Keep);
            return Ok(handed);
        }
        // Nobody listens to the previous back end any more once the connection is elsewhere.
        if handed.previous.is_some() && !returned_all(&mut handed.previous).await {
            handed.remote.send(Payload::Abort);
            return Err(self.reset_client(HandoffError::TooLate, handed.at, handed.rule).await);
        }
        let Some(to) = next else {
            return Err(self.take_back(handed, bytes).await);
        };
        match self.move_to(to, &bytes).await {
            Ok(next) => {
                handed.remote.send(Payload::Release);
                Ok(HandedOver {
                    previous: Some(handed.remote),
                    ..next
                })
            }
            Err(StepError::NotHanded(_)) => Err(self.take_back(handed, bytes).await),
            Err(StepError::MaybeHanded(error, rule)) => {
                handed.remote.send(Payload::Release);
                Err(self.reset_client(error, to, rule).await)
            }
        }
    }

    /// Whether nothing was received here since its checkpoint.
    fn is_still_unchanged(&self) -> bool {
        self.checkpoint
            .as_ref()
            .is_some_and(|checkpoint| is_unchanged(self.stream, checkpoint).unwrap_or(false))
    }

    /// From one back end to another one.
    async fn move_to(&self, to: usize, bytes: &[u8]) -> Result<HandedOver, StepError> {
        let rule = self.rule(to);
        let Some(checkpoint) = self.checkpoint.clone() else {
            return Err(StepError::NotHanded(HandoffError::BackEnd));
        };
        let installed = self.links.switch.install(rule);
        let may_serve = async { installed.await.then_some(()).ok_or(HandoffError::Switch) };
        self.hand(to, rule, checkpoint, bytes, may_serve).await
    }

    /// Restores it in a socket here. Only then the rule is removed: until then only sockets that drop everything get the
    /// client's packets. Meanwhile the back end checks whether it returned everything.
    async fn take_back(&mut self, handed: HandedOver, bytes: Vec<u8>) -> Outcome {
        let HandedOver { at, remote, rule, .. } = handed;
        let Some(checkpoint) = &self.checkpoint else {
            return self.reset_client(HandoffError::BackEnd, at, rule).await;
        };
        match restore_here(self.stream, checkpoint) {
            Ok(stream) => {
                remote.send(Payload::Release);
                self.links.switch.remove(rule).await;
                if !returned_all(&mut Some(remote)).await {
                    // This resets the client, if it can.
                    let _ = connect_unspec(&stream);
                    return self.reset_client(HandoffError::TooLate, at, rule).await;
                }
                Outcome::Returned { stream, bytes }
            }
            Err(error) => {
                remote.send(Payload::Release);
                self.reset_client(HandoffError::Kernel(error), at, rule).await
            }
        }
    }

    /// Resets the client: without a rule and a socket, the kernel answers the packets that the client is provoked to send.
    async fn reset_client(&mut self, error: HandoffError, at: usize, rule: Rule) -> Outcome {
        self.links.switch.remove(rule).await;
        // In repair mode a socket closes silently.
        let _ = connect_unspec(self.stream);
        if let Some(checkpoint) = self.checkpoint.take() {
            spawn_local(probe_repeatedly(checkpoint));
        }
        Outcome::Lost(error, at)
    }
}

/// Whether the released back end confirms that it had returned everything that it acknowledged; a dead one cannot deny it.
/// Without one, never ready.
async fn returned_all(previous: &mut Option<RemoteConnection>) -> bool {
    let Some(remote) = previous else {
        return std::future::pending().await;
    };
    loop {
        match remote.next().await {
            Some(Payload::Rejected(Rejection::Late)) => return false,
            Some(Payload::Done) | None => return true,
            Some(_) => {}
        }
    }
}

async fn probe_repeatedly(checkpoint: Checkpoint) {
    for _ in 0..PROBES {
        if let Err(error) = send_probe(&checkpoint) {
            tracing::warn!("a client cannot be reset: {error}");
        }
        sleep(PROBE_INTERVAL).await;
    }
}

/// Restores the connection in a new socket. The old one is closed silently.
fn restore_here(old: &TcpStream, checkpoint: &Checkpoint) -> io::Result<TcpStream> {
    connect_unspec(old)?;
    let stream = std::net::TcpStream::from(restore(checkpoint)?);
    // Without it small writes are only slower.
    let _ = stream.set_nodelay(true);
    stream.set_nonblocking(true)?;
    TcpStream::from_std(stream)
}

fn to_v4(address: SocketAddr) -> Option<SocketAddrV4> {
    match address {
        SocketAddr::V4(address) => Some(address),
        SocketAddr::V6(address) => {
            let to_v4 = address.ip().to_ipv4_mapped()?;
            Some(SocketAddrV4::new(to_v4, address.port()))
        }
    }
}
