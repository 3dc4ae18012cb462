use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xoff_dataplane::ledger::Ledger;

/// Numbers of frames by source and by outcome; both have the same sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Books {
    /// Frames received.
    pub received: u64,
    /// Copies made to flood frames.
    pub copied: u64,
    /// Control frames that the switch created.
    pub made: u64,
    /// Frames taken over from other workers to be sent.
    pub taken_over: u64,
    /// Frames sent, control frames included.
    pub sent: u64,
    /// Frames dropped.
    pub dropped: u64,
    /// Frames that ended in the switch: MAC control frames, and frames to other reserved addresses.
    pub consumed: u64,
    /// Frames handed over to other workers to be sent.
    pub handed_over: u64,
    /// Frames in the switch now.
    pub held: u64,
    /// Frames unaccounted for: zero unless the switch has a bug.
    pub missing: i64,
    /// True if no frame is unaccounted for.
    pub balanced: bool,
}

impl From<Ledger> for Books {
    fn from(ledger: Ledger) -> Books {
        let missing = ledger.missing();
        Books {
            received: ledger.received,
            copied: ledger.copied,
            made: ledger.made,
            taken_over: ledger.taken_over,
            sent: ledger.sent,
            dropped: ledger.dropped,
            consumed: ledger.consumed,
            handed_over: ledger.handed_over,
            held: ledger.held,
            missing: i64::try_from(missing).unwrap_or(i64::MAX),
            balanced: missing == 0,
        }
    }
}

impl std::ops::Add for Books {
    type Output = Books;
    fn add(self, other: Books) -> Books {
        Books {
            received: self.received + other.received,
            copied: self.copied + other.copied,
            made: self.made + other.made,
            taken_over: self.taken_over + other.taken_over,
            sent: self.sent + other.sent,
            dropped: self.dropped + other.dropped,
            consumed: self.consumed + other.consumed,
            handed_over: self.handed_over + other.handed_over,
            held: self.held + other.held,
            missing: self.missing + other.missing,
            balanced: self.balanced && other.balanced,
        }
    }
}
