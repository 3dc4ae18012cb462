//! Port of a switch in the test bed: queues in memory, and the frames on the port's wire.

use std::collections::VecDeque;

use xoff_dataplane::driver::Port;
use xoff_dataplane::frame::Frame;

use super::store::MemoryStore;

/// Port in memory, without a device.
#[derive(Debug, Default)]
pub struct Ring {
    /// Frames that have arrived, but that the driver has not yet received.
    pub arrived: VecDeque<Vec<u8>>,
    /// Frames passed to the port, but not yet sent.
    pub committed: VecDeque<Frame>,
    left: VecDeque<Frame>,
    withheld: VecDeque<Frame>,
    /// Number of frames that were lost because no slot was free.
    pub unreceived_frames: u64,
}

impl Ring {
    /// Creates a port with memory for `frames` frames in each of its queues.
    #[must_use]
    pub fn with_capacity(frames: usize) -> Ring {
        let [committed, left, withheld] = std::array::from_fn(|_| VecDeque::with_capacity(frames));
        Ring { arrived: VecDeque::with_capacity(frames), committed, left, withheld, unreceived_frames: 0 }
    }

    /// Records that the next frame has left. The driver sees its completion at once, unless `is_late`.
    pub fn leave(&mut self, is_late: bool) {
        let frame = self.committed.pop_front().expect("a frame must be on the wire");
        if is_late { self.withheld.push_back(frame) } else { self.left.push_back(frame) }
    }

    /// Makes delayed completions visible to the driver.
    pub fn hear(&mut self) {
        self.left.append(&mut self.withheld);
    }

    /// Returns the number of frames whose completion the driver has not yet seen.
    #[must_use]
    pub fn frames_out(&self) -> usize {
        self.committed.len() + self.left.len() + self.withheld.len()
    }

    /// Returns whether the next poll will find a frame or a completion.
    pub fn has_unseen(&self) -> bool {
        !self.arrived.is_empty() || !self.left.is_empty()
    }

    /// Returns whether completions are delayed.
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
                None => self.unreceived_frames += 1,
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

impl Drop for Ring {
    fn drop(&mut self) {
        // Take the frame handles apart, because dropping a handle panics.
        let frames = [&mut self.committed, &mut self.left, &mut self.withheld].into_iter();
        frames.flat_map(|frames| frames.drain(..)).for_each(|frame| _ = frame.into_parts());
    }
}
