//! Frames are represented by 8-byte handles that move through the switch; their bytes stay where the driver put them.
//!
//! A handle cannot be copied: its owner is the only place of the frame. A handle that goes out of scope is a frame
//! lost without a reason, so debug builds panic there (the drop bomb).
//!
//! The bytes belong to a [`FrameStore`]: packet and buffer memory over AF_XDP, a header and a length in the
//! simulator. A store has a fixed number of slots, numbered from zero. A frame occupies one slot from the driver's
//! receive until [`FrameStore::free`]. The switch keeps state of frames in tables by slot, so nothing is allocated
//! per frame.

use std::mem;

use xoff_wire::units::PortId;

/// Frame in the switch: its slot and its length.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a frame is delivered, queued, or freed for a named reason"]
pub struct Frame {
    slot: u32,
    len: u32,
}

impl Frame {
    /// Creates the handle of the frame of `len` bytes (without FCS) in `slot`. Only a store calls it, once each time
    /// that the slot is filled.
    pub const fn new(slot: u32, len: u32) -> Frame {
        Frame { slot, len }
    }

    /// Returns the slot of the frame.
    #[must_use]
    pub const fn slot(&self) -> u32 {
        self.slot
    }

    /// Returns the length in bytes, without FCS.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // an empty frame does not exist
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Sets the length after the store has extended or shortened the frame.
    pub const fn resize(&mut self, len: u32) {
        self.len = len;
    }

    /// Consumes the handle; the store, or a queue by slot, keeps the frame.
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

/// Bytes of a buffer cell; a queued frame takes as many cells as it needs. The first holds all that
/// [`FrameStore::head`] promises: Ethernet, two tags, a CN-TAG and 64 bytes behind them, or IPv6 and ports.
pub const CELL: u32 = 96;

/// Maximum bytes of a frame: an MTU of 9,216, the Ethernet header, two tags, and one inserted tag.
pub const FRAME_MAX: u32 = 9_216 + 14 + 3 * 4;

/// Returns the number of cells of a frame of `len` bytes.
#[inline]
#[must_use]
pub const fn cells_of(len: u32) -> u32 {
    len.div_ceil(CELL)
}

/// Storage of frames' bytes.
///
/// Slots are numbered `0..capacity()`. No method allocates, blocks or makes a system call. The default methods are
/// those of a store without free slots and without room beside its frames.
pub trait FrameStore {
    /// Returns the number of slots.
    fn capacity(&self) -> u32;

    /// Returns the first bytes of the frame: at least `min(len, CELL)`, contiguous; all bytes of MAC control frames,
    /// which may carry lists.
    fn head(&self, frame: &Frame) -> &[u8];

    /// Copies the first bytes of the frame to `into`, as many as fit and are stored. Returns their number.
    fn read(&self, frame: &Frame, into: &mut [u8]) -> usize {
        let head = self.head(frame);
        let len = head.len().min(frame.len() as usize).min(into.len());
        into[..len].copy_from_slice(&head[..len]);
        len
    }

    /// Returns the bytes of [`FrameStore::head`] for rewriting.
    fn head_mut(&mut self, frame: &Frame) -> &mut [u8];

    /// Prepares a frame that is about to leave by `port` for changes, so that later writes do not affect its copies.
    /// Returns false if the port has no room, which the [`room`](crate::driver::Port::room) of a driver rules out.
    #[must_use]
    fn stage(&mut self, _port: PortId, _frame: &Frame) -> bool {
        true
    }

    /// Moves the start of the frame by `by` bytes and resizes the handle: forwards (positive) cuts off the front,
    /// backwards (negative) adds unspecified bytes for a tag. Returns false, without changes, if the slot has no
    /// room.
    fn move_start(&mut self, _frame: &mut Frame, _by: i32) -> bool {
        false
    }

    /// Copies a frame into a slot of its own, for flooding. Returns `None` if no slot is free.
    fn copy(&mut self, _frame: &Frame) -> Option<Frame> {
        None
    }

    /// Creates a frame with these bytes in a slot of its own. Returns `None` if memory is missing.
    fn make(&mut self, _bytes: &[u8]) -> Option<Frame> {
        None
    }

    /// Creates a frame with these bytes from the pool reserved for control frames. Returns `None` if all of that pool
    /// is in flight.
    fn control(&mut self, _bytes: &[u8]) -> Option<Frame> {
        None
    }

    /// Frees a frame and its slot.
    fn free(&mut self, frame: Frame);

    /// Prefetches the state that the store needs when the frame in `slot` leaves ([`xoff_flow_control::prefetch`]).
    #[inline]
    fn leaves_soon(&self, slot: u32) {
        let _ = slot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_handle_is_eight_bytes() {
        assert_eq!(mem::size_of::<Frame>(), 8);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "was lost")]
    fn lost_frame_handle_panics() {
        drop(Frame::new(7, 64));
    }
}
