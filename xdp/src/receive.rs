//! The receiving half of a socket: chunks go to the kernel by the fill ring and come back filled.
//!
//! A fixed number of chunks is out, no more than either ring has entries: as many as there are frames
//! that can arrive while the worker is stalled. So the RX ring never overflows, the fill ring has room for
//! what is given to it, and what one queue holds of a worker's share is known beforehand.

use std::sync::Arc;

use xoff_dataplane::counter::Counter;
use xoff_dataplane::frame::{Frame, FrameStore};

use crate::ring::{Descriptor, FillRing, RxRing};
use crate::store::{Chain, Store};

/// Chunks that are worth refilling the ring for.
const REFILL: u32 = 64;

/// A received frame's bytes are in another core's cache: they are asked for so many frames before they
/// are looked at.
const AHEAD: u32 = 8;

/// The first bytes of a frame that must be in one piece, as [`FrameStore::head`] promises.
const HEAD: u32 = 128;

/// The receiving half of one socket.
#[derive(Debug)]
pub(crate) struct Receiver<R, F> {
    rx: R,
    fill: F,
    /// The number by which chunks are lent to this socket.
    number: u32,
    /// Most chunks out at a time.
    size: u32,
    /// Chunks with the kernel or in the RX ring.
    out: u32,
    assembly: Assembly,
}

impl<R: RxRing, F: FillRing> Receiver<R, F> {
    /// `size`: most chunks out at a time; neither ring is smaller. `number`: no other socket on the same memory has it.
    pub(crate) fn new(rx: R, fill: F, size: u32, number: u32) -> Receiver<R, F> {
        Receiver { rx, fill, number, size, out: 0, assembly: Assembly::default() }
    }

    /// The kernel looks at the rings no more, and all that it received is taken: drops what was to become a frame.
    #[cold]
    pub(crate) fn end(&mut self, store: &mut Store) {
        if let Some(begun) = self.assembly.partial.take() {
            store.free(begun.finish());
        }
        (self.out, self.size) = (0, 0);
    }

    /// The RX ring.
    pub(crate) fn rx(&self) -> &R {
        &self.rx
    }

    /// Chunks with the kernel or in the RX ring.
    pub(crate) fn out(&self) -> u32 {
        self.out
    }

    /// Frames dropped because the kernel did not lay them out as it promises.
    pub(crate) fn malformed(&self) -> Arc<Counter> {
        Arc::clone(&self.assembly.malformed)
    }

    /// Tops the fill ring up; waits until a batch is worth it, unless the kernel may run dry.
    #[inline]
    pub(crate) fn refill(&mut self, store: &mut Store) {
        if self.size - self.out >= REFILL.min(self.size / 4).max(1) {
            while self.out < self.size
                && let Some(slot) = store.lend(self.number)
            {
                self.fill.push(slot);
                self.out += 1;
            }
            self.fill.submit();
        }
    }

    /// Calls `each` with received frames, of at most `budget` descriptors; says how many descriptors
    /// there were.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        store: &mut Store,
        budget: u32,
        mut each: impl FnMut(&mut Store, Frame),
    ) -> u32 {
        let n = self.rx.available().min(budget);
        (0..n.min(AHEAD)).for_each(|at| store.prefetch(self.rx.peek(at).slot));
        for at in 0..n {
            if at + AHEAD < n {
                store.prefetch(self.rx.peek(at + AHEAD).slot);
            }
            if let Some(frame) = self.assembly.add(store, self.rx.peek(at)) {
                each(store, frame);
            }
        }
        self.rx.release(n);
        self.out -= n;
        n
    }
}

/// Makes frames of chunks.
#[derive(Debug, Default)]
struct Assembly {
    /// The frame whose last chunk has not come yet.
    partial: Option<Chain>,
    /// Frames not of the form that the kernel promises; dropped.
    malformed: Arc<Counter>,
}

impl Assembly {
    /// The frame that is complete with this chunk, if it is.
    #[inline]
    fn add(&mut self, store: &mut Store, descriptor: Descriptor) -> Option<Frame> {
        let Descriptor { slot, len, more } = descriptor;
        if self.partial.is_none() && !more && len > 0 {
            return Some(Chain::new(store.region(), slot, len).finish());
        }
        self.add_piece(store, descriptor)
    }

    #[cold]
    fn add_piece(&mut self, store: &mut Store, descriptor: Descriptor) -> Option<Frame> {
        let Descriptor { slot, len, more } = descriptor;
        let region = store.region();
        let chain = match self.partial.take() {
            None => Chain::new(region, slot, len),
            Some(mut chain) => {
                chain.append(region, slot, len);
                chain
            }
        };
        if more {
            self.partial = Some(chain);
            return None;
        }
        let frame = chain.finish();
        if store.head(&frame).len() < frame.len().min(HEAD) as usize || len == 0 {
            self.malformed.add(1);
            store.free(frame);
            return None;
        }
        Some(frame)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {

    use super::*;
    use crate::ring::memory::Rings;
    use crate::store::Lent;

    const CHUNKS: u32 = 128;

    fn receiver(size: u32) -> (Rings, Receiver<Rings, Rings>, Store) {
        let rings = Rings::new(size as usize);
        let receiver = Receiver::new(rings.clone(), rings.clone(), size, 3);
        (rings, receiver, Store::plain(&[CHUNKS]).remove(0))
    }

    fn receive(receiver: &mut Receiver<Rings, Rings>, store: &mut Store, budget: u32) -> (u32, Vec<Frame>) {
        let mut frames = Vec::new();
        let n = receiver.receive(store, budget, |_, frame| frames.push(frame));
        (n, frames)
    }

    fn free_all(store: &mut Store, frames: Vec<Frame>) {
        frames.into_iter().for_each(|frame| store.free(frame));
    }

    #[test]
    fn chunks_out_never_exceed_the_fill_ring_and_all_come_back() {
        let (rings, mut receiver, mut store) = receiver(32);
        receiver.refill(&mut store);
        assert_eq!(rings.with(|rings| rings.fill.len()), 32);
        (0..20).for_each(|_| assert!(rings.arrive(&[60])));
        receiver.refill(&mut store); // nothing was consumed: all 32 are still out
        assert_eq!(rings.with(|rings| rings.fill.len()), 12);
        for expected in [17, 3, 0] {
            // A partial batch, the rest, and then silence.
            let (n, frames) = receive(&mut receiver, &mut store, 17);
            assert_eq!((n, frames.len()), (expected, expected as usize));
            free_all(&mut store, frames);
        }
        receiver.refill(&mut store);
        assert_eq!(rings.with(|rings| rings.fill.len()), 32);
        assert_eq!(store.free_chunks(), CHUNKS - 32);
    }

    /// Wherever it is: in the fill ring, in the hands of the kernel, or received as the begin of a frame.
    #[test]
    fn what_a_device_took_along_comes_back_and_nothing_else() {
        let (rings, mut receiver, mut store) = receiver(32);
        let mut other = Receiver::new(rings.clone(), Rings::new(8), 8, 4);
        receiver.refill(&mut store);
        other.refill(&mut store);
        assert!(rings.arrive(&[60]) && rings.arrive(&[1792, 100]));
        let (_, kept) = receive(&mut receiver, &mut store, 2);
        receive(&mut receiver, &mut store, 1).1.into_iter().for_each(|frame| store.free(frame));
        assert!(rings.arrive(&[1792, 100]));
        assert_eq!(receive(&mut receiver, &mut store, 1), (1, vec![]));
        rings.with(|rings| (rings.rx.clear(), rings.fill.pop_front())); // with the kernel for good
        receiver.end(&mut store);
        store.take_back(Lent { first: 3, count: 1 });
        assert_eq!(store.free_chunks(), CHUNKS - 8 - 1, "the other's, and a frame that was received");
        receiver.refill(&mut store);
        assert_eq!((receiver.out(), store.free_chunks()), (0, CHUNKS - 8 - 1), "it takes none any more");
        free_all(&mut store, kept);
        store.take_back(Lent { first: 3, count: 2 });
        assert_eq!(store.free_chunks(), CHUNKS);
    }

    #[test]
    fn refilling_waits_for_a_batch() {
        let (rings, mut receiver, mut store) = receiver(32);
        receiver.refill(&mut store);
        for (arrived, filled) in [(7, 25), (1, 32)] {
            (0..arrived).for_each(|_| assert!(rings.arrive(&[60])));
            let (_, frames) = receive(&mut receiver, &mut store, 32);
            receiver.refill(&mut store);
            assert_eq!(rings.with(|rings| rings.fill.len()), filled);
            free_all(&mut store, frames);
        }
    }

    #[test]
    fn a_store_that_runs_out_fills_what_it_can_and_the_rest_later() {
        let (rings, mut receiver, mut store) = receiver(32);
        let held: Vec<Frame> = (0..CHUNKS - 10).map(|_| store.allocate(60).unwrap()).collect();
        receiver.refill(&mut store);
        assert_eq!(rings.with(|rings| rings.fill.len()), 10);
        free_all(&mut store, held);
        receiver.refill(&mut store);
        assert_eq!(rings.with(|rings| rings.fill.len()), 32);
    }

    #[test]
    fn fragments_are_put_together_across_batches() {
        let (rings, mut receiver, mut store) = receiver(32);
        receiver.refill(&mut store);
        assert!(rings.arrive(&[1792, 1792, 1792, 1792, 874]) && rings.arrive(&[60]));
        let (n, frames) = receive(&mut receiver, &mut store, 3);
        assert_eq!((n, frames.len()), (3, 0));
        let (_, frames) = receive(&mut receiver, &mut store, 3);
        assert_eq!(frames.iter().map(Frame::len).collect::<Vec<_>>(), [8042, 60]);
        let lens: Vec<usize> = store.fragments(&frames[0]).map(<[u8]>::len).collect();
        assert_eq!(lens, [1792, 1792, 1792, 1792, 874]);
        free_all(&mut store, frames);
        assert_eq!(store.free_chunks(), CHUNKS - 32 + 6);
    }

    #[test]
    fn a_frame_whose_head_is_in_pieces_is_dropped_and_counted() {
        let (rings, mut receiver, mut store) = receiver(32);
        receiver.refill(&mut store);
        for lens in [&[127, 100][..], &[0], &[128, 100], &[20]] {
            assert!(rings.arrive(lens));
        }
        let (_, frames) = receive(&mut receiver, &mut store, 32);
        assert_eq!(frames.iter().map(Frame::len).collect::<Vec<_>>(), [228, 20]);
        assert_eq!(receiver.malformed().get(), 2);
        free_all(&mut store, frames);
        assert_eq!(store.free_chunks(), CHUNKS - 32 + 6);
    }
}
