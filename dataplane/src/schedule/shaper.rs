//! A token bucket in exact arithmetic: credit is kept in bit-nanoseconds per second, so that adding
//! `elapsed x rate` needs no division and nothing is ever rounded away.

use crate::units::{BitRate, Bytes, Nanos};

const SCALE: i128 = 8 * 1_000_000_000; // one byte, in units of bits x ns/s

/// Holds a stream of frames to a rate. A frame may start while credit is not negative; its whole
/// size is then taken, so that a frame larger than the burst still passes, and is paid for after.
#[derive(Clone, Debug)]
pub(crate) struct Shaper {
    rate: BitRate,
    burst: i128,
    credit: i128,
    updated: Nanos,
}

impl Shaper {
    /// Up to `burst` bytes may be sent ahead of `rate` after a pause.
    pub(crate) fn new(rate: BitRate, burst: Bytes) -> Shaper {
        let credit = i128::from(burst.0) * SCALE;
        Shaper { rate, burst: most_credit(rate, burst), credit, updated: Nanos::ZERO }
    }

    /// Frames are held to another rate from `now` on, with another burst.
    pub(crate) fn set_rate(&mut self, now: Nanos, rate: BitRate, burst: Bytes) {
        self.refill(now);
        self.rate = rate;
        self.burst = most_credit(rate, burst);
        self.credit = self.credit.min(self.burst);
    }

    /// What was saved up until `now` is forgone.
    pub(crate) fn forgo(&mut self, now: Nanos) {
        self.refill(now);
        self.credit = self.credit.min(0);
    }

    /// What may start at `now`.
    #[inline]
    pub(crate) fn credit(&mut self, now: Nanos) -> Credit {
        if self.credit < 0 {
            self.refill(now);
        }
        Credit(self.credit)
    }

    /// When the next frame may start, if none other is sent before.
    pub(crate) fn ready_at(&self) -> Nanos {
        if self.credit >= 0 {
            return Nanos::ZERO;
        }
        let wait = (-self.credit + i128::from(self.rate.bits_per_second()) - 1)
            / i128::from(self.rate.bits_per_second());
        self.updated.after(Nanos(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    /// Pays for a frame that starts at `now`.
    #[inline]
    pub(crate) fn spend(&mut self, now: Nanos, bytes: Bytes) {
        self.refill(now);
        self.credit -= i128::from(bytes.0) * SCALE;
    }

    #[inline]
    fn refill(&mut self, now: Nanos) {
        if now <= self.updated {
            return;
        }
        let elapsed = now.since(self.updated);
        let earned = i128::from(elapsed.0) * i128::from(self.rate.bits_per_second());
        self.credit = (self.credit + earned).min(self.burst);
        self.updated = now;
    }
}

/// What may start at one time, as far as a [`Shaper`] is concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit(i128);

impl Credit {
    /// Whether a frame may.
    #[inline]
    pub(crate) const fn allows_a_frame(self) -> bool {
        self.0 >= 0
    }

    /// Bytes of frames that may, one after the other.
    pub(crate) fn bytes(self) -> Bytes {
        Bytes(u64::try_from(self.0 / SCALE).unwrap_or(0))
    }
}

/// One nanosecond's worth at least: a driver that comes at `ready_at`, which is rounded up, keeps the
/// fraction.
fn most_credit(rate: BitRate, burst: Bytes) -> i128 {
    (i128::from(burst.0) * SCALE).max(i128::from(rate.bits_per_second()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gigabit_passes_1250_bytes_in_10_us_to_the_nanosecond() {
        let mut shaper = Shaper::new(BitRate::from_gbps(1), Bytes::ZERO);
        assert!(shaper.credit(Nanos(0)).allows_a_frame());
        shaper.spend(Nanos(0), Bytes(1250));
        assert_eq!(shaper.ready_at(), Nanos(10_000));
        assert!(!shaper.credit(Nanos(9_999)).allows_a_frame());
        assert!(shaper.credit(Nanos(10_000)).allows_a_frame());
    }

    #[test]
    fn sub_nanosecond_times_add_up() {
        // 84 bytes at 400 Gb/s take 1.68 ns; a thousand of them 1680 ns.
        let mut shaper = Shaper::new(BitRate::from_gbps(400), Bytes::ZERO);
        let mut now = Nanos(0);
        for _ in 0..1000 {
            assert!(shaper.credit(now).allows_a_frame());
            shaper.spend(now, Bytes(84));
            now = now.max(shaper.ready_at());
        }
        assert_eq!(now, Nanos(1680));
    }

    #[test]
    fn a_credit_binds_frame_by_frame_to_its_last_byte_and_not_beyond() {
        for seed in xoff_explore::seeds(0..20) {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut alone = Shaper::new(BitRate::from_mbps(rng.u64(1..400_000)), Bytes(rng.u64(0..20_000)));
            let mut now = Nanos(0);
            for _ in 0..100 {
                now = now.after(Nanos(rng.u64(0..100_000))).max(alone.ready_at());
                alone.spend(now, Bytes::ZERO); // it has all that it has earned
                let mut together = alone.clone();
                let bytes = alone.credit(now).bytes();
                let mut left = bytes.0;
                while left > 0 {
                    let next = rng.u64(1..1519).min(left);
                    assert!(alone.credit(now).allows_a_frame());
                    alone.spend(now, Bytes(next));
                    left -= next;
                }
                assert!(alone.credit(now).allows_a_frame(), "to the last byte");
                alone.spend(now, Bytes(1));
                together.spend(now, Bytes(bytes.0 + 1));
                assert_eq!(format!("{together:?}"), format!("{alone:?}"));
                assert!(!alone.credit(now).allows_a_frame(), "one byte beyond");
            }
        }
    }

    #[test]
    fn another_rate_counts_from_when_it_is_set() {
        let mut shaper = Shaper::new(BitRate::from_gbps(1), Bytes::ZERO);
        shaper.spend(Nanos(0), Bytes(1250));
        shaper.set_rate(Nanos(5_000), BitRate::from_mbps(500), Bytes::ZERO);
        assert_eq!(shaper.ready_at(), Nanos(15_000), "half is left, at half the rate");
    }

    #[test]
    fn what_was_saved_up_is_cut_to_another_burst_or_forgone_and_debts_are_not() {
        let frames = |shaper: &mut Shaper| {
            let now = Nanos(1_000_000);
            std::iter::from_fn(|| shaper.credit(now).allows_a_frame().then(|| shaper.spend(now, Bytes(1000))))
                .count()
        };
        let gigabit = BitRate::from_gbps(1);
        let mut shaper = Shaper::new(gigabit, Bytes(3000));
        shaper.set_rate(Nanos(1_000_000), gigabit, Bytes(1000));
        assert_eq!(frames(&mut shaper.clone()), 2);
        shaper.forgo(Nanos(1_000_000));
        assert_eq!(frames(&mut shaper), 1);
        let owed = shaper.ready_at();
        shaper.forgo(Nanos(1_000_000));
        assert_eq!(shaper.ready_at(), owed);
    }

    #[test]
    fn only_the_burst_is_caught_up_after_a_stall() {
        let mut shaper = Shaper::new(BitRate::from_gbps(1), Bytes(3000));
        let sent = std::iter::from_fn(|| {
            shaper
                .credit(Nanos(1_000_000))
                .allows_a_frame()
                .then(|| shaper.spend(Nanos(1_000_000), Bytes(1000)))
        })
        .count();
        assert_eq!(sent, 4); // three from the burst, and one that starts at zero credit
    }
}
