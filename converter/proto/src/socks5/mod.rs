//! SOCKS version 5 (RFC 1928), CONNECT only, with user names and passwords (RFC 1929).
//!
//! A server calls [`parse_greeting`], answers with [`AuthMethod::encode`], calls [`parse_login`] and
//! answers with [`encode_login_status`] where it chose [`AuthMethod::UserPassword`], and calls
//! [`parse_request`] and answers with [`Reply::encode`]. What follows
//! a parsed message stays the caller's: each parser says how many bytes it took.

mod grammar;
mod greeting;
mod login;
mod reply;
mod request;

pub use grammar::{FieldLength, LOGIN_VERSION, ProtocolError, VERSION};
pub use greeting::{AuthMethod, Greeting, parse_greeting};
pub use login::{Login, encode_login_status, parse_login};
pub use reply::{Code, Reply};
pub use request::{Request, parse_request};
