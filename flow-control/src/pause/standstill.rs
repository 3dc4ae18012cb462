//! Which classes of a port stand still because its peer lets nothing pass.
//!
//! A pause may be as short as it likes and come again as soon as it likes, so that how long one lasts says little. So
//! the switch looks, about every millisecond from the first pause on: a class that was blocked at all but [`FREE_MAX`] of
//! the last [`LOOKS`] looks stands still. A class that may send for a tenth of the time, as where ten congest a
//! port, is as good as never taken for one of those, one that may for a few thousandths as good as always; what is
//! between may be, now and then.
//!
//! Looks are counted, not time, so that a switch that was kept from running takes no time for a pause that it could not
//! hear the end of. They are not evenly spaced, so that few rhythms of pauses hide between them.

use xoff_wire::units::{CLASSES, Class, ClassSet, Nanos};

/// What is judged by.
const LOOKS: u64 = 256;
/// A class that could send at more of those does not stand still.
const FREE_MAX: usize = 2;
/// Time between two looks, at least.
const PERIOD_MIN: Nanos = Nanos::from_micros(500);
/// So many bits of nanoseconds, about a millisecond, may come on top.
const BETWEEN_BITS: u32 = 20;

/// What was found at the last looks at one port.
#[derive(Debug)]
pub struct Standstill {
    classes: ClassSet,
    /// Looks so far.
    looks: u64,
    /// Per class, the last looks at which it could send, the latest first.
    free_at: [[u64; FREE_MAX + 1]; CLASSES],
    /// The last look at which a class was blocked.
    blocked_at: u64,
    next_look: Nanos,
}

impl Standstill {
    /// Nothing was found, and nothing is to be looked for.
    pub const NONE: Standstill = Standstill {
        classes: ClassSet::NONE,
        looks: 0,
        free_at: [[0; FREE_MAX + 1]; CLASSES],
        blocked_at: 0,
        next_look: Nanos::NEVER,
    };

    /// Classes that stand still.
    #[inline]
    pub const fn classes(&self) -> ClassSet {
        self.classes
    }

    /// When the next look is due.
    pub const fn next_look(&self) -> Nanos {
        self.next_look
    }

    /// The peer has paused classes, or has let some go; `blocked` are those that may not send now.
    pub fn pauses_changed(&mut self, now: Nanos, blocked: ClassSet) {
        if self.next_look == Nanos::NEVER && !blocked.is_empty() {
            *self = Standstill { next_look: now.after(PERIOD_MIN), ..Standstill::NONE };
        }
    }

    /// Looks: `blocked` are the classes that could not send when last something was to be sent.
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

    /// Time to the next look: multiples of the golden ratio fill what is between the bounds evenly.
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

    /// Class 3 was paused then.
    fn paused(now: Nanos) -> Standstill {
        let mut standstill = Standstill::NONE;
        standstill.pauses_changed(now, C3);
        standstill
    }

    /// So many looks, each as soon as it is due.
    fn look_on(standstill: &mut Standstill, looks: u64, blocked: ClassSet) {
        for _ in 0..looks {
            standstill.look(standstill.next_look(), blocked);
        }
    }

    // proves: stalled-floods
    #[test]
    fn a_class_stands_still_after_so_many_looks_and_not_before() {
        let mut standstill = paused(Nanos(5));
        look_on(&mut standstill, LOOKS - 1, C3);
        assert_eq!(standstill.classes(), NO_CLASS);
        look_on(&mut standstill, 1, C3);
        assert_eq!(standstill.classes(), C3);
        look_on(&mut standstill, 1_000, C3);
        assert_eq!(standstill.classes(), C3);
    }

    #[test]
    fn a_class_that_may_send_at_a_third_look_goes_on() {
        let mut standstill = paused(Nanos(0));
        look_on(&mut standstill, LOOKS, ClassSet(C3.0 | C5.0));
        look_on(&mut standstill, 2, C5);
        assert_eq!(standstill.classes(), ClassSet(C3.0 | C5.0));
        look_on(&mut standstill, 1, C5);
        assert_eq!(standstill.classes(), C5, "each for itself");
        look_on(&mut standstill, LOOKS - 3, C3);
        assert_eq!(standstill.classes(), NO_CLASS, "three of the last looks");
        look_on(&mut standstill, 1, C3);
        assert_eq!(standstill.classes(), C3, "two of them");
    }

    #[test]
    fn nothing_is_looked_for_when_nothing_was_paused_for_long() {
        let mut standstill = Standstill::NONE;
        standstill.pauses_changed(Nanos(0), NO_CLASS);
        assert_eq!(standstill.next_look(), Nanos::NEVER);
        standstill.pauses_changed(Nanos(7), C3);
        standstill.pauses_changed(Nanos(9), C3);
        assert_eq!(standstill.next_look(), Nanos(7) + PERIOD_MIN, "a refresh puts nothing off");
        look_on(&mut standstill, 1, C3);
        look_on(&mut standstill, LOOKS - 1, NO_CLASS);
        assert_ne!(standstill.next_look(), Nanos::NEVER);
        look_on(&mut standstill, 1, NO_CLASS);
        assert_eq!(standstill.next_look(), Nanos::NEVER);
        standstill.pauses_changed(Nanos::from_secs(9), C3);
        look_on(&mut standstill, LOOKS - 1, C3);
        assert_eq!(standstill.classes(), NO_CLASS, "it begins anew");
    }

    #[test]
    fn a_look_that_comes_late_is_one_look() {
        let mut standstill = paused(Nanos(0));
        look_on(&mut standstill, LOOKS - 2, C3);
        standstill.look(Nanos::from_secs(1), C3);
        assert_eq!(standstill.classes(), NO_CLASS);
    }

    /// Whether a class that is paused for the first part of each cycle is ever found to stand still in ten seconds.
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

    // proves: stalled-floods
    #[test]
    fn who_may_send_for_a_tenth_of_the_time_is_not_found_in_usual_rhythms() {
        for cycle in [7_000, 50_000, 100_000, 500_000, 1_000_000, 1_000_001, 2_000_000, 5_000_000, 20_000_000]
        {
            assert!(!is_found(cycle * 9 / 10, cycle), "{cycle} ns");
            assert!(is_found(cycle - cycle / 1_000, cycle), "{cycle} ns");
        }
    }
}
