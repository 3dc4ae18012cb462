//! PFC: an ingress queue (port i, class p) is paused, I(i,p) = 1, from XOFF until its occupancy falls below XON
//! (802.1Q 36.1).

use xoff_wire::units::{Bytes, Class, PortId, PortSet};

use super::{Event, Intent};
use crate::buffer::{Buffer, Margin};
use crate::cause::Trigger;

/// Plain PFC of one class.
#[derive(Clone, Debug)]
pub struct Pfc {
    class: Class,
    sends: PortSet,
    paused: PortSet,
}

impl Pfc {
    /// Creates the policy of `class`. `sends` are the ports that may send XOFF.
    #[must_use]
    pub const fn new(class: Class, sends: PortSet) -> Pfc {
        Pfc { class, sends, paused: PortSet::NONE }
    }

    #[inline(always)] // the kind of event is constant at each call
    pub(super) fn observe(&mut self, event: Event, buffer: &Buffer, intents: &mut Vec<Intent>) {
        let class = self.class;
        match event {
            Event::Received { ingress: port } if self.reached_xoff(port, buffer) => {
                intents.push(Intent::Xoff { port, class, trigger: Trigger::Ingress });
            }
            Event::Released { ingress: port } if self.fell_below_xon(port, buffer) => {
                intents.push(Intent::Xon { port, class });
            }
            _ => (),
        }
    }

    pub(super) const fn margin(&self, event: Event) -> Margin {
        match event {
            Event::Released { ingress } if self.paused.contains(ingress) => Margin::NONE,
            _ => Margin::ALL,
        }
    }

    pub(super) fn adopt(&mut self, buffer: &Buffer, intents: &mut Vec<Intent>) {
        // Skip empty queues: in shared memory their XOFF may be zero, and no departure would end the pause.
        let class = self.class;
        for ingress in self.sends.iter().filter(|&port| buffer.ingress(port, class) > Bytes::ZERO) {
            self.observe(Event::Received { ingress }, buffer, intents);
        }
    }

    #[inline(always)]
    pub(super) fn reached_xoff(&mut self, port: PortId, buffer: &Buffer) -> bool {
        let reached =
            self.sends.contains(port) && !self.paused.contains(port) && buffer.at_xoff(port, self.class);
        if reached {
            self.paused.insert(port);
        }
        reached
    }

    #[inline(always)]
    pub(super) fn fell_below_xon(&mut self, port: PortId, buffer: &Buffer) -> bool {
        let fell = self.paused.contains(port) && buffer.below_xon(port, self.class);
        if fell {
            self.paused.remove(port);
        }
        fell
    }

    pub(super) const fn class(&self) -> Class {
        self.class
    }

    pub(super) const fn may_send(&self, port: PortId) -> bool {
        self.sends.contains(port)
    }

    pub(super) const fn is_paused(&self, port: PortId) -> bool {
        self.paused.contains(port)
    }
}
