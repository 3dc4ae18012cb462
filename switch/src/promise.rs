use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// No loss in a lossless class is known, none can have happened unnoticed except in acknowledged gaps, and no frame
    /// is unaccounted for.
    Kept,
    /// Frames of lossless classes were lost, or frames are unaccounted for.
    NotKept,
    /// No loss in a lossless class is known, but a loss cannot be excluded: a counter is or was unreadable, or the class of
    /// a loss is unknown.
    #[default]
    NotProved,
}
