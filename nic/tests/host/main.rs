//! Queues of a host that obeys PFC, over veth pairs; needs root.

#![allow(clippy::unwrap_used)]

mod bed;
mod classes;
mod guard;
mod queues;
mod removal;
mod repair;
