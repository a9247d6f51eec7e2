//! A name server for a few names of one zone, whose answers lead each client to its ingress of the overlay.
//!
//! [`settings`] is what an operator writes, [`answer`] is pure: the addresses for a client, among the ingresses that are
//! alive. [`server`] speaks DNS, [`alive`] asks etcd who is and whose converter answers.

#![forbid(unsafe_code)]
#![allow(missing_docs)] // for the programs of this project alone: what its name says needs no comment

pub mod alive;
pub mod answer;
pub mod server;
pub mod settings;
