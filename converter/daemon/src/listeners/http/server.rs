//! The server of a request, which may serve the next one too.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tributary_wire::http::{Authority, Request};

use super::expected_size::known_size;
use crate::dial::{DialError, DialOptions, Server, Target};
use crate::session::Session;

/// A server that ends a connection which has rested for so long may do so at the very moment at which a request is sent.
/// Servers' own limits begin at some two seconds.
const RESTED: Duration = Duration::from_secs(1);

/// The connection of the request before, if it can be used again. In a box: it goes from hand to hand for every request.
pub type IdleUpstream = Option<Box<ServerConnection>>;

/// A connection to a server.
pub struct ServerConnection {
    authority: Authority,
    /// The same as text.
    pub name: Rc<str>,
    /// The connection; the size that its way was chosen by until the log has that.
    pub server: Server,
    /// What came and is not used yet.
    pub inbox: Vec<u8>,
    /// Since when it waits for the next request.
    rests_since: Instant,
}

impl ServerConnection {
    /// A new one, for `request`.
    pub async fn dial(
        session: &Session,
        authority: &Authority,
        name: &Rc<str>,
        request: &Request,
    ) -> Result<Box<Self>, DialError> {
        let target = Target::new(&authority.host, authority.port);
        let options = DialOptions {
            size: known_size(session, request),
            ..DialOptions::default()
        };
        let dialled = session.dial(&target, name, options, &[]);
        let mut server = Box::pin(dialled).await?;
        let inbox = std::mem::take(&mut server.early);
        Ok(Box::new(Self {
            authority: authority.clone(),
            name: Rc::clone(name),
            server,
            inbox,
            rests_since: Instant::now(),
        }))
    }

    /// It waits for the next request: to drop it closes it in order, and it holds no memory.
    pub fn rest(&mut self) {
        self.server.stream.disarm();
        self.inbox = Vec::new();
        self.rests_since = Instant::now();
    }

    /// The idle one, if it is for `authority`, nothing came there that nobody had asked for, and `request` may be
    /// sent again or the server will hardly end it just now (RFC 9112 section 9.3.1).
    pub fn reuse(
        idle_upstream: &mut IdleUpstream,
        authority: &Authority,
        request: &Request,
    ) -> Option<Box<Self>> {
        let mut idle_upstream = idle_upstream.take()?;
        let has_rested = idle_upstream.rests_since.elapsed() >= RESTED;
        let can_serve = idle_upstream.authority == *authority
            && (request.is_repeatable() || !has_rested)
            && idle_upstream.server.stream.is_quiet();
        if can_serve {
            idle_upstream.server.stream.rearm();
        }
        can_serve.then_some(idle_upstream)
    }
}

/// Does `action`. A kept connection that its server ends meanwhile is closed at once (RFC 9112 section 9.5), and so is one
/// on which it says something unasked.
pub async fn while_watching<T>(
    idle_upstream: &mut IdleUpstream,
    mut action: Pin<&mut impl Future<Output = T>>,
) -> T {
    poll_fn(|cx| {
        if let Some(connection) = idle_upstream {
            if connection.server.stream.poll_disturbed(cx).is_ready() {
                *idle_upstream = None;
            }
        }
        action.as_mut().poll(cx)
    })
    .await
}

/// The name of `authority` in logs, which the connection that was kept may have already.
pub fn name_of(idle_upstream: &IdleUpstream, authority: &Authority) -> Rc<str> {
    match idle_upstream {
        Some(idle_upstream) if idle_upstream.authority == *authority => {
            Rc::clone(&idle_upstream.name)
        }
        _ => authority.to_string().into(),
    }
}
