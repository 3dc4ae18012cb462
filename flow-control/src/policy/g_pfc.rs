//! G-PFC (Cui, Rim: "G-PFC: A packet-priority aware PFC scheme for the datacenter", APNOMS 2020), as the evaluation
//! of OFC describes it: it "selectively pauses low-priority flows using a lower ingress threshold, building on the
//! standard PFC scheme".
//!
//! When the ingress queue of a class reaches a part of its XOFF, the peer is asked to pause the lower lossless
//! classes of the same port. They make room on the line, in shared memory, and at the egress schedulers. At XOFF the
//! class itself pauses, as in plain PFC.
//!
//! Several higher classes and its own policy may hold a class; it resumes when the last of them releases it. For the
//! lowest lossless class this is plain PFC. A lossy class pauses no other class, because it drops its excess.
//!
//! A detail that the description leaves open: lower classes resume below a second threshold. Both are parts of XOFF,
//! so that they apply to any memory model.

use xoff_wire::units::{Bytes, ClassSet, PortId, PortSet};

use super::share::Share;
use super::{Event, Intent, Pfc};
use crate::buffer::Buffer;
use crate::cause::Trigger;
use crate::settings::{PortSettings, SwitchSettings};

/// G-PFC of one class.
#[derive(Debug)]
pub struct GPfc {
    pfc: Pfc,
    pause_lower: Share,
    resume_lower: Share,
    /// Lower classes for which XOFF may be sent, by port.
    lower: Box<[ClassSet]>,
    /// Ports that hold their lower classes for this one.
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
        // With an exhausted pool, XOFF in shared memory may be zero bytes, and so is a part of it.
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
