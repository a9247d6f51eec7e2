//! From a client's request to the connection that serves it.

use std::pin::{Pin, pin};

use tokio::time::Instant;
use tributary_proto::http::Authority;
use tributary_proto::proxy_protocol;

use super::{DialError, DialOptions, Frames, Upstream};
use crate::io::conn::Conn;
use crate::policy::admission::client_key;

/// Connects to `target`, which the client calls `name`, via the gateway if the listener has `via_gateway`. `early` was
/// read from the client before; if it is sent with the request to the gateway or in the SYN to the server, `early_sent`
/// of the result is true. In a box, so that what waits for the connection's end does not keep room for its beginning.
pub fn connect<'a>(
    conn: &'a Conn,
    target: &'a Authority,
    name: &'a str,
    options: DialOptions,
    early: &'a [u8],
) -> Pin<Box<impl Future<Output = Result<Upstream, DialError>> + use<'a>>> {
    Box::pin(dial(conn, target, name, options, early))
}

async fn dial(
    conn: &Conn,
    target: &Authority,
    name: &str,
    options: DialOptions,
    early: &[u8],
) -> Result<Upstream, DialError> {
    conn.stats().set_target(name);
    let (dialer, config) = (&conn.context.dialer, &conn.config);
    let mut options = DialOptions {
        client: Some(client_key(conn.client.ip(), &config.clients)),
        ..options
    };
    let since = Instant::now();
    // Nothing goes before the PROXY protocol's header.
    let has_proxy_header = config.upstream.proxy_protocol;
    let early = if has_proxy_header { &[] } else { early };
    if has_proxy_header || conn.listener.listen.offload {
        options.frames = Frames::Never;
    }
    let early_syns = options.early_syn.then_some(&conn.context.shared.early);
    let address = target.address();
    let mut begun = early_syns.and_then(|syns| syns.claim(conn.client, address?));
    let is_source_routed = options.source_route.is_some();
    if let Some(elsewhere) = begun.take_if(|_| is_source_routed) {
        elsewhere.give_up();
    }
    let mut upstream = if let Some(begun) = begun {
        dialer.resume(begun, options, early, config).await
    } else if is_source_routed || conn.listener.listen.via_gateway {
        dialer.dial_via_gateway(target, options, early, config).await
    } else {
        let dialled = pin!(dialer.dial(target, options, early, config));
        let in_time = conn.stream.until(since + config.timeouts.connect, dialled).await;
        in_time.unwrap_or(Err(DialError::TimedOut))
    }?;
    if upstream.kept.as_ref().is_some_and(|kept| kept.has_served) {
        conn.metrics().reused_upstreams.inc();
    }
    let seconds = since.elapsed().as_secs_f64();
    conn.metrics().dial_seconds.observe(seconds);
    if has_proxy_header {
        let header = proxy_protocol::header(conn.client, upstream.address);
        let deadline = Instant::now() + config.timeouts.connect;
        upstream.stream.send(&header, Some(deadline)).await?;
    }
    // No early data means that none was sent: later bytes must not be taken for it.
    upstream.early_sent &= !early.is_empty();
    Ok(upstream)
}
