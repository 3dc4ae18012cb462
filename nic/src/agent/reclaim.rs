//! Delays before the agent replaces another program's root qdisc. They grow, because that program may replace
//! the agent's root again.

use xoff_wire::units::Nanos;

const FIRST: Nanos = Nanos::from_secs(1);
const MOST: Nanos = Nanos::from_secs(8);
/// Time without another program's root qdisc after which the delay is `FIRST` again.
const QUIET: Nanos = Nanos::from_secs(60);

#[derive(Clone, Copy, Debug)]
pub(super) struct Reclaim {
    delay: Nanos,
    /// Time from which the agent may replace another program's root qdisc; `NEVER` while the root is the agent's own.
    at: Nanos,
    last: Nanos,
}

impl Reclaim {
    pub(super) const NEW: Reclaim = Reclaim { delay: FIRST, at: Nanos::NEVER, last: Nanos::ZERO };

    pub(super) fn is_due(&self, now: Nanos) -> bool {
        now >= self.at
    }

    /// Records another program's root qdisc; returns `at`.
    pub(super) fn is_foreign(&mut self, now: Nanos) -> Nanos {
        if self.at == Nanos::NEVER {
            if now.since(self.last) >= QUIET {
                self.delay = FIRST;
            }
            self.at = now.after(self.delay);
            self.delay = Nanos(2 * self.delay.0).min(MOST);
        }
        self.last = now;
        self.at
    }

    pub(super) fn is_own(&mut self) {
        self.at = Nanos::NEVER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // proves: host-guard
    fn agent_waits_longer_after_each_replacement_of_its_root_qdisc() {
        let (mut reclaim, mut now) = (Reclaim { last: Nanos::ZERO, ..Reclaim::NEW }, Nanos::from_secs(100));
        for seconds in [1, 2, 4, 8, 8] {
            assert!(!reclaim.is_due(now), "due without a foreign root");
            reclaim.is_foreign(now);
            now = now.after(Nanos(Nanos::from_secs(seconds).0 - 1));
            reclaim.is_foreign(now);
            assert!(!reclaim.is_due(now));
            now = now.after(Nanos(1));
            assert!(reclaim.is_due(now));
            reclaim.is_own();
        }
        now = now.after(QUIET);
        reclaim.is_foreign(now);
        assert!(reclaim.is_due(now.after(FIRST)));
    }
}
