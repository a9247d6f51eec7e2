//! The control plane of the overlay: agents measure delays and publish them, a controller computes chains of converters
//! by them and publishes to each ingress the table that it needs. All of them are clients of etcd.
//!
//! Pure: what etcd holds ([`name`], [`values`], [`keys`]), whom an agent measures ([`few`]), what it publishes
//! ([`window`], [`threshold`], [`health`]), what a controller does ([`distances`], [`estimates`], [`mesh`], [`exits`],
//! [`tables`], [`canary`]), what an ingress's converter is told ([`egresses`], [`routes`]), who may write what
//! ([`permissions`]). The rest talks: to peers ([`meter`]), to servers ([`servers`]), to the kernel ([`standing`]), to etcd
//! ([`store`], [`election`], [`users`], `published`) and to the converter ([`answering`], [`handed`]). [`program`] is what a
//! command does around that.

#![forbid(unsafe_code)]

pub mod agent;
pub mod answering;
pub mod canary;
mod clock;
pub mod controller;
pub mod distances;
pub mod egresses;
pub mod election;
pub mod embedded;
pub mod estimates;
pub mod exits;
pub mod explain;
pub mod failure;
pub mod few;
pub mod handed;
pub mod health;
pub mod ingress;
pub mod keys;
pub mod lost;
pub mod members;
pub mod mesh;
pub mod meter;
pub mod name;
pub mod permissions;
pub mod program;
mod published;
pub mod routes;
pub mod servers;
pub mod snapshot;
pub mod standing;
pub mod status;
pub mod store;
pub mod tables;
pub mod threshold;
pub mod users;
pub mod values;
pub mod window;
