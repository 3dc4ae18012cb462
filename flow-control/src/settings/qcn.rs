use xoff_wire::units::{Bytes, ClassSet};

/// Settings of a switch's congestion points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QcnSettings {
    /// Classes sampled at each ingress port: frames count until they leave the switch (the paper's input buffer,
    /// section II).
    pub ingress: ClassSet,
    /// Classes sampled at each egress port, as in the standard; none of `ingress`.
    pub egress: ClassSet,
    /// Qeq: target occupancy in bytes.
    pub set_point: Bytes,
    /// w: weight of the growth of the occupancy.
    pub weight: u32,
    /// Is: bytes between samples of an uncongested buffer.
    pub sample_every: Bytes,
    /// Maximum jitter of the interval in percent, against synchronization with periodic traffic.
    pub jitter_percent: u8,
    /// Minimum frames that arrive between two CNMs (section V).
    pub frames_per_cnm: u32,
    /// Choice of the flow to blame.
    pub culprit: Culprit,
    /// Maximum flows that a point counts ([`Culprit::OccupancyDeterministic`]).
    pub flows_max: u16,
    /// Seed of random choices.
    pub seed: u64,
}

impl QcnSettings {
    /// Settings of section III of the paper and the standard's jitter, without any congestion point.
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

/// Choice of the flow to blame for a congested buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Culprit {
    /// Flow of the frame that has just arrived (802.1Qau).
    #[default]
    Arrival,
    /// Flow with the most bytes among those in the flow table.
    OccupancyDeterministic,
    /// Flow of a random queued frame, in proportion to its size.
    OccupancyRandom,
}
