//! A front's side of a request hand-off: standing connections to the switch and to back ends ([`Links`]), and a client's
//! connection on its way to them and back ([`hand_over`]). For a thread with a local event loop of tokio's.
#![forbid(unsafe_code)]

mod back_end;
mod journey;
mod links;
mod lost;
mod standing;
mod switch;

pub use handoff_link::{Identity, Role};
pub use journey::{AnswerEnd, Guide, Outcome, hand_over};
pub use links::{BackEnd, Links, Place, Settings};
pub use lost::Lost;
