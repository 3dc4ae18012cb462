//! Destinations whose neighbour's MAC address is unknown, and deadlines until which lossless frames wait for it.
//!
//! The deadline counts from the first frame to a destination, so that a silent neighbour pauses a class only once.
//! Destinations without frames for [`FORGET_AFTER`] are forgotten. Destinations beyond [`KEPT_MAX`] share one deadline.

use xoff_wire::ip::Address;
use xoff_wire::units::{Nanos, Site};

/// Maximum time for which lossless frames wait for a neighbour's address. Linux repeats its request after a second.
pub const NEIGHBOUR_WAIT: Nanos = Nanos::from_millis(1_500);

const FORGET_AFTER: Nanos = Nanos::from_secs(10);

const ASK_EVERY: Nanos = Nanos::from_millis(500);

const PURGE_EVERY: Nanos = Nanos::from_secs(1);

const KEPT_MAX: usize = 256;

pub(crate) type Destination = (Site, Address);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) until: Nanos,
    pub(crate) ask_at: Nanos,
    last_wanted: Nanos,
}

#[derive(Debug)]
pub(crate) struct Resolutions {
    waits: Vec<(Destination, Wait)>,
    beyond: Option<Wait>,
    purge_at: Nanos,
}

impl Resolutions {
    pub(crate) fn new() -> Resolutions {
        Resolutions { waits: Vec::with_capacity(KEPT_MAX), beyond: None, purge_at: Nanos::ZERO }
    }

    pub(crate) fn wait_for(&mut self, now: Nanos, destination: Destination) -> Wait {
        let wait = match self.waits.binary_search_by_key(&destination, |(destination, _)| *destination) {
            Ok(place) => &mut self.waits[place].1,
            Err(place) if self.waits.len() < KEPT_MAX => {
                self.waits.insert(place, (destination, Wait::new(now)));
                &mut self.waits[place].1
            }
            Err(_) => {
                if now >= self.purge_at {
                    self.purge_at = now.after(PURGE_EVERY);
                    self.retain(now, |_| true);
                    if self.waits.len() < KEPT_MAX {
                        return self.wait_for(now, destination);
                    }
                }
                self.beyond.get_or_insert(Wait::new(now))
            }
        };
        if wait.is_unwanted(now) {
            *wait = Wait::new(now);
        }
        wait.last_wanted = now;
        *wait
    }

    pub(crate) fn requested(&mut self, now: Nanos, destination: Destination) -> Nanos {
        let ask_at = now.after(ASK_EVERY);
        if let Ok(place) = self.waits.binary_search_by_key(&destination, |(destination, _)| *destination) {
            self.waits[place].1.ask_at = ask_at;
        }
        ask_at
    }

    pub(crate) fn retain(&mut self, now: Nanos, mut is_unknown: impl FnMut(Destination) -> bool) {
        let before = self.waits.len();
        self.waits.retain(|(destination, wait)| !wait.is_unwanted(now) && is_unknown(*destination));
        if self.waits.len() < before {
            self.beyond = None;
        }
    }
}

impl Wait {
    fn new(now: Nanos) -> Wait {
        Wait { until: now.after(NEIGHBOUR_WAIT), ask_at: now, last_wanted: now }
    }

    fn is_unwanted(&self, now: Nanos) -> bool {
        now >= self.last_wanted.after(FORGET_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use xoff_wire::units::PortId;

    use super::*;

    fn to(number: u32) -> Destination {
        (Site::Port(PortId(1)), Address::V4(number))
    }

    #[test]
    fn unresolved_destination_keeps_deadline_of_first_frame() {
        let mut waits = Resolutions::new();
        let begin = Nanos(7);
        let until = begin.after(NEIGHBOUR_WAIT);
        assert_eq!(waits.wait_for(begin, to(1)).until, until);
        assert_eq!(waits.wait_for(begin.after(Nanos::from_secs(3)), to(1)).until, until);
        waits.retain(begin.after(Nanos::from_secs(3)), |destination| destination != to(2));
        assert_eq!(waits.wait_for(begin.after(Nanos::from_secs(4)), to(1)).until, until);
        waits.retain(begin.after(Nanos::from_secs(5)), |destination| destination != to(1));
        let again = begin.after(Nanos::from_secs(6));
        assert_eq!(waits.wait_for(again, to(1)).until, again.after(NEIGHBOUR_WAIT));
    }

    #[test]
    fn destination_without_frames_is_forgotten_at_exact_nanosecond() {
        for (gap, is_forgotten) in [(FORGET_AFTER.since(Nanos(1)), false), (FORGET_AFTER, true)] {
            let mut waits = Resolutions::new();
            let first = waits.wait_for(Nanos(0), to(1)).until;
            assert_eq!(waits.wait_for(gap, to(1)).until != first, is_forgotten, "{gap:?}");
        }
    }

    #[test]
    fn next_neighbour_request_is_due_one_interval_after_last() {
        let mut waits = Resolutions::new();
        assert_eq!(waits.wait_for(Nanos(5), to(1)).ask_at, Nanos(5));
        assert_eq!(waits.requested(Nanos(5), to(1)), Nanos(5).after(ASK_EVERY));
        assert_eq!(waits.wait_for(Nanos(6), to(1)).ask_at, Nanos(5).after(ASK_EVERY));
    }

    #[test] // proves: slow-path
    fn unresolved_destinations_share_deadline_if_table_is_full() {
        let mut waits = Resolutions::new();
        let count = u32::try_from(KEPT_MAX).unwrap_or(u32::MAX);
        (0..count).for_each(|number| _ = waits.wait_for(Nanos(number.into()), to(number)));
        let at = Nanos::from_millis(1);
        assert_eq!(waits.wait_for(at, to(count)).until, at.after(NEIGHBOUR_WAIT));
        assert_eq!(waits.wait_for(at.after(at), to(count + 1)).until, at.after(NEIGHBOUR_WAIT));
        assert_eq!(
            waits.wait_for(at, to(5)).until,
            Nanos(5).after(NEIGHBOUR_WAIT),
            "a destination with its own deadline must keep it"
        );
        waits.retain(at, |destination| destination != to(5));
        let later = Nanos::from_millis(3);
        assert_eq!(
            waits.wait_for(later, to(count)).until,
            later.after(NEIGHBOUR_WAIT),
            "a new destination must get a free entry"
        );
        let long_after = FORGET_AFTER.after(FORGET_AFTER);
        assert_eq!(waits.wait_for(long_after, to(count + 2)).until, long_after.after(NEIGHBOUR_WAIT));
        assert_eq!(
            (waits.waits.len(), waits.beyond.is_none()),
            (1, true),
            "unused destinations must be purged"
        );
    }

    #[test]
    fn full_resolution_table_evicts_unused_destinations() {
        let mut waits = Resolutions::new();
        let count = u32::try_from(KEPT_MAX).unwrap_or(u32::MAX);
        (0..=count).for_each(|number| _ = waits.wait_for(Nanos(0), to(number)));
        // The table is full, so the last destination has only the shared entry. The late frame keeps that entry in use
        // after its deadline.
        let late = Nanos::from_secs(9);
        assert_eq!(waits.wait_for(late, to(count)).until, NEIGHBOUR_WAIT);
        let later = FORGET_AFTER.after(PURGE_EVERY);
        assert_eq!(waits.wait_for(later, to(count + 1)).until, later.after(NEIGHBOUR_WAIT));
    }
}
