//! Runs `shared_ring.rs` against a model of the kernel, in every order that the memory model allows.
//!
//! Loom reports simultaneous accesses to an entry, and tries every value that a load may return on any processor.
#![allow(clippy::unwrap_used)]
#![allow(clippy::arc_with_non_send_sync)] // loom checks this

use std::sync::Arc;

use loom::thread;

use mapping::{Memory, SIZE};
use shared_ring::{Consumer, Producer, RingLayout};

#[path = "../src/shared_ring.rs"]
mod shared_ring;

mod atomics {
    pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};

    #[derive(Debug)]
    pub(crate) struct RingEntry<T>(pub(crate) loom::cell::UnsafeCell<T>);

    impl<T: Copy> RingEntry<T> {
        pub(crate) unsafe fn write(&self, entry: T) {
            // SAFETY: loom ends the test if another thread accesses the entry.
            self.0.with_mut(|place| unsafe { place.write(entry) });
        }

        pub(crate) unsafe fn read(&self) -> T {
            // SAFETY: loom ends the test if another thread writes the entry.
            self.0.with(|place| unsafe { place.read() })
        }
    }
}

mod mapping {
    use std::ptr::NonNull;
    use std::sync::Arc;

    use crate::atomics::{AtomicU32, Ordering, RingEntry};

    pub(crate) const SIZE: u32 = 2;

    #[derive(Debug)]
    pub(crate) struct Memory {
        counters: [AtomicU32; 3],
        places: [RingEntry<u64>; SIZE as usize],
    }

    #[derive(Debug)]
    pub(crate) struct Mapping(pub(crate) Arc<Memory>);

    impl Mapping {
        pub(crate) fn at<T>(&self, offset: usize, count: usize) -> NonNull<T> {
            match self.0.counters.get(offset) {
                Some(counter) => NonNull::from(counter).cast(),
                None => {
                    assert_eq!(count, self.0.places.len());
                    NonNull::from(&self.0.places[0]).cast()
                }
            }
        }
    }

    impl Memory {
        pub(crate) fn new(start: u32) -> Arc<Memory> {
            let counters = [start, start, 0].map(AtomicU32::new);
            Arc::new(Memory {
                counters,
                places: [0, 0].map(|entry| RingEntry(loom::cell::UnsafeCell::new(entry))),
            })
        }

        fn place(&self, counter: u32) -> &RingEntry<u64> {
            &self.places[(counter % SIZE) as usize]
        }

        pub(crate) fn sleeps(&self) {
            self.counters[2].store(libc::XDP_RING_NEED_WAKEUP, Ordering::Relaxed);
        }

        /// Consumes an entry, as the kernel's `xskq_cons_peek_desc` and `xskq_cons_release` do.
        pub(crate) fn take(&self) -> Option<u64> {
            let read = self.counters[1].load(Ordering::Relaxed);
            if self.counters[0].load(Ordering::Acquire) == read {
                return None;
            }
            // SAFETY: loom ends the test if the entry is not the kernel's.
            let entry = unsafe { self.place(read).read() };
            self.counters[1].store(read.wrapping_add(1), Ordering::Release);
            Some(entry)
        }

        /// Produces an entry, as the kernel's `xskq_prod_reserve_desc` and `xskq_prod_submit` do.
        pub(crate) fn put(&self, entry: u64) -> bool {
            let written = self.counters[0].load(Ordering::Relaxed);
            if written.wrapping_sub(self.counters[1].load(Ordering::Acquire)) == SIZE {
                return false;
            }
            // SAFETY: as for `take`.
            unsafe { self.place(written).write(entry) };
            self.counters[0].store(written.wrapping_add(1), Ordering::Release);
            true
        }
    }
}

const LAYOUT: RingLayout = RingLayout { producer: 0, consumer: 1, flags: 2, entries: 3 };

const LATE: u32 = u32::MAX;

fn producer(start: u32) -> (Producer<u64>, Arc<Memory>) {
    let kernel = Memory::new(start);
    (Producer::new(mapping::Mapping(Arc::clone(&kernel)), LAYOUT, SIZE), kernel)
}

fn consumer(start: u32) -> (Consumer<u64>, Arc<Memory>) {
    let kernel = Memory::new(start);
    (Consumer::new(mapping::Mapping(Arc::clone(&kernel)), LAYOUT, SIZE), kernel)
}

#[test] // proves: workers
fn kernel_reads_published_ring_entries_in_order() {
    loom::model(|| {
        let (mut ring, kernel) = producer(LATE);
        let kernel = thread::spawn(move || [kernel.take(), kernel.take()]);
        assert!(!ring.publish());
        ring.push(7);
        ring.push(8);
        assert!(ring.publish() && !ring.publish());
        let taken = kernel.join().unwrap();
        assert!([[None, None], [None, Some(7)], [Some(7), Some(8)]].contains(&taken), "{taken:?}");
    });
}

#[test]
fn kernel_reads_ring_entries_only_after_publication() {
    loom::model(|| {
        let (mut ring, kernel) = producer(0);
        ring.push(7);
        assert_eq!((kernel.take(), ring.unread()), (None, 0));
        assert!(ring.publish());
        assert_eq!((ring.unread(), kernel.take(), ring.unread()), (1, Some(7), 0));
    });
}

#[test] // proves: workers
fn consumer_reads_every_entry_that_the_kernel_produced() {
    loom::model(|| {
        let (mut ring, kernel) = consumer(LATE);
        let kernel = thread::spawn(move || (1..=3).filter(|&entry| kernel.put(entry)).collect::<Vec<_>>());
        let mut read = Vec::new();
        for _ in 0..2 {
            let available = ring.available();
            assert!(available <= SIZE);
            read.extend((0..available).map(|n| ring.peek(n)));
            ring.release(available);
        }
        let put = kernel.join().unwrap();
        read.extend((0..ring.available()).map(|n| ring.peek(n)));
        assert_eq!(read, put);
    });
}

#[test]
fn kernel_fills_ring_entries_only_after_their_release() {
    loom::model(|| {
        let (mut ring, kernel) = consumer(0);
        assert!(kernel.put(7) && kernel.put(8) && !kernel.put(9));
        assert_eq!((ring.available(), ring.peek(0), ring.peek(1)), (2, 7, 8));
        ring.release(1);
        assert_eq!((ring.available(), ring.peek(0)), (1, 8));
        assert!(kernel.put(9));
    });
}

#[test] // proves: workers
fn ring_entry_is_free_again_after_its_chunk_returned() {
    loom::model(|| {
        let (mut fill, kernel_fill) = producer(0);
        let (mut rx, kernel_rx) = consumer(0);
        let kernel = thread::spawn(move || {
            for _ in 0..3 {
                if let Some(chunk) = kernel_fill.take() {
                    assert!(kernel_rx.put(chunk), "the RX ring must have room for every chunk");
                }
            }
        });
        fill.push(1);
        fill.push(2);
        fill.publish();
        for _ in 0..2 {
            let back = rx.available();
            (0..back).for_each(|n| fill.push(rx.peek(n)));
            rx.release(back);
            fill.publish();
        }
        kernel.join().unwrap();
    });
}

#[test]
fn producer_reads_wakeup_flag_of_sleeping_kernel() {
    loom::model(|| {
        let (ring, kernel) = producer(0);
        assert!(!ring.needs_wakeup());
        kernel.sleeps();
        assert!(ring.needs_wakeup());
    });
}
