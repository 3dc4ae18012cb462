//! A packet memory for one switch by itself: in each slot the first bytes of a frame, and its length.

use xoff_dataplane::frame::{Frame, FrameStore};

/// A frame in a slot.
#[derive(Clone, Debug)]
struct Held {
    bytes: Vec<u8>,
    len: u32,
}

/// The slots.
#[derive(Debug)]
pub struct Memory {
    slots: Vec<Option<Held>>,
    data: Vec<u32>,
    control: Vec<u32>,
    control_from: u32,
    /// Free slots are listed.
    is_listed: bool,
}

impl Memory {
    /// So many slots, the last of them for control frames.
    #[must_use]
    pub fn new(data: u32, control: u32) -> Memory {
        let count = data + control;
        Memory {
            slots: vec![None; count as usize],
            data: (0..data).rev().collect(),
            control: (data..count).rev().collect(),
            control_from: data,
            is_listed: true,
        }
    }

    /// Slots that whoever uses them knows to be free.
    pub(super) fn unsorted(count: u32) -> Memory {
        Memory { slots: vec![None; count as usize], is_listed: false, ..Memory::new(0, 0) }
    }

    /// A frame of `len` bytes that begins with `head` has come in; `None` where no slot is free.
    pub fn fill(&mut self, head: &[u8], len: u32) -> Option<Frame> {
        let slot = self.data.pop()?;
        Some(self.put(slot, head, len))
    }

    /// The frame in a slot, which its owner knows to be there.
    #[must_use]
    pub fn frame(&self, slot: u32) -> Option<Frame> {
        self.held(slot).map(|held| Frame::new(slot, held.len))
    }

    pub(super) fn is_free(&self, slot: u32) -> bool {
        self.slots.get(slot as usize).is_some_and(Option::is_none)
    }

    pub(super) fn put(&mut self, slot: u32, head: &[u8], len: u32) -> Frame {
        self.slots[slot as usize] = Some(Held { bytes: head.to_vec(), len });
        Frame::new(slot, len)
    }

    pub(super) fn put_copy(&mut self, of: &Frame, slot: u32) -> Frame {
        let held = self.slots[of.slot() as usize].clone();
        self.slots[slot as usize] = held;
        Frame::new(slot, of.len())
    }

    fn held(&self, slot: u32) -> Option<&Held> {
        self.slots.get(slot as usize)?.as_ref()
    }
}

impl FrameStore for Memory {
    fn capacity(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    fn head(&self, frame: &Frame) -> &[u8] {
        self.held(frame.slot()).map_or(&[], |held| &held.bytes)
    }

    fn head_mut(&mut self, frame: &Frame) -> &mut [u8] {
        let held = self.slots.get_mut(frame.slot() as usize).and_then(Option::as_mut);
        held.map_or(&mut [], |held| &mut held.bytes)
    }

    fn move_start(&mut self, frame: &mut Frame, by: i32) -> bool {
        let Some(held) = self.slots.get_mut(frame.slot() as usize).and_then(Option::as_mut) else {
            return false;
        };
        let shift = by.unsigned_abs() as usize;
        let len = frame.len().checked_add_signed(-by).filter(|len| *len > 0);
        let Some(len) = len.filter(|_| by <= 0 || shift < held.bytes.len()) else { return false };
        if by < 0 {
            // Unspecified there: what comes behind is seen again, as in a chunk.
            held.bytes.splice(..0, std::iter::repeat_n(0, shift));
        } else {
            held.bytes.drain(..shift);
        }
        held.len = len;
        frame.resize(len);
        true
    }

    fn copy(&mut self, frame: &Frame) -> Option<Frame> {
        let slot = self.data.pop()?;
        Some(self.put_copy(frame, slot))
    }

    fn make(&mut self, bytes: &[u8]) -> Option<Frame> {
        let (slot, len) = (self.data.pop()?, u32::try_from(bytes.len()).ok()?);
        Some(self.put(slot, bytes, len))
    }

    fn control(&mut self, bytes: &[u8]) -> Option<Frame> {
        let (slot, len) = (self.control.pop()?, u32::try_from(bytes.len()).ok()?);
        Some(self.put(slot, bytes, len))
    }

    fn free(&mut self, frame: Frame) {
        let (slot, _) = frame.into_parts();
        if let Some(held) = self.slots.get_mut(slot as usize) {
            *held = None;
            match self.is_listed {
                true if slot < self.control_from => self.data.push(slot),
                true => self.control.push(slot),
                false => (),
            }
        }
    }
}
