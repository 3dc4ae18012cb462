//! Congestion control between a switch and the stations that send through it: who is told to send
//! slower, and how much.
//!
//! It runs beside the acting policy and never stops a frame. [`qcn`] decides when a buffer is sampled
//! and how congested it is; [`culprit`] decides whose fault that is; [`points`] has one of each for
//! every (port, class); `switch` sends the message. [`reaction`] is the other end of it: the rate
//! limiter of a station. [`ecn`] tells the receiver instead, by a mark in the IP header.

pub mod culprit;
pub mod ecn;
mod flows;
pub mod points;
pub mod qcn;
pub mod reaction;

pub use points::CongestionPoints;
pub use qcn::{CongestionPoint, Sample};
pub use reaction::{Phase, ReactionPoint, ReactionSettings};
