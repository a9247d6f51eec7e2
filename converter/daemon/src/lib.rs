//! `tributary-converter`: ends Multipath TCP (RFC 8684) on the client's side and speaks plain TCP to servers.
//!
//! | folder or file | what it has |
//! |---|---|
//! | `config` | what an operator writes, checked whole |
//! | `service` | the process: plan, threads, signals, what it answers |
//! | `admission`, `accounts`, `metrics`, `access_log` | who is in, and what became of the others |
//! | `session`, `listeners` | one client, in its protocol |
//! | `targets`, `route`, `dial` | what may be reached, and how |
//! | `early` | connections begun when the client's SYN comes |
//! | `streams`, `relay`, `flow`, `silence`, `patience`, `buffers` | bytes |
//! | `sockets`, `packet_filter`, `syn_ack`, `multipath`, `sys` | what the kernel is asked for |
#![deny(unsafe_code)]

pub mod access_log;
pub mod accounts;
pub mod admission;
mod bpf;
pub mod buffers;
pub mod cli;
pub mod config;
pub mod cookies;
pub mod dial;
pub mod early;
pub mod failure;
pub mod flow;
pub mod listeners;
pub mod metrics;
pub mod multipath;
mod packet_filter;
pub mod patience;
pub mod rate_limit;
pub mod relay;
pub mod report;
pub mod route;
pub mod service;
pub mod session;
pub mod silence;
pub mod sockets;
pub mod streams;
pub mod syn_ack;
pub mod syn_option;
mod sys;
pub mod targets;
pub mod top;
