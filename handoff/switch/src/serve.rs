//! Serves fronts.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use handoff_link::{Session, read_hello};
use handoff_protocol::Message;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::kernel::Switch;

/// Serves a front until its connection breaks. Its rules stay, since the connections continue without it; a front that is
/// back sends all rules again. Fails if the first message is no hello.
pub async fn serve(switch: Rc<RefCell<Switch>>, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let hello = read_hello(&mut stream).await?;
    let (sender, mut session) = Session::new();
    session.accept(&mut stream).await?;
    let take = |message: Message| {
        if let Some(payload) = switch.borrow_mut().take(&message.payload) {
            sender.send(Message {
                id: message.id,
                payload,
            });
        }
    };
    let error = session.run(stream, hello.acknowledged, take).await;
    let rules = switch.borrow().count();
    tracing::info!("a front has disconnected: {error}; there are {rules} rules");
    Ok(())
}
