//! What policies ask of peers beyond pauses of a class, counted the same way for the policy that acts and
//! for those that only watch.

use xoff_wire::units::{BitRate, Nanos, RateStep};

use crate::counter::Counter;

/// Pauses of single flows (OFC).
#[derive(Debug, Default, PartialEq)]
pub struct FlowsAsked {
    /// Times that flows were added to those that the peer is asked to pause: partial pauses.
    pub pauses: Counter,
    /// How many flows these were.
    pub flows: Counter,
    /// Times that the peer was asked to resume all of them: partial resumes.
    pub resumes: Counter,
    /// Flows that it is asked to pause, now.
    pub now: Counter,
}

impl FlowsAsked {
    /// The peer is to pause that many more.
    pub fn pause(&self, count: u32) {
        self.pauses.add(1);
        self.flows.add(count.into());
    }
}

/// Rates (GFC).
#[derive(Debug, Default, PartialEq)]
pub struct RateAsked {
    /// Times that the rate changed.
    pub changes: Counter,
    /// The rate that the peer is asked to keep now, bits per second; zero: no limit.
    pub now: Counter,
    /// The lowest that it was ever asked to keep, bits per second; zero: there was none.
    pub lowest: Counter,
}

impl RateAsked {
    /// The peer, whose line has that rate, is to keep this step of it.
    pub fn ask(&self, step: RateStep, line: BitRate) {
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

/// What a shadow policy would have done at one port and class.
#[derive(Debug, Default, PartialEq)]
pub struct ShadowCounters {
    /// Times that the peer would have been told to stop.
    pub xoff: Counter,
    /// How long it would have been held, in nanoseconds: finished pauses only.
    pub held_nanos: Counter,
    /// Since when it would be held now (driver's clock, ns); zero when it would not.
    pub held_since: Counter,
    /// Single flows that it would have been asked to pause.
    pub flows: FlowsAsked,
    /// Rates that it would have been asked to keep.
    pub rate: RateAsked,
    /// Frames that came in here and were lost for want of room while it had not asked for a pause.
    pub lost: Counter,
    /// When the first of them was (driver's clock, ns); zero while there is none.
    pub first_loss: Counter,
    /// What it wanted, as frames of the class came, waited or left here, and could not have been done.
    pub refused: Counter,
}

impl ShadowCounters {
    /// A frame was lost for want of room, unasked.
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
    fn the_lowest_rate_is_kept_while_rates_rise_and_fall() {
        let asked = RateAsked::default();
        let line = BitRate::from_gbps(1);
        let seen = [2, 3, 1, 0].map(|step| {
            asked.ask(RateStep::new(step).unwrap(), line);
            (asked.now.get() / 1_000_000, asked.lowest.get() / 1_000_000)
        });
        assert_eq!(seen, [(250, 250), (125, 125), (500, 125), (0, 125)]);
        assert_eq!(asked.changes.get(), 4);
    }
}
