use xoff_wire::units::{BitRate, Bytes, Nanos};

#[derive(Clone, Debug)]
pub struct Pacer {
    rate: BitRate,
    free_at: Nanos,
    /// Numerator of the fraction of a nanosecond by which the line becomes free after `free_at`; the denominator is
    /// `rate` in b/s.
    fraction: u64,
}

impl Pacer {
    #[must_use]
    pub const fn new(rate: BitRate, start: Nanos) -> Pacer {
        Pacer { rate, free_at: start, fraction: 0 }
    }

    #[must_use]
    pub const fn free_at(&self) -> Nanos {
        self.free_at
    }

    #[inline]
    pub fn set_rate(&mut self, rate: BitRate) {
        if rate != self.rate {
            (self.rate, self.fraction) = (rate, 0);
        }
    }

    /// Occupies the line with a frame of `bytes` (preamble and gap included) once it is free, but not before
    /// `earliest`.
    #[inline]
    pub fn occupy(&mut self, earliest: Nanos, bytes: Bytes) {
        if earliest > self.free_at {
            (self.free_at, self.fraction) = (earliest, 0);
        }
        // `time` cannot overflow: for a frame of at most 9 KB it is below 10^14.
        let rate = self.rate.bits_per_second();
        let time = bytes.0 * 8 * 1_000_000_000 + self.fraction;
        self.free_at = self.free_at.after(Nanos(time / rate));
        self.fraction = time % rate;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pacer_carries_nanosecond_fractions_to_next_frame() {
        let mut pacer = Pacer::new(BitRate::from_gbps(10), Nanos(100));
        (0..10).for_each(|_| pacer.occupy(Nanos::ZERO, Bytes(84))); // 67.2 ns each
        assert_eq!(pacer.free_at(), Nanos(100 + 672));
    }

    #[test]
    fn pacer_catches_up_when_late_but_not_when_idle() {
        let mut late = Pacer::new(BitRate::from_gbps(1), Nanos(0));
        (0..5).for_each(|_| late.occupy(Nanos(0), Bytes(125)));
        assert_eq!(late.free_at(), Nanos(5000));
        late.occupy(Nanos(20_000), Bytes(125));
        assert_eq!(late.free_at(), Nanos(21_000));
    }
}
