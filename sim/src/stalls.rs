use std::ops::RangeInclusive;

use xoff_wire::units::Nanos;

use crate::seed::exponential;
use crate::time::Picos;

/// Parameters of random driver stalls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stalls {
    /// Mean gap between stalls; gaps are exponentially distributed.
    pub gap: Nanos,
    /// Range of stall durations, which are uniformly distributed.
    pub length: RangeInclusive<Nanos>,
    /// Time from which on no stall begins.
    pub until: Nanos,
}

#[derive(Debug)]
pub(crate) struct StallTimes {
    stalls: Stalls,
    rng: fastrand::Rng,
    next: Nanos,
}

impl StallTimes {
    pub(crate) fn new(stalls: Stalls, now: Nanos, rng: fastrand::Rng) -> StallTimes {
        let mut drawn = StallTimes { stalls, rng, next: Nanos::NEVER };
        drawn.draw(now);
        drawn
    }

    fn draw(&mut self, end: Nanos) {
        let gap = exponential(Picos::from(self.stalls.gap).0 as f64, &mut self.rng).floor();
        let next = end.after(gap.max(Nanos(1))); // at least 1 ns, so that the driver polls between stalls
        self.next = if next < self.stalls.until { next } else { Nanos::NEVER };
    }

    pub(crate) fn next(&self) -> Nanos {
        self.next
    }

    pub(crate) fn begin(&mut self, now: Nanos) -> Option<Nanos> {
        if now < self.next {
            return None;
        }
        let length = self.rng.u64(self.stalls.length.start().0..=self.stalls.length.end().0);
        let end = self.next.after(Nanos(length));
        self.draw(end);
        Some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stalls(seed: u64, until: Nanos) -> StallTimes {
        let length = Nanos::from_micros(1)..=Nanos::from_micros(3);
        let stalls = Stalls { gap: Nanos::from_micros(10), length, until };
        StallTimes::new(stalls, Nanos::ZERO, fastrand::Rng::with_seed(seed))
    }

    fn drawn(seed: u64, until: Nanos) -> Vec<(Nanos, Nanos)> {
        let mut drawn = stalls(seed, until);
        let mut all = Vec::new();
        while drawn.next() < Nanos::NEVER {
            let begin = drawn.next();
            assert_eq!(drawn.begin(Nanos(begin.0 - 1)), None);
            all.push((begin, drawn.begin(begin).unwrap_or_default()));
        }
        all
    }

    #[test] // proves: sim-faults
    fn random_stalls_follow_configured_gap_and_length() {
        let until = Nanos::from_millis(120);
        let all = drawn(1, until);
        // With a mean gap of 10 us and a mean stall of 2 us, about 10,000 stalls are expected.
        assert!((9_700..10_300).contains(&all.len()), "{}", all.len());
        assert!(all.iter().all(|(begin, end)| (1_000..=3_000).contains(&end.since(*begin).0)));
        assert!(all.windows(2).all(|two| two[0].1 < two[1].0) && all.iter().all(|(begin, _)| *begin < until));
        let mean = all.iter().map(|(begin, end)| end.since(*begin).0).sum::<u64>() / all.len() as u64;
        assert!((1_970..2_030).contains(&mean), "{mean}");
        assert_eq!(all, drawn(1, until));
        assert_ne!(all, drawn(2, until));
    }

    #[test]
    fn no_random_stall_begins_at_or_after_the_end() {
        let all = drawn(1, Nanos::from_micros(200));
        let (begin, _) = all[3];
        assert_eq!([begin, begin.after(Nanos(1))].map(|until| drawn(1, until).len()), [3, 4]);
    }

    #[test]
    fn random_stall_that_begins_late_still_ends_as_planned() {
        let [mut in_time, mut late] = [(); 2].map(|()| stalls(1, Nanos::NEVER));
        let begin = late.next();
        assert_eq!(late.begin(begin.after(Nanos(700))), in_time.begin(begin));
        assert_eq!(late.next(), in_time.next());
    }
}
