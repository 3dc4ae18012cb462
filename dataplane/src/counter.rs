//! Numbers that one thread writes and any thread reads.
//!
//! A counter belongs to the worker that owns its port. The owner adds with a plain load and store
//! (no locked instruction: there is no second writer); a scrape reads at any time without touching
//! the worker.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number with one writer: a counter, a gauge or a watermark, as its owner uses it.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owner calls it.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.get().wrapping_add(n), Relaxed);
    }

    /// Lowers a gauge. Only the owner calls it.
    #[inline]
    pub fn sub(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(n), Relaxed);
    }

    /// Sets a gauge. Only the owner calls it.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Raises a watermark to `value` if that is higher. Only the owner calls it.
    #[inline]
    pub fn raise(&self, value: u64) {
        if value > self.get() {
            self.set(value);
        }
    }

    /// Lowers a watermark to `value` if that is lower. Only the owner calls it.
    #[inline]
    pub fn lower(&self, value: u64) {
        if value < self.get() {
            self.set(value);
        }
    }

    /// The value now.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Buckets of a [`Histogram`].
pub const BUCKETS: usize = 36;

/// How often something took how long, in buckets that double: bucket `n` counts values in
/// `[2^(n-1), 2^n)` nanoseconds, bucket 0 zeros, the last everything longer (34 s and more).
#[derive(Debug)]
#[repr(C)]
pub struct Histogram {
    sum: Counter,
    counts: [Counter; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: std::array::from_fn(|_| Counter::default()), sum: Counter::default() }
    }
}

impl Histogram {
    /// Counts one value, in nanoseconds. Only the owner calls it.
    #[inline]
    pub fn record(&self, nanos: u64) {
        let bucket = (u64::BITS - nanos.leading_zeros()) as usize;
        self.counts[bucket.min(BUCKETS - 1)].add(1);
        self.sum.add(nanos);
    }

    /// Counts per bucket, lowest first.
    #[must_use]
    pub fn counts(&self) -> [u64; BUCKETS] {
        std::array::from_fn(|n| self.counts[n].get())
    }

    /// Sum of all values, in nanoseconds.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum.get()
    }

    /// Largest value that bucket `n` counts, in nanoseconds; `None` for the last, open one.
    #[must_use]
    pub const fn upper_bound(n: usize) -> Option<u64> {
        if n + 1 < BUCKETS { Some((1 << n) - 1) } else { None }
    }

    /// An upper bound of the value below which the share `quantile` (0..=1) of all values lies;
    /// `None` while there are none.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        let counts = self.counts();
        let total: u64 = counts.iter().sum();
        let mut left = quantile * total as f64;
        for (n, &count) in counts.iter().enumerate() {
            left -= count as f64;
            if count > 0 && left <= 0.0 {
                return Some(Histogram::upper_bound(n).unwrap_or(u64::MAX));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fall_into_doubling_buckets() {
        let histogram = Histogram::default();
        for value in [0, 1, 2, 3, 4, u64::MAX / 2] {
            histogram.record(value);
        }
        let counts = histogram.counts();
        assert_eq!(counts[..4], [1, 1, 2, 1]);
        assert_eq!(counts[BUCKETS - 1], 1);
        assert_eq!(Histogram::upper_bound(2), Some(3));
    }

    #[test]
    fn a_quantile_is_bounded_from_above() {
        let histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        (0..99).for_each(|_| histogram.record(100));
        histogram.record(5000);
        assert_eq!(histogram.quantile(0.5), Some(127));
        assert_eq!(histogram.quantile(0.99), Some(127));
        assert_eq!(histogram.quantile(1.0), Some(8191));
    }
}
