//! Early SYN forwarding: the connection to the server starts when the client's SYN arrives, not when the client's
//! handshake has ended, which saves a round trip between client and converter (Siracusano et al., "On-the-Fly TCP
//! Acceleration with Miniproxy", `HotMiddlebox` 2016).
//!
//! A packet socket shows the main thread SYNs to transparent listeners. It starts a socket that is connecting and belongs
//! to no event loop; the thread that accepts the client takes it over.

mod connects;
mod syn_cookies;
mod syn_watcher;
mod table;

pub use connects::EarlyConnects;
pub use syn_watcher::SynWatcher;
