//! How much a connection is expected to carry.

use serde::Serialize;

/// How much a connection is expected to carry, as its first request shows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ExpectedSize {
    /// In one direction.
    pub bytes: u64,
    /// How that is known.
    pub by: KnownBy,
}

/// By what a size is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KnownBy {
    /// The request says how long its content is.
    ContentLength,
    /// The operator says what requests with this path are.
    Path,
}
