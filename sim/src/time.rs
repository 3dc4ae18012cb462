//! Simulated time in picoseconds: at every usual rate, a byte takes a whole number of them. The dataplane gets
//! nanoseconds, rounded down.

use xoff_wire::units::{BitRate, Bytes, Nanos};

/// Time since a run's start, or a duration: in picoseconds, at most 213 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picos(pub u64);

const PER_NANO: u64 = 1_000;
const PER_SECOND: u64 = 1_000_000_000_000;

impl Picos {
    /// Start of a run, or a duration of zero.
    pub const ZERO: Picos = Picos(0);
    /// Time later than any other, for events that never happen.
    pub const NEVER: Picos = Picos(u64::MAX);

    /// Converts `n` nanoseconds to picoseconds.
    #[must_use]
    pub const fn from_nanos(n: u64) -> Picos {
        Picos(n.saturating_mul(PER_NANO))
    }

    /// Converts `n` microseconds to picoseconds.
    #[must_use]
    pub const fn from_micros(n: u64) -> Picos {
        Picos::from_nanos(n.saturating_mul(1_000))
    }

    /// Returns the time in nanoseconds, rounded down.
    #[inline]
    #[must_use]
    pub const fn floor(self) -> Nanos {
        Nanos(self.0 / PER_NANO)
    }

    /// Returns the time `span` after this time.
    #[inline]
    #[must_use]
    pub const fn after(self, span: Picos) -> Picos {
        Picos(self.0.saturating_add(span.0))
    }

    /// Returns the span since `earlier`, or zero if `earlier` is later.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Picos) -> Picos {
        Picos(self.0.saturating_sub(earlier.0))
    }
}

impl From<Nanos> for Picos {
    #[inline]
    fn from(nanos: Nanos) -> Picos {
        Picos::from_nanos(nanos.0)
    }
}

/// Rate of a line, stored for fast computation of transmission times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    rate: BitRate,
    /// Picoseconds per byte; zero if not a whole number.
    picos_per_byte: u64,
}

impl Pace {
    /// Converts the rate of a line.
    #[must_use]
    pub const fn of(rate: BitRate) -> Pace {
        let per_second = 8 * PER_SECOND;
        let is_whole = per_second.is_multiple_of(rate.bits_per_second());
        let picos_per_byte = if is_whole { per_second / rate.bits_per_second() } else { 0 };
        Pace { rate, picos_per_byte }
    }

    /// Returns the rate of the line.
    #[must_use]
    pub const fn rate(self) -> BitRate {
        self.rate
    }

    /// Returns the transmission time, rounded up, of `bytes`, preambles and gaps included.
    #[inline]
    #[must_use]
    pub fn time_of(self, bytes: Bytes) -> Picos {
        if self.picos_per_byte > 0 { Picos(bytes.0 * self.picos_per_byte) } else { self.rounded(bytes) }
    }

    #[cold]
    fn rounded(self, bytes: Bytes) -> Picos {
        let picos =
            (u128::from(bytes.0) * u128::from(8 * PER_SECOND)).div_ceil(self.rate.bits_per_second().into());
        Picos(u64::try_from(picos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // proves: sim-timing
    fn byte_takes_whole_picoseconds_at_usual_rates() {
        for (gbps, picos) in [(1, 8_000), (10, 800), (25, 320), (40, 200), (100, 80), (200, 40), (400, 20)] {
            assert_eq!(Pace::of(BitRate::from_gbps(gbps)).time_of(Bytes(1)), Picos(picos), "{gbps}G");
        }
    }

    #[test]
    fn unusual_rate_rounds_up_frame_time_not_byte_time() {
        let pace = Pace::of(BitRate::from_gbps(3));
        assert_eq!([1, 3, 1_500].map(|n| pace.time_of(Bytes(n))), [2_667, 8_000, 4_000_000].map(Picos));
    }

    #[test]
    fn picoseconds_round_down_to_dataplane_nanoseconds() {
        assert_eq!([999, 1_000, 1_999].map(|n| Picos(n).floor()), [0, 1, 1].map(Nanos));
        assert_eq!(Picos::from(Nanos(7)).floor(), Nanos(7));
    }
}
