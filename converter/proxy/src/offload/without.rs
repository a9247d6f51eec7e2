//! Stands in for the offloader in a program that was built without the feature `offload`.

use std::cell::Cell;
use std::future::Ready;
use std::io;

use super::Pair;
use crate::config::{Offload, Timeouts};
use crate::observe::RelayResult;
use crate::observe::metrics::Metrics;

/// Cannot be made.
pub enum Offloader {}

impl Offloader {
    /// Refuses; the check of the configuration has done so before.
    pub fn load(_: &Offload) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never called.
    pub fn offload(&self, _: &Pair<'_>, _: &Cell<bool>, _: &Metrics) -> Ready<()> {
        match *self {}
    }

    /// Never called.
    pub fn watch(&self, _: &Pair<'_>, (): (), _: &Timeouts) -> Ready<RelayResult> {
        match *self {}
    }
}
