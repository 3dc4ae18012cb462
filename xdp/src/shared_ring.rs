//! A ring in memory shared with the kernel (Documentation/networking/af_xdp.rst, "Rings").
//!
//! Its two counters only grow, modulo 2^32. The producer writes entries and then moves its counter past them. The
//! consumer reads them and then moves its own.
//!
//! A producer does not read the kernel's counter: its user counts the chunks that return by another ring. A returned
//! chunk has left this ring, though the kernel may report that later. Therefore no more entries are ever in use than
//! the ring has.
//!
//! `tests/rings.rs` runs this file against a kernel in every order that the memory model allows.

use std::ptr::NonNull;

use crate::atomics::{AtomicU32, Ordering, RingEntry};
use crate::mapping::Mapping;

/// Offsets in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingLayout {
    pub(crate) producer: usize,
    pub(crate) consumer: usize,
    pub(crate) flags: usize,
    pub(crate) entries: usize,
}

#[derive(Debug)]
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<RingEntry<T>>,
    mask: u32,
    _memory: Mapping,
}

// SAFETY: the addresses are those of the mapping, which the ring keeps; nobody else in this process knows them, so
// that it may move to another thread.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// Creates a ring; `size` is a power of two.
    fn new(memory: Mapping, layout: RingLayout, size: u32) -> Ring<T> {
        assert!(size.is_power_of_two(), "a ring of {size} entries");
        Ring {
            producer: memory.at(layout.producer, 1),
            consumer: memory.at(layout.consumer, 1),
            flags: memory.at(layout.flags, 1),
            entries: memory.at(layout.entries, size as usize),
            mask: size - 1,
            _memory: memory,
        }
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: inside the mapping and aligned, as `Mapping::at` has checked; the kernel uses it as an atomic, too.
        unsafe { self.producer.as_ref() }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: inside the mapping and aligned, as for `producer`.
        unsafe { self.consumer.as_ref() }
    }

    #[inline]
    fn flags(&self) -> &AtomicU32 {
        // SAFETY: inside the mapping and aligned, as for `producer`.
        unsafe { self.flags.as_ref() }
    }

    #[inline]
    fn entry(&self, counter: u32) -> &RingEntry<T> {
        // SAFETY: the index is at most the mask, and so inside the mapping; a place is shared with the kernel.
        unsafe { self.entries.add((counter & self.mask) as usize).as_ref() }
    }
}

#[derive(Debug)]
pub(crate) struct Producer<T> {
    ring: Ring<T>,
    written: u32,
    published: u32,
}

impl<T: Copy> Producer<T> {
    pub(crate) fn new(memory: Mapping, layout: RingLayout, size: u32) -> Producer<T> {
        let ring = Ring::new(memory, layout, size);
        let start = ring.producer().load(Ordering::Relaxed);
        Producer { ring, written: start, published: start }
    }

    /// Adds an entry. The caller knows that the kernel has read the earlier entry in this place.
    #[inline]
    pub(crate) fn push(&mut self, entry: T) {
        // SAFETY: the place is inside the ring. The kernel has read its earlier entry, and does not access it again
        // before `publish`.
        unsafe { self.ring.entry(self.written).write(entry) };
        self.written = self.written.wrapping_add(1);
    }

    #[inline]
    pub(crate) fn publish(&mut self) -> bool {
        let is_more = self.written != self.published;
        if is_more {
            self.published = self.written;
            self.ring.producer().store(self.published, Ordering::Release);
        }
        is_more
    }

    /// Returns the published entries that the kernel has not reported as read.
    #[inline]
    pub(crate) fn unread(&self) -> u32 {
        self.published.wrapping_sub(self.ring.consumer().load(Ordering::Relaxed))
    }

    /// Returns true if the kernel checks the ring only after a wakeup.
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.ring.flags().load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

#[derive(Debug)]
pub(crate) struct Consumer<T> {
    ring: Ring<T>,
    read: u32,
}

impl<T: Copy> Consumer<T> {
    pub(crate) fn new(memory: Mapping, layout: RingLayout, size: u32) -> Consumer<T> {
        let ring = Ring::new(memory, layout, size);
        let read = ring.consumer().load(Ordering::Relaxed);
        Consumer { ring, read }
    }

    #[inline]
    pub(crate) fn available(&self) -> u32 {
        self.ring.producer().load(Ordering::Acquire).wrapping_sub(self.read)
    }

    /// Returns one of the [`available`](Self::available) entries.
    #[inline]
    pub(crate) fn peek(&self, n: u32) -> T {
        // SAFETY: the place is inside the ring, and holds a `T`: zeros at first, then an entry that the kernel has
        // written, which it does not change before `release`.
        unsafe { self.ring.entry(self.read.wrapping_add(n)).read() }
    }

    #[inline]
    pub(crate) fn release(&mut self, n: u32) {
        self.read = self.read.wrapping_add(n);
        self.ring.consumer().store(self.read, Ordering::Release);
    }
}
