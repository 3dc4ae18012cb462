use crate::Promise;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// True if it is proved that lossless classes lost no frame.
    pub lossless: bool,
    /// State of the promise that lossless classes lose no frame: `kept`, `not-kept` or `not-proved`.
    #[serde(default)]
    pub promise: Promise,
    /// Reasons why a loss cannot be excluded (gaps in the proof), such as unreadable counters.
    #[serde(default)]
    pub unproved: Vec<String>,
    /// Acknowledged reasons (`xoff acknowledge`) why a loss could not be excluded; they do not affect `promise`.
    #[serde(default)]
    pub acknowledged: Vec<String>,
    /// Frames of lossless classes dropped although a path to their destination existed.
    pub lossless_lost: u64,
    /// Frames of lossless classes flooded, because their destination was not learned, or forgotten after a loss of link.
    #[serde(default)]
    pub lossless_flooded_unknown: u64,
    /// Frames lost outside the switch that count as losses of lossless classes. Zero is a proof only if `unproved` is
    /// empty.
    pub unseen_lost: u64,
    /// Frames lost before the XDP program read their class, while only lossy frames came; some may be lossless.
    /// Includes drops that an untested driver may count twice.
    #[serde(default)]
    pub unseen_unknown: u64,
    /// Frames lost outside the switch at ports that carried only lossy classes.
    #[serde(default)]
    pub unseen_lossy: u64,
    /// True if `unseen_lost`, `unseen_unknown` and `unseen_lossy` are lower bounds.
    #[serde(default)]
    pub unseen_at_least: bool,
    /// Losses outside the switch of certainly lossy frames, one text for each port.
    #[serde(default)]
    pub unseen_lossy_at: Vec<String>,
    /// Minimum free headroom of all lossless classes; `None` if no class is lossless.
    pub headroom_free_min_bytes: Option<u64>,
    /// True if every frame is accounted for; `None` if a worker did not answer.
    pub ledger_balanced: Option<bool>,
}

impl Verdict {
    #[must_use]
    pub const fn unseen_total(&self) -> u64 {
        self.unseen_lost + self.unseen_unknown + self.unseen_lossy
    }
}
