//! CaPFC (Avci, Li, Liu: "Congestion Aware Priority Flow Control in Data Center Networks", 2016).
//!
//! An egress queue behind WARN counts who its arrivals come from: C(i,o,p). Beyond XOFF it blames the
//! heaviest of them, E(i,o,p) = 1, until it has drained to XON. A port asks its peer to pause while its
//! own ingress queue is congested or any egress queue blames it (II-E):
//!
//! ```text
//!   D(i,p) = I(i,p)  or  E(i,o,p) for any o other than i
//! ```
//!
//! Algorithms 1 and 2 differ in whom they blame: the one heaviest (Stop-Max; "if the congestion
//! persists ... ports are put into congestion state one-by-one"), or the fewest that together stand for
//! the share CUT of all arrivals (Stop-Calibrate).
//!
//! Where the paper is silent: ties go to the lowest port; a port that may not send XOFF is not counted,
//! because blaming it would only hide the next. The limit MAX is the egress queue's own
//! ([`crate::settings::ClassSettings::egress_max`]).

use super::{Event, Intent, Pfc, Trigger};
use crate::buffer::Buffer;
use crate::settings::SwitchSettings;
use crate::units::{Bytes, PortId, PortSet};

/// Whom a congested egress queue blames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Culprits {
    /// Stop-Max: the one with most arrivals.
    Heaviest,
    /// Stop-Calibrate: the fewest that together have at least this share of them, the heaviest first.
    Share(f64),
}

/// What C(i,o,p) counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weigh {
    /// Frames, as in the paper.
    #[default]
    Frames,
    /// Bytes.
    Bytes,
}

/// CaPFC of one class.
#[derive(Debug)]
pub struct CaPfc {
    pfc: Pfc,
    culprits: Culprits,
    weigh: Weigh,
    egress: Box<[Egress]>,
    /// By ingress port: the egress queues that blame it, E(i,o,p) = 1.
    blamed_by: Box<[PortSet]>,
    /// Ports in the order of what they sent; used while culprits are found.
    order: Box<[PortId]>,
}

/// One egress queue.
#[derive(Clone, Debug)]
struct Egress {
    warn: Bytes,
    xoff: Bytes,
    xon: Bytes,
    /// C(i,o,p) by ingress port.
    arrivals: Box<[u64]>,
    /// Some C is not zero.
    counting: bool,
    /// The ingress ports with E(i,o,p) = 1.
    blames: PortSet,
}

impl CaPfc {
    pub(super) fn new(pfc: Pfc, culprits: Culprits, settings: &SwitchSettings) -> CaPfc {
        let ports = settings.ports.len();
        let egress = settings.ports.iter().map(|port| {
            let class = &port.classes[pfc.class().index()];
            Egress {
                warn: class.egress_warn,
                xoff: class.egress_xoff,
                xon: class.egress_xon,
                arrivals: vec![0; ports].into_boxed_slice(),
                counting: false,
                blames: PortSet::NONE,
            }
        });
        CaPfc {
            culprits,
            weigh: settings.policy.capfc_weigh,
            egress: egress.collect(),
            blamed_by: vec![PortSet::NONE; ports].into_boxed_slice(),
            order: (0..=u8::MAX).map(PortId).take(ports).collect(),
            pfc,
        }
    }

    #[inline(always)] // where it is called the kind of event is a constant
    pub(super) fn observe(&mut self, event: Event, buffer: &Buffer, intents: &mut Vec<Intent>) {
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
            Event::Enqueued { ingress, egress, size } => {
                let held = buffer.egress(egress, class);
                if held >= self.egress[egress.index()].warn && self.pfc.may_send(ingress) {
                    self.arrived(ingress, egress, size, held, intents);
                }
            }
            Event::Dequeued { egress } => {
                if self.egress[egress.index()].counting {
                    self.drained(egress, buffer.egress(egress, class), intents);
                }
            }
        }
    }

    /// The queues begin to count with the next frame.
    pub(super) fn adopt(&mut self, buffer: &Buffer, intents: &mut Vec<Intent>) {
        self.pfc.adopt(buffer, intents);
    }

    /// Algorithm 1, lines 7 to 13: the queue is at or above WARN.
    #[cold]
    fn arrived(
        &mut self,
        ingress: PortId,
        egress: PortId,
        size: Bytes,
        held: Bytes,
        intents: &mut Vec<Intent>,
    ) {
        let queue = &mut self.egress[egress.index()];
        queue.counting = true;
        queue.arrivals[ingress.index()] += match self.weigh {
            Weigh::Frames => 1,
            Weigh::Bytes => size.0,
        };
        if held > queue.xoff {
            match self.culprits {
                Culprits::Heaviest => self.blame_heaviest(egress, intents),
                Culprits::Share(cut) => self.blame_share(egress, cut, intents),
            }
        }
    }

    /// Algorithm 1, lines 10 to 12.
    fn blame_heaviest(&mut self, egress: PortId, intents: &mut Vec<Intent>) {
        let arrivals = &self.egress[egress.index()].arrivals;
        let heavier = |a: PortId, b: &PortId| if arrivals[b.index()] > arrivals[a.index()] { *b } else { a };
        let heaviest = self.order.iter().fold(PortId(0), heavier);
        self.blame(heaviest, egress, intents);
    }

    /// Algorithm 2, lines 2 to 4.
    fn blame_share(&mut self, egress: PortId, cut: f64, intents: &mut Vec<Intent>) {
        let arrivals = &self.egress[egress.index()].arrivals;
        self.order.sort_unstable_by_key(|port| (std::cmp::Reverse(arrivals[port.index()]), *port));
        let total: u64 = arrivals.iter().sum();
        let mut passed = 0;
        for place in 0..self.order.len() {
            let port = self.order[place];
            let own = self.egress[egress.index()].arrivals[port.index()];
            if own == 0 {
                break;
            }
            self.blame(port, egress, intents);
            passed += own;
            if passed as f64 >= cut * total as f64 {
                break;
            }
        }
        self.order.sort_unstable();
    }

    /// E(i,o,p) becomes 1.
    fn blame(&mut self, port: PortId, egress: PortId, intents: &mut Vec<Intent>) {
        if port == egress || self.egress[egress.index()].blames.contains(port) {
            return;
        }
        self.egress[egress.index()].blames.insert(port);
        let blamed_by = &mut self.blamed_by[port.index()];
        let blameless = blamed_by.is_empty();
        blamed_by.insert(egress);
        if blameless && !self.pfc.is_paused(port) {
            let class = self.pfc.class();
            intents.push(Intent::Xoff { port, class, trigger: Trigger::Egress(egress) });
        }
    }

    /// Algorithm 1, lines 17 to 20.
    #[cold]
    fn drained(&mut self, egress: PortId, held: Bytes, intents: &mut Vec<Intent>) {
        let queue = &mut self.egress[egress.index()];
        if held <= queue.warn {
            queue.arrivals.fill(0);
        }
        if held > queue.xon {
            return;
        }
        queue.counting = held > queue.warn;
        let blames = std::mem::take(&mut queue.blames);
        for port in blames.iter() {
            self.blamed_by[port.index()].remove(egress);
            if self.blamed_by[port.index()].is_empty() && !self.pfc.is_paused(port) {
                intents.push(Intent::Xon { port, class: self.pfc.class() });
            }
        }
    }
}

#[cfg(test)]
mod tests;
