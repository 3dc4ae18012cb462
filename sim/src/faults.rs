//! What goes wrong on the way: links that are down, frames that are lost, and MAC control that comes late, again, or harmed.
//!
//! A link on which nothing ever goes wrong has nothing of this: one flag of it says so.

use std::collections::BTreeMap;
use std::fmt;

use crate::pool::{Packet, is_mac_control};
use crate::time::Picos;

/// Whether a frame is lost on the way.
pub(crate) type Loses = Box<dyn FnMut(&[u8]) -> bool>;

/// What happens to MAC control on one direction of a link: shares of 1,024 frames each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlFaults {
    /// Never comes.
    pub lost: u16,
    /// Comes later than it should, and other frames pass it.
    pub late: u16,
    /// Comes, and comes again later.
    pub again: u16,
    /// Comes with a byte changed, and nobody has noticed on the way.
    pub harmed: u16,
    /// The most that it is late by.
    pub late_by: Picos,
}

/// What has gone wrong on links so far, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mishaps {
    /// Have not come, MAC control left out.
    pub lost: u64,
    /// MAC control that has not come.
    pub lost_control: u64,
    /// Came later than they should, or again: MAC control.
    pub late: u64,
    /// Came with a byte changed: MAC control.
    pub harmed: u64,
}

impl Mishaps {
    /// A frame that begins with `head` does not come.
    pub(crate) fn note_lost(&mut self, head: &[u8]) {
        *if is_mac_control(head) { &mut self.lost_control } else { &mut self.lost } += 1;
    }
}

/// Of one direction of a link.
#[derive(Default)]
pub(crate) struct Faults {
    pub(crate) is_down: bool,
    pub(crate) loses: Option<Loses>,
    pub(crate) control: Option<(ControlFaults, fastrand::Rng)>,
    /// Numbers of packets on their way that will not come.
    pub(crate) doomed: Vec<u32>,
    /// What comes out of its order: when, and how many such there had been.
    pub(crate) late: BTreeMap<(Picos, u64), Packet>,
    pub(crate) mishaps: Mishaps,
}

/// Faults of links, by their numbers.
pub(crate) type FaultsByLink = BTreeMap<u32, Faults>;

/// What becomes of a frame.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    pub(crate) is_lost: bool,
    pub(crate) again_after: Option<Picos>,
    /// Which byte is changed, and by what.
    pub(crate) harm: Option<(usize, u8)>,
}

impl Faults {
    pub(crate) fn fate(&mut self, head: &[u8]) -> Fate {
        if self.is_down || self.loses.as_mut().is_some_and(|loses| loses(head)) {
            return Fate { is_lost: true, ..Fate::default() };
        }
        let Some((control, rng)) = &mut self.control else { return Fate::default() };
        if !is_mac_control(head) {
            return Fate::default();
        }
        let mut happens = |share: u16| rng.u16(0..1024) < share;
        let [lost, late, again, harmed] =
            [control.lost, control.late, control.again, control.harmed].map(&mut happens);
        Fate {
            is_lost: lost || late,
            again_after: (!lost && (late || again)).then(|| Picos(rng.u64(0..=control.late_by.0))),
            harm: harmed.then(|| (rng.usize(0..head.len()), rng.u8(1..))),
        }
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults")
            .field("is_down", &self.is_down)
            .field("mishaps", &self.mishaps)
            .finish_non_exhaustive()
    }
}
