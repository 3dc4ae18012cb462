//! Buffer memory: the bytes of queued frames, in cells of [`CELL`] bytes.
//!
//! Each cell belongs to the [`Store`](crate::Store) of one worker. Copies of a flooded frame share one chain of
//! cells, which is never written.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use xoff_dataplane::frame::CELL;
use xoff_flow_control::prefetch::prefetch;

use crate::mapping::Mapping;

pub(crate) const NONE: u32 = u32::MAX;

/// Cells of all workers. `links` and `sharers` hold atomics only because workers share them; only a frame's owner uses
/// its cells' entries.
#[derive(Debug)]
pub(crate) struct Cells {
    base: NonNull<u8>,
    links: Box<[AtomicU32]>,
    /// Number of frames that share a chain of cells, minus one; the index is the chain's first cell.
    sharers: Box<[AtomicU8]>,
    _memory: Mapping,
}

// SAFETY: `base` is the address of memory that lives as long as the cells. It is used only through `bytes` and
// `bytes_mut`, whose callers own the cell, and ownership of a cell passes between threads only by queues that
// synchronise.
unsafe impl Send for Cells {}
// SAFETY: as for `Send`; `&Cells` gives access to bytes only by the unsafe `bytes` and `bytes_mut`.
unsafe impl Sync for Cells {}

impl Cells {
    pub(crate) fn new(count: u32) -> io::Result<Cells> {
        let bytes = count.max(1) as usize * CELL as usize;
        let memory = Mapping::resident(bytes)?;
        let base = memory.at(0, bytes);
        let links = (0..count).map(|_| AtomicU32::new(NONE)).collect();
        let sharers = (0..count).map(|_| AtomicU8::new(0)).collect();
        Ok(Cells { base, links, sharers, _memory: memory })
    }

    #[inline]
    pub(crate) fn next(&self, cell: u32) -> u32 {
        self.links[cell as usize].load(Relaxed)
    }

    #[inline]
    pub(crate) fn link(&self, cell: u32, next: u32) {
        self.links[cell as usize].store(next, Relaxed);
    }

    pub(crate) fn share(&self, first: u32) {
        let sharers = &self.sharers[first as usize];
        let more =
            sharers.load(Relaxed).checked_add(1).expect("at most 256 frames may share one chain of cells");
        sharers.store(more, Relaxed);
    }

    #[inline]
    pub(crate) fn unshare(&self, first: u32) -> bool {
        let sharers = &self.sharers[first as usize];
        match sharers.load(Relaxed) {
            0 => true,
            more => {
                sharers.store(more - 1, Relaxed);
                false
            }
        }
    }

    pub(crate) fn is_shared(&self, first: u32) -> bool {
        self.sharers[first as usize].load(Relaxed) > 0
    }

    /// Returns the first `len` bytes of a cell.
    ///
    /// # Safety
    /// The caller must own the cell, and nobody may write the cell while the result lives.
    #[inline]
    pub(crate) unsafe fn bytes(&self, cell: u32, len: u32) -> &[u8] {
        // SAFETY: `start` checks that the bytes are inside the memory; the caller owns them.
        unsafe { std::slice::from_raw_parts(self.start(cell, len), len as usize) }
    }

    /// Returns the first `len` bytes of a cell for writing.
    ///
    /// # Safety
    /// The caller must own the cell, and nobody else may read or write the cell while the result lives.
    #[inline]
    #[allow(clippy::mut_from_ref)] // exclusive by the contract
    pub(crate) unsafe fn bytes_mut(&self, cell: u32, len: u32) -> &mut [u8] {
        // SAFETY: as for `bytes`; the contract excludes every other use.
        unsafe { std::slice::from_raw_parts_mut(self.start(cell, len), len as usize) }
    }

    #[inline]
    pub(crate) fn prefetch(&self, cell: u32) {
        let start: *const [u8; 0] = self.start(cell, 0).cast();
        // SAFETY: the pointer is not null, and a reference to an empty array accesses no memory.
        prefetch(unsafe { &*start });
    }

    #[inline]
    fn start(&self, cell: u32, len: u32) -> *mut u8 {
        assert!(
            (cell as usize) < self.links.len() && len <= CELL,
            "{len} bytes of cell {cell} are outside the buffer memory"
        );
        // SAFETY: the assertion checks that this is one of the cells that `new` has made room for.
        unsafe { self.base.as_ptr().add(cell as usize * CELL as usize) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn shared_cells_are_freed_with_their_last_frame() {
        let cells = Cells::new(2).unwrap();
        assert!(cells.unshare(1), "a chain of cells that only one frame uses must be freed with it");
        cells.share(1);
        cells.share(1);
        assert!(cells.is_shared(1) && !cells.is_shared(0));
        assert_eq!([cells.unshare(1), cells.unshare(1), cells.unshare(1)], [false, false, true]);
    }

    #[test]
    #[should_panic(expected = "are outside the buffer memory")]
    fn reading_beyond_the_buffer_memory_panics() {
        let cells = Cells::new(2).unwrap();
        // SAFETY: nobody else uses the cells.
        let _ = unsafe { cells.bytes(1, CELL + 1) };
    }
}
