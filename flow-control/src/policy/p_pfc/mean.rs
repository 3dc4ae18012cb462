//! P-PFC by mean: an egress queue o of class p that is longer than the average blames each ingress port i that feeds
//! it, E(i,o,p) = 1.
//!
//! ```text
//!   T(p) = max( mean of egress(o,p) over all ports o,  egress XOFF )
//!   egress(o,p) > T(p)                              o is congested: E(i,o,p) = 1
//!   egress(o,p) <= T(p) - (egress XOFF - egress XON)    o is no longer: E(i,o,p) = 0
//! ```
//!
//! The OFC paper uses the mean alone. Here, egress XOFF is the minimum of T(p), because in an almost empty switch a
//! single queued frame exceeds the mean.

use xoff_wire::units::{Bytes, PortId};

use super::super::blame::Blame;
use super::super::{Event, Intent, Pfc};
use crate::buffer::Buffer;
use crate::settings::SwitchSettings;

#[derive(Debug)]
pub(super) struct Mean {
    blame: Blame,
    egress: Box<[Thresholds]>,
}

#[derive(Debug)]
struct Thresholds {
    floor: Bytes,
    gap: Bytes,
}

impl Mean {
    pub(super) fn new(pfc: Pfc, settings: &SwitchSettings) -> Mean {
        let of_port = |class: &crate::settings::ClassSettings| Thresholds {
            floor: class.egress_xoff,
            gap: class.egress_xoff.saturating_sub(class.egress_xon),
        };
        let class = pfc.class().index();
        Mean {
            egress: settings.ports.iter().map(|port| of_port(&port.classes[class])).collect(),
            blame: Blame::new(pfc, settings.ports.len()),
        }
    }

    #[inline(always)] // the kind of event is constant at each call
    pub(super) fn observe(&mut self, event: Event, buffer: &Buffer, intents: &mut Vec<Intent>) {
        match event {
            Event::Received { .. } | Event::Released { .. } => {
                self.blame.observe_ingress(event, buffer, intents);
            }
            Event::Enqueued { ingress, egress, .. } => {
                if self.occupancy(egress, buffer) > self.egress[egress.index()].floor {
                    self.grew(ingress, egress, buffer, intents);
                }
            }
            Event::Dequeued { egress } => {
                if self.blame.is_blaming(egress) {
                    self.shrank(egress, buffer, intents);
                }
            }
        }
    }

    pub(super) fn adopt(&mut self, buffer: &Buffer, intents: &mut Vec<Intent>) {
        self.blame.adopt(buffer, intents);
        for egress in self.ports() {
            if self.occupancy(egress, buffer) > self.threshold(egress, buffer) {
                self.blame_all(egress, buffer, intents);
            }
        }
    }

    #[cold]
    fn grew(&mut self, ingress: PortId, egress: PortId, buffer: &Buffer, intents: &mut Vec<Intent>) {
        if self.blame.is_blaming(egress) {
            self.accuse(ingress, egress, intents);
        } else if self.occupancy(egress, buffer) > self.threshold(egress, buffer) {
            self.blame_all(egress, buffer, intents);
        }
    }

    #[cold]
    fn shrank(&mut self, egress: PortId, buffer: &Buffer, intents: &mut Vec<Intent>) {
        let gap = self.egress[egress.index()].gap;
        if self.occupancy(egress, buffer) <= self.threshold(egress, buffer).saturating_sub(gap) {
            self.blame.forgive(egress, intents);
        }
    }

    fn blame_all(&mut self, egress: PortId, buffer: &Buffer, intents: &mut Vec<Intent>) {
        let class = self.blame.pfc().class();
        for ingress in self.ports() {
            if buffer.between(ingress, egress, class) > Bytes::ZERO {
                self.accuse(ingress, egress, intents);
            }
        }
    }

    fn accuse(&mut self, ingress: PortId, egress: PortId, intents: &mut Vec<Intent>) {
        if self.blame.pfc().may_send(ingress) {
            self.blame.accuse(ingress, egress, intents);
        }
    }

    fn threshold(&self, egress: PortId, buffer: &Buffer) -> Bytes {
        let all = self.ports().map(|port| self.occupancy(port, buffer)).fold(Bytes::ZERO, |a, b| a + b);
        let mean = Bytes(all.0 / self.egress.len() as u64);
        mean.max(self.egress[egress.index()].floor)
    }

    #[inline]
    fn occupancy(&self, egress: PortId, buffer: &Buffer) -> Bytes {
        buffer.egress(egress, self.blame.pfc().class())
    }

    fn ports(&self) -> impl Iterator<Item = PortId> + use<> {
        (0..=u8::MAX).map(PortId).take(self.egress.len())
    }
}

#[cfg(test)]
mod tests;
