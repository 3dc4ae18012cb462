//! Frames in memory, in slots for data and for control frames. A test fails if a slot is freed twice, or read while
//! free.

use std::ops::Range;

use xoff_dataplane::frame::{Frame, FrameStore};

/// Number of leading bytes of a data frame that the switch may read.
const HEAD: usize = 128;

/// Slots for frames.
#[derive(Debug)]
pub struct MemoryStore {
    room: usize,
    slot_size: usize,
    bytes: Vec<u8>,
    places: Vec<Option<Range<usize>>>,
    data: Vec<u32>,
    control: Vec<u32>,
    control_from: u32,
}

impl MemoryStore {
    /// Creates slots for frames of up to `frame_max` bytes, with `room` free bytes in front for inserted tags.
    pub fn new(data: u32, control: u32, room: usize, frame_max: usize) -> MemoryStore {
        let slots = data + control;
        let slot_size = (room + frame_max).next_multiple_of(64);
        MemoryStore {
            room,
            slot_size,
            bytes: vec![0; slots as usize * slot_size],
            places: vec![None; slots as usize],
            data: (0..data).rev().collect(),
            control: (data..slots).rev().collect(),
            control_from: data,
        }
    }

    /// Stores a frame. Returns `None` if no slot is free.
    pub fn fill(&mut self, bytes: &[u8]) -> Option<Frame> {
        let slot = self.data.pop()?;
        Some(self.put(slot, bytes))
    }

    /// Returns a frame's bytes.
    pub fn frame(&self, frame: &Frame) -> &[u8] {
        self.slot(frame.slot()).expect("the slot must hold a frame")
    }

    /// Returns the bytes of the frame in a slot, or `None` if the slot is free.
    pub fn slot(&self, slot: u32) -> Option<&[u8]> {
        self.places[slot as usize].clone().map(|place| &self.bytes[place])
    }

    /// Returns each stored frame's bytes.
    pub fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().flatten().map(|place| &self.bytes[place.clone()])
    }

    /// Returns the number of used slots, including those of control frames.
    pub fn in_use(&self) -> usize {
        self.places.len() - self.data.len() - self.control.len()
    }

    fn occupy(&mut self, slot: u32, len: usize) -> Range<usize> {
        let start = slot as usize * self.slot_size + self.room;
        assert!(self.room + len <= self.slot_size, "a frame of {len} bytes must fit into its slot");
        let was = self.places[slot as usize].replace(start..start + len);
        assert!(was.is_none(), "slot {slot} must be free when it is allocated");
        start..start + len
    }

    fn put(&mut self, slot: u32, bytes: &[u8]) -> Frame {
        let place = self.occupy(slot, bytes.len());
        self.bytes[place].copy_from_slice(bytes);
        Frame::new(slot, u32::try_from(bytes.len()).expect("the frame length must fit in 32 bits"))
    }

    fn head_of(&self, frame: &Frame) -> Range<usize> {
        let place = self.places[frame.slot() as usize].clone().expect("the slot must hold a frame");
        let is_mac_control = self.bytes[place.clone()].get(12..14) == Some(&[0x88, 0x08]);
        let end = if is_mac_control { place.end } else { place.end.min(place.start + HEAD) };
        place.start..end
    }
}

impl FrameStore for MemoryStore {
    fn capacity(&self) -> u32 {
        u32::try_from(self.places.len()).expect("the number of slots must fit in 32 bits")
    }

    fn head(&self, frame: &Frame) -> &[u8] {
        &self.bytes[self.head_of(frame)]
    }

    fn head_mut(&mut self, frame: &Frame) -> &mut [u8] {
        let head = self.head_of(frame);
        &mut self.bytes[head]
    }

    fn move_start(&mut self, frame: &mut Frame, by: i32) -> bool {
        let slot_begins = frame.slot() as usize * self.slot_size;
        let place = self.places[frame.slot() as usize].as_mut().expect("the slot must hold a frame");
        let Some(start) = place.start.checked_add_signed(by as isize) else { return false };
        if start < slot_begins || start >= place.end {
            return false;
        }
        place.start = start;
        frame.resize(frame.len().saturating_add_signed(-by));
        true
    }

    fn copy(&mut self, frame: &Frame) -> Option<Frame> {
        let slot = self.data.pop()?;
        let from = self.places[frame.slot() as usize].clone().expect("the slot must hold a frame");
        let to = self.occupy(slot, from.len());
        self.bytes.copy_within(from, to.start);
        Some(Frame::new(slot, frame.len()))
    }

    fn make(&mut self, bytes: &[u8]) -> Option<Frame> {
        self.fill(bytes)
    }

    fn control(&mut self, bytes: &[u8]) -> Option<Frame> {
        let slot = self.control.pop()?;
        Some(self.put(slot, bytes))
    }

    fn free(&mut self, frame: Frame) {
        let (slot, _) = frame.into_parts();
        let place = self.places[slot as usize].take();
        assert!(place.is_some(), "slot {slot} was freed twice");
        let pool = if slot < self.control_from { &mut self.data } else { &mut self.control };
        pool.push(slot);
    }
}
