use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Verdict on the promise that lossless classes lose no frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// No lossless loss is known, no unacknowledged gap is in the proof, and every frame is accounted for.
    Kept,
    /// Lossless frames were lost, or frames are missing from the ledger.
    NotKept,
    /// No lossless loss is known, but one cannot be excluded: a counter is or was unreadable, or the class of a loss is unknown.
    #[default]
    NotProved,
}
