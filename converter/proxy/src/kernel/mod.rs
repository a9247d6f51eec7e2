//! What the kernel is asked for.

pub mod netstat;
pub mod route;
pub mod sockets;
pub mod syn_ack;
pub mod syn_option;
