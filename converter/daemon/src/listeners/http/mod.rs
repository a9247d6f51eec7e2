//! HTTP/1.1 as to a proxy (RFC 9110, RFC 9112): CONNECT becomes a tunnel, absolute-form is forwarded, one request after
//! the other. What could be read in two ways never gets past the parser.

mod client_buffer;
mod exchange;
mod exchange_driver;
mod expected_size;
mod options;
mod refusals;
mod request;
mod serve;
mod server;
mod tunnel;

pub(super) use client_buffer::ClientBuffer;
pub(super) use exchange::{AfterExchange, exchange};
pub use refusals::refusal;
pub(super) use refusals::refuse;
pub(super) use request::{Next, next_request};
pub(super) use serve::end;
pub use serve::serve;
pub(super) use server::{IdleUpstream, while_watching};
pub(super) use tunnel::relay_unasked;
