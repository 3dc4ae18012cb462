//! Congestion control between a switch and its stations: which of them are asked to send slower, and by how much.
//!
//! It runs beside the acting policy and never pauses a class. [`qcn`] decides when a buffer is sampled and how
//! congested it is; [`culprit`] chooses the flow to blame; [`points`] combines both for every (port, class). The
//! switch sends the message. [`reaction`] is the rate limiter of a station. [`ecn`] instead marks IP headers for the
//! receiver.

pub mod culprit;
pub mod ecn;
mod flows;
pub mod points;
pub mod qcn;
pub mod reaction;

pub use points::CongestionPoints;
pub use qcn::{CongestionPoint, Sample};
pub use reaction::{Phase, ReactionPoint, ReactionSettings};
