//! Connections that netfilter brought here: their clients know of no proxy, so that all they can be told is a reset.

use std::time::Instant as Clock;

use crate::config::Intercept;
use crate::dial::{Target, Wishes};
use crate::session::Session;
use crate::sockets;

/// Serves one client.
pub async fn serve(session: Session) {
    let since = Clock::now();
    let how = session
        .listener
        .listen
        .intercept
        .unwrap_or(Intercept::Tproxy);
    let Ok(server) = sockets::original_destination(&session.stream, how) else {
        return session.close(&session.outcome("no-original-destination", "", None, None, since));
    };
    let name = server.to_string();
    if session.is_own_loop() {
        return session.close(&session.outcome("loop", &name, None, None, since));
    }
    let source = session
        .listener
        .listen
        .keep_client_address
        .then_some(session.client);
    let early = session.early_bytes();
    match session
        .dial(
            &Target::Address(server),
            Wishes {
                source,
                ..Wishes::default()
            },
            &early,
        )
        .await
    {
        Ok(server) => {
            session
                .tunnel(server, &[], &early, &name, since, None)
                .await;
        }
        Err(error) => session.close(&session.outcome(error.name(), &name, None, None, since)),
    }
}
