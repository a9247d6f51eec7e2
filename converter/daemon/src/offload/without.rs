//! Stands in for the offloader in a program that was built without the feature `offload`.

use std::future::Ready;
use std::io;

use crate::bytes::context::RelayContext;
use crate::bytes::pipe::Pipe;
use crate::bytes::relay::Ended;
use crate::config::Offload;

/// Cannot be made.
#[derive(Debug)]
pub enum Offloader {}

impl Offloader {
    /// Refuses; the check of the configuration has done so before.
    pub fn load(_: &Offload) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never called.
    pub fn relay(
        &self,
        _: [Pipe<'_>; 2],
        _: &RelayContext<'_>,
        _: Option<u32>,
        _: impl FnOnce(),
        _: impl Fn(Option<&'static str>),
    ) -> Ready<RelayResult> {
        match *self {}
    }
}
