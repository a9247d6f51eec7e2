//! `tributary-converter`: ends Multipath TCP (RFC 8684) on the client's side and speaks plain TCP to servers.
//!
//! | folder or file | what it has |
//! |---|---|
//! | `cli` | the command line, and how a status is shown |
//! | `config` | what an operator writes, checked whole |
//! | `service` | the process: active configuration, threads, signals, what it answers |
//! | `listeners`, `session` | one client, in its protocol |
//! | `policy` | who may come in, what may be reached |
//! | `dial` | connections to servers, and to the next converter |
//! | `early` | connections begun when the client's SYN comes |
//! | `offload` | connections that are offloaded to the kernel |
//! | `bytes` | streams, relays, buffers, timers |
//! | `accounting` | who is in, what became of the others: metrics, access log |
//! | `kernel` | what the kernel is asked for: sockets, routes, options, programs |

pub mod accounting;
pub mod bytes;
pub mod cli;
pub mod config;
pub mod dial;
pub mod early;
pub mod failure;
pub mod kernel;
pub mod listeners;
pub mod offload;
pub mod policy;
pub mod service;
pub mod session;
