//! `tributary-converter`: ends Multipath TCP (RFC 8684) on the client's side and speaks plain TCP to servers.
//!
//! A client's connection: `server/worker` accepts it and makes a `Conn`, its `listener` reads what the client wants,
//! `upstream::connect` connects to the server, `io::relay` moves bytes, `Conn::record` counts and logs the end.
//!
//! | folder | what it has |
//! |---|---|
//! | `cli` | the command line, and how a status is shown |
//! | `config` | what an operator writes, checked whole |
//! | `server` | the process: active configuration, threads, signals, what it answers |
//! | `listener` | one client, in its protocol |
//! | `policy` | who may come in, what may be reached |
//! | `upstream` | connections to servers, and to the next converter |
//! | `early` | connections begun when the client's SYN comes |
//! | `offload` | connections that are offloaded to the kernel |
//! | `io` | connections, relays, buffers, timers |
//! | `observe` | who is in, what became of the others: metrics, access log |
//! | `kernel` | what the kernel is asked for: sockets, routes, options, programs |

pub mod cli;
pub mod config;
pub mod early;
pub mod failure;
pub mod io;
pub mod kernel;
pub mod listener;
pub mod observe;
pub mod offload;
pub mod policy;
pub mod server;
pub mod upstream;
