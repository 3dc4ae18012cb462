//! Frames come in trains: many of one flow, one right after the other. All but the first of a train go
//! where the one before went, and teach nothing, so that the bridge need not look at them again.
//!
//! A frame continues a train if it begins as the one before at its port did (both addresses and the
//! tag are among the first 16 bytes), if it is decided at the same instant, as a batch is, and if
//! the bridge has not changed in between. Frames that could not be learned make no train, because each of
//! them is counted, and neither do those that go to several ports or to none.

use crate::units::{Nanos, PortId};

/// Both addresses, and the tag where there is one; in a frame without, the EtherType and two bytes more.
const START: usize = 16;

/// What the frame before was, at one port, and what became of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Train {
    start: [u8; START],
    at: Nanos,
    changes: u64,
    egress: PortId,
    vid: u16,
}

impl Train {
    /// Of no frame.
    pub const NONE: Train =
        Train { start: [0; START], at: Nanos::NEVER, changes: u64::MAX, egress: PortId(0), vid: 0 };

    /// The frame that begins with `head` went to `egress` in VLAN `vid`, when the bridge had changed so
    /// many times.
    #[inline]
    pub fn begin(&mut self, head: &[u8], at: Nanos, changes: u64, egress: PortId, vid: u16) {
        if let Some(&start) = head.first_chunk() {
            *self = Train { start, at, changes, egress, vid };
        }
    }

    /// Where the next frame of the train goes, and its VLAN; `None` where this one is not of it.
    #[inline]
    pub fn goes_on(&self, head: &[u8], now: Nanos, changes: u64) -> Option<(PortId, u16)> {
        let same = head.first_chunk() == Some(&self.start) && self.at == now && self.changes == changes;
        same.then_some((self.egress, self.vid))
    }
}
