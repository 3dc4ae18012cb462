//! Handles of frames, whose bytes stay in a [`FrameStore`].
//!
//! A handle cannot be copied, because a frame is in one place only. Debug builds panic if a handle is dropped,
//! because its frame is then lost. A frame keeps its slot from receipt to release.

use std::mem;

use xoff_wire::units::PortId;

/// Handle of a frame: slot and length.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a dropped handle loses its frame: deliver, queue or free the frame"]
pub struct Frame {
    slot: u32,
    len: u32,
}

impl Frame {
    /// Creates the handle of a frame of `len` bytes (without FCS). Only the store that filled the slot may call this.
    pub const fn new(slot: u32, len: u32) -> Frame {
        Frame { slot, len }
    }

    /// Returns the frame's slot.
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

    /// Sets the length in bytes (without FCS) after the store moved the frame's start.
    pub const fn resize(&mut self, len: u32) {
        self.len = len;
    }

    /// Returns slot and length, for a caller that itself tracks the slot's use.
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

/// Bytes of a buffer cell, which holds the headers of a frame with two tags and a CN-TAG.
pub const CELL: u32 = 96;

/// Maximum bytes of a frame: MTU of 9,216, Ethernet header, and three tags.
pub const FRAME_MAX: u32 = 9_216 + 14 + 3 * 4;

/// Returns how many buffer cells a frame of `len` bytes takes.
#[inline]
#[must_use]
pub const fn cells_of(len: u32) -> u32 {
    len.div_ceil(CELL)
}

/// Memory of frames, in slots `0..capacity()`. No method allocates, blocks or makes a system call.
#[allow(missing_docs)]
pub trait FrameStore {
    fn capacity(&self) -> u32;

    /// Returns the start of the frame as one slice: `min(len, CELL)` bytes or more; all bytes of a MAC control frame.
    fn head(&self, frame: &Frame) -> &[u8];

    /// Copies the frame's stored bytes, as many as fit, into `into`. Returns their number.
    fn read(&self, frame: &Frame, into: &mut [u8]) -> usize {
        let head = self.head(frame);
        let len = head.len().min(frame.len() as usize).min(into.len());
        into[..len].copy_from_slice(&head[..len]);
        len
    }

    fn head_mut(&mut self, frame: &Frame) -> &mut [u8];

    /// Moves a leaving frame to the port's transmit memory, so that rewriting changes no copy in another queue. Returns
    /// false if that memory is full.
    #[must_use]
    fn stage(&mut self, _port: PortId, _frame: &Frame) -> bool {
        true
    }

    /// Moves the frame's start by `by` bytes and adjusts its length. Returns false, without a change, if the slot is
    /// too small.
    fn move_start(&mut self, _frame: &mut Frame, _by: i32) -> bool {
        false
    }

    /// Copies a frame; `None` without a free slot.
    fn copy(&mut self, _frame: &Frame) -> Option<Frame> {
        None
    }

    /// Creates a frame; `None` without free memory.
    fn make(&mut self, _bytes: &[u8]) -> Option<Frame> {
        None
    }

    /// Creates a control frame from a separate pool; `None` if all its frames are in flight.
    fn control(&mut self, _bytes: &[u8]) -> Option<Frame> {
        None
    }

    fn free(&mut self, frame: Frame);

    /// Prefetches the data that the switch needs when the frame in `slot` leaves ([`xoff_flow_control::prefetch`]).
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
    fn frame_handle_dropped_without_release_panics() {
        drop(Frame::new(7, 64));
    }
}
