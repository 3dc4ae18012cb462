//! Numbers that one thread writes and any thread reads.
//!
//! The writer needs no atomic addition. A reader that sees a value also sees all the writer's earlier writes (release
//! and acquire).

use std::mem::offset_of;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::prefetch::prefetch;

/// Counter, gauge or watermark that only one thread may write.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n` to a counter or gauge.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Release);
    }

    /// Subtracts `n` from a gauge.
    #[inline]
    pub fn sub(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(n), Release);
    }

    /// Sets a gauge.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Release);
    }

    /// Raises a watermark to `value` if `value` is higher.
    #[inline]
    pub fn raise(&self, value: u64) {
        if value > self.get() {
            self.set(value);
        }
    }

    /// Lowers a watermark to `value` if `value` is lower.
    #[inline]
    pub fn lower(&self, value: u64) {
        if value < self.get() {
            self.set(value);
        }
    }

    /// Returns the current value.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Acquire)
    }
}

impl PartialEq for Counter {
    fn eq(&self, other: &Counter) -> bool {
        self.get() == other.get()
    }
}

const RECENT: usize = 6;
const MINUTE: u64 = 60_000_000_000;

/// Maximum of all values recorded in the current minute and the five before it.
#[derive(Debug, Default, PartialEq)]
pub struct RecentMax {
    /// Number and maximum of each recorded minute; minute 1 begins at time zero.
    minutes: [(Counter, Counter); RECENT],
}

impl RecentMax {
    /// Records `value` at time `now` (ns).
    pub fn raise(&self, now: u64, value: u64) {
        let number = minute(now);
        let (stamp, max) = self.of(number);
        if stamp.get() != number {
            stamp.set(0); // concurrent readers must skip the entry
            max.set(value);
            stamp.set(number);
        }
        max.raise(value);
    }

    /// Returns the maximum of the recent values at time `now` (ns), or zero.
    #[must_use]
    pub fn get(&self, now: u64) -> u64 {
        let newest = minute(now);
        let is_recent = |stamp: u64| stamp > 0 && newest.saturating_sub(stamp) < RECENT as u64;
        let recent = self.minutes.iter().filter(|(stamp, _)| is_recent(stamp.get()));
        recent.map(|(_, max)| max.get()).max().unwrap_or(0)
    }

    #[allow(clippy::cast_possible_truncation)] // the remainder is less than RECENT
    fn of(&self, number: u64) -> &(Counter, Counter) {
        &self.minutes[(number % RECENT as u64) as usize]
    }
}

const fn minute(now: u64) -> u64 {
    1 + now / MINUTE
}

const DOUBLINGS: usize = 36;

/// Index of the histogram range that begins at 1,024 ns. The counts from there to 262 us fill one cache line.
const MICROSECOND: usize = 11;

/// Histogram of durations in nanoseconds, with ranges that double in size. Each range has `STEPS` equal buckets; the
/// last bucket is unbounded.
#[derive(Debug, PartialEq)]
#[repr(C)]
pub struct Histogram<const STEPS: usize = 1> {
    sum: Counter,
    counts: [[Counter; STEPS]; DOUBLINGS],
}

/// Histogram with eight buckets per doubling of the duration; occupies 2,312 bytes.
pub type FineHistogram = Histogram<8>;

impl<const STEPS: usize> Default for Histogram<STEPS> {
    fn default() -> Histogram<STEPS> {
        let counts = std::array::from_fn(|_| std::array::from_fn(|_| Counter::default()));
        Histogram { counts, sum: Counter::default() }
    }
}

impl<const STEPS: usize> Histogram<STEPS> {
    /// Counts one duration (ns) in the histogram.
    #[inline]
    pub fn record(&self, nanos: u64) {
        self.record_times(nanos, 1);
    }

    /// Counts a duration (ns) `times` times in the histogram.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // a step is less than STEPS
    pub fn record_times(&self, nanos: u64, times: u64) {
        let value = nanos.min((1 << (DOUBLINGS - 1)) - 1);
        let doubling = (u64::BITS - value.leading_zeros()) as usize;
        let step = ((value - begin(doubling)) * STEPS as u64) >> doubling.saturating_sub(1);
        self.counts[doubling][step as usize].add(times);
        self.sum.add(nanos.wrapping_mul(times));
    }

    /// Returns the largest value (`None` if unbounded) and the count of each bucket, lowest bucket first.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let all = (0..DOUBLINGS).flat_map(|doubling| (0..STEPS).map(move |step| (doubling, step)));
        all.map(|(doubling, step)| {
            let is_open = (doubling, step) == (DOUBLINGS - 1, STEPS - 1);
            let width = ((step as u64 + 1) * begin(doubling)).div_ceil(STEPS as u64);
            let bound = (begin(doubling) + width).saturating_sub(1);
            ((!is_open).then_some(bound), self.counts[doubling][step].get())
        })
    }

    /// Returns the number of values in the histogram.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.as_flattened().iter().map(Counter::get).sum()
    }

    /// Returns the sum of all values in nanoseconds.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum.get()
    }

    /// Returns an upper bound of the `quantile` (0..=1) in nanoseconds; `None` without values.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        let mut left = quantile * self.count() as f64;
        for (bound, count) in self.buckets() {
            left -= count as f64;
            if count > 0 && left <= 0.0 {
                return Some(bound.unwrap_or(u64::MAX));
            }
        }
        None
    }
}

impl Histogram {
    pub(crate) const USUAL: usize = offset_of!(Histogram, counts) + MICROSECOND * size_of::<Counter>();

    #[inline]
    pub(crate) fn prefetch_usual(&self) {
        prefetch(&self.counts[MICROSECOND]);
    }
}

#[inline]
const fn begin(doubling: usize) -> u64 {
    (1 << doubling) >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_buckets_double_in_size() {
        let histogram: Histogram = Histogram::default();
        for value in [0, 1, 2, 3, 4, u64::MAX / 2] {
            histogram.record(value);
        }
        let buckets: Vec<_> = histogram.buckets().collect();
        assert_eq!(buckets[..4], [(Some(0), 1), (Some(1), 1), (Some(3), 2), (Some(7), 1)]);
        assert_eq!(buckets.last(), Some(&(None, 1)));
        assert_eq!(histogram.count(), 6);
    }

    #[test] // proves: status
    fn recent_maximum_expires_after_five_minutes() {
        let recent = RecentMax::default();
        let at = |minutes: u64| minutes * MINUTE;
        assert_eq!(recent.get(at(3)), 0);
        recent.raise(at(3), 900);
        recent.raise(at(3) + 1, 20);
        recent.raise(at(5), 70);
        let maxima: Vec<u64> = (3..12).map(|minutes| recent.get(at(minutes))).collect();
        assert_eq!(maxima, [900, 900, 900, 900, 900, 900, 70, 70, 0]);
        recent.raise(at(9), 5); // replaces the minute with the maximum of 900
        assert_eq!((recent.get(at(9)), recent.get(at(14)), recent.get(at(15))), (70, 5, 0));
    }

    #[test]
    fn quantile_is_upper_bound_of_its_bucket() {
        let histogram: Histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        (0..99).for_each(|_| histogram.record(100));
        histogram.record(5000);
        assert_eq!(histogram.quantile(0.5), Some(127));
        assert_eq!(histogram.quantile(0.99), Some(127));
        assert_eq!(histogram.quantile(1.0), Some(8191));
    }

    #[test]
    fn fine_histogram_divides_each_range_into_eight_buckets() {
        let bound = |value| {
            let histogram = FineHistogram::default();
            histogram.record(value);
            histogram.quantile(1.0)
        };
        let all = FineHistogram::default();
        let mut bounds: Vec<u64> = all.buckets().filter_map(|(bound, _)| bound).collect();
        bounds.dedup(); // buckets below 8 have fewer steps
        for pair in bounds.windows(2) {
            assert_eq!(
                bound(pair[0] + 1),
                Some(pair[1]),
                "a value above the previous bound must be in the next bucket"
            );
            assert_eq!(
                bound(pair[1]),
                Some(pair[1]),
                "a value equal to the bound of a bucket must be in that bucket"
            );
            assert!(pair[1] - pair[0] <= (pair[0] + 1).div_ceil(8));
        }
        assert_eq!(bound(u64::MAX), Some(u64::MAX));
    }
}
