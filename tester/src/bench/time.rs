//! Instants with the uncertainty of their measurement.

use xoff_wire::units::Nanos;

/// Instant that lies between two readings of the clock.
///
/// A stall of the tester widens the interval, so that limits computed from it stay true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    pub earliest: Nanos,
    pub latest: Nanos,
}

impl Moment {
    /// Returns the least possible time from `earlier` to this instant.
    #[must_use]
    pub fn at_least_since(self, earlier: Moment) -> Nanos {
        self.earliest.since(earlier.latest)
    }

    /// Returns the greatest possible time from `earlier` to this instant.
    #[must_use]
    pub fn at_most_since(self, earlier: Moment) -> Nanos {
        self.latest.since(earlier.earliest)
    }

    /// Returns the uncertainty of the instant.
    #[must_use]
    pub fn width(self) -> Nanos {
        self.latest.since(self.earliest)
    }
}
