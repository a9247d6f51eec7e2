//! The 0-RTT TCP Convert Protocol of RFC 8803, sections 6 and 7, for both sides.
//!
//! A converter calls [`server::parse`] on what a connection has brought so far, and answers with
//! [`Request::reply`] or with an [`ErrorTlv`]. A client sends [`Request::encode`] and calls
//! [`client::parse`] on what comes back. What follows a message is application data: both parsers
//! say how many bytes the message took.

pub mod client;
mod cookie;
mod error;
mod frames;
mod header;
mod message;
mod option;
mod reply;
mod request;
pub mod server;
mod tlv;

pub use cookie::{COOKIE_LENGTH, CookieKeys, SECRET_LENGTH};
pub use error::{ErrorTlv, error_code};
pub use frames::{BadFrame, CLOSING, END, FRAME_HEADER, FrameReader, MAX_FRAME, READY, frame_header};
pub use header::{HEADER_LENGTH, MAGIC, MAX_LENGTH, MessageError, TooLong, VERSION};
pub use message::{encode, parse};
pub use option::{SUPPORTED_TCP_EXTENSIONS, TcpOption, option_kind};
pub use reply::Reply;
pub use request::{Connect, Request};
pub use tlv::{Tlv, tlv_type};
