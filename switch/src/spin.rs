//! How long a worker with nothing to do asks again before it sleeps.
//!
//! Who sleeps is woken late, by what it takes to wake a thread on a core that may be idle; who asks again takes a core.
//! A worker that would have had work a moment after it fell asleep asks a little longer the next time, up to
//! `idle_after`; one that waited longer than that would have asked in vain, and next time sleeps at once. So a
//! switch under load never sleeps, and a frame now and then costs one sleep and no spinning. (KVM polls so
//! before it halts a virtual core.)
//!
//! No clock is read here: times are arguments.

use xoff_dataplane::units::Nanos;

/// To fall asleep and wake takes about as long, so there is no sleep for less; and so long is asked when there is reason
/// to ask at all.
const WORTH_A_SLEEP: Nanos = Nanos::from_micros(10);

/// Decides when a worker that has nothing to do goes to sleep.
#[derive(Clone, Debug)]
pub struct SpinWindow {
    most: Nanos,
    window: Nanos,
    idle_since: Option<Nanos>,
}

impl SpinWindow {
    /// Never longer than `most`.
    #[must_use]
    pub const fn new(most: Nanos) -> SpinWindow {
        SpinWindow { most, window: most, idle_since: None }
    }

    /// There was something to do at `now`.
    #[inline]
    pub fn busy(&mut self, now: Nanos) {
        if let Some(idle_since) = self.idle_since.take() {
            let idle = now.since(idle_since);
            if idle > self.most {
                self.window = Nanos::ZERO;
            } else if idle > self.window {
                self.window = Nanos(2 * idle.0).max(WORTH_A_SLEEP).min(self.most);
            }
        }
    }

    /// There was nothing to do at `now`. True where it has been so for long enough to sleep.
    #[inline]
    #[must_use]
    pub fn idle(&mut self, now: Nanos) -> bool {
        let idle_since = *self.idle_since.get_or_insert(now);
        now.since(idle_since) >= self.window
    }

    /// Whether to sleep until `deadline` is worth it at `now`.
    #[must_use]
    pub fn is_worth_it(&self, now: Nanos, deadline: Nanos) -> bool {
        deadline.since(now) >= WORTH_A_SLEEP.min(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Nanos = Nanos::from_micros(50);

    /// How long a worker asks before it sleeps, after waits of these many microseconds.
    fn asks_for(waits: &[u64]) -> Nanos {
        let mut spin = SpinWindow::new(MOST);
        let mut now = Nanos(0);
        for &wait in waits {
            assert_eq!(spin.idle(now), spin.window == Nanos::ZERO);
            now = now.after(Nanos::from_micros(wait));
            spin.busy(now);
        }
        let asks = (0..=MOST.0).find(|&span| spin.idle(now.after(Nanos(span))));
        Nanos(asks.expect("it sleeps some time"))
    }

    #[test]
    fn a_wait_longer_than_the_most_ends_asking_and_one_as_long_does_not() {
        assert_eq!(asks_for(&[]), MOST);
        assert_eq!(asks_for(&[50]), MOST);
        assert_eq!(asks_for(&[51]), Nanos::ZERO);
        assert_eq!(asks_for(&[51, 10_000]), Nanos::ZERO);
    }

    #[test]
    fn work_soon_after_it_fell_asleep_makes_it_ask_for_twice_as_long_as_that_took() {
        assert_eq!(asks_for(&[51, 1]), WORTH_A_SLEEP);
        assert_eq!(asks_for(&[51, 12]), Nanos::from_micros(24));
        assert_eq!(asks_for(&[51, 12, 25]), MOST);
        assert_eq!(asks_for(&[51, 50]), MOST);
    }

    #[test]
    fn work_while_it_asks_changes_nothing() {
        assert_eq!(asks_for(&[51, 12, 24, 1, 0]), Nanos::from_micros(24));
    }

    #[test]
    fn turns_without_work_do_not_begin_the_wait_anew() {
        let mut spin = SpinWindow::new(MOST);
        assert!(!spin.idle(Nanos(0)) && !spin.idle(Nanos(49_999)) && spin.idle(Nanos(50_000)));
        assert!(spin.idle(Nanos(90_000)), "woken for nothing: it sleeps on");
        spin.busy(Nanos(90_001));
        assert_eq!(spin.window, Nanos::ZERO, "90 us without work");
    }

    #[test]
    fn there_is_no_sleep_shorter_than_it_takes_to_wake() {
        let spin = SpinWindow::new(MOST);
        assert!(!spin.is_worth_it(Nanos(5), Nanos(10_004)) && spin.is_worth_it(Nanos(5), Nanos(10_005)));
        assert!(!spin.is_worth_it(Nanos(5), Nanos::ZERO), "due");
        let never_asks = SpinWindow::new(Nanos::ZERO);
        assert!(never_asks.is_worth_it(Nanos(5), Nanos(6)));
    }
}
