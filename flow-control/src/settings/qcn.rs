use xoff_wire::units::{Bytes, ClassSet};

/// Settings of QCN congestion points (802.1Qau, and the paper cited in `congestion/culprit.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct QcnSettings {
    /// Classes sampled at ingress: frames count until they leave the switch (the QCN paper's input buffer, section II).
    pub ingress: ClassSet,
    /// Classes sampled at egress ports, as in the standard; disjoint from `ingress`.
    pub egress: ClassSet,
    /// Qeq: target occupancy in bytes.
    pub set_point: Bytes,
    pub weight: u32,
    /// `Is`: bytes between samples of an uncongested buffer.
    pub sample_every: Bytes,
    /// Maximum jitter of the sampling interval in percent; it keeps sampling out of step with periodic traffic.
    pub jitter_percent: u8,
    /// Minimum number of frames that arrive between two CNMs (section V of the QCN paper).
    pub frames_per_cnm: u32,
    pub culprit: Culprit,
    /// Maximum number of flows that a congestion point counts ([`Culprit::OccupancyDeterministic`]).
    pub flows_max: u16,
    pub seed: u64,
}

impl QcnSettings {
    /// Settings of section III of the QCN paper with the jitter of 802.1Q, but without congestion points.
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

/// Choice of the flow blamed for congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Culprit {
    /// Flow of the arriving frame (802.1Qau).
    #[default]
    Arrival,
    /// Flow with most bytes in the flow table.
    OccupancyDeterministic,
    /// Flow of a random queued frame, weighted by size.
    OccupancyRandom,
}
