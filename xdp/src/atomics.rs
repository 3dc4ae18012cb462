//! Memory shared with the kernel without a lock. `tests/rings.rs` replaces this module by one that tracks all
//! accesses.

use std::cell::UnsafeCell;
pub(crate) use std::sync::atomic::{AtomicU32, Ordering};

/// Ring entry. Only one side may access it at a time: this process or the kernel.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct RingEntry<T>(UnsafeCell<T>);

impl<T: Copy> RingEntry<T> {
    /// Writes the entry.
    ///
    /// # Safety
    /// The entry must belong to this process.
    #[inline]
    pub(crate) unsafe fn write(&self, entry: T) {
        // SAFETY: nobody else accesses the entry, by the caller's contract.
        unsafe { self.0.get().write(entry) };
    }

    /// Reads the entry.
    ///
    /// # Safety
    /// The entry must belong to this process.
    #[inline]
    pub(crate) unsafe fn read(&self) -> T {
        // SAFETY: nobody else writes the entry, by the caller's contract.
        unsafe { self.0.get().read() }
    }
}
