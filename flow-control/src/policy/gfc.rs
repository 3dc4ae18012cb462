//! GFC (Qian et al.: "Gentle Flow Control: Avoiding Deadlock in Lossless Networks", SIGCOMM 2019), stepwise and
//! buffer-based: the fuller the ingress queue, the lower the rate of the peer.
//!
//! ```text
//!   T(k) = Bmax - (Bmax - B1) / 2^(k-1)       at or above T(k), the peer may send C / 2^k
//! ```
//!
//! Bmax is XOFF, B1 a fraction of it, C the line rate. An obedient peer never stops entirely, which prevents deadlocks.
//! Peers that do not obey rates ([`crate::settings::PortSettings::gfc_peer`]) get only PFC at XOFF.
//!
//! Step k ends when the queue is empty, or below T(k) - (Bmax - B1) / 2^k, half way to T(k-1). The paper leaves the end
//! open; at T(k) itself, each frame could cause a rate frame.

use xoff_wire::units::{Bytes, PortId, PortSet, RateStep};

use super::share::Share;
use super::{Event, Intent, Pfc};
use crate::buffer::Buffer;
use crate::settings::{FlowControl, GfcSettings, SwitchSettings, ports_where};

impl GfcSettings {
    /// Returns the queue lengths T(k) in bytes at which rate steps begin, for k = 1 to the last step.
    pub fn thresholds(&self, xoff: Bytes) -> impl Iterator<Item = Bytes> + use<> {
        let ladder = Ladder::new(self, xoff);
        (1..=self.steps).map(move |k| ladder.begins(k))
    }
}

#[derive(Clone, Copy, Debug)]
struct Ladder {
    xoff: Bytes,
    span: Bytes,
}

impl Ladder {
    fn new(settings: &GfcSettings, xoff: Bytes) -> Ladder {
        Ladder::of(Share::new(settings.first), xoff)
    }

    fn of(first: Share, xoff: Bytes) -> Ladder {
        Ladder { xoff, span: xoff.saturating_sub(first.of(xoff)) }
    }

    fn begins(&self, k: u8) -> Bytes {
        self.xoff.saturating_sub(Bytes(self.span.0 >> (k - 1)))
    }

    fn ends(&self, k: u8) -> Bytes {
        self.begins(k).saturating_sub(Bytes(self.span.0 >> k)).max(Bytes(1))
    }
}

/// Policy GFC of one class.
#[derive(Debug)]
pub struct Gfc {
    pfc: Pfc,
    first: Share,
    steps: u8,
    obedient: PortSet,
    step: Box<[u8]>,
}

impl Gfc {
    pub(super) fn new(pfc: Pfc, settings: &SwitchSettings) -> Gfc {
        let obedient = ports_where(&settings.ports, |id, port| {
            port.gfc_peer && pfc.may_send(id) && matches!(port.flow_control, FlowControl::Pfc { .. })
        });
        Gfc {
            first: Share::new(settings.policy.gfc.first),
            steps: settings.policy.gfc.steps.min(RateStep::MAX.get()),
            obedient,
            step: vec![0; settings.ports.len()].into_boxed_slice(),
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
        for port in (0..=u8::MAX).map(PortId).take(self.step.len()) {
            self.filled(port, buffer, intents);
        }
        self.pfc.adopt(buffer, intents);
    }

    /// Ends the rate limit of `port`'s peer before the switch stops.
    pub fn lift_limit(&mut self, port: PortId) {
        self.obedient.remove(port);
        self.step[port.index()] = 0;
    }

    #[inline]
    fn filled(&mut self, port: PortId, buffer: &Buffer, intents: &mut Vec<Intent>) {
        let before = self.step[port.index()];
        if before == self.steps || !self.obedient.contains(port) {
            return;
        }
        let held = buffer.ingress(port, self.pfc.class());
        let ladder = Ladder::of(self.first, buffer.xoff(port, self.pfc.class()));
        let mut step = before;
        while step < self.steps && held > Bytes::ZERO && held >= ladder.begins(step + 1) {
            step += 1;
        }
        self.request(port, before, step, intents);
    }

    #[inline]
    fn drained(&mut self, port: PortId, buffer: &Buffer, intents: &mut Vec<Intent>) {
        let before = self.step[port.index()];
        if before == 0 {
            return;
        }
        let held = buffer.ingress(port, self.pfc.class());
        let ladder = Ladder::of(self.first, buffer.xoff(port, self.pfc.class()));
        let mut step = before;
        while step > 0 && held < ladder.ends(step) {
            step -= 1;
        }
        self.request(port, before, step, intents);
    }

    fn request(&mut self, port: PortId, before: u8, step: u8, intents: &mut Vec<Intent>) {
        if step != before {
            self.step[port.index()] = step;
            let step = RateStep::new(step).unwrap_or(RateStep::MAX);
            intents.push(Intent::Rate { port, class: self.pfc.class(), step });
        }
    }
}

#[cfg(test)]
mod tests;
