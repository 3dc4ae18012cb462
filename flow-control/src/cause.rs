//! Every XOFF carries why: what triggered it, which egress queue is the culprit, and whether that queue
//! is held by a peer itself. Chained over switches, causes lead from a paused sender to the root of its
//! congestion, or round in a circle.

use xoff_wire::units::{Class, PortId};

use crate::counter::Counter;

/// What made a policy want a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The ingress queue itself reached its XOFF threshold.
    Ingress,
    /// This egress queue of the class is congested, and the port is a culprit of it.
    Egress(PortId),
    /// Flows to this egress queue congest it and should be paused one by one, but a table is full.
    TableFull(PortId),
    /// The ingress queue was predicted to reach its XOFF threshold.
    Predicted,
    /// This higher class of the same port fills up, and lower ones make room for it.
    Higher(Class),
}

impl Trigger {
    /// How many kinds there are: the length of tables by [`Trigger::index`].
    pub const COUNT: usize = Trigger::NAMES.len();
    /// The names of all kinds in metrics, by [`Trigger::index`].
    pub const NAMES: [&'static str; 5] = ["ingress", "egress", "table_full", "predicted", "higher"];

    /// Which kind, from zero.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Trigger::Ingress => 0,
            Trigger::Egress(_) => 1,
            Trigger::TableFull(_) => 2,
            Trigger::Predicted => 3,
            Trigger::Higher(_) => 4,
        }
    }
}

/// Why the peer of a port is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Which kind of [`Trigger`], an index into [`Trigger::NAMES`].
    pub trigger: usize,
    /// The class whose queues are full: the held one itself, or a higher one for which it makes room.
    pub class: Class,
    /// The egress queue of that class that is congested or, where the ingress queue is, that held most of
    /// it; `None` where all of it had left.
    pub culprit: Option<PortId>,
    /// That queue was held by its own peer.
    pub relayed: bool,
}

impl Cause {
    /// As one number, never zero, to be shown by a counter.
    pub fn pack(self) -> u64 {
        let culprit = self.culprit.map_or(0, |port| 1 << 16 | u64::from(port.0) << 8);
        1 << 40
            | u64::from(self.class.get()) << 32
            | culprit
            | u64::from(self.relayed) << 24
            | self.trigger as u64
    }

    /// What such a counter shows; `None` for zero.
    #[must_use]
    pub fn unpack(packed: u64) -> Option<Cause> {
        let [trigger, port, has_culprit, relayed, class, is_some, ..] = packed.to_le_bytes();
        (is_some == 1).then(|| Cause {
            trigger: usize::from(trigger),
            class: Class::from_low_bits(class),
            culprit: (has_culprit == 1).then_some(PortId(port)),
            relayed: relayed == 1,
        })
    }
}

/// How often each kind of cause held a peer, by [`Trigger::index`].
#[derive(Debug, Default, PartialEq)]
pub struct Causes {
    /// The culprit's own line, or nobody's, was the limit.
    pub own: [Counter; Trigger::COUNT],
    /// The culprit was held by its peer: the congestion is further down.
    pub relayed: [Counter; Trigger::COUNT],
}

impl Causes {
    /// Counts a peer that is held because of `cause`.
    pub fn count(&self, cause: Cause) {
        let counters = if cause.relayed { &self.relayed } else { &self.own };
        counters[cause.trigger].add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_survives_its_packing() {
        for trigger in 0..Trigger::COUNT {
            for culprit in [None, Some(PortId(0)), Some(PortId(255))] {
                for (class, relayed) in [(Class::ALL[0], false), (Class::ALL[7], true)] {
                    let cause = Cause { trigger, class, culprit, relayed };
                    assert_eq!(Cause::unpack(cause.pack()), Some(cause));
                }
            }
        }
        assert_eq!(Cause::unpack(0), None);
    }
}
