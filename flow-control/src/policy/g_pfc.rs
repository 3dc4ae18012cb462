//! G-PFC (Cui, Rim: "G-PFC: A packet-priority aware PFC scheme for the datacenter", APNOMS 2020), as the OFC paper's
//! evaluation describes it.
//!
//! At a fraction of XOFF, a class pauses the port's lower lossless classes; at XOFF it is paused itself. A class
//! resumes when no class requests its pause. The description leaves open when lower classes resume: here, below a
//! second fraction of XOFF.

use xoff_wire::units::{Bytes, ClassSet, PortId, PortSet};

use super::share::Share;
use super::{Event, Intent, Pfc};
use crate::buffer::Buffer;
use crate::cause::Trigger;
use crate::settings::{PortSettings, SwitchSettings};

/// Policy G-PFC of one class.
#[derive(Debug)]
pub struct GPfc {
    pfc: Pfc,
    pause_lower: Share,
    resume_lower: Share,
    lower: Box<[ClassSet]>,
    holding: PortSet,
}

impl GPfc {
    pub(super) fn new(pfc: Pfc, settings: &SwitchSettings) -> GPfc {
        let below = (1_u8 << pfc.class().get()) - 1;
        let lower = |(id, port): (PortId, &PortSettings)| match pfc.may_send(id) {
            true => ClassSet(port.sends().0 & below),
            false => ClassSet::NONE,
        };
        let ids = (0..=u8::MAX).map(PortId);
        GPfc {
            pause_lower: Share::new(settings.policy.g_pfc.pause_lower),
            resume_lower: Share::new(settings.policy.g_pfc.resume_lower),
            lower: ids.zip(&settings.ports).map(lower).collect(),
            holding: PortSet::NONE,
            pfc,
        }
    }

    #[inline(always)] // the kind of event is constant at each call
    pub(super) fn observe(&mut self, event: Event, buffer: &Buffer, intents: &mut Vec<Intent>) {
        match event {
            Event::Received { ingress } => self.filled(ingress, buffer, intents),
            Event::Released { ingress } => self.drained(ingress, buffer, intents),
            Event::Enqueued { .. } | Event::Dequeued { .. } => (),
        }
        self.pfc.observe(event, buffer, intents);
    }

    pub(super) fn adopt(&mut self, buffer: &Buffer, intents: &mut Vec<Intent>) {
        for port in (0..=u8::MAX).map(PortId).take(self.lower.len()) {
            self.filled(port, buffer, intents);
        }
        self.pfc.adopt(buffer, intents);
    }

    #[inline]
    fn filled(&mut self, port: PortId, buffer: &Buffer, intents: &mut Vec<Intent>) {
        let lower = self.lower[port.index()];
        if lower.is_empty() || self.holding.contains(port) {
            return;
        }
        let own = self.pfc.class();
        let held = buffer.ingress(port, own);
        // Skip empty queues: if the shared pool is full, their XOFF may be zero.
        if held > Bytes::ZERO && held >= self.pause_lower.of(buffer.xoff(port, own)) {
            self.holding.insert(port);
            let xoff = |class| Intent::Xoff { port, class, trigger: Trigger::Higher(own) };
            intents.extend(lower.iter().map(xoff));
        }
    }

    #[inline]
    fn drained(&mut self, port: PortId, buffer: &Buffer, intents: &mut Vec<Intent>) {
        if !self.holding.contains(port) {
            return;
        }
        let own = self.pfc.class();
        let held = buffer.ingress(port, own);
        if held == Bytes::ZERO || held < self.resume_lower.of(buffer.xoff(port, own)) {
            self.holding.remove(port);
            intents.extend(self.lower[port.index()].iter().map(|class| Intent::Xon { port, class }));
        }
    }
}

#[cfg(test)]
mod tests;
