use std::collections::BTreeMap;
use std::fmt;

use crate::pool::{Packet, is_mac_control};
use crate::time::Picos;

pub(crate) type Loses = Box<dyn FnMut(&[u8]) -> bool>;

/// Faults of MAC control frames in one direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlFaults {
    /// Share of lost frames, in units of 1/1024.
    pub lost: u16,
    /// Share of frames delayed until later frames overtake them, in units of 1/1024.
    pub late: u16,
    /// Share of frames delivered twice (on time, and again later), in units of 1/1024.
    pub again: u16,
    /// Share of frames with a changed byte that the FCS does not detect, in units of 1/1024.
    pub harmed: u16,
    /// Maximum delay of late and duplicated frames.
    pub late_by: Picos,
}

/// Numbers of frames that link faults lost, delayed, duplicated or changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Lost frames other than MAC control.
    pub lost: u64,
    /// Lost MAC control frames.
    pub lost_control: u64,
    /// Delayed or duplicated MAC control frames.
    pub late: u64,
    /// Corrupted MAC control frames.
    pub harmed: u64,
}

impl FaultCounts {
    pub(crate) fn count_lost(&mut self, head: &[u8]) {
        *if is_mac_control(head) { &mut self.lost_control } else { &mut self.lost } += 1;
    }
}

#[derive(Default)]
pub(crate) struct Faults {
    pub(crate) is_down: bool,
    pub(crate) loses: Option<Loses>,
    pub(crate) control: Option<(ControlFaults, fastrand::Rng)>,
    pub(crate) doomed: Vec<u32>,
    pub(crate) late: BTreeMap<(Picos, u64), Packet>,
    pub(crate) fault_counts: FaultCounts,
}

pub(crate) type FaultsByLink = BTreeMap<u32, Faults>;

#[derive(Debug, Default)]
pub(crate) struct Fate {
    pub(crate) is_lost: bool,
    pub(crate) again_after: Option<Picos>,
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
            .field("fault_counts", &self.fault_counts)
            .finish_non_exhaustive()
    }
}
