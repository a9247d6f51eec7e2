//! The addresses to try for one target, as they become known.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::timeout;

use super::dialer::Dialer;
use super::error::DialError;
use super::fd_pool::LookUp;
use super::names::{Answer, Answers};
use super::order::Untried;
use super::server::DialOptions;
use super::target::Target;
use crate::config::Config;

/// How long an answer with IPv4 addresses waits for one with IPv6 addresses (RFC 8305 section 3).
const RESOLUTION_DELAY: Duration = Duration::from_millis(50);

/// The addresses of one target that may be connected to, in the order in which they are to be tried. Those that are checked
/// are those that are tried: nobody asks for the name a second time.
pub struct Addresses<'a> {
    dialer: &'a Dialer,
    source: Option<SocketAddr>,
    config: &'a Config,
    port: u16,
    untried: Untried,
    answers: Answers,
    /// While answers are waited for.
    look_up: Option<LookUp>,
    /// Why the last one of those that may not be connected to may not.
    refused: Option<DialError>,
    names_failed: bool,
}

impl<'a> Addresses<'a> {
    /// Asks for the target's name, if it has one.
    pub async fn of(
        dialer: &'a Dialer,
        target: &Target,
        options: &DialOptions,
        config: &'a Config,
    ) -> Self {
        let (mut untried, mut answers, mut look_up) =
            (Untried::default(), Answers::default(), None);
        let port = match target {
            Target::Address(address) => {
                untried.add(vec![address.ip()]);
                address.port()
            }
            Target::Name(name, port) => {
                if let Some(known) = dialer.names.in_hosts(name) {
                    untried.add(known);
                } else {
                    look_up = dialer.fd_pool.for_look_up(options.client).await;
                    answers = dialer.names.ask(name);
                }
                *port
            }
        };
        Self {
            dialer,
            source: options.source,
            config,
            port,
            untried,
            answers,
            look_up,
            refused: None,
            names_failed: false,
        }
    }

    /// The next one to try; waits for a late answer where there is none left. To drop the wait loses nothing.
    pub async fn next(&mut self) -> Option<SocketAddr> {
        loop {
            if self.untried.begins_with_four() && self.answers.lack_six() {
                if let Ok(answer) = timeout(RESOLUTION_DELAY, self.answers.next()).await {
                    self.take(answer);
                }
            }
            let known = self.known();
            if known.is_some() || self.is_last() {
                return known;
            }
            let answer = self.answers.next().await;
            self.take(answer);
        }
    }

    /// The next one of those that are known.
    pub fn known(&mut self) -> Option<SocketAddr> {
        loop {
            let address = SocketAddr::new(self.untried.take()?, self.port);
            match self.dialer.check(address, self.source, self.config) {
                Ok(address) => return Some(address),
                Err(why) => self.refused = Some(why),
            }
        }
    }

    /// Whether no other one will be known.
    pub fn is_last(&self) -> bool {
        self.untried.is_empty() && self.answers.have_come()
    }

    /// Why there was none to try.
    pub fn error(&mut self) -> DialError {
        let otherwise = if self.names_failed {
            DialError::NamesFailed
        } else {
            DialError::NoSuchName
        };
        self.refused.take().unwrap_or(otherwise)
    }

    fn take(&mut self, answer: Option<Answer>) {
        match answer {
            Some(Ok(found)) => self.untried.add(found),
            Some(Err(_)) => self.names_failed = true,
            None => {}
        }
        if self.answers.have_come() {
            self.look_up = None;
        }
    }
}
