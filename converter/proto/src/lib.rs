//! The protocols that the converter speaks on the wire. Nothing here opens a socket: each parser takes bytes and
//! returns a value, "need more" (`None`) or an error.

pub mod convert;
pub mod host;
pub mod http;
pub mod proxy_protocol;
pub mod socks5;
pub mod syn;
