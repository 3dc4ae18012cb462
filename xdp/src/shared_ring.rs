//! A ring in memory shared with the kernel (Documentation/networking/af_xdp.rst, "Rings").
//!
//! Entries, a power of two of them, and two counters that only grow, modulo 2^32. The producer writes
//! entries and then moves its counter past them; the consumer reads them and then moves its own. Each
//! of our four rings has the kernel on one side and a [`Producer`] or a [`Consumer`] on the other.
//!
//! A producer does not look how far the kernel's counter is: who uses it counts what comes back by
//! another ring. A chunk that has come back has left this ring, though the kernel may show that only
//! later, so that no more entries are ever in use than the ring has.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

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
    entries: NonNull<T>,
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

    /// The address of the entry that a counter points to.
    #[inline]
    fn entry(&self, counter: u32) -> NonNull<T> {
        // SAFETY: no more than the mask, and so inside the mapping.
        unsafe { self.entries.add((counter & self.mask) as usize) }
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
    /// A ring of `size` entries that nobody has used.
    pub(crate) fn new(memory: Mapping, layout: Layout, size: u32) -> Producer<T> {
        Producer { ring: Ring::new(memory, layout, size), written: 0, published: 0 }
    }

    /// Adds an entry, for the next [`show`](Self::show). The caller knows that the kernel has read the one
    /// that was a whole ring before.
    #[inline]
    pub(crate) fn push(&mut self, entry: T) {
        // SAFETY: the place is inside the ring. The kernel has read what was there, and does not look at
        // it again before `show`.
        unsafe { self.ring.entry(self.written).write(entry) };
        self.written = self.written.wrapping_add(1);
    }

    /// Shows the kernel what was pushed. False where that is nothing.
    #[inline]
    pub(crate) fn show(&mut self) -> bool {
        let any = self.written != self.published;
        if any {
            self.published = self.written;
            self.ring.producer().store(self.published, Ordering::Release);
        }
        any
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
    /// A ring of `size` entries that nobody has used.
    pub(crate) fn new(memory: Mapping, layout: Layout, size: u32) -> Consumer<T> {
        Consumer { ring: Ring::new(memory, layout, size), read: 0 }
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const SIZE: u32 = 4;
    const LAYOUT: Layout = Layout { producer: 0, consumer: 64, flags: 128, entries: 192 };

    fn memory() -> Mapping {
        Mapping::anonymous(LAYOUT.entries + SIZE as usize * size_of::<u64>()).unwrap()
    }

    #[test]
    fn what_is_pushed_is_shown_at_once_and_round_the_end() {
        let mut ring = Producer::<u64>::new(memory(), LAYOUT, SIZE);
        assert!(!ring.show());
        for round in 0..3_u64 {
            let before = ring.published;
            (0..3).for_each(|n| ring.push(10 * round + n));
            assert_eq!(ring.ring.producer().load(Ordering::Relaxed), before, "not published yet");
            assert!(ring.show());
            assert_eq!(ring.ring.producer().load(Ordering::Relaxed), before + 3);
            assert_eq!(ring.unread(), 3);
            for n in 0..3 {
                // SAFETY: written above, and nobody else has this memory.
                let entry = unsafe { ring.ring.entry(before + n).read() };
                assert_eq!(entry, 10 * round + u64::from(n));
            }
            ring.ring.consumer().store(before + 3, Ordering::Relaxed);
            assert_eq!(ring.unread(), 0);
        }
    }

    #[test]
    fn a_consumer_reads_what_is_there_and_no_more() {
        let mut ring = Consumer::<u64>::new(memory(), LAYOUT, SIZE);
        assert_eq!(ring.available(), 0);
        for round in 0..3 {
            let start = 3 * round;
            for n in 0..3 {
                // SAFETY: inside the ring, and nobody else has this memory.
                unsafe { ring.ring.entry(start + n).write(u64::from(start + n)) };
            }
            ring.ring.producer().store(start + 3, Ordering::Relaxed);
            assert_eq!((ring.available(), ring.peek(0), ring.peek(2)), (3, start.into(), (start + 2).into()));
            ring.release(2);
            assert_eq!((ring.available(), ring.peek(0)), (1, (start + 2).into()));
            ring.release(1);
            assert_eq!(ring.ring.consumer().load(Ordering::Relaxed), start + 3);
        }
    }

    #[test]
    fn counters_pass_the_end_of_their_range() {
        let mut out = Producer::<u64>::new(memory(), LAYOUT, SIZE);
        (out.written, out.published) = (u32::MAX, u32::MAX);
        out.ring.consumer().store(u32::MAX, Ordering::Relaxed);
        (0..2).for_each(|n| out.push(n));
        assert!(out.show());
        assert_eq!((out.ring.producer().load(Ordering::Relaxed), out.unread()), (1, 2));
        let mut into = Consumer::<u64>::new(memory(), LAYOUT, SIZE);
        into.read = u32::MAX;
        into.ring.producer().store(1, Ordering::Relaxed);
        assert_eq!(into.available(), 2);
        into.release(2);
        assert_eq!((into.available(), into.read), (0, 1));
    }

    #[test]
    fn a_kernel_that_sleeps_says_so() {
        let ring = Producer::<u64>::new(memory(), LAYOUT, SIZE);
        assert!(!ring.needs_wakeup());
        ring.ring.flags().store(libc::XDP_RING_NEED_WAKEUP, Ordering::Relaxed);
        assert!(ring.needs_wakeup());
    }

    #[test]
    #[should_panic(expected = "values at")]
    fn a_ring_that_does_not_fit_its_memory_is_refused() {
        let _ = Producer::<u64>::new(memory(), LAYOUT, 2 * SIZE);
    }
}
