//! The server of a request, which may serve the next one too.

use std::rc::Rc;

use tributary_wire::http::{Authority, Request};

use super::expected_size::known_size;
use crate::dial::{DialError, DialOptions, Server, Target};
use crate::session::Session;

/// The connection of the request before, if it can be used again. In a box: it goes from hand to hand for every request.
pub type Kept = Option<Box<ServerConnection>>;

/// A connection to a server.
pub struct ServerConnection {
    authority: Authority,
    /// The same as text.
    pub name: Rc<str>,
    /// The connection; the size that its way was chosen by until the log has that.
    pub server: Server,
    /// What came and is not used yet.
    pub inbox: Vec<u8>,
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
        }))
    }

    /// It waits for the next request: to drop it closes it in order, and it holds no memory.
    pub fn rest(&mut self) {
        self.server.stream.finish();
        self.inbox = Vec::new();
    }

    /// The one that was kept, if it is for `authority`, and nothing came there that nobody had asked for.
    pub fn reuse(kept: &mut Kept, authority: &Authority) -> Option<Box<Self>> {
        let mut kept = kept.take()?;
        let can_serve = kept.authority == *authority && kept.server.stream.is_quiet();
        if can_serve {
            kept.server.stream.resume();
        }
        can_serve.then_some(kept)
    }
}

/// The name of `authority` in logs, which the connection that was kept may have already.
pub fn name_of(kept: &Kept, authority: &Authority) -> Rc<str> {
    match kept {
        Some(kept) if kept.authority == *authority => Rc::clone(&kept.name),
        _ => authority.to_string().into(),
    }
}
