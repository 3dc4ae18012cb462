use crate::Promise;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Verdict on the promise that lossless classes lose nothing, with the numbers of lost frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// True if it is proved that nothing was lost.
    pub lossless: bool,
    /// State of the promise.
    #[serde(default)]
    pub promise: Promise,
    /// Reasons why a loss cannot be excluded: unreadable counters, past gaps, losses of unknown class.
    #[serde(default)]
    pub unproved: Vec<String>,
    /// Acknowledged reasons (`xoff acknowledge`), which no longer count.
    #[serde(default)]
    pub acknowledged: Vec<String>,
    /// Frames of lossless classes dropped although a path to their destination existed.
    pub lossless_lost: u64,
    /// Frames of lossless classes flooded, because their destination was never learned, or forgotten after a link
    /// loss.
    #[serde(default)]
    pub lossless_flooded_unknown: u64,
    /// Frames lost outside the switch that may be lossless; zero is exact if `unproved` is empty.
    pub unseen_lost: u64,
    /// Frames lost before the XDP program saw them, while only lossy classes arrived; some may have been lossless.
    #[serde(default)]
    pub unseen_unknown: u64,
    /// Frames lost outside the switch at ports that carried only lossy classes.
    #[serde(default)]
    pub unseen_lossy: u64,
    /// True if the other `unseen` counts are lower bounds.
    #[serde(default)]
    pub unseen_at_least: bool,
    /// Losses that are proved to be lossy, one text for each port.
    #[serde(default)]
    pub unseen_lossy_at: Vec<String>,
    /// Minimum headroom left in any lossless class; `None` if no class is lossless.
    pub headroom_free_min_bytes: Option<u64>,
    /// True if no frame is missing from the ledger; `None` if a worker did not answer.
    pub ledger_balanced: Option<bool>,
}

impl Verdict {
    #[must_use]
    pub const fn unseen_total(&self) -> u64 {
        self.unseen_lost + self.unseen_unknown + self.unseen_lossy
    }
}
