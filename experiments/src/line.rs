//! Line of a fabric. Experiments give sizes and times for 100 Mb/s; the line adapts them to its rate.
//!
//! Software reacts to a pause after a constant time, so sizes grow with the rate. For ideal hardware, times shrink instead.

use std::fmt::{self, Display};

use xoff_config::Hardware;
use xoff_wire::units::{BitRate, Bytes, Nanos};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    rate: BitRate,
    hardware: Hardware,
    is_simulated: bool,
}

impl From<BitRate> for Line {
    fn from(rate: BitRate) -> Line {
        Line { rate, hardware: Hardware::Software, is_simulated: false }
    }
}

impl Line {
    pub const REFERENCE: BitRate = BitRate::from_mbps(100);

    #[must_use]
    pub const fn simulated(rate: BitRate) -> Line {
        Line { rate, hardware: Hardware::Ideal, is_simulated: true }
    }

    #[must_use]
    pub const fn simulated_machine(rate: BitRate) -> Line {
        Line { rate, hardware: Hardware::Software, is_simulated: true }
    }

    #[must_use]
    pub const fn hardware(self) -> Hardware {
        self.hardware
    }

    #[must_use]
    pub const fn rate(self) -> BitRate {
        self.rate
    }

    #[must_use]
    pub const fn is_simulated(self) -> bool {
        self.is_simulated
    }

    #[must_use]
    pub const fn bits_per_second(self) -> u64 {
        self.rate.bits_per_second()
    }

    #[must_use]
    pub fn time_of(self, bytes: Bytes) -> Nanos {
        self.rate.time_of(bytes)
    }

    #[must_use]
    pub fn size(self, at_100_mbps: Bytes) -> Bytes {
        match self.hardware {
            Hardware::Software => Bytes(proportion(at_100_mbps.0, self.rate, Line::REFERENCE)),
            Hardware::Ideal => at_100_mbps,
        }
    }

    #[must_use]
    pub fn span(self, at_100_mbps: Nanos) -> Nanos {
        match self.hardware {
            Hardware::Software => at_100_mbps,
            Hardware::Ideal => Nanos(proportion(at_100_mbps.0, Line::REFERENCE, self.rate)),
        }
    }
}

fn proportion(of: u64, part: BitRate, whole: BitRate) -> u64 {
    let product = u128::from(of) * u128::from(part.bits_per_second());
    u64::try_from(product / u128::from(whole.bits_per_second())).unwrap_or(u64::MAX)
}

impl Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mbps = self.bits_per_second() / 1_000_000;
        match self.hardware {
            Hardware::Ideal if mbps >= 1_000 => write!(f, "{} Gb/s", mbps as f64 / 1e3),
            _ => write!(f, "{mbps} Mb/s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // proves: experiment-parity
    fn line_rate_scales_live_sizes_and_simulated_times() {
        let (size, span) = (Bytes(50_000), Nanos::from_millis(600));
        for (rate, sizes, spans) in
            [(50, 25_000, 1_200_000), (100, 50_000, 600_000), (1_000, 500_000, 60_000)]
        {
            let rate = BitRate::from_mbps(rate);
            let (live, simulated) = (Line::from(rate), Line::simulated(rate));
            for live_like in [live, Line::simulated_machine(rate)] {
                assert_eq!((live_like.size(size), live_like.span(span)), (Bytes(sizes), span));
            }
            assert_eq!((simulated.size(size), simulated.span(span)), (size, Nanos::from_micros(spans)));
        }
    }

    #[test] // proves: experiment-parity
    fn rate_is_shown_in_fitting_unit() {
        let text = |mbps| Line::simulated(BitRate::from_mbps(mbps)).to_string();
        assert_eq!([100, 2_500, 400_000].map(text), ["100 Mb/s", "2.5 Gb/s", "400 Gb/s"]);
        assert_eq!(Line::from(BitRate::from_gbps(1)).to_string(), "1000 Mb/s");
    }
}
