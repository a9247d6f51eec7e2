//! A name server for a few names of one zone, whose answers send each client to its ingress of the overlay.
//!
//! [`settings`] is the operator's file; [`answer`] is pure: the addresses for a client among the live ingresses. [`server`]
//! speaks DNS, [`alive`] reads from etcd which nodes are alive and whose converters answer.

pub mod alive;
pub mod answer;
pub mod server;
pub mod settings;
