//! Shaper: a token bucket. Credit is rate (bit/s) times time (ns), so that nothing is rounded.
//!
//! A stream with waiting frames may save more credit than an idle one, to catch up after its worker stalled.

use xoff_wire::units::{BitRate, Bytes, Nanos};

const SCALE: i64 = 8 * 1_000_000_000; // one byte, in units of bits x ns/s

#[derive(Clone, Copy, Debug)]
pub(crate) struct Lead {
    /// Maximum credit, in bytes, of a stream with waiting frames, to catch up after its worker stalled.
    pub(crate) late: Bytes,
    /// Maximum credit, in bytes, of an idle stream. Values above `late` act as `late`.
    pub(crate) idle: Bytes,
}

impl From<Bytes> for Lead {
    fn from(bytes: Bytes) -> Lead {
        Lead { late: bytes, idle: bytes }
    }
}

/// Token bucket. A frame may start while credit is not negative; its whole size is then charged.
#[derive(Clone, Debug)]
pub(crate) struct Shaper {
    rate: BitRate,
    most: [i64; 2],
    credit: i64,
    updated: Nanos,
    rests: bool,
}

impl Shaper {
    pub(crate) fn new(rate: BitRate, lead: impl Into<Lead>) -> Shaper {
        let lead = lead.into();
        let credit = credit_of(lead.idle.min(lead.late)).min(i64::MAX / 2);
        Shaper { rate, most: most_credit(rate, lead), credit, updated: Nanos::ZERO, rests: true }
    }

    pub(crate) fn set_rate(&mut self, now: Nanos, rate: BitRate, lead: impl Into<Lead>) {
        self.refill(now);
        self.rate = rate;
        self.most = most_credit(rate, lead.into());
        self.credit = self.credit.min(self.most());
    }

    pub(crate) fn forgo(&mut self, now: Nanos) {
        self.refill(now);
        self.credit = self.credit.min(0);
    }

    #[inline]
    pub(crate) fn rest(&mut self, now: Nanos) {
        if !self.rests {
            self.refill(now);
            self.rests = true; // excess credit is lost with time only: the stream may become busy at the same instant
        }
    }

    #[inline]
    pub(crate) fn credit(&mut self, now: Nanos) -> Credit {
        if self.credit < 0 || self.rests {
            self.refill(now);
            self.rests = false;
        }
        Credit(self.credit)
    }

    #[inline]
    pub(crate) fn is_ready(&self, now: Nanos) -> bool {
        self.ready_at() <= now
    }

    pub(crate) fn ready_at(&self) -> Nanos {
        if self.credit >= 0 {
            return Nanos::ZERO;
        }
        self.updated.after(Nanos(self.credit.unsigned_abs().div_ceil(self.rate.bits_per_second())))
    }

    #[inline]
    pub(crate) fn spend(&mut self, now: Nanos, bytes: Bytes) {
        self.refill(now);
        self.credit = self.credit.saturating_sub(credit_of(bytes));
    }

    #[inline]
    fn refill(&mut self, now: Nanos) {
        if now <= self.updated {
            return;
        }
        let earned = u128::from(now.since(self.updated).0) * u128::from(self.rate.bits_per_second());
        self.credit = self.credit.min(self.most());
        let lacking = u64::try_from(self.most().saturating_sub(self.credit)).unwrap_or(0);
        let earned = u64::try_from(earned).unwrap_or(u64::MAX).min(lacking);
        self.credit = self.credit.saturating_add_unsigned(earned);
        self.updated = now;
    }

    #[inline]
    fn most(&self) -> i64 {
        self.most[usize::from(self.rests)]
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit(i64);

impl Credit {
    #[inline]
    pub(crate) const fn allows_a_frame(self) -> bool {
        self.0 >= 0
    }

    pub(crate) fn bytes(self) -> Bytes {
        Bytes(u64::try_from(self.0 / SCALE).unwrap_or(0))
    }
}

fn most_credit(rate: BitRate, Lead { late, idle }: Lead) -> [i64; 2] {
    let nanosecond = i64::try_from(rate.bits_per_second()).unwrap_or(i64::MAX);
    [late, idle.min(late)].map(|bytes| credit_of(bytes).max(nanosecond).min(i64::MAX / 2))
}

fn credit_of(bytes: Bytes) -> i64 {
    i64::try_from(bytes.0).unwrap_or(i64::MAX).saturating_mul(SCALE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shaper_at_gigabit_is_exact_to_the_nanosecond() {
        let mut shaper = Shaper::new(BitRate::from_gbps(1), Bytes::ZERO);
        assert!(shaper.credit(Nanos(0)).allows_a_frame());
        shaper.spend(Nanos(0), Bytes(1250));
        assert_eq!(shaper.ready_at(), Nanos(10_000));
        assert!(!shaper.credit(Nanos(9_999)).allows_a_frame());
        assert!(shaper.credit(Nanos(10_000)).allows_a_frame());
    }

    #[test] // proves: pacing
    fn shaper_accumulates_fractions_of_nanoseconds() {
        let mut shaper = Shaper::new(BitRate::from_gbps(400), Bytes::ZERO);
        let mut now = Nanos(0);
        for _ in 0..1000 {
            assert!(shaper.credit(now).allows_a_frame());
            shaper.spend(now, Bytes(84));
            now = now.max(shaper.ready_at());
        }
        assert_eq!(now, Nanos(1680));
    }

    #[test] // proves: batches
    fn shaper_charges_batch_like_single_frames() {
        for seed in xoff_explore::seeds(0..20) {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut alone = Shaper::new(BitRate::from_mbps(rng.u64(1..400_000)), Bytes(rng.u64(0..20_000)));
            let mut now = Nanos(0);
            for _ in 0..100 {
                now = now.after(Nanos(rng.u64(0..100_000))).max(alone.ready_at());
                let _ = alone.credit(now);
                alone.spend(now, Bytes::ZERO);
                let mut together = alone.clone();
                let bytes = alone.credit(now).bytes();
                let mut left = bytes.0;
                while left > 0 {
                    let next = rng.u64(1..1519).min(left);
                    assert!(alone.credit(now).allows_a_frame());
                    alone.spend(now, Bytes(next));
                    left -= next;
                }
                assert!(
                    alone.credit(now).allows_a_frame(),
                    "a frame must be allowed until the credit is spent"
                );
                alone.spend(now, Bytes(1));
                together.spend(now, Bytes(bytes.0 + 1));
                assert_eq!(format!("{together:?}"), format!("{alone:?}"));
                assert!(!alone.credit(now).allows_a_frame(), "no frame must be allowed beyond the credit");
            }
        }
    }

    #[test]
    fn new_shaper_rate_applies_from_time_of_change() {
        let mut shaper = Shaper::new(BitRate::from_gbps(1), Bytes::ZERO);
        shaper.spend(Nanos(0), Bytes(1250));
        shaper.set_rate(Nanos(5_000), BitRate::from_mbps(500), Bytes::ZERO);
        assert_eq!(
            shaper.ready_at(),
            Nanos(15_000),
            "the rest of the wait must double when the rate is halved"
        );
    }

    #[test]
    fn smaller_shaper_burst_cuts_positive_but_not_negative_credit() {
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

    #[test] // proves: pacing
    fn shaper_catches_up_by_its_burst_after_a_stall() {
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
    #[test] // proves: pacing
    fn shaper_lets_busy_stream_catch_up_more_than_idle_stream() {
        let lead = Lead { late: Bytes(10_000), idle: Bytes(2_000) };
        let gigabit = BitRate::from_gbps(1); // a byte in 8 ns
        let mut shaper = Shaper::new(gigabit, lead);
        assert_eq!(
            shaper.credit(Nanos(1_000_000)).bytes(),
            Bytes(2_000),
            "an idle stream must begin with its idle credit"
        );
        shaper.spend(Nanos(1_000_000), Bytes(2_000));
        let after = |shaper: &Shaper, now: u64| {
            let mut shaper = shaper.clone();
            shaper.spend(Nanos(now), Bytes::ZERO);
            shaper.credit(Nanos(now)).bytes()
        };
        assert_eq!(
            after(&shaper, 1_000_000 + 8 * 9_999),
            Bytes(9_999),
            "a busy stream must earn credit beyond the idle maximum"
        );
        assert_eq!(
            after(&shaper, 1_000_000 + 8 * 10_001),
            Bytes(10_000),
            "a busy stream must not save more than its maximum"
        );
        let mut rested = shaper.clone();
        rested.rest(Nanos(1_000_000 + 8 * 5_000));
        assert_eq!(
            after(&rested, 1_000_000 + 8 * 5_000),
            Bytes(5_000),
            "credit must not be cut at the instant at which a stream becomes idle"
        );
        assert_eq!(
            after(&rested, 1_000_000 + 8 * 5_000 + 1),
            Bytes(2_000),
            "an idle stream must not keep more than its idle credit"
        );
        assert_eq!(after(&rested, 9_000_000), Bytes(2_000));
        assert_eq!(rested.credit(Nanos(9_000_000)).bytes(), Bytes(2_000));
        assert_eq!(
            after(&rested, 9_000_000 + 8 * 3_000),
            Bytes(5_000),
            "a stream that is busy again must earn credit as a busy one"
        );
        let mut owing = shaper;
        owing.spend(Nanos(1_000_000), Bytes(1_000));
        owing.rest(Nanos(1_000_000 + 8 * 400));
        assert_eq!(
            owing.ready_at(),
            Nanos(1_000_000 + 8 * 1_000),
            "idle time must not change negative credit"
        );
    }
}
