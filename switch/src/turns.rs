use xoff_wire::units::Nanos;

use crate::control::WorkerFacts;

pub(crate) struct TurnTimer {
    expected: Nanos,
    pub previous: Nanos,
    current: Nanos,
}

impl TurnTimer {
    pub fn new(now: Nanos) -> TurnTimer {
        TurnTimer { expected: now, previous: now, current: now }
    }

    pub fn woken(&mut self, at: Nanos) {
        self.expected = at;
        self.current = at;
    }

    /// Records an iteration of the worker's loop. Returns whether it stalled for longer than `budget`.
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
