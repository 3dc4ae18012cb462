//! The queues of a host that obeys PFC, in namespaces over veth pairs. Needs root, and fails without.

#![allow(clippy::unwrap_used)]

mod bed;
mod classes;
mod guard;
mod queues;
mod removal;
mod repair;
