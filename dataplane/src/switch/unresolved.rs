//! Lossless frames whose neighbour's MAC address is unresolved. They count at ingress, so that many of them pause the
//! sender, and are dropped after [`crate::routing::NEIGHBOUR_WAIT`].
//!
//! They wait beside the ingress queue, so that frames to other destinations pass. At a new routing table or a
//! deadline, they return to the queue's front, which keeps flows in order.

use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::punt_reason::PuntReason;
use xoff_wire::units::{Class, Nanos, Site};

use super::Switch;
use crate::frame::{Frame, FrameStore};
use crate::queue::FrameMeta;

const LOOK_LEAST: Nanos = Nanos::from_millis(10);

impl Switch {
    pub(super) fn waits_for_neighbour(&self, frame: &Frame) -> bool {
        let &FrameMeta { ingress, class, .. } = self.nodes.meta(frame);
        self.ports[ingress.index()].settings.classes[class.index()].lossless
    }

    #[cold]
    pub(super) fn wait_for_neighbour<S: FrameStore>(&mut self, site: Site, frame: Frame, store: &mut S) {
        self.end_run();
        let Some(packet) = self.packet(&frame, store) else {
            return self.end_here(DropReason::BadIp, frame, store); // only IP packets have a neighbour
        };
        let (destination, now) = ((site, packet.dst), self.now);
        let wait = self.resolutions.wait_for(now, destination);
        let &FrameMeta { ingress: port, class, .. } = self.nodes.meta(&frame);
        let mut ask_at = wait.ask_at;
        if ask_at <= now && self.punt((port, site.vid()), PuntReason::Resolve, &frame, store).is_ok() {
            ask_at = self.resolutions.requested(now, destination);
        }
        if now >= wait.until {
            return self.end_here(DropReason::Unresolved, frame, store);
        }
        self.count_refusal_later(&frame);
        self.nodes.meta_mut(&frame).is_repeat = false; // other frames have passed it
        self.ports[port.index()].ingress.unresolved[class.index()].push(&mut self.nodes, frame);
        self.ready.unresolved.insert(port);
        let look = wait.until.min(ask_at).max(now.after(LOOK_LEAST));
        self.ready.resolve_at = self.ready.resolve_at.min(look);
        self.ready.schedule_by(look);
    }

    pub(super) fn decide_unresolved_anew(&mut self) {
        for port in std::mem::take(&mut self.ready.unresolved).iter() {
            let ingress = &mut self.ports[port.index()].ingress;
            for class in Class::ALL {
                let mut first = std::mem::take(&mut ingress.unresolved[class.index()]);
                if first.is_empty() {
                    continue;
                }
                if !self.pipeline.is_default() {
                    self.pipeline.put_back(&mut self.nodes, first);
                    continue;
                }
                let lane = ingress.lane(class);
                let arrived = &mut ingress.arrived[lane.index()];
                if let Some(frame) = arrived.pop(&self.nodes) {
                    self.nodes.meta_mut(&frame).is_repeat = false; // its predecessor has changed
                    arrived.unpop(&mut self.nodes, frame);
                }
                first.append(&mut self.nodes, std::mem::take(arrived));
                *arrived = first;
                ingress.backlogged.insert(lane);
            }
            ingress.micro_flow.end();
            if !ingress.backlogged.is_empty() {
                self.ready.ingress_ready.insert(port);
            }
        }
    }

    pub(super) fn look_for_neighbours(&mut self) -> Nanos {
        if self.now >= self.ready.resolve_at {
            self.ready.resolve_at = Nanos::NEVER; // frames that keep waiting set it again
            self.decide_unresolved_anew();
            self.pipeline.try_again(self.now);
        }
        self.ready.resolve_at
    }
}
