//! Frames in a leaf, by slot: those in VOQs, and those in output queues.

use xoff_wire::units::{Bytes, Class, PortId};

use crate::pool::Packet;

#[derive(Clone, Copy, Debug)]
pub(super) struct StoredFrame {
    /// Packet of the frame; `None` once its first cell has been sent.
    pub(super) packet: Option<Packet>,
    pub(super) class: Class,
    /// Port of the server that sent the frame, or gets it.
    pub(super) port: PortId,
    /// Number of the destination server.
    pub(super) to: u16,
    pub(super) cells: u8,
    /// Number of the frame in its VOQ.
    pub(super) sequence: u32,
    pub(super) len: u32,
}

impl StoredFrame {
    pub(super) const fn size(&self) -> Bytes {
        Bytes::of_frame(self.len)
    }
}

#[derive(Debug, Default)]
pub(super) struct Frames {
    all: Vec<StoredFrame>,
    free: Vec<u32>,
}

impl Frames {
    /// Stores a frame; returns its slot.
    pub(super) fn put(&mut self, frame: StoredFrame) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.all[slot as usize] = frame;
            return slot;
        }
        self.all.push(frame);
        u32::try_from(self.all.len() - 1).expect("more frames than 32 bits can count")
    }

    pub(super) fn get(&self, slot: u32) -> &StoredFrame {
        &self.all[slot as usize]
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> &mut StoredFrame {
        &mut self.all[slot as usize]
    }

    pub(super) fn free(&mut self, slot: u32) {
        self.all[slot as usize].packet = None;
        self.free.push(slot);
    }

    /// Returns how many frames have a packet here.
    pub(super) fn packets(&self) -> usize {
        self.all.iter().filter(|frame| frame.packet.is_some()).count()
    }
}
