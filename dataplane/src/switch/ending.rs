//! Ends of a frame without transmission: it is consumed, dropped, or returned unsent by the driver,
//! whose device was removed or is closed.

use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::policy::Event;
use xoff_flow_control::settings::Accounting;
use xoff_wire::units::{Bytes, Class, PortId};

use super::Switch;
use crate::frame::{Frame, FrameStore};
use crate::queue::{FrameMeta, NONE, Origin};

impl Switch {
    #[cold]
    pub(super) fn give_up<S: FrameStore>(&mut self, port: PortId, frame: Frame, store: &mut S) {
        self.end_run();
        let meta = *self.nodes.meta(&frame);
        self.ports[port.index()].egress.take_back(Bytes::of_frame(frame.len()).into());
        if meta.is_control() {
            self.ledger.made -= 1;
            return self.finish(frame, store);
        }
        self.leave_egress(port, &meta);
        self.drop_admitted(port, DropReason::LinkDown, frame, store);
        self.pipeline.try_again(self.now);
    }

    pub(super) fn drop_queued<S: FrameStore>(
        &mut self,
        port: PortId,
        class: Class,
        reason: DropReason,
        leaves: impl FnMut(&FrameMeta) -> bool,
        store: &mut S,
    ) {
        let at = &mut self.ports[port.index()].egress;
        let mut queued = at.queues[class.index()].take_if(&mut self.nodes, leaves);
        if !at.queues[class.index()].is_ready() {
            at.backlogged.remove(class);
        }
        while let Some(frame) = queued.pop(&self.nodes) {
            self.count_flow_out(port, class, &frame);
            let meta = *self.nodes.meta(&frame);
            self.leave_egress(port, &meta);
            self.drop_admitted(port, reason, frame, store);
        }
    }

    #[cold]
    pub(super) fn consume<S: FrameStore>(&mut self, port: PortId, frame: Frame, store: &mut S) {
        self.ledger.consumed += 1;
        if self.taps.watch(port) {
            self.see_consumed(port, &frame, store);
        }
        store.free(frame);
    }

    #[cold]
    pub(super) fn discard<S: FrameStore>(
        &mut self,
        port: PortId,
        class: Class,
        reason: DropReason,
        frame: Frame,
        store: &mut S,
    ) {
        self.ports[port.index()].ingress.micro_flow.end();
        self.see_discarded(port, class, reason, &frame, store);
        self.count_received(port, class, Bytes::of_frame(frame.len()).into());
        self.counters.class(port, class).drops[reason.index()].add(1);
        self.ledger.dropped += 1;
        store.free(frame);
    }

    #[cold]
    pub(super) fn drop_admitted<S: FrameStore>(
        &mut self,
        port: PortId,
        reason: DropReason,
        frame: Frame,
        store: &mut S,
    ) {
        self.end_run();
        self.see_dropped(port, reason, &frame, store);
        let &FrameMeta { ingress, class, .. } = self.nodes.meta(&frame);
        self.counters.class(port, class).drops[reason.index()].add(1);
        if reason == DropReason::EgressFull {
            self.note_loss(ingress, class);
        }
        self.ledger.dropped += 1;
        self.leave_congestion_point(&frame);
        self.finish(frame, store);
    }

    #[inline]
    pub(super) fn finish<S: FrameStore>(&mut self, frame: Frame, store: &mut S) {
        let meta = *self.nodes.meta(&frame);
        if meta.is_control() {
            store.free(frame);
        } else if self.workers.owns(meta.ingress) {
            self.settle(&meta);
            store.free(frame);
        } else {
            let home = self.workers.owner(meta.ingress);
            self.outbox.by_worker[home.index()].returns.push(&mut self.nodes, frame);
        }
    }

    #[inline]
    pub(super) fn settle(&mut self, meta: &FrameMeta) {
        match meta.origin {
            Origin::Network if self.accounting == Accounting::UntilTransmitted => self.count_out(meta),
            Origin::Host if meta.account == NONE || self.close_flood(meta) => {
                self.ports[meta.ingress.index()].ingress.of_host[meta.class.index()] -= 1;
            }
            Origin::Network | Origin::Host | Origin::Switch => (),
        }
    }

    #[inline]
    pub(super) fn count_out(&mut self, meta: &FrameMeta) {
        self.end_run();
        if meta.account == NONE || self.close_flood(meta) {
            self.buffer.leave_ingress(meta.ingress, meta.class, meta.counted());
            self.observe(meta.class, Event::Released { ingress: meta.ingress });
        }
    }

    #[inline]
    pub(super) fn leave_egress(&mut self, egress: PortId, meta: &FrameMeta) {
        self.buffer.leave_egress(meta.ingress, egress, meta.class, meta.counted());
        self.observe(meta.class, Event::Dequeued { egress });
    }
}
