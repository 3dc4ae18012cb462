//! What the next frames need of a switch is asked for before its driver comes to it ([`crate::prefetch`]).
//!
//! A driver with many switches finds nothing of one in its cache when it comes back. While it is busy with another, it can have the
//! next switch ask for its ports, one at each step; what lies where a port says, it asks for a step later, when that has come.

use super::Switch;
use super::port::Port;
use crate::prefetch::prefetch;
use crate::units::{Class, PortId};

impl Switch {
    /// Step number `step`, of which there are as many as ports, and one more; after them nothing is left to ask for.
    #[inline]
    pub fn prefetch(&self, step: usize) {
        if let Some((at, id)) = self.port_number(step) {
            at.prefetch();
            self.bridge.prefetch(id);
        }
        if let Some((at, id)) = step.checked_sub(1).and_then(|before| self.port_number(before)) {
            if let Some(class) = at.ingress.train.class() {
                self.buffer.prefetch_ingress(id, class);
                prefetch(&self.counters.class(id, class).rx_frames);
            }
            at.egress.backlogged.iter().for_each(|class| self.prefetch_egress(at, id, class));
        }
    }

    #[inline]
    fn port_number(&self, number: usize) -> Option<(&Port, PortId)> {
        Some((self.ports.get(number)?, PortId(u8::try_from(number).ok()?)))
    }

    #[inline]
    fn prefetch_egress(&self, at: &Port, id: PortId, class: Class) {
        self.buffer.prefetch_egress(id, class);
        prefetch(&at.egress.queues[class.index()]);
        let counters = self.counters.class(id, class);
        prefetch(&counters.egress_bytes);
        prefetch(&counters.queueing_delay);
    }
}

impl Port {
    /// What every frame touches, whatever its class.
    #[inline]
    fn prefetch(&self) {
        let Port { ingress, egress, peer, .. } = self;
        prefetch(&ingress.train);
        prefetch(&ingress.classifier);
        prefetch(&ingress.arrived);
        prefetch(&egress.rewriter);
        prefetch(&egress.line);
        prefetch(&egress.queues);
        prefetch(&peer.held);
        prefetch(&peer.told);
    }
}
