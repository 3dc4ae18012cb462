use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Verdict on the promise that lossless classes lose no frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// No loss is unacknowledged, and every frame is accounted for.
    Kept,
    /// Frames were lost, or are missing from the ledger.
    NotKept,
    /// No lossless loss is known, but not every loss can be excluded: a counter is or was unreadable, or the class of a loss
    /// is not proved.
    #[default]
    NotProved,
}
