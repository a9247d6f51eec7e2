//! A front's side of a request hand-off: permanent links to the switch and to back ends ([`Links`]), and the transfer of a
//! client's connection to them and back ([`hand_over`]). For a thread with a local tokio runtime.

mod back_end;
mod error;
mod links;
mod reconnect;
mod settings;
mod switch;
mod transfer;

pub use error::HandoffError;
pub use handoff_link::{Identity, Role};
pub use links::Links;
pub use settings::{BackEndSettings, Sessions, Settings, SwitchAddress};
pub use transfer::{AnswerEnd, Outcome, RequestRouter, hand_over};
