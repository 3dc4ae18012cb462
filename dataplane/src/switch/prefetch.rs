use xoff_flow_control::prefetch::prefetch;
use xoff_wire::units::{Class, MacAddr, PortId};

use super::Switch;
use super::port::SwitchPort;

impl Switch {
    /// Prefetches one part of the switch's state. `step` counts from 0 to the number of ports; higher steps do nothing.
    #[inline]
    pub fn prefetch(&self, step: usize) {
        if let Some((at, id)) = self.port_number(step) {
            at.prefetch();
            self.bridge.prefetch(id);
        }
        if let Some((at, id)) = step.checked_sub(1).and_then(|before| self.port_number(before)) {
            let mut classes = at.egress.backlogged;
            at.ingress.micro_flow.class().into_iter().for_each(|class| classes.insert(class));
            classes.iter().for_each(|class| self.prefetch_class(at, id, class));
        }
    }

    /// Prefetches the state of the frame in `slot`, for a driver that soon releases it.
    #[inline]
    pub fn prefetch_frame(&self, slot: u32) {
        self.nodes.prefetch(slot);
    }

    /// Prefetches the address lookup of an untagged frame that `port` will soon receive.
    #[inline]
    pub fn prefetch_coming(&self, port: PortId, head: &[u8]) {
        if let Some(mac) = head.first_chunk() {
            self.bridge.prefetch_station(port, MacAddr(*mac));
        }
    }

    #[inline]
    fn port_number(&self, number: usize) -> Option<(&SwitchPort, PortId)> {
        Some((self.ports.get(number)?, PortId(u8::try_from(number).ok()?)))
    }

    #[inline]
    fn prefetch_class(&self, at: &SwitchPort, id: PortId, class: Class) {
        self.buffer.prefetch(id, class);
        at.ingress.arrived[at.ingress.lane(class).index()].prefetch();
        prefetch(&at.egress.queues[class.index()]);
        prefetch(&self.counters.class(id, class).rx_frames);
        self.counters.prefetch_egress(id, class);
    }
}

impl SwitchPort {
    #[inline]
    fn prefetch(&self) {
        let SwitchPort { ingress, egress, peer, .. } = self;
        prefetch(&ingress.micro_flow);
        prefetch(&ingress.classifier);
        prefetch(&egress.rewriter);
        prefetch(&egress.line);
        prefetch(&peer.held);
        prefetch(&peer.injected);
    }
}
