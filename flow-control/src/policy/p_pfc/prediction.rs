//! P-PFC by prediction: ingress queues that will reach XOFF are paused early.
//!
//! If a frame arrives at t, an interval or more after the last sample (t0), the occupancy q is sampled and extrapolated
//! by one interval. Plain PFC (I) or prediction (P) pauses port i in class p, D(i,p) = 1:
//!
//! ```text
//!   q(t) + (q(t) - q(t0)) / (t - t0) x interval >= XOFF  and  q(t) >= XON     P(i,p) = 1
//!   q(t) < XON / 2                                                            P(i,p) = 0
//!   D(i,p) = I(i,p) or P(i,p)
//! ```
//!
//! Two rules are not from the paper. No queue below XON is paused, so that the buffer absorbs bursts. A predicted pause
//! ends at half of XON, because at XON it might at once begin again.

use xoff_wire::units::{Bytes, Nanos, PortId, PortSet};

use super::super::{Event, Intent, Pfc};
use crate::buffer::Buffer;
use crate::cause::Trigger;

#[derive(Debug)]
pub(super) struct Prediction {
    pfc: Pfc,
    interval: Nanos,
    ingress: Box<[QueueSample]>,
    predicted: PortSet,
}

#[derive(Clone, Copy, Debug, Default)]
struct QueueSample {
    at: Nanos,
    held: Bytes,
}

impl Prediction {
    pub(super) fn new(pfc: Pfc, interval: Nanos, ports: usize) -> Prediction {
        let interval = interval.max(Nanos(1));
        Prediction {
            pfc,
            interval,
            ingress: vec![QueueSample::default(); ports].into_boxed_slice(),
            predicted: PortSet::NONE,
        }
    }

    #[inline(always)] // the kind of event is constant at each call
    pub(super) fn observe(&mut self, now: Nanos, event: Event, buffer: &Buffer, intents: &mut Vec<Intent>) {
        match event {
            Event::Received { ingress } => self.filled(now, ingress, buffer, intents),
            Event::Released { ingress } => self.drained(ingress, buffer, intents),
            Event::Enqueued { .. } | Event::Dequeued { .. } => (),
        }
    }

    pub(super) fn adopt(&mut self, buffer: &Buffer, intents: &mut Vec<Intent>) {
        for port in (0..=u8::MAX).map(PortId).take(self.ingress.len()) {
            self.ingress[port.index()].held = buffer.ingress(port, self.pfc.class());
        }
        self.pfc.adopt(buffer, intents);
    }

    #[inline]
    fn filled(&mut self, now: Nanos, port: PortId, buffer: &Buffer, intents: &mut Vec<Intent>) {
        let class = self.pfc.class();
        if self.pfc.reached_xoff(port, buffer) && !self.predicted.contains(port) {
            intents.push(Intent::Xoff { port, class, trigger: Trigger::Ingress });
        }
        if now.since(self.ingress[port.index()].at) >= self.interval
            && self.will_reach_xoff(now, port, buffer)
            && self.pfc.may_send(port)
            && !self.predicted.contains(port)
        {
            self.predicted.insert(port);
            if !self.pfc.is_paused(port) {
                intents.push(Intent::Xoff { port, class, trigger: Trigger::Predicted });
            }
        }
    }

    #[inline]
    fn drained(&mut self, port: PortId, buffer: &Buffer, intents: &mut Vec<Intent>) {
        let class = self.pfc.class();
        let mut ends = self.pfc.fell_below_xon(port, buffer);
        if self.predicted.contains(port) && is_low(buffer.ingress(port, class), buffer.xon(port, class)) {
            self.predicted.remove(port);
            ends = true;
        }
        if ends && !self.pfc.is_paused(port) && !self.predicted.contains(port) {
            intents.push(Intent::Xon { port, class });
        }
    }

    fn will_reach_xoff(&mut self, now: Nanos, port: PortId, buffer: &Buffer) -> bool {
        let class = self.pfc.class();
        let held = buffer.ingress(port, class);
        let before = std::mem::replace(&mut self.ingress[port.index()], QueueSample { at: now, held });
        let grown = i128::from(held.0) - i128::from(before.held.0);
        let elapsed = i128::from(now.since(before.at).0.max(1));
        let predicted = i128::from(held.0) + grown * i128::from(self.interval.0) / elapsed;
        held >= buffer.xon(port, class) && predicted >= i128::from(buffer.xoff(port, class).0)
    }
}

fn is_low(held: Bytes, xon: Bytes) -> bool {
    held == Bytes::ZERO || held.0 < xon.0 / 2
}

#[cfg(test)]
mod tests;
