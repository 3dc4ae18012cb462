//! A frame is known by an 8-byte handle that moves through the switch; its bytes stay where the
//! driver put them.
//!
//! The handle cannot be copied: whoever has it is where the frame is, and a frame is in exactly one
//! place. A handle that goes out of scope is a frame lost without a reason, so debug builds panic
//! there (the drop bomb) and tests find the line.
//!
//! The bytes belong to a [`FrameStore`]: packet and buffer memory over AF_XDP, a header and a length in the
//! simulator. A store has a fixed number of slots, numbered from zero, and a frame occupies one
//! slot number from the driver's receive until [`FrameStore::free`]; the switch keeps what it
//! knows of a frame in tables by slot, so nothing is allocated per frame.

use std::mem;

use xoff_wire::units::PortId;

/// A frame in the switch: the slot that it occupies, and its length.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a frame is delivered, queued, or freed for a named reason"]
pub struct Frame {
    slot: u32,
    len: u32,
}

impl Frame {
    /// The handle for the frame of `len` bytes (without FCS) in `slot`. Only a store makes one, once
    /// for each time that the slot is filled.
    pub const fn new(slot: u32, len: u32) -> Frame {
        Frame { slot, len }
    }

    /// The slot that the frame occupies.
    #[must_use]
    pub const fn slot(&self) -> u32 {
        self.slot
    }

    /// Length in bytes, without FCS.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // an empty frame does not exist
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// The same frame after its store has made it longer or shorter.
    pub const fn resize(&mut self, len: u32) {
        self.len = len;
    }

    /// Gives the handle up: the store (or a queue by slot) remembers the frame from here on.
    pub const fn into_parts(self) -> (u32, u32) {
        let parts = (self.slot, self.len);
        mem::forget(self);
        parts
    }
}

#[cfg(debug_assertions)]
impl Drop for Frame {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("frame in slot {} was lost: neither sent nor freed", self.slot);
        }
    }
}

/// Bytes of a buffer cell: a frame that waits takes as many as it needs. The first one holds all that
/// [`FrameStore::head`] promises: Ethernet, two tags, a CN-TAG and 64 bytes behind them, or IPv6 and ports.
pub const CELL: u32 = 96;

/// Maximum bytes of a frame: an MTU of 9,216, Ethernet's header, two tags, and one more that was put in.
pub const FRAME_MAX: u32 = 9_216 + 14 + 3 * 4;

/// Returns how many cells a frame of `len` bytes takes.
#[inline]
#[must_use]
pub const fn cells_of(len: u32) -> u32 {
    len.div_ceil(CELL)
}

/// Where the bytes of frames are.
///
/// Slots are numbered `0..capacity()`. No method allocates, blocks or makes a system call. The methods that a store
/// does not define are those of one with no room beside its frames and no free slot.
pub trait FrameStore {
    /// How many slots there are.
    fn capacity(&self) -> u32;

    /// The first bytes of the frame: at least `min(len, CELL)` of them, contiguous; of MAC control, which
    /// may carry lists, all of them.
    fn head(&self, frame: &Frame) -> &[u8];

    /// Copies the first bytes of the frame to `into`, as many as fit and are kept, and says how many these were.
    fn read(&self, frame: &Frame, into: &mut [u8]) -> usize {
        let head = self.head(frame);
        let len = head.len().min(frame.len() as usize).min(into.len());
        into[..len].copy_from_slice(&head[..len]);
        len
    }

    /// The same bytes, to be rewritten.
    fn head_mut(&mut self, frame: &Frame) -> &mut [u8];

    /// Readies a frame that is about to leave by `port` to be changed: whatever is written to it from now on, no copy of it has. False
    /// where the port has no room for it, which a driver's [`room`](crate::driver::Port::room) rules out.
    #[must_use]
    fn stage(&mut self, _port: PortId, _frame: &Frame) -> bool {
        true
    }

    /// Moves the start of the frame by `by` bytes, forwards (positive: cut off at the front) or
    /// backwards (negative: room for a tag, contents unspecified), and resizes the handle. False,
    /// and nothing done, where the slot has no such room.
    fn move_start(&mut self, _frame: &mut Frame, _by: i32) -> bool {
        false
    }

    /// A copy in a slot of its own, for flooding. `None` when no slot is free.
    fn copy(&mut self, _frame: &Frame) -> Option<Frame> {
        None
    }

    /// A frame with these bytes, in a slot of its own. `None` where memory is missing.
    fn make(&mut self, _bytes: &[u8]) -> Option<Frame> {
        None
    }

    /// A frame with these bytes from the pool reserved for control frames. `None` when all of
    /// that pool is in flight.
    fn control(&mut self, _bytes: &[u8]) -> Option<Frame> {
        None
    }

    /// Takes a frame back; its slot may be used again.
    fn free(&mut self, frame: Frame);

    /// The frame in `slot` leaves soon: what the store needs for that is brought near ([`xoff_flow_control::prefetch`]).
    #[inline]
    fn leaves_soon(&self, slot: u32) {
        let _ = slot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_eight_bytes() {
        assert_eq!(mem::size_of::<Frame>(), 8);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "was lost")]
    fn a_lost_handle_panics() {
        drop(Frame::new(7, 64));
    }
}
