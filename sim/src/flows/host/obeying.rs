use xoff_wire::units::Nanos;
use xoff_wire::{Cnm, FlowKey, Header};

use super::super::segment::about;
use super::super::sending::Wait;
use super::FlowHost;
use crate::host::{address, ip};
use crate::time::Picos;

const UDP: u8 = 17;
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
        let reaction = flow.and_then(|flow| self.reactions.get_mut(flow));
        if !reaction.is_some_and(|reaction| reaction.cnm_received(now, cnm.feedback)) {
            self.notices.note_unknown();
        }
    }

    #[cold]
    pub(super) fn obey(&mut self, now: Nanos, head: &[u8]) {
        if let Ok(header) = Header::parse(head) {
            self.gate.receive(now, &header, head);
        }
        self.look_at_gate(now);
    }

    #[cold]
    pub(super) fn look_at_gate(&mut self, now: Nanos) {
        self.paused = self.gate.paused(now);
        if self.settings.obeys_flows {
            self.look_at_flows(now);
        }
        self.gate_change = self.gate.next_change();
    }

    fn look_at_flows(&mut self, now: Nanos) {
        let Some(held) = self.gate.changed_flows(now) else { return };
        let src = ip(self.number);
        let mut resumed = Vec::new();
        self.held = 0;
        for (number, flow) in (0..).zip(&mut self.sending).filter(|(_, flow)| flow.wait != Wait::End) {
            let ports = [flow.port, ROCE];
            let key = FlowKey::V4 { protocol: UDP, ports, src, dst: ip(flow.to) };
            let is_held = held.holds(flow.class, &key);
            flow.hold(is_held);
            self.held += u32::from(is_held);
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
