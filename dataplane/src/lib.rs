//! State and decisions of a lossless switch, without I/O, clock or threads.
//!
//! The AF_XDP workers of the `xoff` binary and a discrete-event simulator run the same loop ([`driver`]). Time is an
//! argument, frames are handles that move, and nothing is allocated after start.

#![forbid(unsafe_code)]

pub mod driver;
pub mod forward;
pub mod frame;
pub mod ledger;
pub mod punt;
pub mod queue;
pub mod rewrite;
pub mod routing;
mod schedule;
pub mod switch;
pub mod tap;
#[cfg(test)]
mod testing;
