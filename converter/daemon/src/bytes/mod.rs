//! Bytes on their way between a client and a server.

pub mod buffers;
pub mod context;
pub mod deadline;
pub mod flow;
pub mod idle_timer;
#[cfg(test)]
pub(crate) mod loopback;
pub mod outlet;
pub mod reading;
pub mod relay;
pub mod stream;
