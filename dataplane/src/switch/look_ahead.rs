//! What a driver that knows what comes next can have brought out of memory beforehand.
//!
//! A worker's switch is in its cache, and it gains nothing here. A simulator has hundreds of switches, takes a frame at each in turn, and
//! waits for memory more than for anything else. It does not wait for one line after the other if it reads those of several frames
//! before it takes the first.
//!
//! Nothing is decided and nothing changed here. What is read is what most frames need; where it has changed until the frame comes, or was
//! not all, that is slower and nothing else.

use super::Switch;
use crate::queue::ClassQueue;
use crate::units::PortId;

impl Switch {
    /// Reads what a frame needs that is about to be received at `port`. The answer means nothing but that all has been read.
    #[inline]
    #[must_use]
    pub fn look_ahead_of_receive(&self, port: PortId) -> u64 {
        let at = &self.ports[port.index()];
        let class = at.ingress.train.class().unwrap_or(at.settings.default_class);
        let arrived = &at.ingress.arrived[class.index()];
        self.counters.class(port, class).rx_frames.get()
            ^ self.buffer.ingress(port, class).0
            ^ u64::from(arrived.frames())
            ^ u64::from(at.settings.mtu_frame)
            ^ u64::from(at.peer.held.classes().0)
            ^ u64::from(at.peer.demands[class.index()].0)
    }

    /// Reads what a frame needs that is about to be released at `port`, where it is in `slot`, and the one that leaves after it.
    #[inline]
    #[must_use]
    pub fn look_ahead_of_release(&self, port: PortId, slot: u32) -> u64 {
        let meta = self.nodes.meta_at(slot);
        let (ingress, class) = (meta.ingress, meta.class);
        let at = &self.ports[port.index()];
        let next = match &at.egress.queues[class.index()] {
            ClassQueue::Fifo(fifo) => fifo.front(&self.nodes).map_or(0, |next| next.since.0),
            ClassQueue::Voq(_) | ClassQueue::Nested(_) => 0,
        };
        let counters = self.counters.class(port, class);
        counters.tx_frames.get()
            ^ counters.egress_bytes.get()
            ^ self.counters.class(ingress, class).ingress_bytes.get()
            ^ self.counters.between(ingress, port, class).get()
            ^ self.buffer.ingress(ingress, class).0
            ^ self.buffer.egress(port, class).0
            ^ next
            ^ at.egress.committed.0
            ^ u64::from(at.peer.held.classes().0)
            ^ u64::from(at.peer.told.frames())
            ^ u64::from(at.peer.paused.blocked().0)
            ^ at.peer.flows_expire.0
    }
}
