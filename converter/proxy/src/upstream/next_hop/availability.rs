//! Whether the next converter gets requests.

use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};
use tributary_proto::convert::Request;

use super::request::connected;
use super::{NextHop, PIECE};
use crate::config::{Gateway, UpstreamSettings};
use crate::kernel::sockets;
use crate::upstream::hop_error::HopError;

/// It gets no requests for a while.
#[derive(Clone, Copy, Debug)]
pub struct Away {
    until: Instant,
    why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// Nothing comes from it: what it carries is lost.
    Silent,
    /// It served no request, or there was no way to it: that says nothing of what it carries.
    Failed,
    /// It wants no more than it has, and goes on with that.
    Full,
}

impl NextHop {
    /// Whether it may be tried.
    pub fn is_available(&self) -> bool {
        self.away().is_none()
    }

    /// Whether nothing will come by the connections that it carries.
    pub fn is_lost(&self) -> bool {
        self.away().is_some_and(|away| away.why == Why::Silent)
    }

    fn away(&self) -> Option<Away> {
        self.away.lock().filter(|away| Instant::now() < away.until)
    }

    /// It gets no requests for `retry`.
    pub(super) fn mark_down(&self, retry: Duration, why: Why, text: &str) {
        let until = Instant::now() + retry;
        let before = self.away.lock().replace(Away { until, why });
        if before.is_none_or(|before| before.why != why) {
            tracing::warn!("gateway {} is unavailable: {text}", self.address);
        }
    }

    /// It has answered; whatever it says, one that is full wants no requests before its time.
    pub(super) fn mark_up(&self) {
        let now = Instant::now();
        *self.heard_at.lock() = Some(now);
        let is_back = |away: &mut Away| away.why != Why::Full || now >= away.until;
        if self.away.lock().take_if(is_back).is_some() {
            tracing::info!("gateway {} is back", self.address);
        }
    }

    /// Something came by a connection that it carries.
    pub fn heard(&self) {
        *self.heard_at.lock() = Some(Instant::now());
    }

    /// Ready once it is unavailable, for a request that waits for an answer on a connection by way of it: where a process
    /// hangs, its kernel takes what is sent. A converter of which nothing was heard for a while is asked what it supports
    /// (RFC 8803 section 6.2.3), and is unavailable if it says nothing within the rest of `gateway.timeout`.
    pub async fn unavailable(&self, gateway: &Gateway, settings: &UpstreamSettings) {
        let doubt = gateway.timeout / 3;
        let rest = gateway.timeout.saturating_sub(doubt);
        let mut since = Instant::now();
        loop {
            since = since.max(self.heard_at.lock().unwrap_or(since));
            sleep_until(since + doubt).await;
            let _asking = self.asking.lock().await;
            if self.is_lost() {
                return;
            }
            if self.heard_at.lock().is_some_and(|at| at.elapsed() < doubt) {
                continue;
            }
            let asked = Instant::now();
            let why = match timeout(rest, self.hear(gateway, settings)).await {
                Ok(Ok(())) => {
                    self.mark_up();
                    continue;
                }
                Ok(Err(HopError::Unavailable(why))) => why,
                // What this machine lacks says nothing of the other.
                Ok(Err(_)) => {
                    since = Instant::now();
                    continue;
                }
                Err(_) => "it does not answer".to_owned(),
            };
            // The path of those that are there may be another one than a new connection's.
            if self.heard_at.lock().is_none_or(|at| at < asked) {
                self.mark_down(gateway.retry, Why::Silent, &why);
            }
        }
    }

    /// Asks it what it supports; any answer will do.
    async fn hear(&self, gateway: &Gateway, settings: &UpstreamSettings) -> Result<(), HopError> {
        let begin = || {
            let socket = sockets::to_next_hop(self.address, gateway.mptcp, false, settings)?;
            sockets::connect_with(&socket, self.address, &[]).map(|_| socket)
        };
        let socket = begin().map_err(|error| HopError::Request(error.into()))?;
        let mut stream = connected(socket).await.map_err(HopError::connecting)?;
        let message = Request::info().encode().unwrap_or_default(); // it is short
        let mut answer = Vec::new();
        let heard = async {
            stream.send(&message, None).await?;
            stream.read_more(&mut answer, PIECE, None).await
        };
        if heard.await.map_err(HopError::connected)? == 0 {
            return Err(HopError::no_answer());
        }
        stream.disarm();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use tokio::time::pause;

    use super::*;
    use crate::io::loopback;
    use crate::upstream::hop_error::Unserved;

    /// Where there is no route to it, nor for whoever asks whether it is there: connect(2) refuses multicast.
    #[test]
    fn a_converter_to_which_this_machine_has_no_route_gets_no_requests_and_loses_nothing() {
        loopback::block_on(async {
            pause();
            let hop = NextHop::new(([224, 0, 0, 1], 1).into(), None);
            let gateway: Gateway = toml::from_str("mptcp = false").expect("settings");
            let settings = UpstreamSettings::default();
            let waits = hop.unavailable(&gateway, &settings);
            timeout(10 * gateway.timeout, waits).await.expect_err("not lost");
            let unreachable = io::Error::from_raw_os_error(libc::ENETUNREACH);
            let unserved = hop.unserved(HopError::connecting(unreachable), false, &gateway);
            assert!(matches!(unserved, Unserved::Elsewhere));
            assert!(!hop.is_available() && !hop.is_lost());
        });
    }
}
