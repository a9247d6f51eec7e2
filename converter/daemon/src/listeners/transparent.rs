//! Connections that netfilter brought here: their clients know of no proxy, so that the only refusal is a reset.

use std::time::Instant as Clock;

use crate::bytes::relay::RelayResult;
use crate::config::Intercept;
use crate::dial::{DialOptions, Target};
use crate::kernel::sockets;
use crate::session::{Outcome, Session};

/// Serves one client.
pub async fn serve(session: Session) {
    let since = Clock::now();
    let how = session
        .listener
        .listen
        .intercept
        .unwrap_or(Intercept::Tproxy);
    let Ok(server) = sockets::original_destination(&session.stream, how) else {
        return session.log_close(&Outcome::new("no-original-destination", since));
    };
    let target = &server.to_string();
    let failed = |name| Outcome {
        target,
        ..Outcome::new(name, since)
    };
    if session.is_own_loop() {
        return session.log_close(&failed("loop"));
    }
    let keep = session.listener.listen.keep_client_address;
    let dial_options = DialOptions {
        source: keep.then_some(session.client),
        ..DialOptions::default()
    };
    let Ok(early) = session.early_bytes() else {
        return session.log_close(&failed(RelayResult::ClientReset.name()));
    };
    match session
        .dial(&Target::Address(server), target, dial_options, &early)
        .await
    {
        Ok(server) => {
            session
                .tunnel(server, &[], early, target, since, None)
                .await;
        }
        Err(error) => session.log_close(&failed(error.name())),
    }
}
