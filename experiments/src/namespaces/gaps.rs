use std::sync::Arc;

use xoff_switch::control::{SwitchView, WorkerFacts};

pub(super) struct Gaps(Vec<Vec<u64>>);

impl Gaps {
    pub(super) fn of(views: &[Arc<SwitchView>]) -> Gaps {
        let counts = |facts: &WorkerFacts| facts.gaps.buckets().map(|(_, count)| count).collect();
        Gaps(workers(views).map(counts).collect())
    }

    /// Returns the longest time (ns) for which a worker was not scheduled after `self` was taken; may be 1/8 too long.
    pub(super) fn longest_since(&self, views: &[Arc<SwitchView>]) -> u64 {
        let longest = |(facts, before): (&WorkerFacts, &Vec<u64>)| {
            let grown = facts.gaps.buckets().zip(before).filter(|((_, count), before)| count > before);
            let bound = grown.last().map(|((bound, _), _)| bound.unwrap_or(u64::MAX));
            bound.unwrap_or(0).min(facts.longest_gap.get())
        };
        workers(views).zip(&self.0).map(longest).max().unwrap_or(0)
    }
}

fn workers(views: &[Arc<SwitchView>]) -> impl Iterator<Item = &WorkerFacts> {
    views.iter().flat_map(|view| &view.workers).map(|worker| &*worker.facts)
}

#[cfg(test)]
mod tests {
    use xoff_wire::units::Nanos;

    use super::*;

    #[test] // proves: cascade
    fn stall_before_start_of_hosts_is_ignored() {
        let (view, _) = xoff_switch::control::testing::view();
        let views = [view];
        let (facts, budget) = (&views[0].workers[0].facts, Nanos::from_millis(25));
        facts.looped(Nanos::from_millis(80), budget);
        let before = Gaps::of(&views);
        assert_eq!(before.longest_since(&views), 0);
        facts.looped(Nanos::from_millis(4), budget);
        let longest = before.longest_since(&views);
        assert!((4_000_000..4_500_001).contains(&longest), "{longest}");
        facts.looped(Nanos::from_millis(90), budget);
        assert_eq!(
            before.longest_since(&views),
            90_000_000,
            "the longest gap since the switch's start must be returned exactly"
        );
    }
}
