//! CaPFC (Avci, Li, Liu: "Congestion Aware Priority Flow Control in Data Center Networks", 2016).
//!
//! An egress queue above WARN counts arrivals by ingress port, C(i,o,p). Above XOFF it blames ports, E(i,o,p) = 1,
//! until it has drained to XON ([`Blame`]). Algorithm 1 (Stop-Max) blames the ingress port with most arrivals;
//! Algorithm 2 (Stop-Calibrate) the fewest that together have the share CUT of arrivals. Of ports with equal arrivals,
//! the lowest-numbered is blamed; ports that may not send XOFF never are.

use xoff_wire::units::{Bytes, PortId};

use super::blame::Blame;
use super::{Event, Intent, Pfc};
use crate::buffer::{Buffer, Margin};
use crate::settings::{CountUnit, SwitchSettings};

/// Rule by which a congested egress queue blames ingress ports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Culprits {
    /// Stop-Max: the ingress port with most arrivals.
    Heaviest,
    /// Stop-Calibrate: the fewest ports that together have at least this share of arrivals.
    Share(f64),
}

/// Policy CaPFC of one class.
#[derive(Debug)]
pub struct CaPfc {
    blame: Blame,
    culprits: Culprits,
    count_unit: CountUnit,
    egress: Box<[Egress]>,
    order: Box<[PortId]>,
}

#[derive(Clone, Debug)]
struct Egress {
    warn: Bytes,
    xoff: Bytes,
    xon: Bytes,
    arrivals: Box<[u64]>,
    counting: bool,
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
            }
        });
        CaPfc {
            culprits,
            count_unit: settings.policy.capfc_count_unit,
            egress: egress.collect(),
            order: (0..=u8::MAX).map(PortId).take(ports).collect(),
            blame: Blame::new(pfc, ports),
        }
    }

    #[inline(always)] // the kind of event is constant at each call
    pub(super) fn observe(&mut self, event: Event, buffer: &Buffer, intents: &mut Vec<Intent>) {
        let class = self.blame.pfc().class();
        match event {
            Event::Received { .. } | Event::Released { .. } => {
                self.blame.observe_ingress(event, buffer, intents);
            }
            Event::Enqueued { ingress, egress, size } => {
                let held = buffer.egress(egress, class);
                if held >= self.egress[egress.index()].warn && self.blame.pfc().may_send(ingress) {
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

    pub(super) fn margin(&self, event: Event, buffer: &Buffer) -> Margin {
        match event {
            Event::Enqueued { egress, .. } => {
                let below_warn = self.egress[egress.index()].warn.saturating_sub(Bytes(1));
                Margin::of(below_warn.saturating_sub(buffer.egress(egress, self.blame.pfc().class())))
            }
            Event::Dequeued { egress } if self.egress[egress.index()].counting => Margin::NONE,
            _ => self.blame.pfc().margin(event),
        }
    }

    pub(super) fn adopt(&mut self, buffer: &Buffer, intents: &mut Vec<Intent>) {
        self.blame.adopt(buffer, intents);
    }

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
        queue.arrivals[ingress.index()] += match self.count_unit {
            CountUnit::Frames => 1,
            CountUnit::Bytes => size.0,
        };
        if held > queue.xoff {
            match self.culprits {
                Culprits::Heaviest => self.blame_heaviest(egress, intents),
                Culprits::Share(cut) => self.blame_share(egress, cut, intents),
            }
        }
    }

    fn blame_heaviest(&mut self, egress: PortId, intents: &mut Vec<Intent>) {
        let arrivals = &self.egress[egress.index()].arrivals;
        let heavier = |a: PortId, b: &PortId| if arrivals[b.index()] > arrivals[a.index()] { *b } else { a };
        let heaviest = self.order.iter().fold(PortId(0), heavier);
        self.blame.accuse(heaviest, egress, intents);
    }

    /// Blames the fewest ports that together have at least the share `cut` of arrivals (Algorithm 2 of CaPFC, lines 2
    /// to 4).
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
            self.blame.accuse(port, egress, intents);
            passed += own;
            if passed as f64 >= cut * total as f64 {
                break;
            }
        }
        self.order.sort_unstable();
    }

    /// Resets the arrival counts of an egress queue that has drained to WARN. At XON, the queue also stops blaming
    /// ports (Algorithm 1 of CaPFC, lines 17 to 20).
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
        self.blame.forgive(egress, intents);
    }
}

#[cfg(test)]
mod tests;
