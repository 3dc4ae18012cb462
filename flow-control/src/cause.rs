//! Cause of an XOFF: the trigger, the congested egress queue (culprit), and whether a peer pauses that queue.
//!
//! From switch to switch, causes lead from a paused sender to the root of its congestion, or around a cycle of pauses.

use xoff_wire::units::{Class, PortId};

use crate::counter::Counter;

/// Reason for which a policy requests a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The ingress queue reached its XOFF threshold.
    Ingress,
    /// The class's egress queue at this port is congested.
    Egress(PortId),
    /// A flow table is full, so the class is paused instead of the flows that congest this port.
    TableFull(PortId),
    /// The ingress queue was predicted to reach XOFF.
    Predicted,
    /// This higher class fills its ingress queue, which pauses lower classes, too.
    Higher(Class),
    /// Other queues fill the shared pool, which lowers the ingress queue's XOFF threshold.
    Pool,
}

impl Trigger {
    /// Number of triggers.
    pub const COUNT: usize = Trigger::NAMES.len();
    /// Names of the triggers in metrics, by [`Trigger::index`].
    pub const NAMES: [&'static str; 6] = ["ingress", "egress", "table_full", "predicted", "higher", "pool"];

    /// Returns the index of the trigger in [`Trigger::NAMES`].
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Trigger::Ingress => 0,
            Trigger::Egress(_) => 1,
            Trigger::TableFull(_) => 2,
            Trigger::Predicted => 3,
            Trigger::Higher(_) => 4,
            Trigger::Pool => 5,
        }
    }
}

/// Cause of a pause requested from a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Trigger, as an index in [`Trigger::NAMES`].
    pub trigger: usize,
    /// Class whose queues are full: the paused one, a higher one, or the one that fills the shared pool.
    pub class: Class,
    /// Egress port to blame: the congested one, or the one at which most bytes of the full ingress queue wait.
    pub culprit: Option<PortId>,
    /// True if the peer of port `culprit` pauses the congested egress queue there.
    pub relayed: bool,
}

impl Cause {
    /// Packs the cause into a nonzero number.
    pub fn pack(self) -> u64 {
        let culprit = self.culprit.map_or(0, |port| 1 << 16 | u64::from(port.0) << 8);
        1 << 40
            | u64::from(self.class.get()) << 32
            | culprit
            | u64::from(self.relayed) << 24
            | self.trigger as u64
    }

    /// Unpacks a number from [`Cause::pack`]; `None` for zero.
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

/// Numbers of pauses requested from a peer, by trigger.
#[derive(Debug, Default, PartialEq)]
pub struct Causes {
    /// Pauses without a culprit egress queue, or with one not paused by a peer.
    pub own: [Counter; Trigger::COUNT],
    /// Pauses whose culprit egress queue was itself paused by a peer: the congestion is further downstream.
    pub relayed: [Counter; Trigger::COUNT],
}

impl Causes {
    /// Counts a pause requested for `cause`.
    pub fn count(&self, cause: Cause) {
        let counters = if cause.relayed { &self.relayed } else { &self.own };
        counters[cause.trigger].add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_pause_cause_unpacks_to_same_cause() {
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
