//! Connections that netfilter brought here: their clients know of no proxy, so that the only refusal is a reset.

use std::io;
use std::time::Instant as Clock;

use tributary_proto::http::Authority;

use crate::config::Intercept;
use crate::io::buffers::with_scratch;
use crate::io::conn::Conn;
use crate::io::relay;
use crate::kernel::sockets;
use crate::observe::{RelayResult, Summary};
use crate::upstream::{DialOptions, connect};

/// Bytes that may travel with a request to the gateway.
const EARLY: usize = 16 << 10;

pub async fn serve(mut conn: Box<Conn>, how: Intercept) {
    let since = Clock::now();
    let Ok(server) = sockets::original_destination(&conn.stream, how) else {
        return conn.record(&Summary::new("no-original-destination", since));
    };
    let server = Authority::from(server);
    let target = &server.to_string();
    let failed = |name| Summary {
        target,
        ..Summary::new(name, since)
    };
    if conn.context.dialer.is_own(conn.client.ip()) {
        return conn.record(&failed("loop"));
    }
    let (keep, early_syn) = match how {
        Intercept::Tproxy(tproxy) => (tproxy.keep_client_address, tproxy.early_syn),
        Intercept::Redirect => (false, false),
    };
    let dial_options = DialOptions {
        source: keep.then_some(conn.client),
        early_syn,
        ..DialOptions::for_relay()
    };
    let Ok(early) = early_bytes(&conn) else {
        return conn.record(&failed(RelayResult::ClientReset.name()));
    };
    match connect(&conn, &server, target, dial_options, &early).await {
        Ok(upstream) => {
            let summary = Summary::of(&upstream, target, since);
            let ended = relay(&mut conn, upstream, &[], early.into()).await;
            conn.record(&summary.ended(ended));
        }
        Err(error) => conn.record(&failed(error.name())),
    }
}

/// What the client has sent so far, without waiting for more. Raises what broke its connection.
fn early_bytes(conn: &Conn) -> io::Result<Vec<u8>> {
    with_scratch(EARLY, |scratch| {
        match sockets::read_what_is_there(&conn.stream, &mut scratch[..EARLY]) {
            Ok(count) => Ok(scratch[..count].to_vec()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    })
}
