//! Requests of policies beyond pauses of a class, for the acting policy and for shadows.

use xoff_wire::units::{BitRate, Nanos, RateStep};

use crate::counter::Counter;

/// Requests to pause single flows (OFC).
#[derive(Debug, Default, PartialEq)]
pub struct FlowRequests {
    /// Partial pauses: requests to pause more flows.
    pub pauses: Counter,
    /// Flows in these requests.
    pub flows: Counter,
    /// Partial resumes: requests to resume all paused flows.
    pub resumes: Counter,
    /// Flows that the peer is asked to pause now.
    pub now: Counter,
}

impl FlowRequests {
    /// Counts a request to pause `count` more flows.
    pub fn pause(&self, count: u32) {
        self.pauses.add(1);
        self.flows.add(count.into());
    }
}

/// Requests for rates (GFC).
#[derive(Debug, Default, PartialEq)]
pub struct RateRequests {
    /// Number of rate changes.
    pub changes: Counter,
    /// Rate that the peer is asked to keep now, in bits per second; zero: no limit.
    pub now: Counter,
    /// Lowest rate ever requested, in bits per second; zero: none yet.
    pub lowest: Counter,
}

impl RateRequests {
    /// Counts a request for this step of the peer's line rate.
    pub fn record(&self, step: RateStep, line: BitRate) {
        self.changes.add(1);
        if step == RateStep::FULL {
            return self.now.set(0);
        }
        let rate = step.of(line).bits_per_second();
        self.now.set(rate);
        if self.lowest.get() == 0 {
            self.lowest.set(rate);
        }
        self.lowest.lower(rate);
    }
}

/// Actions that a shadow policy would have taken at one port and class.
#[derive(Debug, Default, PartialEq)]
pub struct ShadowCounters {
    /// XOFFs that would have been sent.
    pub xoff: Counter,
    /// Time for which the peer would have been held, in nanoseconds; finished pauses only.
    pub held_nanos: Counter,
    /// Begin of the current shadow pause (driver's clock, ns); zero without one.
    pub held_since: Counter,
    /// Requests to pause single flows.
    pub flows: FlowRequests,
    /// Requests for rates.
    pub rate: RateRequests,
    /// Frames received here and lost because room was missing, while the policy had requested no pause.
    pub lost: Counter,
    /// Time of the first such loss (driver's clock, ns); zero without one.
    pub first_loss: Counter,
    /// Intents on events at this port and class that could not have been executed.
    pub refused: Counter,
}

impl ShadowCounters {
    /// Counts a frame lost because room was missing, without a requested pause.
    pub fn lose(&self, now: Nanos) {
        self.lost.add(1);
        if self.first_loss.get() == 0 {
            self.first_loss.set(now.0.max(1));
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lowest_rate_survives_rate_changes() {
        let requests = RateRequests::default();
        let line = BitRate::from_gbps(1);
        let rates = [2, 3, 1, 0].map(|step| {
            requests.record(RateStep::new(step).unwrap(), line);
            (requests.now.get() / 1_000_000, requests.lowest.get() / 1_000_000)
        });
        assert_eq!(rates, [(250, 250), (125, 125), (500, 125), (0, 125)]);
        assert_eq!(requests.changes.get(), 4);
    }
}
