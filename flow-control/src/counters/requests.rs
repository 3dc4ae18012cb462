//! Counters of the flow pauses and rates that a policy (acting or shadow) requests.

use xoff_wire::units::{BitRate, Nanos, RateStep};

use crate::counter::Counter;

/// Counters of requests to pause single flows (OFC).
#[derive(Debug, Default, PartialEq)]
#[allow(missing_docs)] // the names say it
pub struct FlowRequests {
    pub pauses: Counter,
    pub flows: Counter,
    pub resumes: Counter,
    pub now: Counter,
}

impl FlowRequests {
    /// Counts a request to pause `count` more flows.
    pub fn pause(&self, count: u32) {
        self.pauses.add(1);
        self.flows.add(count.into());
    }
}

/// Counters of requests for rates (GFC).
#[derive(Debug, Default, PartialEq)]
#[allow(missing_docs)] // the names say it
pub struct RateRequests {
    pub changes: Counter,
    /// Currently requested rate (bit/s); zero means no limit.
    pub now: Counter,
    /// Lowest rate requested so far (bit/s); zero means none.
    pub lowest: Counter,
}

impl RateRequests {
    /// Records a request for the rate of `step` on a line of rate `line`.
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

/// Actions that a shadow policy requests for one class on one port. None is executed.
#[derive(Debug, Default, PartialEq)]
#[allow(missing_docs)] // the names say it
pub struct ShadowCounters {
    pub xoff: Counter,
    pub held_nanos: Counter,
    /// Start (ns, switch's clock) of the pause that the shadow policy requests now, or zero.
    pub held_since: Counter,
    pub flows: FlowRequests,
    pub rate: RateRequests,
    /// Frames received here and lost because a queue or memory was full, while the shadow policy requested no pause.
    pub lost: Counter,
    /// Time (ns, switch's clock) of the first loss in `lost`, or zero.
    pub first_loss: Counter,
    pub refused: Counter,
}

impl ShadowCounters {
    /// Counts a frame lost while the shadow policy requested no pause.
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
    fn lowest_requested_rate_survives_rate_changes() {
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
