use xoff_wire::units::{Bytes, ClassSet};

/// Settings of a switch's congestion points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QcnSettings {
    /// Classes sampled at each ingress port: everything received there that has not left (the paper's input buffer,
    /// section II).
    pub ingress: ClassSet,
    /// Classes sampled at each egress port, as in the standard; none of `ingress`.
    pub egress: ClassSet,
    /// Qeq, the target occupancy.
    pub set_point: Bytes,
    /// w, the weight of the growth.
    pub weight: u32,
    /// Is, the bytes between samples of an uncongested buffer.
    pub sample_every: Bytes,
    /// Maximum jitter of the interval, in percent, against synchronization with periodic traffic.
    pub jitter_percent: u8,
    /// Minimum arriving frames per CNM (section V).
    pub frames_per_cnm: u32,
    /// Choice of the flow to notify.
    pub culprit: Culprit,
    /// Maximum flows that a point counts ([`Culprit::OccupancyDeterministic`]).
    pub flows_max: u16,
    /// Seed of random choices.
    pub seed: u64,
}

impl QcnSettings {
    /// Values of section III of the paper and the standard's jitter, without any congestion point.
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
    /// Flow with the most bytes, among those that the table holds.
    OccupancyDeterministic,
    /// Flow of a random occupied unit, without state per flow.
    OccupancyRandom,
}
