//! Flow control of a switch: buffers, pauses, policies and congestion points, without I/O, clock or threads.
//!
//! The dataplane counts frames in a [`buffer`] and reports events to a [`policy`]. The policy returns intents
//! ([`decision`]); [`pause`] turns their pauses into pause frames, and refreshes them.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod buffer;
pub mod cause;
pub mod classify;
pub mod congestion;
pub mod counter;
pub mod counters;
pub mod decision;
pub mod drop_reason;
pub mod headroom;
pub mod load;
pub mod occupancy;
pub mod pause;
pub mod policy;
pub mod prefetch;
pub mod punt_reason;
pub mod settings;
#[cfg(test)]
mod testing;
pub mod watchdog;
