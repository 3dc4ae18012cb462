//! The verdict on losslessness of a switch, a network of switches, or an experiment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Verdict on the promise that lossless classes lose no frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// No unacknowledged loss, and every frame is accounted for.
    Kept,
    /// Frames were lost, or are missing from the ledger.
    NotKept,
    /// No known loss, but a counter that could show one is unreadable.
    #[default]
    NotProved,
}
