//! What congestion points (QCN) are told.

use xoff_wire::units::{Bytes, ClassSet};

/// The congestion points of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QcnSettings {
    /// Classes with a congestion point at each ingress port: its buffer is everything that came in
    /// there and has not left (the paper's input buffer, section II).
    pub ingress: ClassSet,
    /// Classes with a congestion point at each egress port, as the standard has it. No class is in
    /// both.
    pub egress: ClassSet,
    /// Qeq, the occupancy aimed at.
    pub set_point: Bytes,
    /// w, how much the growth of the queue counts against its length.
    pub weight: u32,
    /// Is, the bytes that arrive between two samples of a buffer that is not congested.
    pub sample_every: Bytes,
    /// The interval is drawn anew for each sample, up to so many percent shorter or longer, so that
    /// samples keep no step with periodic traffic.
    pub jitter_percent: u8,
    /// Most CNMs: one for so many frames that arrive (section V).
    pub frames_per_cnm: u32,
    /// Whom to tell.
    pub culprit: Culprit,
    /// Most flows that a congestion point tells apart ([`Culprit::OccupancyDeterministic`]).
    pub flows_max: u16,
    /// Where chance begins.
    pub seed: u64,
}

impl QcnSettings {
    /// Section III of the paper, without any congestion point. The jitter is that of the standard's
    /// pseudo code.
    pub const PAPER: QcnSettings = QcnSettings {
        ingress: ClassSet::NONE,
        egress: ClassSet::NONE,
        set_point: Bytes(60_000),
        weight: 2,
        sample_every: Bytes(150_000),
        jitter_percent: 15,
        frames_per_cnm: 100,
        culprit: Culprit::Arrival,
        flows_max: 256,
        seed: 0,
    };
}

impl Default for QcnSettings {
    fn default() -> QcnSettings {
        QcnSettings::PAPER
    }
}

/// How the culprit is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Culprit {
    /// The flow of the frame that has just arrived (the standard).
    #[default]
    Arrival,
    /// The flow with the most bytes in the buffer, of so many flows as the table holds.
    OccupancyDeterministic,
    /// The flow of one occupied unit of the buffer, picked at random: no state per flow.
    OccupancyRandom,
}
