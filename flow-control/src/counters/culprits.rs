use std::cmp::Reverse;

use xoff_wire::units::{Class, PortId};

use super::Counters;
use crate::cause::Cause;

/// Egress queue with frames from one ingress port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct CulpritQueue {
    pub egress: PortId,
    pub class: Class,
    pub bytes: u64,
    /// True if the queue's peer now pauses the queue or a flow in it.
    pub held: bool,
}

impl Counters {
    /// Returns the egress queues with frames from `ingress`, fullest first; none unless this switch now pauses `class`
    /// at the peer of `ingress`.
    #[must_use]
    pub fn culprits(&self, ingress: PortId, class: Class) -> Vec<CulpritQueue> {
        let held = self.class(ingress, class);
        if held.held_since.get() == 0 {
            return Vec::new();
        }
        let class = Cause::unpack(held.held_cause.get()).map_or(class, |cause| cause.class);
        let queue = |egress: PortId| {
            let counters = self.class(egress, class);
            CulpritQueue {
                egress,
                class,
                bytes: self.between(ingress, egress, class).get(),
                held: counters.paused_since.get() != 0 || counters.flows.paused.get() != 0,
            }
        };
        let ports = (0..=u8::MAX).map(PortId).take(self.ports());
        let mut culprits: Vec<CulpritQueue> = ports.map(queue).filter(|culprit| culprit.bytes > 0).collect();
        culprits.sort_by_key(|culprit| Reverse(culprit.bytes));
        culprits
    }
}
