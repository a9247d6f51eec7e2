//! A client's connection on its way to back ends, and back.
//!
//! While it is away its socket stays here, frozen, and drops what comes: when the switch forgets the rule, no packet is
//! answered by a reset. At no time do two machines send for it, but while its client is being reset.

use std::fmt;
use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::rc::Rc;
use std::time::Duration;

use handoff_link::{Parting, part};
use handoff_protocol::{Rule, What};
use rustix::net::connect_unspec;
use tokio::net::TcpStream;
use tokio::task::{spawn_local, yield_now};
use tokio::time::{sleep, timeout};
use tributary_transplant::{Frozen, keeps_still, provoke, release, thaw};

use crate::back_end::Away;
use crate::links::Links;

/// A back end may take so long to take a connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
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
        /// Bytes that the back ends have sent.
        sent: u64,
    },
    /// A back end has ended it in order, or the client has.
    Over {
        /// Bytes that the back ends have sent.
        sent: u64,
    },
    /// It was lost, and the client reset.
    Lost(Lost, u64),
}

/// What went wrong.
#[derive(Debug)]
pub enum Lost {
    /// Its state cannot be had.
    Parting(Parting),
    /// The switch does not lead it there.
    Switch,
    /// The back end is away, or does not take it.
    BackEnd,
    /// Something came at the last moment, and was acknowledged here.
    TooLate,
    /// The kernel refuses to go on with it.
    Kernel(io::Error),
}

impl Lost {
    /// For logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Parting(_) => "not-frozen",
            Self::Switch => "switch-away",
            Self::BackEnd => "back-end-lost",
            Self::TooLate => "too-late",
            Self::Kernel(_) => "not-thawed",
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parting(why) => why.fmt(f),
            Self::Switch => f.write_str("the switch does not lead it there"),
            Self::BackEnd => f.write_str("the back end is away, or does not take it"),
            Self::TooLate => f.write_str("something came at the last moment"),
            Self::Kernel(error) => write!(f, "the kernel refuses to go on with it: {error}"),
        }
    }
}

/// Hands a connection to the back end with this number, with a request of which `bytes` came. When it is given back, `next`
/// says to which back end it goes with these bytes, if that can be said.
pub async fn hand_over(
    links: &Rc<Links>,
    stream: &TcpStream,
    bytes: &mut Vec<u8>,
    to: usize,
    next: impl Fn(&[u8]) -> Option<usize>,
) -> Outcome {
    let Some(mut journey) = Journey::begin(links, stream) else {
        return Outcome::Stayed(Lost::Kernel(io::ErrorKind::AddrNotAvailable.into()));
    };
    match journey.set_out(to, bytes).await {
        Ok((away, rule)) => journey.go_on(away, rule, to, next).await,
        Err(Failed::Before(lost)) => {
            // It is frozen if the back end was asked, and else as before.
            let _ = release(stream);
            Outcome::Stayed(lost)
        }
        Err(Failed::After(lost, rule)) => journey.lost(lost, rule).await,
    }
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
    /// As it was when it was frozen last, here or elsewhere.
    frozen: Option<Frozen>,
    sent: u64,
}

impl<'a> Journey<'a> {
    fn begin(links: &'a Rc<Links>, stream: &'a TcpStream) -> Option<Self> {
        Some(Self {
            links,
            stream,
            client: four(stream.peer_addr().ok()?)?,
            service: four(stream.local_addr().ok()?)?,
            frozen: None,
            sent: 0,
        })
    }

    fn rule(&self, to: usize) -> Rule {
        Rule {
            client: self.client,
            service: self.service,
            back_end: self.links.back_ends[to].hand_off,
        }
    }

    /// Out of the socket here, and to the back end.
    async fn set_out(&mut self, to: usize, bytes: &mut Vec<u8>) -> Result<(Away, Rule), Failed> {
        let rule = self.rule(to);
        let installed = self.links.switch.install(rule);
        // What is asked goes out now, and the answer comes meanwhile.
        yield_now().await;
        let parted = part(self.stream, bytes);
        let is_installed = installed.await;
        let before = match parted {
            Ok(frozen) if is_installed => {
                if keeps_still(self.stream, &frozen).unwrap_or(false) {
                    return self.hand(to, rule, frozen, bytes).await;
                }
                Lost::TooLate
            }
            Ok(_) => Lost::Switch,
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
        frozen: Frozen,
        bytes: &[u8],
    ) -> Result<(Away, Rule), Failed> {
        self.frozen = Some(frozen.clone());
        let hand = What::Hand {
            frozen: Box::new(frozen),
            bytes: bytes.to_vec(),
        };
        let id = self.links.number();
        let Some(mut away) = self.links.back_ends[to].hand(id, hand) else {
            self.links.switch.remove(rule).await;
            return Err(Failed::Before(Lost::BackEnd));
        };
        match timeout(ANSWER_TIMEOUT, away.next()).await {
            Ok(Some(What::Taken)) => {}
            Ok(Some(What::Denied(denial))) => {
                tracing::warn!("a connection is not handed to {}: {denial}", rule.back_end);
                self.links.switch.remove(rule).await;
                return Err(Failed::Before(Lost::BackEnd));
            }
            // It may have it all the same.
            _ => {
                away.say(What::Abort);
                return Err(Failed::After(Lost::BackEnd, rule));
            }
        }
        Ok((away, rule))
    }

    /// From back end to back end, until it is over or back here.
    async fn go_on(
        mut self,
        mut away: Away,
        mut rule: Rule,
        mut at: usize,
        next: impl Fn(&[u8]) -> Option<usize>,
    ) -> Outcome {
        if !self.kept_still() {
            away.say(What::Abort);
            return self.lost(Lost::TooLate, rule).await;
        }
        loop {
            let (frozen, bytes) = match away.next().await {
                Some(What::Returned {
                    sent,
                    frozen,
                    bytes,
                }) => {
                    self.sent += sent;
                    (*frozen, bytes)
                }
                Some(What::Ended { sent }) => {
                    spawn_local(Rc::clone(&self.links.switch).remove_later(rule));
                    return Outcome::Over {
                        sent: self.sent + sent,
                    };
                }
                Some(_) => continue,
                None => return self.lost(Lost::BackEnd, rule).await,
            };
            let mut here = frozen;
            here.local = self.service.into();
            match next(&bytes).filter(|to| self.links.is_up(*to)) {
                Some(same) if same == at => {
                    away.say(What::Keep);
                }
                Some(other) => match self.pass_on(other, here, &bytes).await {
                    Ok((there, its_rule)) => {
                        away.say(What::Released);
                        (away, rule, at) = (there, its_rule, other);
                    }
                    Err(Failed::Before(_)) => return self.back(&away, rule, bytes).await,
                    Err(Failed::After(lost, rule)) => {
                        away.say(What::Released);
                        return self.lost(lost, rule).await;
                    }
                },
                None => {
                    self.frozen = Some(here);
                    return self.back(&away, rule, bytes).await;
                }
            }
        }
    }

    /// Whether nothing came here since it was frozen here.
    fn kept_still(&self) -> bool {
        self.frozen
            .as_ref()
            .is_some_and(|frozen| keeps_still(self.stream, frozen).unwrap_or(false))
    }

    /// From one back end to another one.
    async fn pass_on(
        &mut self,
        to: usize,
        frozen: Frozen,
        bytes: &[u8],
    ) -> Result<(Away, Rule), Failed> {
        let rule = self.rule(to);
        self.frozen = Some(frozen.clone());
        if !self.links.switch.install(rule).await {
            self.links.switch.remove(rule).await;
            return Err(Failed::Before(Lost::Switch));
        }
        self.hand(to, rule, frozen, bytes).await
    }

    /// Back into a socket here. Only then the rule ends: nobody but a frozen or deaf socket hears the client meanwhile.
    async fn back(self, away: &Away, rule: Rule, bytes: Vec<u8>) -> Outcome {
        let Some(frozen) = self.frozen.clone() else {
            return self.lost(Lost::BackEnd, rule).await;
        };
        match thawed(self.stream, &frozen) {
            Ok(stream) => {
                self.links.switch.remove(rule).await;
                away.say(What::Released);
                Outcome::Back {
                    stream,
                    bytes,
                    sent: self.sent,
                }
            }
            Err(error) => {
                away.say(What::Released);
                self.lost(Lost::Kernel(error), rule).await
            }
        }
    }

    /// Resets the client: with neither a rule nor a socket, the kernel answers what it is provoked to say.
    async fn lost(self, lost: Lost, rule: Rule) -> Outcome {
        self.links.switch.remove(rule).await;
        // Frozen, it goes without a word.
        let _ = connect_unspec(self.stream);
        if let Some(frozen) = self.frozen {
            spawn_local(provoke_often(frozen));
        }
        Outcome::Lost(lost, self.sent)
    }
}

async fn provoke_often(frozen: Frozen) {
    for _ in 0..PROVOCATIONS {
        if let Err(error) = provoke(&frozen) {
            tracing::warn!(
                "{} is not told that its connection is lost: {error}",
                frozen.remote
            );
        }
        sleep(BETWEEN).await;
    }
}

/// The connection in a new socket; the old one has none any more, and says nothing.
fn thawed(old: &TcpStream, frozen: &Frozen) -> io::Result<TcpStream> {
    connect_unspec(old)?;
    let stream = std::net::TcpStream::from(thaw(frozen)?);
    stream.set_nodelay(true)?;
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
