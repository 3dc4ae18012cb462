//! Memory shared with the kernel without a lock. A test replaces this module by one that tracks all accesses.

use std::cell::UnsafeCell;
pub(crate) use std::sync::atomic::{AtomicU32, Ordering};

/// An entry of a ring, which belongs to one side at a time.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct RingEntry<T>(UnsafeCell<T>);

impl<T: Copy> RingEntry<T> {
    /// # Safety
    /// The entry belongs to this side.
    #[inline]
    pub(crate) unsafe fn write(&self, entry: T) {
        // SAFETY: nobody else reads or writes it, by the caller's contract.
        unsafe { self.0.get().write(entry) };
    }

    /// # Safety
    /// The entry belongs to this side.
    #[inline]
    pub(crate) unsafe fn read(&self) -> T {
        // SAFETY: nobody else writes it, by the caller's contract.
        unsafe { self.0.get().read() }
    }
}
