//! Which egress queues hold what came in by a port whose peer is held.

use std::cmp::Reverse;

use xoff_wire::units::{Class, PortId};

use super::Counters;
use crate::cause::Cause;

/// An egress queue that holds what came in by a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// Its port.
    pub egress: PortId,
    /// Its class: that of the pause's cause.
    pub class: Class,
    /// Bytes of the class from that port, now.
    pub bytes: u64,
    /// It, or a flow in it, is held by its own peer now.
    pub held: bool,
}

impl Counters {
    /// While the peer of `ingress` is held: the egress queues that hold what came in there, the fullest first.
    #[must_use]
    pub fn culprits(&self, ingress: PortId, class: Class) -> Vec<Culprit> {
        let held = self.class(ingress, class);
        if held.held_since.get() == 0 {
            return Vec::new();
        }
        let class = Cause::unpack(held.held_cause.get()).map_or(class, |cause| cause.class);
        let queue = |egress: PortId| {
            let counters = self.class(egress, class);
            Culprit {
                egress,
                class,
                bytes: self.between(ingress, egress, class).get(),
                held: counters.paused_since.get() != 0 || counters.flows.paused.get() != 0,
            }
        };
        let ports = (0..=u8::MAX).map(PortId).take(self.ports());
        let mut culprits: Vec<Culprit> = ports.map(queue).filter(|culprit| culprit.bytes > 0).collect();
        culprits.sort_by_key(|culprit| Reverse(culprit.bytes));
        culprits
    }
}
