//! Connections by way of the next converter (RFC 8803), or of the next best one while that is unavailable.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::time::timeout;
use tributary_proto::http::Authority;

use super::addresses::Addresses;
use super::dialer::{Dialer, connect};
use super::hop_error::Unserved;
use super::next_hop::{ConnectRequest, Manner, PendingRequest};
use super::routes::{Route, deadline};
use super::{DialError, DialOptions, Frames, Upstream};
use crate::config::{Config, Fallback, Gateway, UpstreamSettings};

impl Dialer {
    /// Starts a connection to `server` via the next converter; `None` where the route is direct.
    pub(super) fn begin_via_gateway(
        &self,
        server: SocketAddr,
        gateway: &Gateway,
        settings: &UpstreamSettings,
    ) -> Result<Option<PendingRequest>, DialError> {
        match self.usable(server, None) {
            Some(Route::Via(hop, source_route)) => {
                let request = self.connect_request(server, &[], source_route.as_ref(), gateway);
                let begun = hop.begin(request, gateway, settings);
                begun.map(Some).map_err(|unserved| match unserved {
                    Unserved::Elsewhere => DialError::GatewayUnavailable,
                    Unserved::Refused(error) | Unserved::Final(error) => error,
                })
            }
            None if gateway.fallback == Fallback::Refuse => Err(DialError::GatewayUnavailable),
            Some(Route::Direct) | None => Ok(None),
        }
    }

    /// Completes a request that was started before. `early` was read from the client since, and goes behind it if there is
    /// no other route.
    pub(super) async fn resume_via_gateway(
        &self,
        pending: PendingRequest,
        options: DialOptions,
        early: &[u8],
        config: &Config,
    ) -> Result<Upstream, DialError> {
        let target = Authority::from(pending.request.server);
        if let Some(gateway) = &config.gateway {
            let hop = Arc::clone(&pending.hop);
            let path_trace = self.path_trace(&options.path_trace, gateway);
            let next_hops = self.next_hops();
            let routes = next_hops.towards(pending.request.server, None);
            let deadline = deadline(routes, gateway);
            let manner = Manner {
                early: if routes.len() > 1 { &[] } else { early },
                gateway,
                settings: &config.upstream,
                deadline,
                pool: None,
            };
            let end = hop.end_begun(pending, path_trace, manner);
            match timeout(config.timeouts.connect, end).await {
                Ok(Ok(Some(server))) => return Ok(server),
                Ok(Ok(None) | Err(Unserved::Elsewhere)) => {}
                Ok(Err(Unserved::Refused(_))) if routes.len() > 1 => {}
                Ok(Err(Unserved::Refused(error) | Unserved::Final(error))) => return Err(error),
                Err(_) => return Err(DialError::TimedOut),
            }
        } else {
            pending.give_up();
        }
        self.dial_via_gateway(&target, options, early, config).await
    }

    /// Connects to `target` via the next converter (RFC 8803), if its route has one; while that is unavailable, by the next
    /// best route, and at last as `fallback` says. `early` was read from the client before, and goes with the request of the
    /// last attempt only: no two attempts may send it to the server.
    pub async fn dial_via_gateway(
        &self,
        target: &Authority,
        options: DialOptions,
        early: &[u8],
        config: &Config,
    ) -> Result<Upstream, DialError> {
        let size = options.size;
        let attempt = async {
            let addresses = Addresses::of(self, target, &options, config).await;
            let mut addresses = addresses.via_gateway();
            let mut last = None;
            let mut direct = VecDeque::new();
            // For a late answer only those wait that have nothing else to do.
            while let Some(server) = if direct.is_empty() {
                addresses.next().await
            } else {
                addresses.known()
            } {
                let is_last = addresses.is_last() && direct.is_empty();
                let carried = if is_last { early } else { &[] };
                match Box::pin(self.try_routes(server, &options, carried, config)).await {
                    Ok(Some(server)) => return Ok(server.chosen_by(size)),
                    Ok(None) => direct.push_back(server),
                    Err(error) => last = Some(error),
                }
            }
            let settings = &config.upstream;
            let bytes = size.map(|size| size.bytes);
            let server = match direct.len() {
                0 => return Err(last.unwrap_or_else(|| addresses.error())),
                1 if addresses.is_last() => connect(direct[0], &options, early, settings).await?,
                _ => {
                    let next = async || match direct.pop_front() {
                        Some(server) => Some(server),
                        None => loop {
                            let late = addresses.next().await?;
                            if self.goes_directly(late, bytes, config) {
                                return Some(late);
                            }
                        },
                    };
                    self.connect_to_one(next, options.clone(), settings).await?
                }
            };
            Ok(server.chosen_by(size))
        };
        timeout(config.timeouts.connect, attempt)
            .await
            .unwrap_or(Err(DialError::TimedOut))
    }

    /// The first route to `server` that is available.
    fn usable(&self, server: SocketAddr, size: Option<u64>) -> Option<Route> {
        let next_hops = self.next_hops();
        let mut routes = next_hops.towards(server, size).iter();
        let usable = routes.find(|route| match route {
            Route::Direct => true,
            Route::Via(hop, _) => hop.is_available(),
        });
        usable.cloned()
    }

    /// Whether the route to `server` is direct, as far as is known.
    fn goes_directly(&self, server: SocketAddr, size: Option<u64>, config: &Config) -> bool {
        let fallback = config.gateway.as_ref().map(|gateway| gateway.fallback);
        match self.usable(server, size) {
            Some(Route::Direct) => true,
            Some(Route::Via(..)) => false,
            None => fallback != Some(Fallback::Refuse),
        }
    }

    /// Connects to `server` by the first route that works; `None` where the route is direct.
    async fn try_routes(
        &self,
        server: SocketAddr,
        options: &DialOptions,
        early: &[u8],
        config: &Config,
    ) -> Result<Option<Upstream>, DialError> {
        let Some(gateway) = &config.gateway else {
            return Ok(None);
        };
        let next_hops = self.next_hops();
        let named = options
            .source_route
            .as_ref()
            .map(|source_route| next_hops.named(source_route));
        let bytes = options.size.map(|size| size.bytes);
        let routes = match &named {
            Some(route) => std::slice::from_ref(route),
            None => next_hops.towards(server, bytes),
        };
        let mut refused = None;
        for (place, route) in routes.iter().enumerate() {
            let Route::Via(hop, source_route) = route else {
                return Ok(None);
            };
            let request = self.connect_request(server, &options.path_trace, source_route.as_ref(), gateway);
            let is_last = place + 1 == routes.len();
            let manner = Manner {
                early: if is_last { early } else { &[] },
                gateway,
                settings: &config.upstream,
                deadline: deadline(&routes[place..], gateway),
                pool: (options.frames == Frames::Allowed && gateway.reuse).then_some(&self.hop_pool),
            };
            match hop.ask(&request, manner).await {
                Ok(server) => return Ok(Some(server)),
                Err(Unserved::Final(error)) => return Err(error),
                Err(Unserved::Refused(error)) => refused = Some(error),
                Err(Unserved::Elsewhere) => {}
            }
        }
        match refused {
            Some(error) => Err(error),
            None if named.is_none() && gateway.fallback == Fallback::Direct => Ok(None),
            None => Err(DialError::GatewayUnavailable),
        }
    }

    fn connect_request(
        &self,
        server: SocketAddr,
        path_trace: &[u64],
        source_route: Option<&Vec<SocketAddr>>,
        gateway: &Gateway,
    ) -> ConnectRequest {
        ConnectRequest {
            server,
            path_trace: self.path_trace(path_trace, gateway),
            source_route: source_route.cloned(),
        }
    }

    /// The path trace for the next converter, with this one; empty without `loop_check`.
    fn path_trace(&self, before: &[u64], gateway: &Gateway) -> Vec<u64> {
        if gateway.loop_check {
            [before, &[self.number]].concat()
        } else {
            Vec::new()
        }
    }
}
