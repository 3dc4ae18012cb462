//! Admission to egress queues. If a queue is full, the frame is dropped, or halts the pipeline ([`WhenFull`],
//! [`super::pipeline`]).

use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::WhenFull;
use xoff_wire::header::field;
use xoff_wire::units::{PortId, PortSet, TAGS};

use super::Switch;
use crate::frame::{Frame, FrameStore};
use crate::queue::{FrameMeta, Origin};

impl Switch {
    #[inline]
    pub(super) fn why_refused<S: FrameStore>(
        &mut self,
        egress: PortId,
        frame: &Frame,
        store: &S,
    ) -> Option<DropReason> {
        let meta = self.nodes.meta(frame);
        let drops_early = self.ports[egress.index()].egress.drops_early;
        if let Some(reason) = self.why_kept_out(egress, meta) {
            Some(reason)
        } else if !self.buffer.egress_has_room(egress, meta.class, meta.counted()) {
            Some(if meta.origin == Origin::Host { DropReason::HostLimit } else { DropReason::EgressFull })
        } else if drops_early.contains(meta.class) && self.is_dropped_early(egress, frame, store) {
            Some(DropReason::EarlyDrop)
        } else {
            None
        }
    }

    #[inline]
    fn why_kept_out(&self, egress: PortId, meta: &FrameMeta) -> Option<DropReason> {
        let at = &self.ports[egress.index()];
        if at.egress.closed.contains(meta.class) {
            Some(at.closed_reason())
        } else if self.is_too_long_for(egress, meta) {
            Some(DropReason::TooLong)
        } else if self.host_misses(egress, meta) {
            Some(DropReason::HostLimit)
        } else if self.misses(egress, meta) {
            Some(DropReason::FloodPaused)
        } else {
            None
        }
    }

    #[inline]
    pub(super) fn is_too_long_for(&self, egress: PortId, meta: &FrameMeta) -> bool {
        meta.len > self.len_max(egress, meta.vid, meta)
    }

    #[inline]
    pub(super) fn len_max(&self, egress: PortId, vid: u16, frame: &FrameMeta) -> u32 {
        let tags = u32::from(frame.tags);
        let is_beyond = tags == TAGS && !frame.layout.has_tag() && self.bridge.is_tagged(egress, vid);
        let counts = if is_beyond { u32::from(field::TAG_LEN) } else { 0 };
        self.ports[egress.index()].egress.mtu_frame + tags - counts
    }

    #[inline]
    pub(super) fn must_wait(&self, egress: PortId, meta: &FrameMeta) -> bool {
        self.when_full == WhenFull::Stop
            && meta.origin == Origin::Network
            && self.may_enter(egress, meta)
            && !self.buffer.egress_has_room(egress, meta.class, meta.counted())
    }

    #[cold]
    pub(super) fn wait_for_room(&mut self, egress: PortId, frame: Frame) {
        let class = self.nodes.meta(&frame).class;
        self.count_refusal_later(&frame);
        self.pipeline.halt(self.now, &mut self.nodes, frame, (egress, class));
    }

    /// Takes back that the frame's source address was counted as not learned: the frame's retry counts it again.
    pub(super) fn count_refusal_later(&mut self, frame: &Frame) {
        let ingress = self.nodes.meta(frame).ingress;
        let is_bridged = !self.routed.contains(ingress);
        if is_bridged && self.ports[ingress.index()].ingress.micro_flow.is_source_refused() {
            self.bridge.take_refusal_back(ingress);
        }
    }

    pub(super) fn joined(&self, ports: PortSet, meta: &FrameMeta) -> PortSet {
        let joins = |egress: &PortId| self.may_enter(*egress, meta) && !self.flood_misses(*egress, meta);
        ports.iter().filter(joins).collect()
    }

    #[inline]
    pub(super) fn may_enter(&self, egress: PortId, meta: &FrameMeta) -> bool {
        self.workers.owns(egress) && self.why_kept_out(egress, meta).is_none()
    }
}
