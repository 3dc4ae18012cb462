//! Which class of a port sends next: strict classes first, the highest first; the others by deficit
//! round robin in proportion to their weights (802.1Qaz ETS).
//!
//! The scheduler knows nothing of frames: it is given the set of classes that could send and told
//! how many bytes the chosen one took. Deficits may go negative by one frame, which is repaid before
//! the class is served again, so shares are exact in the long run without looking at lengths first.

mod shaper;

pub(crate) use shaper::Shaper;

use crate::settings::Service;
use crate::units::{Bytes, CLASSES, Class, ClassSet};

/// Strict priority and deficit round robin over the classes of one port.
#[derive(Debug)]
pub(crate) struct Scheduler {
    strict: ClassSet,
    quantum: [i64; CLASSES],
    deficit: [i64; CLASSES],
    turn: usize,
}

impl Scheduler {
    /// `frame_max` is the longest frame: every weighted class earns at least that per round, so that
    /// a choice takes at most two rounds.
    pub(crate) fn new(services: [Service; CLASSES], frame_max: u32) -> Scheduler {
        let weight = |service: Service| match service {
            Service::Strict => None,
            Service::Weighted(weight) => Some(i64::from(weight.max(1))),
        };
        let least = services.iter().filter_map(|&service| weight(service)).min().unwrap_or(1);
        let quantum =
            services.map(|service| weight(service).map_or(0, |weight| weight * i64::from(frame_max) / least));
        let strict = Class::ALL.into_iter().filter(|c| services[c.index()] == Service::Strict).collect();
        Scheduler { strict, quantum, deficit: [0; CLASSES], turn: 0 }
    }

    /// The class that sends next among `eligible` (backlogged, unpaused, in rate).
    #[inline]
    pub(crate) fn choose(&mut self, eligible: ClassSet) -> Option<Class> {
        let strict = ClassSet(eligible.0 & self.strict.0).highest();
        if strict.is_some() {
            return strict;
        }
        let weighted = eligible.0 & !self.strict.0;
        if weighted == 0 {
            return None;
        }
        loop {
            let turn = Class::ALL[self.turn];
            if weighted & (1 << turn.get()) != 0 && self.deficit[self.turn] > 0 {
                return Some(turn);
            }
            self.turn = (self.turn + 1) % CLASSES;
            if weighted & (1 << self.turn) != 0 {
                self.deficit[self.turn] = self.deficit[self.turn].min(0) + self.quantum[self.turn];
            }
        }
    }

    /// Tells that `class` sent `bytes`, and whether its queue is empty now: an idle class saves
    /// nothing up, and neither does one that is paused before its turn is over.
    #[inline]
    pub(crate) fn sent(&mut self, class: Class, bytes: Bytes, now_empty: bool) {
        if self.strict.contains(class) {
            return;
        }
        let deficit = &mut self.deficit[class.index()];
        *deficit -= i64::try_from(bytes.0).unwrap_or(i64::MAX);
        if now_empty {
            *deficit = (*deficit).min(0);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn shares(services: [Service; CLASSES], eligible: ClassSet, frame: u64, rounds: usize) -> [u64; CLASSES] {
        let mut scheduler = Scheduler::new(services, 1518);
        let mut bytes = [0; CLASSES];
        for _ in 0..rounds {
            let class = scheduler.choose(eligible).unwrap();
            scheduler.sent(class, Bytes(frame), false);
            bytes[class.index()] += frame;
        }
        bytes
    }

    #[test]
    fn weights_are_shares_of_bytes() {
        let mut services = [Service::Weighted(1500); CLASSES];
        services[1] = Service::Weighted(5000);
        services[2] = Service::Weighted(3500);
        let eligible = ClassSet(0b1110); // 1: 5000, 2: 3500, 3: 1500
        for frame in [64, 700, 1518] {
            let bytes = shares(services, eligible, frame, 100_000);
            let total: u64 = bytes.iter().sum();
            for (class, per_mille) in [(1, 500), (2, 350), (3, 150)] {
                let share = bytes[class] * 1000 / total;
                assert!(share.abs_diff(per_mille) <= 2, "class {class} of {frame} B frames: {share}");
            }
        }
    }

    #[test]
    fn equal_weights_alternate_within_one_frame_of_each_other() {
        let bytes = shares([Service::Weighted(3300); CLASSES], ClassSet(0b111), 1518, 300);
        assert_eq!(bytes[..3], [151_800; 3]);
    }

    #[test]
    fn strict_goes_first_and_the_highest_of_them_before_all() {
        let mut services = [Service::Weighted(1); CLASSES];
        services[6] = Service::Strict;
        services[5] = Service::Strict;
        let mut scheduler = Scheduler::new(services, 1518);
        assert_eq!(scheduler.choose(ClassSet::ALL).unwrap().get(), 6);
        assert_eq!(scheduler.choose(ClassSet(0b0011_0001)).unwrap().get(), 5);
        assert_eq!(scheduler.choose(ClassSet(0b0000_0001)).unwrap().get(), 0);
        assert_eq!(scheduler.choose(ClassSet::NONE), None);
    }

    #[test]
    fn a_class_that_is_paused_again_and_again_saves_nothing_up() {
        let mut scheduler = Scheduler::new([Service::Weighted(1); CLASSES], 1518);
        for _ in 0..1000 {
            let class = scheduler.choose(ClassSet(0b11)).unwrap();
            scheduler.sent(class, Bytes(64), false);
            let other = scheduler.choose(ClassSet(0b01)).unwrap(); // class 1 is paused
            scheduler.sent(other, Bytes(1518), false);
        }
        assert!(scheduler.deficit.iter().all(|&deficit| deficit <= 1518), "{:?}", scheduler.deficit);
    }

    #[test]
    fn a_class_that_was_idle_saved_nothing_up() {
        let mut scheduler = Scheduler::new([Service::Weighted(1); CLASSES], 1000);
        let class = scheduler.choose(ClassSet(1)).unwrap();
        scheduler.sent(class, Bytes(100), true);
        assert_eq!(scheduler.deficit[0], 0);
    }
}
