//! Frames stored in a leaf by slot number, in virtual output queues (VOQs) and output queues.

use xoff_wire::units::{Bytes, Class, ClassSet, PortId};

use crate::pool::Packet;

#[derive(Clone, Copy, Debug)]
pub(super) struct StoredFrame {
    pub(super) packet: Option<Packet>,
    pub(super) class: Class,
    pub(super) port: PortId,
    pub(super) to: u16,
    pub(super) cells: u8,
    pub(super) sequence: u32,
    pub(super) len: u32,
}

impl StoredFrame {
    pub(super) const fn size(&self) -> Bytes {
        Bytes::of_frame(self.len)
    }
}

/// Bit in the slot numbers of frames that congestion points do not sample. Sampled frames get small numbers, for which
/// congestion points have table entries.
const UNSAMPLED: u32 = 1 << 31;

#[derive(Debug)]
pub(super) struct Frames {
    sampled: ClassSet,
    all: [Vec<StoredFrame>; 2],
    free: [Vec<u32>; 2],
}

impl Frames {
    pub(super) fn new(sampled: ClassSet) -> Frames {
        Frames { sampled, all: Default::default(), free: Default::default() }
    }

    pub(super) fn put(&mut self, frame: StoredFrame) -> u32 {
        let bit = if self.sampled.contains(frame.class) { 0 } else { UNSAMPLED };
        let (list, _) = place(bit);
        if let Some(slot) = self.free[list].pop() {
            *self.get_mut(slot) = frame;
            return slot;
        }
        let at = u32::try_from(self.all[list].len()).ok().filter(|at| *at < UNSAMPLED);
        self.all[list].push(frame);
        at.expect("the number of frames must fit into 31 bits") | bit
    }

    pub(super) fn get(&self, slot: u32) -> &StoredFrame {
        let (list, at) = place(slot);
        &self.all[list][at]
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> &mut StoredFrame {
        let (list, at) = place(slot);
        &mut self.all[list][at]
    }

    pub(super) fn free(&mut self, slot: u32) {
        self.get_mut(slot).packet = None;
        self.free[place(slot).0].push(slot);
    }

    pub(super) fn packets(&self) -> usize {
        self.all.iter().flatten().filter(|frame| frame.packet.is_some()).count()
    }
}

const fn place(slot: u32) -> (usize, usize) {
    ((slot / UNSAMPLED) as usize, (slot % UNSAMPLED) as usize)
}
