//! Whether it can be said that nothing lossless was lost: of a switch, of a network of them, of an experiment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of the promise that lossless classes lose nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// Nothing was lost, but for what is acknowledged, and every frame is accounted for.
    Kept,
    /// Frames were lost, or are missing.
    NotKept,
    /// No loss is known, but not everything that could tell of one can be read.
    #[default]
    NotProved,
}
