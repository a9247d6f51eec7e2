//! A client's connection on its way to back ends, and back.
//!
//! While it is away its socket stays here, frozen, and drops what comes: when the switch forgets the rule, no packet is
//! answered by a reset. At no time do two machines send for it, but while its client is being reset.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::time::Duration;

use handoff_link::part;
use handoff_protocol::{Denial, Rule, What};
use rustix::net::connect_unspec;
use tokio::net::TcpStream;
use tokio::task::{spawn_local, yield_now};
use tokio::time::sleep;
use tributary_offload::{Checkpoint, is_unchanged, restore, send_probe};

use crate::back_end::Away;
use crate::links::Links;
use crate::lost::Lost;

/// The client of a lost connection is provoked so often, with so much between: a packet can be lost.
const PROVOCATIONS: u32 = 3;
const BETWEEN: Duration = Duration::from_millis(100);

/// What became of a connection that was to be handed over.
#[derive(Debug)]
pub enum Outcome {
    /// It is in its socket as before; all that came is in the bytes.
    Stayed(Lost),
    /// It is back, in another socket, for a request of which some bytes came. The one before has no connection any more.
    Back {
        /// The new one.
        stream: TcpStream,
        /// What came.
        bytes: Vec<u8>,
    },
    /// A back end has ended it in order, or the client has.
    Over,
    /// It was lost at the back end with this number, and the client reset.
    Lost(Lost, usize),
}

/// Who hears of a connection's requests while it is away, and decides where it goes. Back ends go by their numbers.
pub trait Guide {
    /// A back end has the connection, and what came of its request: nothing of it waits here any more.
    fn left(&self);

    /// A back end has answered a request by `sent` bytes.
    fn answered(&self, by: usize, sent: u64, end: AnswerEnd);

    /// To which back end the connection goes, which is given back by this one with these bytes, if that can be said.
    fn next(&self, from: usize, bytes: &[u8]) -> Option<usize>;
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerEnd {
    /// The client has acknowledged all of it.
    Whole,
    /// With the connection; the client may have broken off before its end.
    WithConnection,
}

/// Hands a connection to the back end with this number, with a request of which `bytes` came.
pub async fn hand_over(
    links: &Rc<Links>,
    stream: &TcpStream,
    bytes: &mut Vec<u8>,
    to: usize,
    guide: &impl Guide,
) -> Outcome {
    let Some(mut journey) = Journey::begin(links, stream) else {
        return Outcome::Stayed(Lost::Kernel(io::ErrorKind::AddrNotAvailable.into()));
    };
    match journey.set_out(to, bytes).await {
        Ok(stay) => {
            *bytes = Vec::new();
            guide.left();
            journey.go_on(stay, guide).await
        }
        Err(Failed::Before(lost)) => {
            if let Some(frozen) = &journey.frozen {
                // A socket that cannot go on is found by who reads it.
                let _ = frozen.release(stream);
            }
            Outcome::Stayed(lost)
        }
        Err(Failed::After(lost, rule)) => journey.lost(lost, to, rule).await,
    }
}

/// A connection at a back end.
struct Stay {
    at: usize,
    away: Away,
    rule: Rule,
    /// The back end before, which has not said yet that it gave back all.
    before: Option<Away>,
    /// It ends there without another answer.
    is_closing: bool,
}

/// A failed step.
enum Failed {
    /// Nobody else has the connection.
    Before(Lost),
    /// Somebody else may have it, by this rule.
    After(Lost, Rule),
}

struct Journey<'a> {
    links: &'a Rc<Links>,
    stream: &'a TcpStream,
    client: SocketAddrV4,
    service: SocketAddrV4,
    /// As it was when it was frozen last, here or elsewhere, with the addresses here.
    frozen: Option<Checkpoint>,
}

impl<'a> Journey<'a> {
    fn begin(links: &'a Rc<Links>, stream: &'a TcpStream) -> Option<Self> {
        Some(Self {
            links,
            stream,
            client: four(stream.peer_addr().ok()?)?,
            service: four(stream.local_addr().ok()?)?,
            frozen: None,
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

    /// Out of the socket here, and to the back end.
    async fn set_out(&mut self, to: usize, bytes: &mut Vec<u8>) -> Result<Stay, Failed> {
        let rule = self.rule(to);
        let installed = self.links.switch.install(rule);
        // What is asked goes out now, and the answer comes meanwhile.
        yield_now().await;
        let parted = part(self.stream, bytes);
        let is_installed = installed.await;
        let before = match parted {
            Ok(frozen) => {
                self.frozen = Some(frozen.clone());
                if !is_installed {
                    Lost::Switch
                } else if is_unchanged(self.stream, &frozen).unwrap_or(false) {
                    return self.hand(to, rule, frozen, bytes).await;
                } else {
                    Lost::TooLate
                }
            }
            Err(parting) => Lost::Parting(parting),
        };
        self.links.switch.remove(rule).await;
        Err(Failed::Before(before))
    }

    /// The rule is there, and the connection in no socket that hears or speaks.
    async fn hand(
        &mut self,
        to: usize,
        rule: Rule,
        frozen: Checkpoint,
        bytes: &[u8],
    ) -> Result<Stay, Failed> {
        let hand = What::Hand {
            frozen: Box::new(frozen),
            bytes: bytes.to_vec(),
        };
        let id = self.links.number();
        let Some(mut away) = self.links.back_ends[to].hand(id, hand) else {
            self.links.switch.remove(rule).await;
            return Err(Failed::Before(Lost::BackEnd));
        };
        // However long it takes: a busy back end is no reason to reset a client, and one that is gone ends the session.
        match away.next().await {
            Some(What::Taken) => Ok(Stay {
                at: to,
                away,
                rule,
                before: None,
                is_closing: false,
            }),
            Some(What::Denied(denial)) => {
                tracing::warn!("a connection is not handed to {}: {denial}", rule.back_end);
                self.links.switch.remove(rule).await;
                Err(Failed::Before(Lost::BackEnd))
            }
            // It may have it all the same.
            _ => {
                away.say(What::Abort);
                Err(Failed::After(Lost::BackEnd, rule))
            }
        }
    }

    /// From back end to back end, until it is over or back here.
    async fn go_on(mut self, mut stay: Stay, guide: &impl Guide) -> Outcome {
        if !self.kept_still() {
            stay.away.say(What::Abort);
            return self.lost(Lost::TooLate, stay.at, stay.rule).await;
        }
        loop {
            let said = tokio::select! {
                biased;
                gave_back_all = gave_back_all(&mut stay.before) => {
                    stay.before = None;
                    if !gave_back_all {
                        stay.away.say(What::Abort);
                        return self.lost(Lost::TooLate, stay.at, stay.rule).await;
                    }
                    continue;
                }
                said = stay.away.next() => said,
            };
            let next = match said {
                Some(What::Returned {
                    sent,
                    mut frozen,
                    bytes,
                }) => {
                    guide.answered(stay.at, sent, AnswerEnd::Whole);
                    frozen.local = self.service.into();
                    self.frozen = Some(*frozen);
                    self.lead(stay, bytes, guide).await
                }
                Some(What::Stuck { sent, bytes }) => {
                    guide.answered(stay.at, sent, AnswerEnd::Whole);
                    let is_its_own = guide.next(stay.at, &bytes) == Some(stay.at);
                    stay.is_closing = !is_its_own;
                    stay.away
                        .say(if is_its_own { What::Keep } else { What::Close });
                    Ok(stay)
                }
                Some(What::Ended { sent }) => {
                    if !stay.is_closing {
                        guide.answered(stay.at, sent, AnswerEnd::WithConnection);
                    }
                    spawn_local(Rc::clone(&self.links.switch).remove_later(stay.rule));
                    return Outcome::Over;
                }
                // Nothing to be said now.
                Some(_) => Ok(stay),
                None => return self.lost(Lost::BackEnd, stay.at, stay.rule).await,
            };
            match next {
                Ok(there) => stay = there,
                Err(outcome) => return outcome,
            }
        }
    }

    /// Where a connection goes on that was given back with these bytes, or what becomes of it instead.
    async fn lead(
        &mut self,
        stay: Stay,
        bytes: Vec<u8>,
        guide: &impl Guide,
    ) -> Result<Stay, Outcome> {
        let next = guide.next(stay.at, &bytes);
        let Some(to) = next.filter(|to| self.links.is_up(*to)) else {
            return Err(self.back(stay, bytes).await);
        };
        if to == stay.at {
            stay.away.say(What::Keep);
            return Ok(stay);
        }
        match self.pass_on(to, &bytes).await {
            Ok(there) => {
                stay.away.say(What::Released);
                Ok(Stay {
                    before: Some(stay.away),
                    ..there
                })
            }
            Err(Failed::Before(_)) => Err(self.back(stay, bytes).await),
            Err(Failed::After(lost, rule)) => {
                stay.away.say(What::Released);
                Err(self.lost(lost, to, rule).await)
            }
        }
    }

    /// Whether nothing came here since it was frozen here.
    fn kept_still(&self) -> bool {
        self.frozen
            .as_ref()
            .is_some_and(|frozen| is_unchanged(self.stream, frozen).unwrap_or(false))
    }

    /// From one back end to another one.
    async fn pass_on(&mut self, to: usize, bytes: &[u8]) -> Result<Stay, Failed> {
        let rule = self.rule(to);
        let Some(frozen) = self.frozen.clone() else {
            return Err(Failed::Before(Lost::BackEnd));
        };
        if !self.links.switch.install(rule).await {
            self.links.switch.remove(rule).await;
            return Err(Failed::Before(Lost::Switch));
        }
        self.hand(to, rule, frozen, bytes).await
    }

    /// Back into a socket here. Only then the rule ends: nobody but a frozen or deaf socket hears the client meanwhile. The
    /// back end looks meanwhile whether it gave back all.
    async fn back(&mut self, stay: Stay, bytes: Vec<u8>) -> Outcome {
        let Stay { at, away, rule, .. } = stay;
        let Some(frozen) = &self.frozen else {
            return self.lost(Lost::BackEnd, at, rule).await;
        };
        match thawed(self.stream, frozen) {
            Ok(stream) => {
                away.say(What::Released);
                self.links.switch.remove(rule).await;
                if !gave_back_all(&mut Some(away)).await {
                    // It resets the client, if it can.
                    let _ = connect_unspec(&stream);
                    return self.lost(Lost::TooLate, at, rule).await;
                }
                Outcome::Back { stream, bytes }
            }
            Err(error) => {
                away.say(What::Released);
                self.lost(Lost::Kernel(error), at, rule).await
            }
        }
    }

    /// Resets the client: with neither a rule nor a socket, the kernel answers what it is provoked to say.
    async fn lost(&mut self, lost: Lost, at: usize, rule: Rule) -> Outcome {
        self.links.switch.remove(rule).await;
        // Frozen, it goes without a word.
        let _ = connect_unspec(self.stream);
        if let Some(frozen) = self.frozen.take() {
            spawn_local(provoke_often(frozen));
        }
        Outcome::Lost(lost, at)
    }
}

/// Whether a back end that was told to let go of a connection says that it had given back all that it acknowledged; nothing
/// else is known of one that is gone. Never ready without one.
async fn gave_back_all(before: &mut Option<Away>) -> bool {
    let Some(away) = before else {
        return std::future::pending().await;
    };
    loop {
        match away.next().await {
            Some(What::Denied(Denial::Late)) => return false,
            Some(What::Done) | None => return true,
            Some(_) => {}
        }
    }
}

async fn provoke_often(frozen: Checkpoint) {
    for _ in 0..PROVOCATIONS {
        if let Err(error) = send_probe(&frozen) {
            tracing::warn!(
                "{} is not told that its connection is lost: {error}",
                frozen.remote
            );
        }
        sleep(BETWEEN).await;
    }
}

/// The connection in a new socket; the old one has none any more, and says nothing.
fn thawed(old: &TcpStream, frozen: &Checkpoint) -> io::Result<TcpStream> {
    connect_unspec(old)?;
    let stream = std::net::TcpStream::from(restore(frozen)?);
    // Small writes are only slower without it.
    let _ = stream.set_nodelay(true);
    stream.set_nonblocking(true)?;
    TcpStream::from_std(stream)
}

fn four(address: SocketAddr) -> Option<SocketAddrV4> {
    match address {
        SocketAddr::V4(address) => Some(address),
        SocketAddr::V6(address) => {
            let four = address.ip().to_ipv4_mapped()?;
            Some(SocketAddrV4::new(four, address.port()))
        }
    }
}
