//! A ring in memory shared with the kernel (Documentation/networking/af_xdp.rst, "Rings").
//!
//! Entries, a power of two of them, and two counters that only grow, modulo 2^32. The producer writes
//! entries and then moves its counter past them; the consumer reads them and then moves its own. Each
//! of our four rings has the kernel on one side and a [`Producer`] or a [`Consumer`] on the other.
//!
//! A producer does not look how far the kernel's counter is: who uses it counts what comes back by
//! another ring. A chunk that has come back has left this ring, though the kernel may say so only
//! later, so that no more entries are ever in use than the ring has.
//!
//! `tests/rings.rs` runs this file against a kernel in every order that the memory model allows.

use std::ptr::NonNull;

use crate::atomics::{AtomicU32, Ordering, Place};
use crate::mapping::Mapping;

/// Where the parts of a ring are, in bytes from the start of its memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) producer: usize,
    pub(crate) consumer: usize,
    pub(crate) flags: usize,
    pub(crate) entries: usize,
}

/// The memory of a ring.
#[derive(Debug)]
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<Place<T>>,
    mask: u32,
    /// What the addresses above are in.
    _memory: Mapping,
}

// SAFETY: the addresses are those of the mapping, which the ring keeps; nobody else in this process knows
// them, so that it may move to another thread.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// `size` entries; a power of two.
    fn new(memory: Mapping, layout: Layout, size: u32) -> Ring<T> {
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
        // SAFETY: inside the mapping and aligned, as `Mapping::at` has checked; the kernel uses it as an
        // atomic, too.
        unsafe { self.producer.as_ref() }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.consumer.as_ref() }
    }

    #[inline]
    fn flags(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.flags.as_ref() }
    }

    /// The place of the entry that a counter points to.
    #[inline]
    fn entry(&self, counter: u32) -> &Place<T> {
        // SAFETY: no more than the mask, and so inside the mapping; a place is shared with the kernel.
        unsafe { self.entries.add((counter & self.mask) as usize).as_ref() }
    }
}

/// Our side of a ring that the kernel empties.
#[derive(Debug)]
pub(crate) struct Producer<T> {
    ring: Ring<T>,
    written: u32,
    published: u32,
}

impl<T: Copy> Producer<T> {
    /// A ring of `size` entries that nobody uses.
    pub(crate) fn new(memory: Mapping, layout: Layout, size: u32) -> Producer<T> {
        let ring = Ring::new(memory, layout, size);
        let start = ring.producer().load(Ordering::Relaxed);
        Producer { ring, written: start, published: start }
    }

    /// Adds an entry, for the next [`publish`](Self::publish). The caller knows that the kernel has read the one
    /// that was a whole ring before.
    #[inline]
    pub(crate) fn push(&mut self, entry: T) {
        // SAFETY: the place is inside the ring. The kernel has read what was there, and does not look at
        // it again before `publish`.
        unsafe { self.ring.entry(self.written).write(entry) };
        self.written = self.written.wrapping_add(1);
    }

    /// Gives the kernel what was pushed. False where that is nothing.
    #[inline]
    pub(crate) fn publish(&mut self) -> bool {
        let is_more = self.written != self.published;
        if is_more {
            self.published = self.written;
            self.ring.producer().store(self.published, Ordering::Release);
        }
        is_more
    }

    /// Entries published that the kernel does not say to have read.
    #[inline]
    pub(crate) fn unread(&self) -> u32 {
        self.published.wrapping_sub(self.ring.consumer().load(Ordering::Relaxed))
    }

    /// Whether the kernel looks at the ring only when it is told to.
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.ring.flags().load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

/// Our side of a ring that the kernel fills.
#[derive(Debug)]
pub(crate) struct Consumer<T> {
    ring: Ring<T>,
    read: u32,
}

impl<T: Copy> Consumer<T> {
    /// A ring of `size` entries that nobody uses.
    pub(crate) fn new(memory: Mapping, layout: Layout, size: u32) -> Consumer<T> {
        let ring = Ring::new(memory, layout, size);
        let read = ring.consumer().load(Ordering::Relaxed);
        Consumer { ring, read }
    }

    /// How many entries there are.
    #[inline]
    pub(crate) fn available(&self) -> u32 {
        self.ring.producer().load(Ordering::Acquire).wrapping_sub(self.read)
    }

    /// Entry number `n` of those that [`available`](Self::available) has counted.
    #[inline]
    pub(crate) fn peek(&self, n: u32) -> T {
        // SAFETY: the place is inside the ring, and holds a `T`: zeros at first, then what the kernel has
        // written, which it does not change before `release`.
        unsafe { self.ring.entry(self.read.wrapping_add(n)).read() }
    }

    /// Gives the places of the first `n` entries back to the kernel.
    #[inline]
    pub(crate) fn release(&mut self, n: u32) {
        self.read = self.read.wrapping_add(n);
        self.ring.consumer().store(self.read, Ordering::Release);
    }
}
