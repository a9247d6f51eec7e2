//! What came of all connections at one end.

use serde::{Deserialize, Serialize};

/// Counts of connections and bytes; the second half of them has to be 0.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Tally {
    /// Connections whose plan was known here.
    pub connections: u64,
    /// Bytes that came in and were compared with what they should be.
    pub checked_bytes: u64,
    /// Half-closes of the other end that came while this end was still to send.
    pub half_closes: u64,
    /// Resets of the other end's that came as resets.
    pub resets: u64,
    /// Resets of the other end's that came as an orderly end.
    pub resets_as_ends: u64,
    /// Connections that ended before a plan came; a reset right at the beginning does that.
    pub without_plan: u64,
    /// Bytes that were not what they should be, or more than there should be.
    pub wrong_bytes: u64,
    /// Streams that ended in order and too early.
    pub truncated: u64,
    /// Connections that could not be opened, or were reset though neither end did that.
    pub broken: u64,
    /// One of these, in words.
    pub broken_by: Option<String>,
    /// Connections that were not at their end in time.
    pub stuck: u64,
}

impl Tally {
    /// Whether every byte was right and every end as planned. A reset that came as an end is for its reader to judge.
    pub fn is_right(&self) -> bool {
        self.wrong_bytes + self.truncated + self.broken + self.stuck == 0
    }

    /// Adds `other` to this one.
    pub fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.checked_bytes += other.checked_bytes;
        self.half_closes += other.half_closes;
        self.resets += other.resets;
        self.resets_as_ends += other.resets_as_ends;
        self.without_plan += other.without_plan;
        self.wrong_bytes += other.wrong_bytes;
        self.truncated += other.truncated;
        self.broken += other.broken;
        self.broken_by = self.broken_by.take().or_else(|| other.broken_by.clone());
        self.stuck += other.stuck;
    }

    /// One connection that broke, and why.
    pub fn broken(why: &impl ToString) -> Self {
        Self {
            broken: 1,
            broken_by: Some(why.to_string()),
            ..Self::default()
        }
    }
}
