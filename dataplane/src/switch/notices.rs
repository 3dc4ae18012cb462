//! Congestion notification (QCN): samples buffers when a frame enters, and sends CNMs to the culprit's sender, before
//! data and despite pauses.

use xoff_flow_control::congestion::culprit::flow_digest;
use xoff_flow_control::congestion::points::Arrival;
use xoff_flow_control::congestion::qcn::Sample;
use xoff_wire::Header;
use xoff_wire::cnm::{Cnm, CongestionPointId, Envelope, Msdu};
use xoff_wire::units::{Bytes, Class, MacAddr, PortId};

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
            // Send no CNM for a routed frame: its source is the router, its sender unknown.
            let is_own = self.bridge.router(vid) == Some(header.src)
                || self.ports.iter().any(|at| at.settings.routed && at.settings.mac == header.src);
            if is_own { None } else { about(&header, head, sample, mac, class) }
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

fn about(
    header: &Header,
    head: &[u8],
    sample: &Sample,
    mac: MacAddr,
    class: Class,
) -> Option<(Envelope, Cnm)> {
    if header.src.is_group() || Cnm::is_cnm(header) {
        return None;
    }
    let envelope = Envelope { dst: header.src, src: mac, tag: header.tag, cn_tag: header.cn_tag };
    let cnm = Cnm {
        feedback: sample.feedback,
        congestion_point: CongestionPointId::new(mac, class),
        q_offset: in_units(sample.offset),
        q_delta: in_units(sample.delta),
        priority: class,
        destination: header.dst,
        msdu: Msdu::of(head.get(usize::from(header.l3) - 2..).unwrap_or_default()),
    };
    Some((envelope, cnm))
}

fn in_units(bytes: i64) -> i16 {
    let units = (bytes / 64).clamp(i16::MIN.into(), i16::MAX.into());
    i16::try_from(units).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cnm_queue_lengths_saturate_at_limits_of_their_fields() {
        assert_eq!([63, 64, -64, -127].map(in_units), [0, 1, -1, -1]);
        assert_eq!([64 * 32_767, 64 * 32_768, i64::MAX].map(in_units), [i16::MAX; 3]);
        assert_eq!([-64 * 32_768, -64 * 32_769, i64::MIN].map(in_units), [i16::MIN; 3]);
    }
}
