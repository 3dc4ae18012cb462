//! Congestion notification (QCN): samples a buffer when a frame enters, and sends a CNM to the sender of a frame blamed for the
//! congestion, before data and despite pauses.

use xoff_flow_control::congestion::culprit::flow_digest;
use xoff_flow_control::congestion::points::Arrival;
use xoff_flow_control::congestion::qcn::Sample;
use xoff_wire::Header;
use xoff_wire::cnm::Cnm;
use xoff_wire::units::{Bytes, PortId};

use super::Switch;
use crate::frame::{Frame, FrameStore};
use crate::queue::FrameMeta;

impl Switch {
    #[inline]
    pub(super) fn leave_congestion_point(&mut self, frame: &Frame) {
        let FrameMeta { ingress, egress, class, .. } = *self.nodes.meta(frame);
        self.congestion.left(ingress, egress, class, frame.slot(), self.nodes.meta(frame).counted());
    }

    pub(super) fn sample<S: FrameStore>(&mut self, port: PortId, slot: u32, occupancy: Bytes, store: &mut S) {
        let meta = *self.nodes.meta_at(slot);
        let flow = || {
            self.nodes.look_at(slot, |frame| {
                let head = store.head(frame);
                flow_digest(&Header::read(meta.layout, head), head)
            })
        };
        let arrival = Arrival { port, class: meta.class, slot, size: meta.counted(), occupancy };
        if let Some(sample) = self.congestion.arrived(&arrival, flow) {
            self.heed_sample(&arrival, &sample, store);
        }
    }

    #[cold]
    fn heed_sample<S: FrameStore>(&mut self, arrival: &Arrival, sample: &Sample, store: &mut S) {
        let Arrival { port, class, slot, .. } = *arrival;
        let counters = self.counters.class(port, class);
        counters.qcn_samples.add(1);
        counters.qcn_feedback.set(sample.feedback.into());
        if !sample.notify {
            return;
        }
        let size = |slot: u32| self.nodes.meta_at(slot).counted();
        let Some(culprit) = self.congestion.culprit(port, class, slot, size) else { return };
        let is_sent = self.notify(port, culprit, sample, store);
        let counters = self.counters.class(port, class);
        if is_sent {
            counters.cnms_sent.add(1);
            counters.cnm_feedback_sum.add(sample.feedback.into());
        } else {
            counters.cnms_not_sent.add(1);
        }
    }

    fn notify<S: FrameStore>(&mut self, point: PortId, slot: u32, sample: &Sample, store: &mut S) -> bool {
        let FrameMeta { ingress, class, layout, vid, .. } = *self.nodes.meta_at(slot);
        let mac = self.ports[point.index()].settings.mac;
        let message = self.nodes.look_at(slot, |frame| {
            let head = store.head(frame);
            let head = &head[..head.len().min(frame.len() as usize)];
            let header = Header::read(layout, head);
            // Send no CNM for a routed frame: its source address is the router's, so its sender is unknown.
            let is_own = self.bridge.router(vid) == Some(header.src)
                || self.ports.iter().any(|at| at.settings.routed && at.settings.mac == header.src);
            if is_own { None } else { sample.notice((&header, head), mac, class) }
        });
        let Some((envelope, cnm)) = message else { return false };
        self.inject(ingress, class, cnm.encode(&envelope).as_bytes(), store)
    }

    #[cold]
    pub(super) fn count_notice(&self, port: PortId, header: Header, head: &[u8]) {
        let counters = self.counters.port(port);
        match Cnm::parse(&header, head) {
            Ok(_) => counters.cnms_received.add(1),
            Err(error) => counters.malformed_cnms[error.index()].add(1),
        }
    }
}
