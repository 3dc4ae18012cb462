//! The verdict on a switch as `/status` has it.

use crate::Promise;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the lossless classes lost nothing, and by how much.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Nothing was lost, and that is proved: `promise` is `kept`.
    pub lossless: bool,
    /// What became of the promise.
    #[serde(default)]
    pub promise: Promise,
    /// Why it cannot be proved that nothing was lost, in words: one for each thing that cannot be read.
    #[serde(default)]
    pub unproved: Vec<String>,
    /// The same of what somebody has acknowledged (`xoff acknowledge`): it does not count.
    #[serde(default)]
    pub acknowledged: Vec<String>,
    /// Frames of lossless classes that had a way on and were dropped.
    pub lossless_lost: u64,
    /// Frames of lossless classes that were flooded because no port was known for their destination: the address was never learned, or
    /// was forgotten, as when its port lost its link. They are no loss.
    #[serde(default)]
    pub lossless_flooded_unknown: u64,
    /// Frames lost before or behind the switch, among which lossless ones may be, each counted once. Zero is exact where nothing
    /// is unproved.
    pub unseen_lost: u64,
    /// Frames lost before the XDP program saw them, when only lossy classes came: it is not proved that none was lossless.
    #[serde(default)]
    pub unseen_unknown: u64,
    /// Frames lost before or behind the switch at ports that carried only lossy classes in that time: no broken promise.
    #[serde(default)]
    pub unseen_lossy: u64,
    /// Of these three there may be more: two counters may have the same frames, or others.
    #[serde(default)]
    pub unseen_at_least: bool,
    /// The lossy ones in words, one for each port.
    #[serde(default)]
    pub unseen_lossy_at: Vec<String>,
    /// Least headroom that any lossless class had left; `None` where no class is lossless.
    pub headroom_free_min_bytes: Option<u64>,
    /// No frame is missing from the ledger; `None` where a worker did not answer.
    pub ledger_balanced: Option<bool>,
}

impl Verdict {
    /// Frames lost before or behind the switch, of any class.
    #[must_use]
    pub const fn unseen_total(&self) -> u64 {
        self.unseen_lost + self.unseen_unknown + self.unseen_lossy
    }
}
