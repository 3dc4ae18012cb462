//! What a switch's driver does not do in time: look at its ports, get frames on a line, hear that they have left.

use std::collections::BTreeMap;

use xoff_dataplane::units::{Nanos, PortId};

/// Until when what is not done.
#[derive(Debug, Default)]
pub struct Ailing {
    looks_from: Nanos,
    completes_from: Nanos,
    sends_from: BTreeMap<PortId, Nanos>,
}

impl Ailing {
    /// The driver is busy elsewhere until then.
    pub(super) fn stall(&mut self, until: Nanos) {
        self.looks_from = self.looks_from.max(until);
    }

    /// The kernel takes no frame for the line of `port` until then.
    pub(super) fn refuse(&mut self, port: PortId, until: Nanos) {
        let from = self.sends_from.entry(port).or_default();
        *from = (*from).max(until);
    }

    /// That frames have left is not said until then.
    pub(super) fn complete_late(&mut self, until: Nanos) {
        self.completes_from = self.completes_from.max(until);
    }

    pub(super) fn stalls(&self, now: Nanos) -> bool {
        now < self.looks_from
    }

    pub(super) fn completes_late(&self, now: Nanos) -> bool {
        now < self.completes_from
    }

    pub(super) fn is_refused(&self, now: Nanos, port: PortId) -> bool {
        self.sends_from.get(&port).is_some_and(|from| now < *from)
    }

    /// When it looks at what it would look at `wanted`.
    pub(super) fn not_before(&self, wanted: Nanos) -> Nanos {
        wanted.max(self.looks_from)
    }
}
