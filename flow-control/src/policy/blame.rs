//! Plain PFC at ingress, extended by blame: a congested egress queue also pauses ingress ports (section II-E of the
//! CaPFC paper).
//!
//! ```text
//!   D(i,p) = I(i,p)  or  E(i,o,p) for any o other than i
//! ```
//!
//! D(i,p) = 1: ingress port i is paused in class p. I(i,p) = 1: plain PFC pauses it. E(i,o,p) = 1: egress port o blames
//! port i, by the policy's rule.

use xoff_wire::units::{PortId, PortSet};

use super::{Event, Intent, Pfc};
use crate::buffer::Buffer;
use crate::cause::Trigger;

#[derive(Debug)]
pub(super) struct Blame {
    pfc: Pfc,
    blames: Box<[PortSet]>,
    blamed_by: Box<[PortSet]>,
}

impl Blame {
    pub(super) fn new(pfc: Pfc, ports: usize) -> Blame {
        let none = || vec![PortSet::NONE; ports].into_boxed_slice();
        Blame { pfc, blames: none(), blamed_by: none() }
    }

    pub(super) const fn pfc(&self) -> &Pfc {
        &self.pfc
    }

    #[inline(always)] // the kind of event is constant at each call
    pub(super) fn observe_ingress(&mut self, event: Event, buffer: &Buffer, intents: &mut Vec<Intent>) {
        let class = self.pfc.class();
        match event {
            Event::Received { ingress: port } => {
                if self.pfc.reached_xoff(port, buffer) && self.blamed_by[port.index()].is_empty() {
                    intents.push(Intent::Xoff { port, class, trigger: Trigger::Ingress });
                }
            }
            Event::Released { ingress: port } => {
                if self.pfc.fell_below_xon(port, buffer) && self.blamed_by[port.index()].is_empty() {
                    intents.push(Intent::Xon { port, class });
                }
            }
            Event::Enqueued { .. } | Event::Dequeued { .. } => (),
        }
    }

    pub(super) fn adopt(&mut self, buffer: &Buffer, intents: &mut Vec<Intent>) {
        self.pfc.adopt(buffer, intents);
    }

    pub(super) fn is_blaming(&self, egress: PortId) -> bool {
        !self.blames[egress.index()].is_empty()
    }

    pub(super) fn accuse(&mut self, port: PortId, egress: PortId, intents: &mut Vec<Intent>) {
        if port == egress || self.blames[egress.index()].contains(port) {
            return;
        }
        self.blames[egress.index()].insert(port);
        let blamed_by = &mut self.blamed_by[port.index()];
        let blameless = blamed_by.is_empty();
        blamed_by.insert(egress);
        if blameless && !self.pfc.is_paused(port) {
            let class = self.pfc.class();
            intents.push(Intent::Xoff { port, class, trigger: Trigger::Egress(egress) });
        }
    }

    pub(super) fn forgive(&mut self, egress: PortId, intents: &mut Vec<Intent>) {
        let blames = std::mem::take(&mut self.blames[egress.index()]);
        for port in blames.iter() {
            self.blamed_by[port.index()].remove(egress);
            if self.blamed_by[port.index()].is_empty() && !self.pfc.is_paused(port) {
                intents.push(Intent::Xon { port, class: self.pfc.class() });
            }
        }
    }
}
