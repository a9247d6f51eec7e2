//! Watches for clients' SYNs, and starts the connections to their servers.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use tokio::net::UdpSocket;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{MissedTickBehavior, interval};
use tributary_proto::syn::{self, Syn};

use super::EarlyConnects;
use super::table::{NotStarted, Pair};
use crate::config::{Config, Listen, ListenerKind};
use crate::kernel::netstat::syn_cookies_sent;
use crate::observe::metrics::EarlySyns;
use crate::policy::admission::{client_key, is_allowed};
use crate::upstream::{DialOptions, Dialer};
use tributary_sys::packet_filter::{
    WHOLE, and, byte, if_equal, index, index_ipv4_header, indexed_byte, indexed_half, take,
};

/// How often floods and expired connections are looked for.
const STEP: Duration = Duration::from_millis(50);
/// SYNs that are handled before other tasks run.
const TURN: usize = 64;

// EtherType of what comes in (linux/if_ether.h). A socket for one of them sees nothing that goes out.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
// Offsets in IPv4, IPv6 and TCP headers.
const PROTOCOL4: u32 = 9;
const NEXT_HEADER6: u32 = 6;
const LENGTH6: u32 = 40;
const DESTINATION_PORT: u32 = 2;
const FLAGS: u32 = 13;
const TCP: u32 = 6;
const SYN: u32 = 0x02;
/// FIN, SYN, RST and ACK.
const STATE: u32 = 0x17;

/// A packet socket: tokio has no type of its own for it, and this one does nothing to it but poll(2) and recv(2).
type PacketSocket = UdpSocket;

/// Watches until it is dropped, which resets its unclaimed connections.
#[derive(Debug)]
pub struct SynWatcher {
    task: JoinHandle<()>,
    early: Arc<EarlyConnects>,
    number: u64,
}

impl SynWatcher {
    /// Watches for SYNs to the listeners of `config` with `early_syn`, and begins connections after some time: until then
    /// another process may accept their clients. Must be called in a `LocalRuntime`. Needs `CAP_NET_RAW`.
    pub fn start(
        after: Duration,
        config: &Arc<Config>,
        early: &Arc<EarlyConnects>,
        dialer: Dialer,
        counters: EarlySyns,
    ) -> io::Result<Self> {
        let wanting = config.listen.iter().filter(|listen| listen.early_syn());
        let listeners: HashMap<u16, Listen> = wanting.map(|listen| (listen.address.port(), listen.clone())).collect();
        let ports: Vec<u16> = listeners.keys().copied().collect();
        let sockets = [open(IPV4, &ports)?, open(IPV6, &ports)?];
        let number = early.number();
        let handler = SynHandler {
            from: Instant::now() + after,
            number,
            listeners,
            config: Arc::clone(config),
            early: Arc::clone(early),
            dialer,
            counters,
        };
        Ok(Self {
            task: spawn_local(run(sockets, handler)),
            early: Arc::clone(early),
            number,
        })
    }
}

impl Drop for SynWatcher {
    fn drop(&mut self) {
        self.task.abort();
        self.early.give_up_of(self.number);
    }
}

struct SynHandler {
    from: Instant,
    number: u64,
    listeners: HashMap<u16, Listen>,
    config: Arc<Config>,
    early: Arc<EarlyConnects>,
    dialer: Dialer,
    counters: EarlySyns,
}

async fn run(sockets: [PacketSocket; 2], handler: SynHandler) {
    let [four, six] = &sockets;
    let mut flood = SynCookieMonitor::default();
    flood.note(syn_cookies_sent(), Instant::now());
    let mut step = interval(STEP);
    step.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut busy = false;
    loop {
        let now = Instant::now();
        if flood.is_on(now) {
            // The kernel drops what nobody reads, which is the cheapest that there is; it is stale when the flood is over.
            step.tick().await;
            handler.give_up_waiting();
            flood.note(syn_cookies_sent(), Instant::now());
            for socket in &sockets {
                handler.counters.count("flood", skip_all(socket));
            }
            continue;
        }
        tokio::select! {
            // Without a SYN of late there is nothing to look after, and no reason to wake.
            _ = step.tick(), if busy || !handler.early.table().is_empty() => {
                handler.give_up_waiting();
                if std::mem::take(&mut busy) {
                    flood.note(syn_cookies_sent(), Instant::now());
                }
            }
            syns = next(four) => busy |= handler.answer(&syns),
            syns = next(six) => busy |= handler.answer(&syns),
        }
    }
}

/// Waits for a packet, and returns at most [`TURN`] that have arrived.
async fn next(socket: &PacketSocket) -> Vec<Syn> {
    let mut syns = Vec::new();
    // An interface that went down is no reason to stop (packet(7), ENETDOWN).
    if socket.readable().await.is_err() {
        return syns;
    }
    let mut packet = [0; WHOLE as usize];
    while syns.len() < TURN {
        match socket.try_recv(&mut packet) {
            Ok(length) => syns.extend(syn::parse(&packet[..length])),
            Err(_) => break,
        }
    }
    syns
}

impl SynHandler {
    /// Handles SYNs; returns whether there were any.
    fn answer(&self, syns: &[Syn]) -> bool {
        for syn in syns {
            self.counters.count(self.begin(syn), 1);
        }
        !syns.is_empty()
    }

    /// Starts the connection that a SYN asks for, if it may. Returns the outcome, for metrics.
    fn begin(&self, syn: &Syn) -> &'static str {
        let Some(listen) = self.listeners.get(&syn.server.port()) else {
            return "other";
        };
        if syn.join {
            return "join";
        }
        if Instant::now() < self.from {
            return "hand-over";
        }
        // Who comes to an explicit listener says in the SYN where to, or later.
        let server = match (&listen.kind, syn.destination) {
            (ListenerKind::Transparent(_), _) => syn.server,
            (_, Some(destination)) => destination.into(),
            (_, None) => return "no-destination",
        };
        let pair = Pair {
            client: syn.client,
            server,
        };
        if !is_allowed(syn.client.ip(), &self.config.clients) {
            return "client-not-allowed";
        }
        if self.dialer.is_own(syn.client.ip()) {
            return "loop";
        }
        let client = client_key(syn.client.ip(), &self.config.clients);
        // Held meanwhile: a client that is accepted in this moment waits, and does not begin a second one.
        let mut table = self.early.table();
        match table.may_begin(pair, client, &self.config.early_syn) {
            Ok(()) => {}
            Err(NotStarted::Duplicate) => return "duplicate",
            Err(NotStarted::LimitReached) => return "limit-reached",
        }
        let options = DialOptions {
            source: listen.keeps_client_address().then_some(syn.client),
            // Nobody else can be told which error it was.
            icmp: matches!(listen.kind, ListenerKind::Convert(_)),
            ..DialOptions::default()
        };
        match self.dialer.begin(server, &options, listen.via_gateway, &self.config) {
            Ok(begun) => {
                table.put(pair, client, begun, self.number, Instant::now());
                "started"
            }
            Err(error) => error.name(),
        }
    }

    fn give_up_waiting(&self) {
        let abandoned = self.early.give_up(self.config.early_syn.timeout);
        self.counters.abandoned(abandoned);
    }
}

fn open(ether_type: u16, ports: &[u16]) -> io::Result<PacketSocket> {
    let protocol = Protocol::from(i32::from(ether_type.to_be()));
    // Without the link layer's header (packet(7)).
    let socket = Socket::new(Domain::PACKET, Type::DGRAM.nonblocking(), Some(protocol))?;
    socket.attach_filter(&filter(ether_type, ports))?;
    // What came before the filter did.
    while (&socket).read(&mut [0; 1]).is_ok() {}
    PacketSocket::from_std(socket.into())
}

/// Discards all packets that have arrived, and returns their number.
fn skip_all(socket: &PacketSocket) -> usize {
    let mut skipped = 0;
    while socket.try_recv(&mut [0; 1]).is_ok() {
        skipped += 1;
    }
    skipped
}

/// Lets through SYNs to these ports. Fragments and extension headers are for `syn::parse`.
fn filter(ether_type: u16, ports: &[u16]) -> Vec<SockFilter> {
    let (protocol, start) = if ether_type == IPV4 {
        (PROTOCOL4, index_ipv4_header())
    } else {
        (NEXT_HEADER6, index(LENGTH6))
    };
    let mut filter = vec![
        byte(protocol),
        if_equal(TCP, 1, 0),
        take(0),
        start,
        indexed_byte(FLAGS),
        and(STATE),
        if_equal(SYN, 1, 0),
        take(0),
        indexed_half(DESTINATION_PORT),
    ];
    for port in ports {
        filter.extend([if_equal(u32::from(*port), 0, 1), take(WHOLE)]);
    }
    filter.push(take(0));
    filter
}

/// The flood is over this long after the last cookie.
const CALM: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub struct SynCookieMonitor {
    cookies: Option<u64>,
    over_at: Option<Instant>,
}

impl SynCookieMonitor {
    /// Records how many cookies were sent so far.
    pub fn note(&mut self, cookies: u64, now: Instant) {
        if self.cookies.is_some_and(|before| cookies > before) {
            self.over_at = Some(now + CALM);
        }
        self.cookies = Some(cookies);
    }

    pub fn is_on(&self, now: Instant) -> bool {
        self.over_at.is_some_and(|over_at| now < over_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_begins_with_a_cookie_and_ends_when_none_was_sent_for_long() {
        let (mut flood, now) = (SynCookieMonitor::default(), Instant::now());
        flood.note(70, now);
        assert!(!flood.is_on(now)); // those were of an earlier time
        flood.note(71, now);
        assert!(flood.is_on(now));
        flood.note(71, now + CALM / 2);
        assert!(flood.is_on(now + CALM / 2));
        assert!(!flood.is_on(now + CALM));
    }
}
