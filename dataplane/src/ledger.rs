//! Ledger: every received frame is delivered, queued, or dropped for a named reason.

/// Counts of a worker's frames: as many frames came in as went out or are still held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Ledger {
    pub received: u64,
    pub copied: u64,
    /// Control frames that the worker made, and frames from the host.
    pub made: u64,
    pub taken_over: u64,
    pub sent: u64,
    pub dropped: u64,
    /// Consumed frames: MAC control frames, frames to other reserved addresses, and punted frames.
    pub consumed: u64,
    pub handed_over: u64,
    pub held: u64,
}

impl Ledger {
    /// Returns the number of unaccounted frames: zero unless there is a bug.
    #[must_use]
    pub fn missing(&self) -> i128 {
        let came = [self.received, self.copied, self.made, self.taken_over];
        let went = [self.sent, self.dropped, self.consumed, self.handed_over, self.held];
        let sum = |numbers: &[u64]| numbers.iter().map(|&n| i128::from(n)).sum::<i128>();
        sum(&came) - sum(&went)
    }
}
