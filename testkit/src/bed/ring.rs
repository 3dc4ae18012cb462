//! A port over plain memory, as its driver has it, and the wire that it sends by.

use std::collections::VecDeque;

use xoff_dataplane::driver::Port;
use xoff_dataplane::frame::Frame;

use super::store::MemoryStore;

/// A port over memory. Frames on their way in and out wait here, until the driver looks, or the wire takes them.
#[derive(Debug, Default)]
pub struct Ring {
    /// Frames that the driver has not received yet.
    pub arrived: VecDeque<Vec<u8>>,
    /// Frames that the wire is yet to carry.
    pub committed: VecDeque<Frame>,
    left: VecDeque<Frame>,
    /// Frames that have left, of which the driver is told later.
    withheld: VecDeque<Frame>,
    /// Frames that came when the store had no slot.
    pub never_seen: u64,
}

impl Ring {
    /// With room for so many frames before it allocates.
    #[must_use]
    pub fn with_capacity(frames: usize) -> Ring {
        let [committed, left, withheld] = std::array::from_fn(|_| VecDeque::with_capacity(frames));
        Ring { arrived: VecDeque::with_capacity(frames), committed, left, withheld, never_seen: 0 }
    }

    /// The wire has carried the next frame; the driver is told at once unless it `is_late`.
    pub fn leave(&mut self, is_late: bool) {
        let frame = self.committed.pop_front().expect("a frame was on the wire");
        if is_late { self.withheld.push_back(frame) } else { self.left.push_back(frame) }
    }

    /// The driver is told of all frames that have left.
    pub fn hear(&mut self) {
        self.left.append(&mut self.withheld);
    }

    /// Frames that the driver has sent, and was not told have left.
    #[must_use]
    pub fn frames_out(&self) -> usize {
        self.committed.len() + self.left.len() + self.withheld.len()
    }

    /// Whether something has happened that the driver is told of at its next look.
    pub fn has_unseen(&self) -> bool {
        !self.arrived.is_empty() || !self.left.is_empty()
    }

    /// Whether something has happened that the driver is told of later.
    pub fn has_withheld(&self) -> bool {
        !self.withheld.is_empty()
    }
}

impl Port<MemoryStore> for Ring {
    fn reap(&mut self, store: &mut MemoryStore, mut sent: impl FnMut(&mut MemoryStore, Frame)) {
        while let Some(frame) = self.left.pop_front() {
            sent(store, frame);
        }
    }

    fn receive(
        &mut self,
        store: &mut MemoryStore,
        budget: u32,
        mut each: impl FnMut(&mut MemoryStore, Frame),
    ) -> u32 {
        let mut taken = 0;
        while taken < budget
            && let Some(bytes) = self.arrived.pop_front()
        {
            match store.fill(&bytes) {
                Some(frame) => each(store, frame),
                None => self.never_seen += 1,
            }
            taken += 1;
        }
        taken
    }

    fn room(&self) -> u32 {
        u32::MAX
    }

    fn send(&mut self, _: &mut MemoryStore, frame: Frame) -> Result<(), Frame> {
        self.committed.push_back(frame);
        Ok(())
    }

    fn in_flight(&self) -> bool {
        self.frames_out() > 0
    }
}

/// A test may end while frames are on their way: these handles are not lost.
impl Drop for Ring {
    fn drop(&mut self) {
        let frames = [&mut self.committed, &mut self.left, &mut self.withheld].into_iter();
        frames.flat_map(|frames| frames.drain(..)).for_each(|frame| _ = frame.into_parts());
    }
}
