//! A switch is recorded, and replayed.
#![allow(clippy::unwrap_used)]

mod files;
mod records;
mod rehearsal;
