//! Fronts come in and are answered.

use std::cell::RefCell;
use std::rc::Rc;

use handoff_link::{carry, queue};
use handoff_protocol::{Message, What};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::kernel::Switch;

/// Serves a front until its connection breaks. Its rules stay: the connections go on without it. `number` is this process'.
pub async fn serve(switch: Rc<RefCell<Switch>>, number: u64, stream: impl AsyncRead + AsyncWrite) {
    let (sender, outgoing) = queue();
    let say = |id, what| sender.send(Message { id, what });
    say(number, What::Hello);
    let error = carry(stream, outgoing, |message| {
        if let Some(answer) = switch.borrow_mut().take(&message.what) {
            say(message.id, answer);
        }
    })
    .await;
    let rules = switch.borrow().count();
    tracing::info!("a front has gone: {error}; there are {rules} rules");
}
