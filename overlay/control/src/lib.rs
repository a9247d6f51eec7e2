//! The overlay's control plane: agents measure delays and publish them, a controller computes chains of converters and
//! publishes a table for each ingress. All are clients of etcd.
//!
//! Pure: the contents of etcd ([`name`], [`codec`], [`schema`], [`keys`]), which peers an agent pings ([`peer_sample`]),
//! what it publishes ([`window`], [`threshold`], [`health`]), what a controller decides ([`distances`], [`estimates`],
//! [`mesh`], [`egress_choice`], [`tables`], [`sanity`]), the routes of an ingress ([`egresses`], [`routes`]), and who may
//! write what ([`permissions`]). The others do I/O: with peers ([`meter`]), servers ([`servers`]), the kernel
//! ([`kernel_rtt`]), etcd ([`store`], [`election`], [`users`], `published`) and the converter ([`converter_check`],
//! [`routes_file`]).

pub mod agent;
mod clock;
pub mod codec;
pub mod controller;
pub mod converter_check;
pub mod distances;
pub mod egress_choice;
pub mod egresses;
pub mod election;
pub mod embedded;
pub mod estimates;
pub mod explain;
pub mod health;
pub mod ingress;
pub mod kernel_rtt;
pub mod keys;
pub mod members;
pub mod mesh;
pub mod meter;
pub mod name;
pub mod peer_sample;
pub mod permissions;
mod published;
pub mod routes;
pub mod routes_file;
#[cfg(test)]
mod samples;
pub mod sanity;
pub mod schema;
pub mod servers;
pub mod session_error;
pub mod snapshot;
pub mod status;
pub mod store;
pub mod tables;
pub mod threshold;
pub mod users;
pub mod window;
pub mod write_budget;
