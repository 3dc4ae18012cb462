//! What the next frames need of a switch is brought near before its driver comes to it ([`xoff_flow_control::prefetch`]).
//!
//! A driver with many switches finds nothing of one in its cache when it comes back. While it is busy with another, it can have the
//! ports of the next brought near, one at each step; what lies where a port says follows a step later, when that has come. Where it knows
//! which frames come or leave soon, and which slots are filled, it says so.

use xoff_flow_control::prefetch::prefetch;
use xoff_wire::units::{Class, MacAddr, PortId};

use super::Switch;
use super::port::Port;

impl Switch {
    /// Step number `step`, from 0. There are as many as ports, and one more; after them nothing is left to do.
    #[inline]
    pub fn prefetch(&self, step: usize) {
        if let Some((at, id)) = self.port_number(step) {
            at.prefetch();
            self.bridge.prefetch(id);
        }
        if let Some((at, id)) = step.checked_sub(1).and_then(|before| self.port_number(before)) {
            let mut classes = at.egress.backlogged;
            at.ingress.train.class().into_iter().for_each(|class| classes.insert(class));
            classes.iter().for_each(|class| self.prefetch_class(at, id, class));
        }
    }

    /// What is known of the frame in `slot`, or will be, is brought near.
    #[inline]
    pub fn prefetch_frame(&self, slot: u32) {
        self.nodes.prefetch(slot);
    }

    /// Where the destination of an untagged frame is looked for is brought near. It begins with `head`, and comes in soon by `port`.
    #[inline]
    pub fn prefetch_coming(&self, port: PortId, head: &[u8]) {
        if let Some(mac) = head.first_chunk() {
            self.bridge.prefetch_station(port, MacAddr(*mac));
        }
    }

    #[inline]
    fn port_number(&self, number: usize) -> Option<(&Port, PortId)> {
        Some((self.ports.get(number)?, PortId(u8::try_from(number).ok()?)))
    }

    #[inline]
    fn prefetch_class(&self, at: &Port, id: PortId, class: Class) {
        self.buffer.prefetch(id, class);
        at.ingress.arrived[at.ingress.lane(class).index()].prefetch();
        prefetch(&at.egress.queues[class.index()]);
        prefetch(&self.counters.class(id, class).rx_frames);
        self.counters.prefetch_egress(id, class);
    }
}

impl Port {
    /// What every frame touches, whatever its class.
    #[inline]
    fn prefetch(&self) {
        let Port { ingress, egress, peer, .. } = self;
        prefetch(&ingress.train);
        prefetch(&ingress.classifier);
        prefetch(&egress.rewriter);
        prefetch(&egress.line);
        prefetch(&peer.held);
        prefetch(&peer.told);
    }
}
