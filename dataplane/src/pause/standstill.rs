//! Which classes of a port stand still because its peer lets nothing pass.
//!
//! A pause may be as short as it likes and come again as soon as it likes, so that how long one lasts says little. So
//! the switch looks every millisecond, from the first pause on: a class that was blocked at all but [`FREE_MAX`] of the
//! last 128 looks stands still. A class that may send for a tenth of the time, as where ten congest a port, is as good as
//! never taken for one of those; one that may for less than a hundredth as good as always.
//!
//! Looks are counted, not time, so that a switch that was kept from running takes no time for a pause that it
//! could not hear the end of.

use crate::units::{CLASSES, Class, ClassSet, Nanos};

/// Time between two looks, at least.
const PERIOD: Nanos = Nanos::from_millis(1);
/// A class that could send at more of the last looks does not stand still.
const FREE_MAX: u32 = 2;

/// What was found at the last looks at one port.
#[derive(Debug)]
pub(crate) struct Standstill {
    classes: ClassSet,
    /// Per class, a bit for each of the last looks, set where it was blocked; the last look is the lowest.
    blocked_at: [u128; CLASSES],
    next_look: Nanos,
}

impl Standstill {
    /// Nothing was found, and nothing is to be looked for.
    pub(crate) const NONE: Standstill =
        Standstill { classes: ClassSet::NONE, blocked_at: [0; CLASSES], next_look: Nanos::NEVER };

    /// Classes that stand still.
    #[inline]
    pub(crate) const fn classes(&self) -> ClassSet {
        self.classes
    }

    /// When the next look is due.
    pub(crate) const fn next_look(&self) -> Nanos {
        self.next_look
    }

    /// The peer has paused classes, or has let some go; `blocked` are those that may not send now.
    pub(crate) fn pauses_changed(&mut self, now: Nanos, blocked: ClassSet) {
        if self.next_look == Nanos::NEVER && !blocked.is_empty() {
            self.next_look = now.after(PERIOD);
        }
    }

    /// Looks: `blocked` are the classes that could not send when last something was to be sent.
    pub(crate) fn look(&mut self, now: Nanos, blocked: ClassSet) {
        for class in Class::ALL {
            let looks = &mut self.blocked_at[class.index()];
            *looks = *looks << 1 | u128::from(blocked.contains(class));
        }
        let stands_still = |class: &Class| self.blocked_at[class.index()].count_zeros() <= FREE_MAX;
        self.classes = Class::ALL.into_iter().filter(stands_still).collect();
        let is_over = self.blocked_at == [0; CLASSES];
        self.next_look = if is_over { Nanos::NEVER } else { now.after(PERIOD) };
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
    fn look_on(standstill: &mut Standstill, looks: u32, blocked: ClassSet) {
        for _ in 0..looks {
            standstill.look(standstill.next_look(), blocked);
        }
    }

    #[test]
    fn a_class_stands_still_after_so_many_looks_and_not_before() {
        let mut standstill = paused(Nanos(5));
        look_on(&mut standstill, 125, C3);
        assert_eq!(standstill.classes(), NO_CLASS);
        assert_eq!(standstill.next_look(), Nanos(5) + Nanos::from_millis(126));
        look_on(&mut standstill, 1, C3);
        assert_eq!(standstill.classes(), C3);
        look_on(&mut standstill, 1_000, C3);
        assert_eq!(standstill.classes(), C3);
    }

    #[test]
    fn a_class_that_may_send_at_a_third_look_goes_on() {
        let mut standstill = paused(Nanos(0));
        look_on(&mut standstill, 128, ClassSet(C3.0 | C5.0));
        look_on(&mut standstill, 2, C5);
        assert_eq!(standstill.classes(), ClassSet(C3.0 | C5.0));
        look_on(&mut standstill, 1, C5);
        assert_eq!(standstill.classes(), C5, "each for itself");
        look_on(&mut standstill, 125, C3);
        assert_eq!(standstill.classes(), NO_CLASS);
        look_on(&mut standstill, 1, C3);
        assert_eq!(standstill.classes(), C3);
    }

    #[test]
    fn nothing_is_looked_for_when_nothing_was_paused_for_long() {
        let mut standstill = Standstill::NONE;
        standstill.pauses_changed(Nanos(0), NO_CLASS);
        assert_eq!(standstill.next_look(), Nanos::NEVER);
        standstill.pauses_changed(Nanos(7), C3);
        standstill.pauses_changed(Nanos(9), C3);
        assert_eq!(standstill.next_look(), Nanos(7) + PERIOD, "a refresh puts nothing off");
        look_on(&mut standstill, 1, C3);
        look_on(&mut standstill, 127, NO_CLASS);
        assert_ne!(standstill.next_look(), Nanos::NEVER);
        look_on(&mut standstill, 1, NO_CLASS);
        assert_eq!(standstill.next_look(), Nanos::NEVER);
    }

    #[test]
    fn a_look_that_comes_late_is_one_look() {
        let mut standstill = paused(Nanos(0));
        look_on(&mut standstill, 124, C3);
        standstill.look(Nanos::from_secs(1), C3);
        assert_eq!(standstill.classes(), NO_CLASS);
    }
}
