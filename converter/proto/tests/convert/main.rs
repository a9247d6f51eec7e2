//! The Convert codec: every TLV and every error, whole, cut at every byte, and with data behind.

#[path = "../hex/mod.rs"]
mod hex;
#[path = "../incremental/mod.rs"]
mod incremental;

mod client;
mod cookie;
mod frames;
mod properties;
mod refusals;
mod server;
mod tlvs;
