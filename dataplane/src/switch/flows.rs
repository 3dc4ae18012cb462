//! Per-flow pauses (OFC): connects the policy's tables with queues and control frames.
//!
//! A flow list names flows of a class to pause or resume, in the padding of a PFC frame. It pauses the whole class if
//! this switch cannot pause the flows singly: the flow table is full, frames of unknown flows are queued, or the class
//! has no nested queues.

use xoff_flow_control::policy::{FlowPauseFrame, Ofc, Policy};
use xoff_flow_control::settings::PortSettings;
use xoff_wire::ofc::{FlowPause, LEN_MAX, Operation};
use xoff_wire::units::{CLASSES, Class, Nanos, PortId, Quanta};
use xoff_wire::{FlowKey, Header, MacControlError, Pfc};

use super::Switch;
use crate::frame::{Frame, FrameStore};
use crate::queue::{ClassQueue, FrameMeta, Nested};

impl Switch {
    /// Returns OFC's tables if `class` has policy OFC.
    #[must_use]
    pub fn ofc(&self, class: Class) -> Option<&Ofc> {
        self.policies.acting[class.index()].as_ofc()
    }

    #[inline]
    pub(super) fn count_flow<S: FrameStore>(&mut self, egress: PortId, frame: &Frame, store: &S) {
        if self.policies.shadows_count_flows {
            self.count_flow_in_shadow(egress, frame, store);
        }
        let meta = self.nodes.meta_mut(frame);
        let Policy::Ofc(ofc) = &mut self.policies.acting[meta.class.index()] else { return };
        let queue = &self.ports[egress.index()].egress.queues[meta.class.index()];
        if !matches!(queue, ClassQueue::Nested(_)) {
            return;
        }
        let head = store.head(frame);
        meta.flow = ofc.packet_in(egress, meta.ingress, &FlowKey::of(&Header::read(meta.layout, head), head));
    }

    #[cold]
    fn count_flow_in_shadow<S: FrameStore>(&mut self, egress: PortId, frame: &Frame, store: &S) {
        let &FrameMeta { ingress, class, layout, .. } = self.nodes.meta(frame);
        let head = store.head(frame);
        let key = FlowKey::of(&Header::read(layout, head), head);
        for shadow in &mut self.policies.shadows {
            shadow.packet_in(self.now, frame.slot(), class, [ingress, egress], &key);
        }
    }

    #[inline]
    pub(super) fn count_flow_out(&mut self, port: PortId, class: Class, frame: &Frame) {
        if let Policy::Ofc(ofc) = &mut self.policies.acting[class.index()] {
            ofc.packet_out(port, self.nodes.meta(frame).flow);
        }
        if self.policies.shadows_count_flows {
            for shadow in &mut self.policies.shadows {
                shadow.packet_out(frame.slot(), class, port);
            }
        }
    }

    /// Obeys the list of flows to pause or resume in a PFC frame, if `port` accepts lists. Pauses the whole class if it
    /// cannot pause the flows singly. Returns whether it obeyed a list.
    pub(super) fn obey_list(
        &mut self,
        port: PortId,
        pfc: &Pfc,
        head: &[u8],
        peer: u64,
    ) -> Result<bool, MacControlError> {
        if !self.ports[port.index()].settings.ofc_peer {
            return Ok(false);
        }
        let list = FlowPause::parse(pfc, head)?;
        let Some(list) = list.filter(|list| self.obeys(port).contains(list.class)) else { return Ok(false) };
        self.count_obeyed(port, peer);
        self.apply_list_to_shadows(port, &list);
        let all_are_paused = self.obey_flows(port, &list);
        let class = list.class;
        match list.operation {
            Operation::Pause(_) if all_are_paused => (),
            Operation::Pause(time) => {
                self.expire_pauses(port);
                let at = &self.ports[port.index()];
                let end = self.now.after(at.settings.speed.time_of_quanta(time));
                let of_class = at.peer.paused.until(class);
                match of_class.filter(|_| !at.peer.paused_for_flows.contains(class)) {
                    // Keep the longer pause: a list of flows must not shorten a pause of the whole class.
                    Some(until) if until >= end => (),
                    Some(_) => self.pause_classes(port, pfc.classes, &pfc.times),
                    None => {
                        self.pause_classes(port, pfc.classes, &pfc.times);
                        self.ports[port.index()].peer.paused_for_flows.insert(class);
                        self.report_class_pause(port, class);
                    }
                }
            }
            // Resume the class only when none of its flows is paused: otherwise frames of paused flows that were queued without
            // a flow number would leave.
            Operation::Resume
                if self.ports[port.index()].peer.paused_for_flows.contains(class)
                    && self.ofc(class).is_none_or(|ofc| ofc.flows_paused(port) == 0) =>
            {
                self.pause_classes(port, [class].into_iter().collect(), &[Quanta(0); CLASSES]);
            }
            Operation::Resume => (),
        }
        Ok(true)
    }

    pub(super) fn report_class_pause(&mut self, port: PortId, class: Class) {
        let peer = &self.ports[port.index()].peer;
        let is_paused = peer.paused.classes().contains(class) && !peer.paused_for_flows.contains(class);
        if let Policy::Ofc(ofc) = &mut self.policies.acting[class.index()] {
            ofc.class_is_paused(port, is_paused);
        }
        for shadow in &mut self.policies.shadows {
            shadow.class_is_paused(port, class, is_paused);
        }
    }

    fn apply_list_to_shadows(&mut self, port: PortId, list: &FlowPause<'_>) {
        let speed = self.ports[port.index()].settings.speed;
        for shadow in &mut self.policies.shadows {
            match list.operation {
                Operation::Pause(time) => {
                    let until = self.now.after(speed.time_of_quanta(time));
                    shadow.pause_flows(port, list.class, until, list.flows());
                }
                Operation::Resume => shadow.resume_flows(port, list.class, list.flows()),
            }
        }
    }

    fn obey_flows(&mut self, port: PortId, list: &FlowPause<'_>) -> bool {
        let class = list.class;
        let Policy::Ofc(ofc) = &mut self.policies.acting[class.index()] else { return false };
        let at = &mut self.ports[port.index()];
        let ClassQueue::Nested(queue) = &mut at.egress.queues[class.index()] else { return false };
        let counters = &self.counters.class(port, class).flows;
        let mut all_fit = queue.can_hold_flows();
        match list.operation {
            Operation::Pause(time) => {
                counters.pause_frames_received.add(1);
                let until = self.now.after(at.settings.speed.time_of_quanta(time));
                let pause = |flow: FlowKey| {
                    let number = ofc.pause_flow(port, &flow, until);
                    all_fit &= number.is_some();
                    number
                };
                queue.hold(&mut self.nodes, list.flows().filter_map(pause));
                counters.fallbacks.add(u64::from(!all_fit));
            }
            Operation::Resume => {
                counters.resume_frames_received.add(1);
                queue.resume(&mut self.nodes, list.flows().filter_map(|flow| ofc.resume_flow(port, &flow)));
            }
        }
        self.note_flows(port, class);
        all_fit
    }

    pub(super) fn resume_flows(&mut self, port: PortId, class: Class) {
        self.policies.shadows.iter_mut().for_each(|shadow| shadow.resume_all_flows(port, class));
        self.expire_flows(Nanos::NEVER, port, class);
    }

    pub(super) fn expire_flows(&mut self, until: Nanos, port: PortId, class: Class) {
        let Policy::Ofc(ofc) = &mut self.policies.acting[class.index()] else { return };
        let at = &mut self.ports[port.index()];
        let ClassQueue::Nested(queue) = &mut at.egress.queues[class.index()] else { return };
        queue.resume(&mut self.nodes, std::iter::from_fn(|| ofc.pop_expired(port, until)));
        self.note_flows(port, class);
    }

    fn note_flows(&mut self, port: PortId, class: Class) {
        let at = &mut self.ports[port.index()];
        if at.egress.queues[class.index()].is_ready() {
            at.egress.backlogged.insert(class);
            self.ready.egress_active.insert(port);
        } else {
            at.egress.backlogged.remove(class);
        }
        let ofc = self.policies.acting.iter().filter_map(Policy::as_ofc);
        at.peer.flows_expire = ofc.map(|ofc| ofc.next_expiry(port)).min().unwrap_or(Nanos::NEVER);
        if at.peer.flows_expire != Nanos::NEVER {
            self.ready.schedule(port, at.peer.flows_expire);
        }
        let paused = self.policies.acting[class.index()].as_ofc().map_or(0, |ofc| ofc.flows_paused(port));
        self.counters.class(port, class).flows.paused.set(paused as u64);
    }

    pub(super) fn update_flow_lists(&mut self, port: PortId, class: Class) {
        let Policy::Ofc(ofc) = &self.policies.acting[class.index()] else { return };
        let at = &mut self.ports[port.index()];
        if ofc.is_due(port) {
            at.peer.flow_lists_due.insert(class);
            self.ready.egress_active.insert(port);
        } else {
            at.peer.flow_lists_due.remove(class);
        }
        self.counters.class(port, class).flows.requests.now.set(ofc.requested_flows(port) as u64);
    }

    pub(super) fn announce_flows<S: FrameStore>(&mut self, port: PortId, store: &mut S) -> Option<Frame> {
        let at = &self.ports[port.index()];
        let class = at.peer.flow_lists_due.highest()?;
        if at.egress.is_fully_committed() || !self.control_is_free(port, store) {
            return None;
        }
        let PortSettings { mac, pause_time, mtu_frame, .. } = *self.ports[port.index()].settings;
        let mut bytes = [0; LEN_MAX];
        let room = &mut bytes[..LEN_MAX.min(mtu_frame as usize)];
        let Policy::Ofc(ofc) = &mut self.policies.acting[class.index()] else { return None };
        let FlowPauseFrame { len, resumes } = ofc.write_frame(self.now, port, mac, pause_time, room)?;
        self.ready.schedule(port, ofc.next_refresh(port));
        let counters = &self.counters.class(port, class).flows;
        if resumes { &counters.resume_frames_sent } else { &counters.pause_frames_sent }.add(1);
        self.update_flow_lists(port, class);
        Some(self.send_control(port, &bytes[..len], store))
    }

    pub(super) fn forget_flow_pauses(&mut self, port: PortId, class: Class) {
        if let Policy::Ofc(ofc) = &mut self.policies.acting[class.index()] {
            ofc.forget_sent(port);
            self.update_flow_lists(port, class);
        }
    }

    pub(super) fn release_flows(&mut self, port: PortId) {
        for class in Class::ALL {
            if let Policy::Ofc(ofc) = &mut self.policies.acting[class.index()] {
                if ofc.has_sent_pause(port) {
                    self.ports[port.index()].peer.held.suspect(class);
                }
                ofc.resume_all_flows(port);
                self.update_flow_lists(port, class);
            }
        }
    }

    pub(super) fn fire_flows(&mut self, port: PortId) -> Nanos {
        let mut next = self.ports[port.index()].peer.flows_expire;
        for class in Class::ALL {
            if let Policy::Ofc(ofc) = &mut self.policies.acting[class.index()] {
                ofc.advance(port, self.now);
                next = next.min(ofc.next_refresh(port));
                self.update_flow_lists(port, class);
            }
        }
        next
    }

    pub(super) fn end_flows(&mut self, ended: &Policy, port: PortId, class: Class) -> Option<Box<Nested>> {
        let Policy::Ofc(ofc) = ended else { return None };
        if ofc.has_sent_pause(port) {
            self.ports[port.index()].peer.held.suspect(class);
            self.note_announcements(port);
        }
        let at = &mut self.ports[port.index()];
        at.peer.flow_lists_due.remove(class);
        self.counters.class(port, class).flows.requests.now.set(0);
        let queue = &mut at.egress.queues[class.index()];
        let ClassQueue::Nested(nested) = queue else { return None };
        let fifo = nested.give_up(&mut self.nodes);
        match std::mem::replace(queue, ClassQueue::Fifo(fifo)) {
            ClassQueue::Nested(nested) => Some(nested),
            ClassQueue::Fifo(_) | ClassQueue::Voq(_) => None,
        }
    }

    pub(super) fn begin_flows(&mut self, port: PortId, class: Class, nested: Option<Box<Nested>>) {
        if let Policy::Ofc(_) = self.policies.acting[class.index()]
            && let ClassQueue::Fifo(fifo) = &mut self.ports[port.index()].egress.queues[class.index()]
            && let Some(mut nested) = nested
        {
            nested.continue_with(std::mem::take(fifo));
            self.ports[port.index()].egress.queues[class.index()] = ClassQueue::Nested(nested);
        }
        self.report_class_pause(port, class);
        self.note_flows(port, class);
    }
}
