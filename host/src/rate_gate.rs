use xoff_flow_control::pause::KeptRates;
use xoff_wire::Rates;
use xoff_wire::units::{BitRate, Bytes, CLASSES, Class, ClassSet, Nanos};

use crate::pacer::Pacer;

#[derive(Debug)]
pub struct RateGate {
    kept: KeptRates,
    pacers: [Option<Pacer>; CLASSES],
    now: Nanos,
}

impl RateGate {
    #[must_use]
    pub fn new(line: BitRate) -> RateGate {
        RateGate { kept: KeptRates::new(line), pacers: std::array::from_fn(|_| None), now: Nanos::ZERO }
    }

    pub fn obey(&mut self, now: Nanos, rates: &Rates) {
        let changed = self.kept.receive(now, ClassSet::ALL, rates);
        self.keep(now, changed);
    }

    /// Returns the classes that must wait at `now` because of their rate limits (GFC).
    pub fn slowed(&mut self, now: Nanos) -> ClassSet {
        let over = self.kept.expire(now);
        self.keep(now, over);
        self.now = now;
        let waits =
            |class: &Class| self.pacers[class.index()].as_ref().is_some_and(|pacer| pacer.free_at() > now);
        Class::ALL.into_iter().filter(waits).collect()
    }

    /// Returns the rate limit of `class`. A limit expires only at a call of [`RateGate::slowed`].
    #[must_use]
    pub fn rate(&self, class: Class) -> Option<BitRate> {
        self.kept.rate(class)
    }

    pub fn sent(&mut self, now: Nanos, class: Class, bytes: Bytes) {
        if let Some(pacer) = &mut self.pacers[class.index()] {
            pacer.occupy(now, bytes);
        }
    }

    #[must_use]
    pub fn next_change(&self) -> Nanos {
        let waiting = self.pacers.iter().flatten().map(Pacer::free_at).filter(|&at| at > self.now);
        waiting.min().unwrap_or(Nanos::NEVER).min(self.kept.next_expiry())
    }

    fn keep(&mut self, now: Nanos, classes: ClassSet) {
        for class in classes.iter() {
            let pacer = &mut self.pacers[class.index()];
            match self.kept.rate(class) {
                None => *pacer = None,
                Some(rate) => pacer.get_or_insert_with(|| Pacer::new(rate, now)).set_rate(rate),
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use xoff_wire::units::{Quanta, RateStep};

    const C3: Class = Class::ALL[3];

    #[test] // proves: gfc
    fn rate_limit_of_a_class_expires_by_itself() {
        let mut gate = RateGate::new(BitRate::from_gbps(1)); // a quantum is 512 ns
        let rates = Rates { time: Quanta(100), ..Rates::default() };
        gate.obey(Nanos(0), &rates.with(C3, RateStep::new(2).unwrap()));
        assert_eq!(gate.slowed(Nanos(0)), ClassSet::NONE);
        gate.sent(Nanos(0), C3, Bytes(125)); // 4 us at 250 Mb/s
        gate.sent(Nanos(0), Class::ALL[4], Bytes(125));
        assert_eq!(gate.slowed(Nanos(3_999)), ClassSet(0b1000));
        assert_eq!(gate.next_change(), Nanos(4_000));
        assert_eq!(gate.slowed(Nanos(4_000)), ClassSet::NONE);
        assert_eq!(gate.next_change(), Nanos(51_200));
        gate.sent(Nanos(51_199), C3, Bytes(125));
        assert_eq!(gate.slowed(Nanos(51_199)), ClassSet(0b1000));
        assert_eq!(
            gate.slowed(Nanos(51_200)),
            ClassSet::NONE,
            "a class must be free to send once its rate limit has expired"
        );
    }
}
