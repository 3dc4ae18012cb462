//! How late the turns of a worker are.

use xoff_dataplane::units::Nanos;

use crate::control::WorkerFacts;

/// Measures a worker's turns.
pub(crate) struct Watch {
    /// When the worker should have been running again at the latest.
    expected: Nanos,
    /// When the turn before this one began.
    pub previous: Nanos,
    current: Nanos,
}

impl Watch {
    pub fn new(now: Nanos) -> Watch {
        Watch { expected: now, previous: now, current: now }
    }

    /// The worker slept, and should have been running again `at` that time. Nothing moved meanwhile.
    pub fn woken(&mut self, at: Nanos) {
        self.expected = at;
        self.current = at;
    }

    /// A turn begins. True where that is later than rings and headroom were sized for.
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
