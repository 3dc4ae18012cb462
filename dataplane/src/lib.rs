//! The brain of xoff: what a lossless switch knows and decides, without I/O, clock or threads.
//!
//! The AF_XDP workers of the `xoff` binary and a discrete-event simulator run the same loop ([`driver`]). Time always
//! comes in as an argument, frames are handles that move, and nothing is allocated after start.

#![forbid(unsafe_code)]

pub mod buffer;
pub mod cause;
pub mod classify;
pub mod congestion;
pub mod counter;
pub mod counters;
pub mod decision;
pub mod driver;
pub mod drop_reason;
pub mod forward;
pub mod frame;
pub mod headroom;
pub mod ledger;
mod load;
pub mod occupancy;
pub mod pause;
pub mod policy;
pub mod prefetch;
pub mod punt;
pub mod queue;
pub mod rewrite;
pub mod routing;
mod schedule;
pub mod settings;
pub mod switch;
pub mod tap;
#[cfg(test)]
mod testing;
pub mod units;
pub mod watchdog;
pub mod wire;
