//! Scheduling of a port's classes: strict classes first, from the highest down. The others share the line in
//! proportion to their weights, by deficit round robin (802.1Qaz ETS).
//!
//! Frame lengths are not known in advance: a class may exceed its deficit by one frame, then waits until the deficit is
//! positive again.

mod shaper;

pub(crate) use shaper::{Lead, Shaper};

use xoff_flow_control::settings::Service;
use xoff_wire::units::{Bytes, CLASSES, Class, ClassSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) class: Class,
    /// Remaining deficit of the class (bytes times `weight`); `None` if its frames are not charged, because it is
    /// strict or alone.
    left: Option<i64>,
    weight: i64,
}

impl Turn {
    pub(crate) fn bytes(&self) -> Bytes {
        self.left.map_or(Bytes::MAX, |left| Bytes(u64::try_from(left / self.weight).unwrap_or(0)))
    }
}

/// Scheduler, with deficits in bytes times the largest weight, so that quanta are whole numbers.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Scheduler {
    strict: ClassSet,
    owing: ClassSet,
    turn: Class,
    weight_max: i64,
    deficit: [i64; CLASSES],
    quantum: [i64; CLASSES],
}

impl Scheduler {
    pub(crate) fn new(services: [Service; CLASSES], frame_max: u32) -> Scheduler {
        let weights = services.map(|service| match service {
            Service::Strict => 0,
            Service::Weighted(weight) => i64::from(weight.max(1)),
        });
        Scheduler {
            strict: Class::ALL.into_iter().filter(|c| services[c.index()] == Service::Strict).collect(),
            owing: ClassSet::NONE,
            turn: Class::ALL[0],
            weight_max: weights.into_iter().fold(1, i64::max),
            deficit: [0; CLASSES],
            quantum: weights.map(|weight| weight * i64::from(frame_max)),
        }
    }

    #[inline]
    pub(crate) fn choose(&mut self, eligible: ClassSet) -> Option<Turn> {
        let uncharged = |class| Turn { class, left: None, weight: 1 };
        let strict = ClassSet(eligible.0 & self.strict.0).highest();
        if strict.is_some() {
            return strict.map(uncharged);
        }
        let weighted = ClassSet(eligible.0 & !self.strict.0);
        let only = weighted.highest()?;
        if weighted.0.is_power_of_two() {
            self.turn = only;
            if self.owing.contains(only) {
                self.owing.remove(only);
                self.deficit[only.index()] = 0;
            }
            return Some(uncharged(only));
        }
        let class = self.next_in_turn(weighted);
        Some(Turn { class, left: Some(self.deficit[class.index()]), weight: self.weight_max })
    }

    fn next_in_turn(&mut self, weighted: ClassSet) -> Class {
        if weighted.contains(self.turn) && self.deficit[self.turn.index()] > 0 {
            return self.turn;
        }
        self.owing = ClassSet(self.owing.0 | weighted.0);
        self.skip_void_rounds(weighted);
        loop {
            self.turn = Class::from_low_bits(self.turn.get().wrapping_add(1));
            if weighted.contains(self.turn) {
                let at = self.turn.index();
                self.deficit[at] = self.deficit[at].min(0) + self.quantum[at];
                if self.deficit[at] > 0 {
                    return self.turn;
                }
            }
        }
    }

    fn skip_void_rounds(&mut self, weighted: ClassSet) {
        let rounds_void = |class: Class| -self.deficit[class.index()].min(0) / self.quantum[class.index()];
        let rounds = weighted.iter().map(rounds_void).min().unwrap_or(0);
        if rounds > 0 {
            for class in weighted.iter() {
                let deficit = &mut self.deficit[class.index()];
                *deficit = (*deficit).min(0) + rounds * self.quantum[class.index()];
            }
        }
    }

    #[inline]
    pub(crate) fn sent(&mut self, turn: &Turn, bytes: Bytes, now_empty: bool) {
        if turn.left.is_none() {
            return;
        }
        let deficit = &mut self.deficit[turn.class.index()];
        *deficit -= i64::try_from(bytes.0).unwrap_or(i64::MAX) * self.weight_max;
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
            let turn = scheduler.choose(eligible).unwrap();
            scheduler.sent(&turn, Bytes(frame), false);
            bytes[turn.class.index()] += frame;
        }
        bytes
    }

    #[test] // proves: scheduling
    fn classes_share_line_in_proportion_to_their_weights() {
        let mut services = [Service::Weighted(1500); CLASSES];
        services[1] = Service::Weighted(5000);
        services[2] = Service::Weighted(3500);
        let eligible = ClassSet(0b1110);
        for frame in [64, 700, 1518] {
            let bytes = shares(services, eligible, frame, 100_000);
            let total: u64 = bytes.iter().sum();
            for (class, per_mille) in [(1, 500), (2, 350), (3, 150)] {
                let share = bytes[class] * 1000 / total;
                assert!(
                    share.abs_diff(per_mille) <= 2,
                    "class {class} with frames of {frame} bytes must get {per_mille} per mille of the bytes, but got {share}"
                );
            }
        }
    }

    #[test]
    fn classes_of_equal_weight_send_equal_bytes() {
        let bytes = shares([Service::Weighted(3300); CLASSES], ClassSet(0b111), 1518, 300);
        assert_eq!(bytes[..3], [151_800; 3]);
    }

    #[test]
    fn scheduler_gives_weighted_class_at_most_one_frame_per_round() {
        let mut services = [Service::Weighted(1); CLASSES];
        services[1] = Service::Weighted(100_000);
        services[2] = Service::Weighted(50_000);
        let mut scheduler = Scheduler::new(services, 1518);
        let mut chosen = [0_u32; CLASSES];
        let mut last_of_1 = 0;
        for round in 0..1_200_000 {
            let turn = scheduler.choose(ClassSet(0b111)).unwrap();
            scheduler.sent(&turn, Bytes(1518), false);
            let class = turn.class;
            chosen[class.index()] += 1;
            if class.get() == 1 {
                assert!(
                    round - last_of_1 <= 3,
                    "class 1 must wait for at most one frame of each other class"
                );
                last_of_1 = round;
            }
        }
        assert_eq!(chosen[0], 8); // 1 of 150,001
        assert!(chosen[1].abs_diff(2 * chosen[2]) <= 2, "{chosen:?}");
    }

    #[test] // proves: batches
    fn scheduler_charges_batch_like_single_frames() {
        for seed in xoff_explore::seeds(0..20) {
            let mut rng = fastrand::Rng::with_seed(seed);
            let services = [(); CLASSES].map(|()| match rng.u8(0..6) {
                0 => Service::Strict,
                _ => Service::Weighted(rng.u32(1..9)),
            });
            let (mut together, mut alone) = (Scheduler::new(services, 1518), Scheduler::new(services, 1518));
            for _ in 0..300 {
                let eligible = ClassSet(rng.u8(1..));
                let turn = together.choose(eligible).unwrap();
                assert_eq!(alone.choose(eligible), Some(turn));
                let most = turn.bytes().0.min(20_000);
                let first = rng.u64(64..1519);
                let mut sent = first;
                alone.sent(&turn, Bytes(first), false);
                while sent < most {
                    let next = rng.u64(1..1519).min(most - sent);
                    let again = alone.choose(eligible).unwrap();
                    assert_eq!((again.class, again.left.is_some()), (turn.class, turn.left.is_some()));
                    alone.sent(&again, Bytes(next), false);
                    sent += next;
                }
                together.sent(&turn, Bytes(sent), false);
                assert_eq!(format!("{together:?}"), format!("{alone:?}"));
            }
        }
        let mut scheduler = Scheduler::new([Service::Weighted(1); CLASSES], 1518);
        let turn = scheduler.choose(ClassSet(0b11)).unwrap();
        scheduler.sent(&turn, Bytes(turn.bytes().0 - 1), false);
        let again = scheduler.choose(ClassSet(0b11)).unwrap();
        assert_eq!((again.class, again.bytes()), (turn.class, Bytes(1)));
        scheduler.sent(&again, Bytes(1), false);
        assert_ne!(
            scheduler.choose(ClassSet(0b11)).unwrap().class,
            turn.class,
            "a class that has spent its share must not be chosen"
        );
    }

    #[test]
    fn scheduler_chooses_highest_strict_class_first() {
        let mut services = [Service::Weighted(1); CLASSES];
        services[6] = Service::Strict;
        services[5] = Service::Strict;
        let mut scheduler = Scheduler::new(services, 1518);
        assert_eq!(scheduler.choose(ClassSet::ALL).unwrap().class.get(), 6);
        assert_eq!(scheduler.choose(ClassSet(0b0011_0001)).unwrap().class.get(), 5);
        assert_eq!(scheduler.choose(ClassSet(0b0000_0001)).unwrap().class.get(), 0);
        assert_eq!(scheduler.choose(ClassSet::NONE), None);
    }

    #[test]
    fn paused_class_saves_no_scheduler_credit() {
        let mut scheduler = Scheduler::new([Service::Weighted(1); CLASSES], 1518);
        for _ in 0..1000 {
            let turn = scheduler.choose(ClassSet(0b11)).unwrap();
            scheduler.sent(&turn, Bytes(64), false);
            let other = scheduler.choose(ClassSet(0b01)).unwrap(); // class 1 is paused
            scheduler.sent(&other, Bytes(1518), false);
        }
        assert!(scheduler.deficit.iter().all(|&deficit| deficit <= 1518), "{:?}", scheduler.deficit);
    }

    #[test]
    fn idle_class_loses_its_scheduler_credit() {
        let mut scheduler = Scheduler::new([Service::Weighted(1); CLASSES], 1000);
        let mut turn = scheduler.choose(ClassSet(0b11)).unwrap();
        while turn.class.get() != 0 {
            scheduler.sent(&turn, Bytes(1000), false);
            turn = scheduler.choose(ClassSet(0b11)).unwrap();
        }
        scheduler.sent(&turn, Bytes(100), true);
        assert_eq!(scheduler.deficit[0], 0, "an idle class must lose the rest of its share");
    }
}
