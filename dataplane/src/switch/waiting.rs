//! Frames that wait for room at their egress instead of being dropped ([`WhenFull::Stop`]): in their ingress queue, and
//! with it all behind them; those from other workers' ports at the egress port itself.

use super::Switch;
use crate::frame::{Frame, FrameStore};
use crate::queue::Fifo;
use crate::settings::WhenFull;
use crate::units::{Class, PortId, PortSet};

impl Switch {
    /// Whether the pipeline stops for want of room at `egress`. Room at another
    /// worker's port is not known here: there the frame waits at that port. What will be dropped there
    /// waits for nothing.
    #[inline]
    pub(super) fn must_wait(&self, egress: PortId, class: Class, frame: &Frame) -> bool {
        self.when_full == WhenFull::Stop
            && self.joins(egress, class, frame)
            && !self.buffer.egress_has_room(egress, class, self.nodes.meta(frame).counted())
    }

    /// The port for whose room a flood waits, if it does: one that has none for a copy, or the first, where the
    /// memory that egress queues share has none for all copies together.
    pub(super) fn must_wait_for_one_of(&self, ports: PortSet, class: Class, frame: &Frame) -> Option<PortId> {
        if self.when_full == WhenFull::Drop {
            return None;
        }
        let joined = || ports.iter().filter(|&egress| self.joins(egress, class, frame));
        let full = joined().find(|&egress| self.must_wait(egress, class, frame));
        let size = self.nodes.meta(frame).counted();
        let together = || !self.buffer.egresses_have_room(joined(), class, size);
        full.or_else(|| joined().next().filter(|_| together()))
    }

    /// Whether a frame for `egress` joins a queue of this worker, where there is room.
    #[inline]
    fn joins(&self, egress: PortId, class: Class, frame: &Frame) -> bool {
        self.workers.owns(egress)
            && !self.ports[egress.index()].egress.closed.contains(class)
            && !self.is_too_long_for(egress, self.nodes.meta(frame))
    }

    #[cold]
    pub(super) fn wait_for_room(&mut self, port: PortId, egress: PortId, class: Class, frame: Frame) {
        let ingress = &mut self.ports[port.index()].ingress;
        ingress.arrived[class.index()].unpop(&mut self.nodes, frame);
        ingress.waits_for_room.insert(class);
        self.ports[egress.index()].egress.awaiting_room[class.index()].insert(port);
        self.awaited.insert(egress);
    }

    /// A frame that another worker has handed over waits where others do, or need not.
    pub(super) fn enter_from_another<S: FrameStore>(
        &mut self,
        egress: PortId,
        class: Class,
        frame: Frame,
        store: &mut S,
    ) {
        let waiting = &self.ports[egress.index()].egress.handed_over[class.index()];
        if waiting.is_empty() && !self.must_wait(egress, class, &frame) {
            let frame = Fifo::of(&mut self.nodes, frame);
            return self.enqueue(egress, frame, store);
        }
        self.ports[egress.index()].egress.handed_over[class.index()].push(&mut self.nodes, frame);
        self.awaited.insert(egress);
    }

    /// There is room at (`port`, `class`): what waited for it may try again.
    #[inline]
    pub(super) fn room_at<S: FrameStore>(&mut self, port: PortId, class: Class, store: &mut S) {
        if self.when_full == WhenFull::Stop && !self.awaited.is_empty() {
            self.try_again(port, class, store);
        }
    }

    #[cold]
    fn try_again<S: FrameStore>(&mut self, port: PortId, class: Class, store: &mut S) {
        if !self.buffer.shares_egress() {
            return self.try_again_at(port, class, store);
        }
        for port in self.awaited.iter() {
            Class::ALL.into_iter().for_each(|class| self.try_again_at(port, class, store));
        }
    }

    fn try_again_at<S: FrameStore>(&mut self, port: PortId, class: Class, store: &mut S) {
        let at = &mut self.ports[port.index()].egress;
        let waiting = std::mem::take(&mut at.awaiting_room[class.index()]);
        let mut handed_over = std::mem::take(&mut at.handed_over[class.index()]);
        for ingress in waiting.iter() {
            self.ports[ingress.index()].ingress.waits_for_room.remove(class);
            self.ingress_ready.insert(ingress);
        }
        while let Some(frame) = handed_over.pop(&self.nodes) {
            if self.must_wait(port, class, &frame) {
                handed_over.unpop(&mut self.nodes, frame);
                break;
            }
            let frame = Fifo::of(&mut self.nodes, frame);
            self.enqueue(port, frame, store);
        }
        let at = &mut self.ports[port.index()].egress;
        at.handed_over[class.index()] = handed_over;
        if !at.is_awaited() {
            self.awaited.remove(port);
        }
    }
}
