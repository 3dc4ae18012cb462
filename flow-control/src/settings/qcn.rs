//! Settings of congestion points (QCN).

use xoff_wire::units::{Bytes, ClassSet};

/// Settings of the congestion points of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QcnSettings {
    /// Classes with a congestion point at each ingress port. Its buffer is everything received there that has not
    /// left (the paper's input buffer, section II).
    pub ingress: ClassSet,
    /// Classes with a congestion point at each egress port, as in the standard. No class is in both sets.
    pub egress: ClassSet,
    /// Qeq, the target occupancy.
    pub set_point: Bytes,
    /// w, the weight of the queue's growth against its length.
    pub weight: u32,
    /// Is, the bytes between two samples of an uncongested buffer.
    pub sample_every: Bytes,
    /// Maximum jitter of the sampling interval, in percent, so that samples do not synchronize with periodic traffic.
    pub jitter_percent: u8,
    /// Minimum number of arriving frames per CNM (section V).
    pub frames_per_cnm: u32,
    /// Choice of the flow to notify.
    pub culprit: Culprit,
    /// Maximum flows that a congestion point counts ([`Culprit::OccupancyDeterministic`]).
    pub flows_max: u16,
    /// Seed of random choices.
    pub seed: u64,
}

impl QcnSettings {
    /// Values of section III of the paper, without any congestion point. The jitter is that of the standard's pseudo
    /// code.
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

/// Choice of the culprit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Culprit {
    /// Flow of the frame that has just arrived (the standard).
    #[default]
    Arrival,
    /// Flow with the most bytes in the buffer, among those that the table holds.
    OccupancyDeterministic,
    /// Flow of a random occupied unit of the buffer, without state per flow.
    OccupancyRandom,
}
