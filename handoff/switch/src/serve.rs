//! Fronts come in and are answered.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use handoff_link::{Session, greeted};
use handoff_protocol::Message;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::kernel::Switch;

/// Serves a front until its connection breaks. Its rules stay: the connections go on without it, and a front that is back
/// tells of all rules anew. Raises that it does not begin as fronts do.
pub async fn serve(
    switch: Rc<RefCell<Switch>>,
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
) -> io::Result<()> {
    let greeting = greeted(&mut stream).await?;
    let (sender, mut session) = Session::new();
    session.answer(&mut stream).await?;
    let take = |message: Message| {
        if let Some(what) = switch.borrow_mut().take(&message.what) {
            sender.send(Message {
                id: message.id,
                what,
            });
        }
    };
    let broken = session.carry(stream, greeting.taken, take).await;
    let rules = switch.borrow().count();
    tracing::info!("a front has gone: {broken}; there are {rules} rules");
    Ok(())
}
