//! What a switch's driver does not do in time: look at its ports, get frames on a line, hear that they have left.
//!
//! It says only until when; what waits meanwhile is with whoever has the driver: a [`SwitchNode`](crate::SwitchNode), or a switch of the
//! test bed.

use std::collections::BTreeMap;

use xoff_dataplane::units::{Nanos, PortId, PortSet};

/// Until when what is not done.
#[derive(Clone, Debug, Default)]
pub struct Ailing {
    looks_from: Nanos,
    completes_from: Nanos,
    sends_from: BTreeMap<PortId, Nanos>,
}

impl Ailing {
    /// The driver is busy elsewhere until then.
    pub fn stall(&mut self, until: Nanos) {
        self.looks_from = self.looks_from.max(until);
    }

    /// The kernel takes no frame for the line of `port` until then.
    pub fn refuse(&mut self, port: PortId, until: Nanos) {
        let from = self.sends_from.entry(port).or_default();
        *from = (*from).max(until);
    }

    /// That frames have left is not said until then.
    pub fn complete_late(&mut self, until: Nanos) {
        self.completes_from = self.completes_from.max(until);
    }

    /// Whether it is busy elsewhere.
    #[must_use]
    pub fn stalls(&self, now: Nanos) -> bool {
        now < self.looks_from
    }

    /// Whether it looks by itself: it is busy elsewhere, or has been until now.
    #[must_use]
    pub fn will_look(&self, now: Nanos) -> bool {
        now <= self.looks_from
    }

    /// Whether it does not hear of what has left.
    #[must_use]
    pub fn completes_late(&self, now: Nanos) -> bool {
        now < self.completes_from
    }

    /// Whether no frame gets on the line of `port`.
    #[must_use]
    pub fn is_refused(&self, now: Nanos, port: PortId) -> bool {
        self.sends_from.get(&port).is_some_and(|from| now < *from)
    }

    /// When it looks at what it would look at `wanted`.
    #[must_use]
    pub fn not_before(&self, wanted: Nanos) -> Nanos {
        wanted.max(self.looks_from)
    }

    /// Ports whose lines were refused frames and are no longer. It forgets them.
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

    /// Whether everything is done in time again.
    #[must_use]
    pub fn is_well(&self, now: Nanos) -> bool {
        !self.stalls(now) && !self.completes_late(now) && self.sends_from.is_empty()
    }
}
