//! Counts received sequence numbers, with a bitmap of the last [`WINDOW`] numbers.
//!
//! * A *reordered* frame arrives after a frame with a higher number (RFC 4737).
//! * A frame more than a window below the highest number may be new or repeated, and is counted separately ([`Tracker::beyond_window`]).

pub const WINDOW: u64 = 1 << 16;

#[derive(Clone, Debug)]
pub struct Tracker {
    arrived: Box<[u64]>,
    next: u64,
    distinct: u64,
    duplicated: u64,
    reordered: u64,
    beyond_window: u64,
}

impl Default for Tracker {
    fn default() -> Tracker {
        let words = usize::try_from(WINDOW / 64).expect("the bitmap exceeds its size");
        Tracker {
            arrived: vec![0; words].into_boxed_slice(),
            next: 0,
            distinct: 0,
            duplicated: 0,
            reordered: 0,
            beyond_window: 0,
        }
    }
}

impl Tracker {
    /// Records an arrival. Returns whether it is certainly the first arrival with this number.
    #[inline]
    pub fn record(&mut self, sequence: u64) -> bool {
        if sequence >= self.next {
            self.forget_up_to(sequence);
            self.next = sequence + 1;
            self.mark(sequence);
            self.distinct += 1;
            return true;
        }
        if sequence + WINDOW < self.next {
            self.beyond_window += 1;
            return false;
        }
        if self.is_marked(sequence) {
            self.duplicated += 1;
            return false;
        }
        self.mark(sequence);
        self.distinct += 1;
        self.reordered += 1;
        true
    }

    /// Returns whether `sequence` has arrived or is too old to tell.
    #[inline]
    #[must_use]
    pub fn may_know(&self, sequence: u64) -> bool {
        sequence < self.next && (sequence + WINDOW < self.next || self.is_marked(sequence))
    }

    #[must_use]
    pub const fn distinct(&self) -> u64 {
        self.distinct
    }

    #[must_use]
    pub const fn duplicated(&self) -> u64 {
        self.duplicated
    }

    #[must_use]
    pub const fn reordered(&self) -> u64 {
        self.reordered
    }

    #[must_use]
    pub const fn beyond_window(&self) -> u64 {
        self.beyond_window
    }

    #[must_use]
    pub const fn sent_at_least(&self) -> u64 {
        self.next
    }

    #[inline]
    fn forget_up_to(&mut self, sequence: u64) {
        if sequence - self.next >= WINDOW {
            self.arrived.fill(0);
            return;
        }
        for stale in self.next..=sequence {
            let (word, bit) = place(stale);
            self.arrived[word] &= !bit;
        }
    }

    #[inline]
    fn mark(&mut self, sequence: u64) {
        let (word, bit) = place(sequence);
        self.arrived[word] |= bit;
    }

    #[inline]
    fn is_marked(&self, sequence: u64) -> bool {
        let (word, bit) = place(sequence);
        self.arrived[word] & bit != 0
    }
}

#[inline]
fn place(sequence: u64) -> (usize, u64) {
    let at = sequence % WINDOW;
    (usize::try_from(at / 64).unwrap_or(0), 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;
    use xoff_explore::explore;

    fn counts(sequences: impl IntoIterator<Item = u64>) -> (u64, u64, u64, u64) {
        let mut tracker = Tracker::default();
        sequences.into_iter().for_each(|s| {
            tracker.record(s);
        });
        (tracker.distinct, tracker.duplicated, tracker.reordered, tracker.beyond_window)
    }

    #[test]
    fn frames_in_order_count_as_neither_repeated_nor_reordered() {
        assert_eq!(counts(0..200_000), (200_000, 0, 0, 0));
    }

    #[test]
    fn late_frame_counts_as_reordered_and_repeat_as_duplicate() {
        assert_eq!(counts([0, 2, 1, 3, 3, 1]), (4, 2, 1, 0));
    }

    #[test]
    fn frame_far_below_highest_number_is_beyond_tracker_window() {
        assert_eq!(counts([WINDOW - 1, 0]), (2, 0, 1, 0));
        assert_eq!(counts([WINDOW, 0]), (1, 0, 0, 1));
    }

    #[test]
    fn number_below_tracker_window_may_be_a_repetition() {
        let mut tracker = Tracker::default();
        assert!(!tracker.may_know(0));
        assert!(tracker.record(1) && tracker.record(WINDOW + 1));
        assert_eq!(
            [0, 1, 2, WINDOW + 1, WINDOW + 2].map(|s| tracker.may_know(s)),
            [true, true, false, true, false]
        );
    }

    #[test]
    fn long_gap_in_numbers_clears_tracker_window() {
        let far = 10 * WINDOW;
        assert_eq!(counts((0..100).chain([far, far - WINDOW + 1 + 50])), (102, 0, 1, 0));
    }

    explore! {
        #[test]
        fn tracker_counts_equal_those_of_a_reference_set(sequences in prop::collection::vec(0..500_u64, 0..600)) {
            let mut distinct = HashSet::new();
            let (mut duplicated, mut reordered, mut highest) = (0, 0, None);
            for &s in &sequences {
                if !distinct.insert(s) {
                    duplicated += 1;
                } else if highest > Some(s) {
                    reordered += 1;
                }
                highest = highest.max(Some(s));
            }
            prop_assert_eq!(counts(sequences), (distinct.len() as u64, duplicated, reordered, 0));
        }
    }
}
