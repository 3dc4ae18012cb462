//! Ring in memory shared with the kernel (Documentation/networking/af_xdp.rst, "Rings").
//!
//! Its two counters only grow, modulo 2^32. The producer writes entries, then advances its counter. The consumer reads them, then advances
//! its own.
//!
//! A producer always has a free entry, without reading the kernel's counter: its user never has more chunks out than
//! the ring has entries. A chunk is out until it comes back through another ring, and so has left this one.

use std::ptr::NonNull;

use crate::atomics::{AtomicU32, Ordering, RingEntry};
use crate::mapping::Mapping;

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

// SAFETY: the addresses are inside the mapping, which the ring keeps. Nobody else in this process knows them, so the
// ring may move to another thread.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    fn new(memory: Mapping, layout: RingLayout, size: u32) -> Ring<T> {
        assert!(size.is_power_of_two(), "the ring size must be a power of two, but is {size}");
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
        // SAFETY: `Mapping::at` has checked the address; the kernel also uses an atomic.
        unsafe { self.producer.as_ref() }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for `producer`.
        unsafe { self.consumer.as_ref() }
    }

    #[inline]
    fn flags(&self) -> &AtomicU32 {
        // SAFETY: as for `producer`.
        unsafe { self.flags.as_ref() }
    }

    #[inline]
    fn entry(&self, counter: u32) -> &RingEntry<T> {
        // SAFETY: the index is at most the mask, and so inside the mapping. A `RingEntry` is an `UnsafeCell`, which the kernel may write.
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

    /// Writes an entry. The caller must know that the kernel has read the old entry at this position.
    #[inline]
    pub(crate) fn push(&mut self, entry: T) {
        // SAFETY: the entry is inside the ring. The kernel has read its earlier content, and does not access it before
        // `publish`.
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

    #[inline]
    pub(crate) fn unread(&self) -> u32 {
        self.published.wrapping_sub(self.ring.consumer().load(Ordering::Relaxed))
    }

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

    #[inline]
    pub(crate) fn peek(&self, n: u32) -> T {
        // SAFETY: the entry is inside the ring and holds a `T`: zeros at first, then what the kernel has written, which
        // it does not change before `release`.
        unsafe { self.ring.entry(self.read.wrapping_add(n)).read() }
    }

    #[inline]
    pub(crate) fn release(&mut self, n: u32) {
        self.read = self.read.wrapping_add(n);
        self.ring.consumer().store(self.read, Ordering::Release);
    }
}
