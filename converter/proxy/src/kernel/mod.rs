//! What the kernel is asked for. `sys` and `bpf` have all `unsafe`.

mod bpf;
pub mod multipath;
pub mod netstat;
pub mod packet_filter;
pub mod route;
pub mod sockets;
pub mod syn_ack;
pub mod syn_option;
pub mod sys;
