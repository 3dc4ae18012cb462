//! What is shared with the kernel without a lock: counters, and the entries that they guard.
//!
//! A module of its own so that a test can put another in its place, one that knows of every access.

use std::cell::UnsafeCell;
pub(crate) use std::sync::atomic::{AtomicU32, Ordering};

/// A place of a ring, which belongs to one side at a time.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Place<T>(UnsafeCell<T>);

impl<T: Copy> Place<T> {
    /// # Safety
    /// The place is this side's.
    #[inline]
    pub(crate) unsafe fn write(&self, entry: T) {
        // SAFETY: nobody else reads or writes it, as the caller knows.
        unsafe { self.0.get().write(entry) };
    }

    /// # Safety
    /// The place is this side's.
    #[inline]
    pub(crate) unsafe fn read(&self) -> T {
        // SAFETY: nobody else writes it, as the caller knows.
        unsafe { self.0.get().read() }
    }
}
