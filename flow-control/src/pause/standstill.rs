//! Detection of classes that a peer keeps paused nearly all the time, in one pause or many.
//!
//! While pauses last, the port is sampled about every millisecond. A class is at a standstill if it was blocked in all
//! but [`FREE_MAX`] of the last [`LOOKS`] samples.
//!
//! The rule counts samples, not time, because a stalled switch may miss the end of a pause. The samples' spacing
//! varies, because pauses in step with evenly spaced samples could go unnoticed.

use xoff_wire::units::{CLASSES, Class, ClassSet, Nanos};

const LOOKS: u64 = 256;
const FREE_MAX: usize = 2;
const PERIOD_MIN: Nanos = Nanos::from_micros(500);
const BETWEEN_BITS: u32 = 20;

/// Detector of the classes at a standstill at one port.
#[derive(Debug)]
pub struct Standstill {
    classes: ClassSet,
    looks: u64,
    free_at: [[u64; FREE_MAX + 1]; CLASSES],
    blocked_at: u64,
    next_look: Nanos,
}

impl Standstill {
    /// State without samples.
    pub const NONE: Standstill = Standstill {
        classes: ClassSet::NONE,
        looks: 0,
        free_at: [[0; FREE_MAX + 1]; CLASSES],
        blocked_at: 0,
        next_look: Nanos::NEVER,
    };

    /// Returns the classes at a standstill: paused nearly all the time.
    #[inline]
    pub const fn classes(&self) -> ClassSet {
        self.classes
    }

    /// Returns when the port is sampled next.
    pub const fn next_look(&self) -> Nanos {
        self.next_look
    }

    /// Starts sampling if a class is blocked.
    pub fn pauses_changed(&mut self, now: Nanos, blocked: ClassSet) {
        if self.next_look == Nanos::NEVER && !blocked.is_empty() {
            *self = Standstill { next_look: now.after(PERIOD_MIN), ..Standstill::NONE };
        }
    }

    /// Takes a sample; `blocked` are the classes that could not send at the last attempt.
    pub fn look(&mut self, now: Nanos, blocked: ClassSet) {
        self.looks += 1;
        self.classes = ClassSet::NONE;
        for class in Class::ALL {
            let free_at = &mut self.free_at[class.index()];
            if !blocked.contains(class) {
                free_at.rotate_right(1);
                free_at[0] = self.looks;
            }
            if self.looks - free_at[FREE_MAX] >= LOOKS {
                self.classes.insert(class);
            }
        }
        if !blocked.is_empty() {
            self.blocked_at = self.looks;
        }
        let is_over = self.looks - self.blocked_at >= LOOKS;
        self.next_look = if is_over { Nanos::NEVER } else { now.after(self.period()) };
    }

    /// Returns the time to the next sample, 0.5 to 1.55 ms. Multiples of the golden ratio spread these times evenly.
    fn period(&self) -> Nanos {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        PERIOD_MIN.after(Nanos(self.looks.wrapping_mul(GOLDEN) >> (64 - BETWEEN_BITS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const C3: ClassSet = ClassSet(1 << 3);
    const C5: ClassSet = ClassSet(1 << 5);
    const NO_CLASS: ClassSet = ClassSet::NONE;

    fn paused(now: Nanos) -> Standstill {
        let mut standstill = Standstill::NONE;
        standstill.pauses_changed(now, C3);
        standstill
    }

    fn look_on(standstill: &mut Standstill, looks: u64, blocked: ClassSet) {
        for _ in 0..looks {
            standstill.look(standstill.next_look(), blocked);
        }
    }

    #[test] // proves: stalled-floods
    fn class_is_long_paused_only_after_256_samples() {
        let mut standstill = paused(Nanos(5));
        look_on(&mut standstill, LOOKS - 1, C3);
        assert_eq!(standstill.classes(), NO_CLASS);
        look_on(&mut standstill, 1, C3);
        assert_eq!(standstill.classes(), C3);
        look_on(&mut standstill, 1_000, C3);
        assert_eq!(standstill.classes(), C3);
    }

    #[test]
    fn class_unpaused_in_three_samples_is_not_long_paused() {
        let mut standstill = paused(Nanos(0));
        look_on(&mut standstill, LOOKS, ClassSet(C3.0 | C5.0));
        look_on(&mut standstill, 2, C5);
        assert_eq!(standstill.classes(), ClassSet(C3.0 | C5.0));
        look_on(&mut standstill, 1, C5);
        assert_eq!(standstill.classes(), C5, "classes 3 and 5 must be counted separately");
        look_on(&mut standstill, LOOKS - 3, C3);
        assert_eq!(
            standstill.classes(),
            NO_CLASS,
            "a class that could send at three samples must not count as long paused"
        );
        look_on(&mut standstill, 1, C3);
        assert_eq!(
            standstill.classes(),
            C3,
            "a class that could send at only two samples must count as long paused"
        );
    }

    #[test]
    fn sampling_stops_after_samples_without_pauses() {
        let mut standstill = Standstill::NONE;
        standstill.pauses_changed(Nanos(0), NO_CLASS);
        assert_eq!(standstill.next_look(), Nanos::NEVER);
        standstill.pauses_changed(Nanos(7), C3);
        standstill.pauses_changed(Nanos(9), C3);
        assert_eq!(
            standstill.next_look(),
            Nanos(7) + PERIOD_MIN,
            "a refresh of the pause must not delay the next sample"
        );
        look_on(&mut standstill, 1, C3);
        look_on(&mut standstill, LOOKS - 1, NO_CLASS);
        assert_ne!(standstill.next_look(), Nanos::NEVER);
        look_on(&mut standstill, 1, NO_CLASS);
        assert_eq!(standstill.next_look(), Nanos::NEVER);
        standstill.pauses_changed(Nanos::from_secs(9), C3);
        look_on(&mut standstill, LOOKS - 1, C3);
        assert_eq!(
            standstill.classes(),
            NO_CLASS,
            "a new pause must not continue the samples of an earlier one"
        );
    }

    #[test]
    fn late_sample_counts_as_one_sample() {
        let mut standstill = paused(Nanos(0));
        look_on(&mut standstill, LOOKS - 2, C3);
        standstill.look(Nanos::from_secs(1), C3);
        assert_eq!(standstill.classes(), NO_CLASS);
    }

    fn is_found(paused_for: u64, cycle: u64) -> bool {
        let mut standstill = paused(Nanos(0));
        let mut is_found = false;
        while standstill.next_look() < Nanos::from_secs(10) {
            let now = standstill.next_look();
            let is_paused = now.0 % cycle < paused_for;
            standstill.look(now, if is_paused { C3 } else { NO_CLASS });
            standstill.pauses_changed(now, C3);
            is_found |= standstill.classes() == C3;
        }
        is_found
    }

    #[test] // proves: stalled-floods
    fn class_unpaused_a_tenth_of_the_time_is_not_long_paused() {
        for cycle in [7_000, 50_000, 100_000, 500_000, 1_000_000, 1_000_001, 2_000_000, 5_000_000, 20_000_000]
        {
            assert!(
                !is_found(cycle * 9 / 10, cycle),
                "a class unpaused for a tenth of each {cycle} ns must not count as long paused"
            );
            assert!(
                is_found(cycle - cycle / 1_000, cycle),
                "a class unpaused for a thousandth of each {cycle} ns must count as long paused"
            );
        }
    }
}
