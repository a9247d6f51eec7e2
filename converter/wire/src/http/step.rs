//! What following a body step by step finds.

use std::ops::Range;

/// What a body took of the bytes it was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes that belong to the body, framing included: what a relay passes on as it is.
    pub used: usize,
    /// Where in them the content lies: what a client that knows no chunks gets.
    pub data: Range<usize>,
    /// The body ends after `used`.
    pub ended: bool,
}
