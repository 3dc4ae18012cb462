mod cubic;
mod dctcp;
mod reno;

use xoff_wire::units::Nanos;

pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use reno::Reno;

/// Minimum slow start threshold, in segments.
const THRESHOLD_MIN: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Additive increase and multiplicative decrease (RFC 5681).
    Reno,
    /// CUBIC (RFC 9438), without `HyStart`.
    Cubic,
    /// DCTCP (RFC 8257).
    Dctcp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    Mark,
    Loss,
}

/// State of a congestion control algorithm. Windows are in segments.
#[derive(Clone, Debug)]
pub enum Control {
    #[allow(missing_docs)]
    Reno(Reno),
    #[allow(missing_docs)]
    Cubic(Cubic),
    #[allow(missing_docs)]
    Dctcp(Dctcp),
}

impl Control {
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Control {
        match algorithm {
            Algorithm::Reno => Control::Reno(Reno::default()),
            Algorithm::Cubic => Control::Cubic(Cubic::default()),
            Algorithm::Dctcp => Control::Dctcp(Dctcp::default()),
        }
    }

    /// Returns the new slow start threshold after congestion. As in Linux, it is a share of `window`, not of the
    /// segments in flight.
    pub fn reduce(&mut self, window: u32, congestion: Congestion) -> u32 {
        let reduced = match self {
            Control::Reno(reno) => reno.reduce(window),
            Control::Cubic(cubic) => cubic.reduce(window),
            Control::Dctcp(dctcp) => dctcp.reduce(window, congestion),
        };
        reduced.max(THRESHOLD_MIN)
    }

    /// Resets CUBIC's curve after a time-out (RFC 9438 section 4.8).
    pub fn timed_out(&mut self) {
        if let Control::Cubic(cubic) = self {
            cubic.timed_out();
        }
    }

    pub fn grow(&mut self, window: u32, acknowledged: u32, now: Nanos, round_trip: Nanos) -> u32 {
        match self {
            Control::Reno(reno) => reno.grow(window, acknowledged),
            Control::Cubic(cubic) => cubic.grow(window, acknowledged, now, round_trip),
            Control::Dctcp(dctcp) => dctcp.growth.grow(window, acknowledged),
        }
    }

    /// Records that `acknowledged` further segments were acknowledged. `first` is the first unacknowledged segment,
    /// `next` the next unsent one.
    pub fn acknowledged(&mut self, acknowledged: u32, is_marked: bool, [first, next]: [u32; 2]) {
        if let Control::Dctcp(dctcp) = self {
            dctcp.acknowledged(acknowledged, is_marked, [first, next]);
        }
    }

    /// Returns DCTCP's estimated share of marked segments (0 to 1).
    #[must_use]
    pub const fn alpha(&self) -> Option<f64> {
        match self {
            Control::Dctcp(dctcp) => Some(dctcp.alpha()),
            Control::Reno(_) | Control::Cubic(_) => None,
        }
    }

    pub fn restart(&mut self) {
        match self {
            Control::Reno(_) => {}
            Control::Cubic(cubic) => cubic.restart(),
            Control::Dctcp(dctcp) => dctcp.restart(),
        }
    }
}
