//! Queues of a host that obeys PFC, over veth pairs. The tests need root and fail without it.

#![allow(clippy::unwrap_used)]

mod bed;
mod classes;
mod guard;
mod queues;
mod removal;
mod repair;
