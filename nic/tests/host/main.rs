#![allow(clippy::unwrap_used)]

mod bed;
mod classes;
mod guard;
mod queues;
mod removal;
mod repair;
