//! PFC as every data-center switch does it: I(i,p) becomes 1 when ingress(i,p) reaches XOFF, and 0
//! when it falls below XON (design.md section 6; 802.1Q 36.1).

use super::{Event, Intent};
use crate::buffer::Buffer;
use crate::units::ClassSet;

/// I(i,p) for every port and class that may send XOFF.
#[derive(Debug)]
pub struct Pfc {
    sends: Box<[ClassSet]>,
    paused: Box<[ClassSet]>,
}

impl Pfc {
    /// `sends`: per port, the classes for which XOFF may be sent at all.
    #[must_use]
    pub fn new(sends: Box<[ClassSet]>) -> Pfc {
        let paused = vec![ClassSet::NONE; sends.len()].into_boxed_slice();
        Pfc { sends, paused }
    }

    #[inline(always)] // where it is called the kind of event is a constant
    pub(super) fn observe(&mut self, event: Event, buffer: &Buffer, intents: &mut Vec<Intent>) {
        match event {
            Event::Received { ingress: port, class } => {
                if !self.sends[port.index()].contains(class) || self.paused[port.index()].contains(class) {
                    return;
                }
                if buffer.at_xoff(port, class) {
                    self.paused[port.index()].insert(class);
                    intents.push(Intent::Xoff { port, class });
                }
            }
            Event::Released { ingress: port, class } => {
                if self.paused[port.index()].contains(class) && buffer.below_xon(port, class) {
                    self.paused[port.index()].remove(class);
                    intents.push(Intent::Xon { port, class });
                }
            }
        }
    }
}
