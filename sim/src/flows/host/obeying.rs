use std::cmp::Reverse;

use xoff_host::tcp::wire;
use xoff_wire::units::Nanos;
use xoff_wire::{Cnm, FlowKey, Header};

use super::super::segment::{TCP, UDP, about, link_of};
use super::super::sending::{Sending, Wait};
use super::{FlowHost, Timer, index};
use crate::host::{address, ip};
use crate::time::Picos;

const ROCE: u16 = 4791;

impl FlowHost {
    #[cold]
    pub(super) fn heed(&mut self, now: Picos, head: &[u8]) {
        let Ok(header) = Header::parse(head) else { return };
        if !Cnm::is_cnm(&header) {
            return;
        }
        let Some(cnm) = self.notices.read(now.floor(), address(self.number), &header, head) else { return };
        let flow = about(&cnm).and_then(|(to, peer)| {
            self.sending.iter().position(|flow| (flow.to, flow.peer) == (to, peer) && flow.wait != Wait::End)
        });
        match flow.filter(|&flow| self.reactions.get(flow).is_some_and(Option::is_some)) {
            Some(flow) => {
                let time = now.after(self.settings.qcn_delay);
                self.timers.push(Reverse((time, Timer::React(index(flow), cnm.feedback))));
            }
            None => self.notices.note_unknown(),
        }
    }

    #[cold]
    pub(super) fn obey(&mut self, at: usize, now: Nanos, head: &[u8]) {
        if let Ok(header) = Header::parse(head) {
            self.links[at].gate.receive(now, &header, head);
        }
        self.look_at_gate(at, now);
    }

    #[cold]
    pub(super) fn look_at_gate(&mut self, at: usize, now: Nanos) {
        let link = &mut self.links[at];
        link.paused = link.gate.paused(now);
        if self.settings.obeys_flows {
            self.look_at_flows(at, now);
        }
        let link = &mut self.links[at];
        link.gate_change = link.gate.next_change();
    }

    fn look_at_flows(&mut self, at: usize, now: Nanos) {
        let (own, links) = (self.number, self.links.len());
        let link = &mut self.links[at];
        let Some(held) = link.gate.changed_flows(now) else { return };
        let src = ip(own);
        let mut resumed = Vec::new();
        link.held = 0;
        let is_of_link = |flow: &Sending| link_of((own, flow.to), flow.port, links) == at;
        let flows = (0..).zip(&mut self.sending);
        for (number, flow) in flows.filter(|(_, flow)| flow.wait != Wait::End && is_of_link(flow)) {
            let has_tcp = self.settings.tcp.as_ref().is_some_and(|tcp| tcp.classes.contains(flow.class));
            let (protocol, destination) = if has_tcp { (TCP, wire::PORT) } else { (UDP, ROCE) };
            let ports = [flow.port, destination];
            let key = FlowKey::V4 { protocol, ports, src, dst: ip(flow.to) };
            let is_held = held.holds(flow.class, &key);
            flow.hold(is_held);
            link.held += u32::from(is_held);
            if !is_held && flow.wait == Wait::Resume {
                resumed.push(number);
            }
        }
        resumed.into_iter().for_each(|number| self.queue(number));
    }
}

#[inline]
pub(super) fn is_ipv4(head: &[u8]) -> bool {
    head.get(12..14) == Some(&[8, 0])
}
