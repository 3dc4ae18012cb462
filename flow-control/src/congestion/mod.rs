//! Congestion control of stations by a switch, without pauses.
//!
//! [`qcn`] decides when a buffer is sampled, [`culprit`] which flow to blame; [`points`] combines them. [`reaction`]
//! limits a flow's rate at its sender. [`ecn`] marks IP headers.

pub mod culprit;
pub mod ecn;
mod flows;
mod notice;
pub mod points;
pub mod qcn;
pub mod reaction;

pub use points::CongestionPoints;
pub use qcn::Sample;
pub use reaction::{Phase, ReactionPoint, ReactionSettings};
