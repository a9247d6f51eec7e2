//! What came of all connections at one end.

use serde::{Deserialize, Serialize};

use super::plan::Plan;

/// Counts of connections and bytes; the second half of them has to be 0.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Stats {
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
    /// Connections that rested, and were played to their end.
    pub rests: u64,
    /// Connections that rested for longer than their limit, and were reset for it.
    pub reaped: u64,
    /// Resets of the other end's, or for a rest, of which nothing came in time.
    pub resets_unheard: u64,
    /// Connections that ended before a plan came; a reset right at the beginning does that.
    pub without_plan: u64,
    /// Bytes that were not what they should be, or more than there should be.
    pub wrong_bytes: u64,
    /// Streams that ended in order and too early.
    pub truncated: u64,
    /// Connections that could not be opened, or were reset though neither end did that.
    pub broken: u64,
    /// Why, of one of these.
    pub broken_by: Option<String>,
    /// Connections that were not at their end in time.
    pub stuck: u64,
    /// Connections that rested for longer than their limit, and lived on.
    pub outlived: u64,
    /// One connection with something wrong: its plan, and its own counts.
    pub example: Option<String>,
}

impl Stats {
    /// Whether every byte was right and every end as planned. A reset that came as an end is for its reader to judge, and
    /// so is one by MPTCP that was not heard of: Linux 6.18 loses one in some ten thousand without any proxy.
    pub fn is_right(&self, mptcp: bool) -> bool {
        let unheard = if mptcp { 0 } else { self.resets_unheard };
        self.wrong_bytes + self.truncated + self.broken + self.stuck + self.outlived + unheard == 0
    }

    pub fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.checked_bytes += other.checked_bytes;
        self.half_closes += other.half_closes;
        self.resets += other.resets;
        self.resets_as_ends += other.resets_as_ends;
        self.rests += other.rests;
        self.reaped += other.reaped;
        self.resets_unheard += other.resets_unheard;
        self.without_plan += other.without_plan;
        self.wrong_bytes += other.wrong_bytes;
        self.truncated += other.truncated;
        self.broken += other.broken;
        self.broken_by = self.broken_by.take().or_else(|| other.broken_by.clone());
        self.stuck += other.stuck;
        self.outlived += other.outlived;
        self.example = self.example.take().or_else(|| other.example.clone());
    }

    /// Makes this, the result of one connection, an example of what is wrong.
    pub fn name(&mut self, plan: &Plan) {
        let (plan, bytes, half_closes) = (plan.to_line(), self.checked_bytes, self.half_closes);
        self.example = Some(format!("{plan}: {bytes} bytes and {half_closes} half-closes came in"));
    }

    pub fn broken(why: &impl ToString) -> Self {
        Self {
            broken: 1,
            broken_by: Some(why.to_string()),
            ..Self::default()
        }
    }
}
