use std::collections::BTreeMap;

use xoff_wire::units::{Nanos, PortId, PortSet};

/// Times until which faults block operations of a simulated driver.
#[derive(Clone, Debug, Default)]
pub struct Impairments {
    looks_from: Nanos,
    completes_from: Nanos,
    sends_from: BTreeMap<PortId, Nanos>,
}

impl Impairments {
    /// Blocks the whole driver until `until`.
    pub fn stall(&mut self, until: Nanos) {
        self.looks_from = self.looks_from.max(until);
    }

    /// Blocks transmission at `port` until `until`.
    pub fn refuse(&mut self, port: PortId, until: Nanos) {
        let from = self.sends_from.entry(port).or_default();
        *from = (*from).max(until);
    }

    /// Withholds completions of sent frames until `until`.
    pub fn complete_late(&mut self, until: Nanos) {
        self.completes_from = self.completes_from.max(until);
    }

    /// Returns whether the driver is blocked.
    #[must_use]
    pub fn stalls(&self, now: Nanos) -> bool {
        now < self.looks_from
    }

    /// Returns whether a stall lasts until `now` or later. The poll at its end is then already scheduled.
    #[must_use]
    pub fn will_look(&self, now: Nanos) -> bool {
        now <= self.looks_from
    }

    /// Returns whether a fault delays completions of sent frames.
    #[must_use]
    pub fn completes_late(&self, now: Nanos) -> bool {
        now < self.completes_from
    }

    /// Returns whether transmission at `port` is blocked.
    #[must_use]
    pub fn is_refused(&self, now: Nanos, port: PortId) -> bool {
        self.sends_from.get(&port).is_some_and(|from| now < *from)
    }

    /// Returns when the driver polls next: at `wanted`, or at the end of its stall, if later.
    #[must_use]
    pub fn not_before(&self, wanted: Nanos) -> Nanos {
        wanted.max(self.looks_from)
    }

    /// Removes and returns the ports whose transmission block has ended.
    pub fn take_healed(&mut self, now: Nanos) -> PortSet {
        let mut healed = PortSet::NONE;
        self.sends_from.retain(|port, from| {
            let is_refused = now < *from;
            if !is_refused {
                healed.insert(*port);
            }
            is_refused
        });
        healed
    }

    /// Returns whether no fault blocks or delays the driver at `now`.
    #[must_use]
    pub fn is_well(&self, now: Nanos) -> bool {
        !self.stalls(now) && !self.completes_late(now) && self.sends_from.is_empty()
    }
}
