//! State and decisions of a lossless switch, without I/O, clock or threads.
//!
//! Time is an argument, frames are handles, and nothing is allocated after start.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod driver;
pub mod forward;
pub mod frame;
pub mod ledger;
pub mod punt;
pub mod queue;
mod rewrite;
pub mod routing;
mod schedule;
pub mod switch;
pub mod tap;
#[cfg(test)]
mod testing;
