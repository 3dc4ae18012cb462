//! The books: every frame received is delivered, queued, or dropped for a named reason; nothing else
//! exists. [`Ledger`] is one worker's own account of where its frames are; it balances after every step,
//! and [`Ledger::missing`] says by how much it does not.

/// Where one worker's frames came from and went to, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Received by the worker's ports.
    pub received: u64,
    /// Copies made for floods.
    pub copied: u64,
    /// Control frames made.
    pub made: u64,
    /// Taken over from other workers.
    pub taken_over: u64,
    /// Sent by the worker's ports, control frames included.
    pub sent: u64,
    /// Dropped for a named reason.
    pub dropped: u64,
    /// Consumed: MAC control and the rest of the reserved block, and what was punted.
    pub consumed: u64,
    /// Handed over to other workers.
    pub handed_over: u64,
    /// In a queue of the worker, or committed to its driver, now.
    pub held: u64,
}

impl Ledger {
    /// Frames that came and are nowhere: zero unless the switch has a bug.
    #[must_use]
    pub fn missing(&self) -> i128 {
        let came = [self.received, self.copied, self.made, self.taken_over];
        let went = [self.sent, self.dropped, self.consumed, self.handed_over, self.held];
        let sum = |numbers: &[u64]| numbers.iter().map(|&n| i128::from(n)).sum::<i128>();
        sum(&came) - sum(&went)
    }
}
