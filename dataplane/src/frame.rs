//! Handles of frames, which move through the switch; the bytes stay in a [`FrameStore`].
//!
//! A handle cannot be copied: its owner is the only place of the frame. A dropped handle is a frame lost without a
//! reason, so debug builds panic there (the drop bomb).
//!
//! A frame occupies one of the store's numbered slots from the driver's receive until [`FrameStore::free`]. The switch
//! keeps state of frames in tables by slot, so nothing is allocated per frame.

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

    /// Sets the length after the store has moved the start.
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

/// Bytes of a buffer cell. The first holds Ethernet, two tags, a CN-TAG and 64 bytes behind them, or IPv6 and ports.
pub const CELL: u32 = 96;

/// Maximum bytes of a frame: an MTU of 9,216, the Ethernet header, two tags, and one inserted tag.
pub const FRAME_MAX: u32 = 9_216 + 14 + 3 * 4;

/// Returns the number of cells of a frame of `len` bytes.
#[inline]
#[must_use]
pub const fn cells_of(len: u32) -> u32 {
    len.div_ceil(CELL)
}

/// Storage of frames' bytes, with slots `0..capacity()`. No method allocates, blocks or makes a system call.
pub trait FrameStore {
    /// Returns the number of slots.
    fn capacity(&self) -> u32;

    /// Returns the first bytes of the frame: at least `min(len, CELL)`, contiguous; all bytes of MAC control frames, which may carry lists.
    fn head(&self, frame: &Frame) -> &[u8];

    /// Copies the first stored bytes to `into`, as many as fit. Returns their number.
    fn read(&self, frame: &Frame, into: &mut [u8]) -> usize {
        let head = self.head(frame);
        let len = head.len().min(frame.len() as usize).min(into.len());
        into[..len].copy_from_slice(&head[..len]);
        len
    }

    /// Returns the bytes of [`FrameStore::head`] for rewriting.
    fn head_mut(&mut self, frame: &Frame) -> &mut [u8];

    /// Prepares a leaving frame for changes, so that later writes do not affect its copies. Returns false if the port
    /// has no [`room`](crate::driver::Port::room).
    #[must_use]
    fn stage(&mut self, _port: PortId, _frame: &Frame) -> bool {
        true
    }

    /// Moves the start of the frame by `by` bytes and resizes the handle; negative `by` adds unspecified bytes in
    /// front. Returns false, without changes, if the slot has no room.
    fn move_start(&mut self, _frame: &mut Frame, _by: i32) -> bool {
        false
    }

    /// Copies a frame, or returns `None` if no slot is free.
    fn copy(&mut self, _frame: &Frame) -> Option<Frame> {
        None
    }

    /// Creates a frame with these bytes, or returns `None` if memory is missing.
    fn make(&mut self, _bytes: &[u8]) -> Option<Frame> {
        None
    }

    /// Creates a frame from the pool reserved for control frames, or returns `None` if all of it is in flight.
    fn control(&mut self, _bytes: &[u8]) -> Option<Frame> {
        None
    }

    /// Frees a frame and its slot.
    fn free(&mut self, frame: Frame);

    /// Prefetches the state needed when the frame in `slot` leaves ([`xoff_flow_control::prefetch`]).
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
