//! Model of pauses of single flows (OFC) that reads only the bytes of frames, independently of the switch. A flow is
//! identified by its MAC addresses and EtherType (address family 0).

use std::collections::BTreeMap;

use xoff_wire::units::{BitRate, Class, ClassSet, Nanos, Quanta};

use super::payload::ETHER_TYPE;

type Pair = [u8; 12];

/// Paused flows, each with the end of its pause.
#[derive(Debug, Default)]
pub struct FlowPauses {
    until: BTreeMap<(Class, Pair), Nanos>,
    stopped: ClassSet,
}

/// Effect that the flow list of a pause frame has on the whole class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum OfClass {
    Nothing,
    /// The class is paused until this time.
    Stops(Nanos),
    Resumes,
}

impl FlowPauses {
    /// Processes a pause frame with a flow list. Returns `None` for other frames.
    ///
    /// The list pauses flows if `by_flow` is true, otherwise their class. `until` is the end of the class's present pause. A list can
    /// shorten this pause only if another list, not a PFC frame, began it.
    pub fn received(
        &mut self,
        now: Nanos,
        speed: BitRate,
        bytes: &[u8],
        by_flow: bool,
        until: Nanos,
    ) -> Option<OfClass> {
        if bytes.get(34..38) != Some(b"OFC1") {
            return None;
        }
        let pauses = bytes[38] == 1;
        let class = Class::from_low_bits(bytes[39]);
        let at = 18 + 2 * class.index();
        let time = speed.time_of_quanta(Quanta(u16::from_be_bytes([bytes[at], bytes[at + 1]])));
        let of_the_bed = |flow: &&[u8]| flow[0] == 0 && flow[2..4] == ETHER_TYPE;
        let flows = bytes[42..].chunks_exact(18).take(usize::from(bytes[41])).filter(of_the_bed);
        for flow in flows.filter(|_| by_flow) {
            let pair: Pair = flow[6..].try_into().expect("the flow key must contain two addresses");
            match pauses {
                true => _ = self.until.insert((class, pair), now.after(time)),
                false => _ = self.until.remove(&(class, pair)),
            }
        }
        let stopped = self.stopped.contains(class);
        Some(match pauses {
            true if by_flow => OfClass::Nothing,
            true => {
                if now >= until {
                    self.stopped.insert(class);
                }
                let end = now.after(time);
                OfClass::Stops(if self.stopped.contains(class) { end } else { end.max(until) })
            }
            false if stopped => {
                self.clear(class);
                self.stopped.remove(class);
                OfClass::Resumes
            }
            false => OfClass::Nothing,
        })
    }

    /// Processes a class's pause time in a PFC frame without flow list. Zero resumes all flows of the class.
    pub fn named(&mut self, class: Class, time: Quanta) {
        self.stopped.remove(class);
        if time == Quanta(0) {
            self.clear(class);
        }
    }

    /// Resumes all flows of a class.
    pub fn clear(&mut self, class: Class) {
        self.until.retain(|(other, _), _| *other != class);
    }

    /// Returns whether the frame's flow may send now.
    pub fn let_pass(&self, now: Nanos, class: Class, frame: &[u8]) -> bool {
        let [dst, src] = [0, 6].map(|at| &frame[at..at + 6]);
        let pair: Pair = [src, dst].concat().try_into().expect("the flow key must contain two addresses");
        self.until.get(&(class, pair)).is_none_or(|&until| now >= until)
    }
}
