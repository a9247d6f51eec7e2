//! HTTP/1.1 as to a proxy (RFC 9110, RFC 9112): CONNECT becomes a tunnel, absolute-form is forwarded, one request after
//! the other. What could be read in two ways never gets past the parser.

mod carrier;
mod exchange;
mod expected_size;
mod front;
mod options;
mod refusals;
mod request;
mod serve;
mod server;
mod tunnel;

pub use refusals::refusal;
pub use serve::serve;
