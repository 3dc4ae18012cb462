//! Measurement of a worker's stalls.

use xoff_wire::units::Nanos;

use crate::control::WorkerFacts;

pub(crate) struct TurnTimer {
    /// Latest time at which the worker should have run again.
    expected: Nanos,
    /// Start of the previous turn.
    pub previous: Nanos,
    current: Nanos,
}

impl TurnTimer {
    pub fn new(now: Nanos) -> TurnTimer {
        TurnTimer { expected: now, previous: now, current: now }
    }

    /// Records that the worker slept, and should have run again at time `at`. No frame moved in the meantime.
    pub fn woken(&mut self, at: Nanos) {
        self.expected = at;
        self.current = at;
    }

    /// Records the start of a turn. Returns true if the worker stalled for longer than `budget`, for which rings and
    /// headroom are sized.
    #[inline]
    pub fn turn(&mut self, now: Nanos, budget: Nanos, facts: &WorkerFacts) -> bool {
        let gap = now.since(self.expected);
        facts.looped(gap, budget);
        self.expected = now;
        self.previous = self.current;
        self.current = now;
        gap > budget
    }
}
