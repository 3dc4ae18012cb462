use xoff_wire::units::Nanos;

/// Maximum time by which a frame's kernel timestamp may precede the previous poll: that poll may have left the frame in the ring.
const BACKLOG_MAX: Nanos = Nanos::from_secs(1);

/// Instant between two readings of the clock.
///
/// For a received frame, both readings are the kernel's timestamp. Without one, the frame arrived between two polls. A stall of the tester
/// widens this interval, so that limits computed from the instant stay true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    pub earliest: Nanos,
    pub latest: Nanos,
}

impl Moment {
    /// Returns the arrival of a frame with the kernel timestamp `stamp`, received by a poll at this moment. `None` if the timestamp is too
    /// new or too old: in a time namespace, the tester's clock differs from the kernel's.
    #[must_use]
    pub fn stamped(self, stamp: Nanos) -> Option<Moment> {
        let is_plausible = stamp <= self.latest && stamp.after(BACKLOG_MAX) >= self.earliest;
        is_plausible.then_some(Moment { earliest: stamp, latest: stamp })
    }

    #[must_use]
    pub fn at_least_since(self, earlier: Moment) -> Nanos {
        self.earliest.since(earlier.latest)
    }

    #[must_use]
    pub fn at_most_since(self, earlier: Moment) -> Nanos {
        self.latest.since(earlier.earliest)
    }

    /// Returns the uncertainty of this instant: the time between its two readings.
    #[must_use]
    pub fn width(self) -> Nanos {
        self.latest.since(self.earliest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_outside_its_poll_interval_is_ignored() {
        let ms = Nanos::from_millis;
        let poll = Moment { earliest: ms(5_000), latest: ms(5_020) };
        for stamp in [ms(4_000), ms(5_007), ms(5_020)] {
            assert_eq!(poll.stamped(stamp), Some(Moment { earliest: stamp, latest: stamp }));
        }
        assert_eq!(
            [Nanos(ms(4_000).0 - 1), Nanos(ms(5_020).0 + 1)].map(|stamp| poll.stamped(stamp)),
            [None; 2]
        );
    }
}
