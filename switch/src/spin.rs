//! Adaptive polling: the time for which an idle worker polls before it sleeps.
//!
//! If frames arrive at intervals of up to `idle_after`, the worker polls for twice the interval, at most for
//! `idle_after`. After a longer interval it sleeps at once. A worker that wakes late finds several frames, so the
//! interval is the time without frames divided by their number.

use xoff_wire::units::Nanos;

/// Time that falling asleep and waking up take. Shorter sleeps, and shorter polls before a sleep, do not pay.
const WORTH_A_SLEEP: Nanos = Nanos::from_micros(10);

#[derive(Clone, Debug)]
pub struct SpinWindow {
    most: Nanos,
    window: Nanos,
    idle_since: Option<Nanos>,
    silent_since: Option<Nanos>,
}

impl SpinWindow {
    #[must_use]
    pub const fn new(most: Nanos) -> SpinWindow {
        SpinWindow { most, window: most, idle_since: None, silent_since: None }
    }

    #[inline]
    pub fn busy(&mut self, now: Nanos, frames: u32) {
        self.idle_since = None;
        if frames > 0
            && let Some(silent_since) = self.silent_since.take()
        {
            let apart = Nanos(now.since(silent_since).0 / u64::from(frames));
            if apart > self.most {
                self.window = Nanos::ZERO;
            } else if apart > self.window {
                self.window = Nanos(2 * apart.0).max(WORTH_A_SLEEP).min(self.most);
            }
        }
    }

    /// Records an iteration without work. Returns whether the worker has polled long enough.
    #[inline]
    #[must_use]
    pub fn idle(&mut self, now: Nanos) -> bool {
        self.silent_since.get_or_insert(now);
        let idle_since = *self.idle_since.get_or_insert(now);
        now.since(idle_since) >= self.window
    }

    #[must_use]
    pub fn is_worth_it(&self, now: Nanos, deadline: Nanos) -> bool {
        deadline.since(now) >= WORTH_A_SLEEP.min(self.most)
    }
}

// Tests for SPECIFICATION.md: workers
#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Nanos = Nanos::from_micros(50);

    fn polling_time(waits: &[(u64, u32)]) -> Nanos {
        let mut spin = SpinWindow::new(MOST);
        let mut now = Nanos(0);
        for &(wait, frames) in waits {
            assert_eq!(spin.idle(now), spin.window == Nanos::ZERO);
            now = now.after(Nanos::from_micros(wait));
            spin.busy(now, frames);
        }
        let span = (0..=MOST.0).find(|&span| spin.idle(now.after(Nanos(span))));
        Nanos(span.expect("the worker must sleep after the maximum polling time"))
    }

    #[test]
    fn worker_stops_polling_if_frames_are_too_far_apart() {
        assert_eq!(polling_time(&[]), MOST);
        assert_eq!(polling_time(&[(50, 1)]), MOST);
        assert_eq!(polling_time(&[(51, 1)]), Nanos::ZERO);
        assert_eq!(polling_time(&[(51, 1), (10_000, 1)]), Nanos::ZERO);
    }

    #[test]
    fn worker_polls_twice_as_long_as_frames_are_apart() {
        assert_eq!(polling_time(&[(51, 1), (1, 1)]), WORTH_A_SLEEP);
        assert_eq!(polling_time(&[(51, 1), (12, 1)]), Nanos::from_micros(24));
        assert_eq!(polling_time(&[(51, 1), (12, 1), (25, 1)]), MOST);
        assert_eq!(polling_time(&[(51, 1), (50, 1)]), MOST);
    }

    #[test]
    fn late_worker_divides_time_without_frames_by_frames_found() {
        let slow = 300; // microseconds until the worker runs
        assert_eq!(
            polling_time(&[(51, 1), (slow, 300)]),
            WORTH_A_SLEEP,
            "after frames 1 us apart, the worker must poll for the shortest time"
        );
        assert_eq!(polling_time(&[(51, 1), (slow, 6)]), MOST);
        assert_eq!(
            polling_time(&[(51, 1), (slow, 5)]),
            Nanos::ZERO,
            "after frames 60 us apart, the worker must not poll"
        );
        assert_eq!(polling_time(&[(slow, 0)]), MOST);
        assert_eq!(
            polling_time(&[(51, 1), (slow, 0), (12, 1)]),
            Nanos::ZERO,
            "after 312 us without frames, the worker must not poll"
        );
        assert_eq!(
            polling_time(&[(51, 1), (12, 0), (12, 1)]),
            Nanos::from_micros(48),
            "after 24 us without frames, the worker must poll for 48 us"
        );
    }

    #[test]
    fn polling_time_is_unchanged_if_frames_arrive_within_it() {
        assert_eq!(polling_time(&[(51, 1), (12, 1), (24, 1), (1, 1), (0, 1)]), Nanos::from_micros(24));
    }

    #[test]
    fn worker_loops_without_work_do_not_restart_polling_time() {
        let mut spin = SpinWindow::new(MOST);
        assert!(!spin.idle(Nanos(0)) && !spin.idle(Nanos(49_999)) && spin.idle(Nanos(50_000)));
        assert!(spin.idle(Nanos(90_000)), "a wake-up without work must not restart the polling time");
        spin.busy(Nanos(90_001), 1);
        assert_eq!(spin.window, Nanos::ZERO, "after 90 us without frames, the worker must not poll");
    }

    #[test]
    fn worker_skips_sleeps_shorter_than_its_wakeup_time() {
        let spin = SpinWindow::new(MOST);
        assert!(!spin.is_worth_it(Nanos(5), Nanos(10_004)) && spin.is_worth_it(Nanos(5), Nanos(10_005)));
        assert!(!spin.is_worth_it(Nanos(5), Nanos::ZERO), "the worker must not sleep until a past deadline");
        let no_polling = SpinWindow::new(Nanos::ZERO);
        assert!(no_polling.is_worth_it(Nanos(5), Nanos(6)));
    }
}
