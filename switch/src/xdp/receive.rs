//! The receiving half of a socket: chunks go to the kernel by the fill ring and come back filled.
//!
//! A fixed number of chunks is out, no more than either ring has entries: as many as there are frames
//! that can arrive while the worker is stalled. So the RX ring never overflows, the fill ring has room
//! (as soon as the kernel says so) for what is given to it, and what one queue holds of a worker's share is known beforehand.

use std::sync::Arc;

use xoff_dataplane::counter::Counter;
use xoff_dataplane::frame::{Frame, FrameStore};

use super::ring::{BATCH, Descriptor, FillRing, RxRing};
use super::store::{Chain, Store};

/// The first bytes of a frame that must be in one piece, as [`FrameStore::head`] promises.
const HEAD: u32 = 128;

/// The receiving half of one socket.
#[derive(Debug)]
pub(super) struct Receiver<R, F> {
    rx: R,
    fill: F,
    /// Most chunks out at a time.
    size: u32,
    /// Chunks with the kernel or in the RX ring.
    out: u32,
    assembly: Assembly,
}

impl<R: RxRing, F: FillRing> Receiver<R, F> {
    /// `size`: most chunks out at a time; neither ring is smaller.
    pub(super) fn new(rx: R, fill: F, size: u32) -> Receiver<R, F> {
        Receiver { rx, fill, size, out: 0, assembly: Assembly::default() }
    }

    /// The RX ring.
    pub(super) fn rx(&self) -> &R {
        &self.rx
    }

    /// Chunks with the kernel or in the RX ring.
    pub(super) fn out(&self) -> u32 {
        self.out
    }

    /// Frames dropped because the kernel did not lay them out as it promises.
    pub(super) fn malformed(&self) -> Arc<Counter> {
        Arc::clone(&self.assembly.malformed)
    }

    /// Tops the fill ring up; waits until a batch is worth it, unless the kernel may run dry.
    #[inline]
    pub(super) fn refill(&mut self, store: &mut Store) {
        let missing = self.size - self.out;
        if missing as usize >= BATCH.min(self.size as usize / 4).max(1) {
            self.top_up(missing, store);
        }
    }

    fn top_up(&mut self, mut missing: u32, store: &mut Store) {
        let mut slots = [0; BATCH];
        while missing > 0 {
            let mut n = 0;
            let wanted = BATCH.min(missing as usize);
            while n < wanted
                && let Some(slot) = store.take()
            {
                slots[n] = slot;
                n += 1;
            }
            if n == 0 {
                return;
            }
            if !self.fill.fill(&slots[..n]) {
                // The kernel shows received frames a moment before it shows that their chunks have left the
                // fill ring. The next refill finds the room.
                slots[..n].iter().rev().for_each(|&slot| store.give(slot));
                return;
            }
            #[allow(clippy::cast_possible_truncation)] // at most BATCH
            let n = n as u32;
            self.out += n;
            missing -= n;
        }
    }

    /// Adds received frames to `frames`, from at most `budget` descriptors (never more than
    /// [`BATCH`]); says how many descriptors there were.
    #[inline]
    pub(super) fn receive(&mut self, store: &mut Store, frames: &mut Vec<Frame>, budget: usize) -> usize {
        let Receiver { rx, assembly, .. } = self;
        let n = rx.receive(budget, |descriptor| frames.extend(assembly.add(store, descriptor)));
        #[allow(clippy::cast_possible_truncation)] // at most BATCH
        let came_back = n as u32;
        self.out -= came_back;
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

    use super::super::ring::memory::Rings;
    use super::*;

    const CHUNKS: u32 = 128;

    fn receiver(size: u32) -> (Rings, Receiver<Rings, Rings>, Store) {
        let rings = Rings::new(size as usize);
        let receiver = Receiver::new(rings.clone(), rings.clone(), size);
        (rings, receiver, Store::plain(&[CHUNKS]).remove(0))
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
        let mut frames = Vec::new();
        assert_eq!(receiver.receive(&mut store, &mut frames, 17), 17); // a partial batch
        assert_eq!(receiver.receive(&mut store, &mut frames, 17), 3);
        assert_eq!(receiver.receive(&mut store, &mut frames, 17), 0); // then silence
        assert_eq!(frames.len(), 20);
        free_all(&mut store, frames);
        receiver.refill(&mut store);
        assert_eq!(rings.with(|rings| rings.fill.len()), 32);
        assert_eq!(store.free_chunks(), CHUNKS - 32);
    }

    #[test]
    fn room_that_the_kernel_shows_late_is_found_by_the_next_refill() {
        let (rings, mut receiver, mut store) = receiver(32);
        receiver.refill(&mut store);
        (0..10).for_each(|_| assert!(rings.arrive(&[60])));
        let mut frames = Vec::new();
        receiver.receive(&mut store, &mut frames, BATCH);
        rings.with(|rings| rings.unshown = 1);
        receiver.refill(&mut store);
        assert_eq!((rings.with(|rings| rings.fill.len()), store.free_chunks()), (22, CHUNKS - 32));
        rings.with(|rings| rings.unshown = 0);
        receiver.refill(&mut store);
        assert_eq!((rings.with(|rings| rings.fill.len()), store.free_chunks()), (32, CHUNKS - 42));
        free_all(&mut store, frames);
    }

    #[test]
    fn refilling_waits_for_a_batch() {
        let (rings, mut receiver, mut store) = receiver(32);
        receiver.refill(&mut store);
        let mut frames = Vec::new();
        for (arrived, filled) in [(7, 25), (1, 32)] {
            (0..arrived).for_each(|_| assert!(rings.arrive(&[60])));
            receiver.receive(&mut store, &mut frames, BATCH);
            receiver.refill(&mut store);
            assert_eq!(rings.with(|rings| rings.fill.len()), filled);
        }
        free_all(&mut store, frames);
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
        let mut frames = Vec::new();
        receiver.receive(&mut store, &mut frames, 3);
        assert!(frames.is_empty());
        receiver.receive(&mut store, &mut frames, 3);
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
        let mut frames = Vec::new();
        receiver.receive(&mut store, &mut frames, BATCH);
        assert_eq!(frames.iter().map(Frame::len).collect::<Vec<_>>(), [228, 20]);
        assert_eq!(receiver.malformed().get(), 2);
        free_all(&mut store, frames);
        assert_eq!(store.free_chunks(), CHUNKS - 32 + 6);
    }
}
