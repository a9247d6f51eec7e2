//! Connections, and bytes on their way between a client and a server.

pub mod buffers;
pub mod conn;
#[cfg(test)]
pub(crate) mod loopback;
pub mod outbox;
pub mod pipe;
pub mod quiet;
pub mod relay;
pub mod stream;

pub use relay::relay;
