//! Bytes on their way between a client and a server.

pub mod buffered_writer;
pub mod buffers;
pub mod context;
pub mod deadline;
pub mod idle_timer;
#[cfg(test)]
pub(crate) mod loopback;
pub mod pipe;
pub mod reading;
pub mod relay;
pub mod stream;
