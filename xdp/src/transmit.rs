//! The sending half of a port: frames go to the kernel by the TX ring and come back, sent, by the
//! completion ring.
//!
//! No more chunks are out than either ring has entries, so the kernel can always complete what it
//! takes. Over drivers without zero copy nobody sends by itself: the kick does, in this thread, and
//! what the driver had no room for stays in the ring until the next one.
//!
//! When a device is deleted the kernel unbinds the socket for good, and says so at the next kick. It takes
//! nothing from the TX ring any more, so everything that has not come back is taken back here, and the
//! completion ring is not looked at again. What the kernel had taken before is in the hands of a driver that is
//! gone, or was delivered; of a frame that some further device still has, only the contents may change.
//! So do the chunks in the fill ring ([`crate::receive`]).

use std::sync::Arc;

use xoff_dataplane::counter::Counter;
use xoff_dataplane::frame::Frame;

use crate::ring::{CompletionRing, Descriptor, Kick, TxRing};
use crate::store::Store;

/// Most chunks of one frame: an MTU of 9,216, Ethernet's header and two tags, in pieces of 1,792, and one more
/// for a tag that was put in.
const CHUNKS_MAX: u32 = 7;

/// The sending half of one socket.
#[derive(Debug)]
pub(crate) struct Transmitter<T, C> {
    tx: T,
    completion: C,
    /// Most chunks out at a time.
    size: u32,
    /// Chunks given by `send` and not yet completed.
    out: u32,
    /// Frames that the kernel dropped instead of sending.
    dropped: Arc<Counter>,
    /// By chunk: whether a frame that ends in it is out.
    ends_out: Box<[u64]>,
    /// What the last kick found of the interface.
    interface: Interface,
    failed: Arc<FailedKicks>,
}

/// Kicks that failed in a way that the kernel's documentation does not know.
#[derive(Debug, Default)]
pub(crate) struct FailedKicks {
    /// How many.
    pub(crate) count: Counter,
    /// The error number of the last one.
    pub(crate) errno: Counter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interface {
    Up,
    /// It may send again.
    Down,
    /// It never will.
    Gone,
}

impl<T: TxRing, C: CompletionRing> Transmitter<T, C> {
    /// `size`: most chunks out at a time; neither ring is smaller. `chunks`: all there are.
    pub(crate) fn new(tx: T, completion: C, size: u32, chunks: u32) -> Transmitter<T, C> {
        Transmitter {
            tx,
            completion,
            size,
            out: 0,
            dropped: Arc::default(),
            ends_out: vec![0; chunks.div_ceil(u64::BITS) as usize].into(),
            interface: Interface::Up,
            failed: Arc::default(),
        }
    }

    /// Frames that the kernel dropped instead of sending.
    pub(crate) fn dropped(&self) -> Arc<Counter> {
        Arc::clone(&self.dropped)
    }

    /// Kicks that failed in an unknown way.
    pub(crate) fn failed(&self) -> Arc<FailedKicks> {
        Arc::clone(&self.failed)
    }

    /// Whether something was sent that has not come back, and may yet: over an interface that is down or
    /// gone nothing does.
    pub(crate) fn in_flight(&self) -> bool {
        self.out > 0 && self.interface == Interface::Up
    }

    /// Whether the kernel has yet to take something, over an interface that is up.
    pub(crate) fn is_unsent(&self) -> bool {
        self.in_flight() && self.tx.unsent() > 0
    }

    /// How many frames would be taken, of as many chunks as any frame has.
    #[inline]
    pub(crate) fn room(&self) -> u32 {
        if self.is_gone() { 0 } else { (self.size - self.out) / CHUNKS_MAX }
    }

    /// Takes a frame to be sent by the next [`flush`](Self::flush), or gives it back where the rings
    /// have no room.
    #[inline]
    pub(crate) fn send(&mut self, store: &Store, frame: Frame) -> Result<(), Frame> {
        let region = store.region();
        let row = region.row(frame.slot());
        let chunks = if row.last { 1 } else { region.chunks_of(frame.slot()) };
        if self.size - self.out < chunks || self.is_gone() {
            return Err(frame);
        }
        self.out += chunks;
        let mut end = frame.slot();
        if row.last {
            self.tx.push(Descriptor { slot: end, len: row.len, more: false });
        } else {
            for (slot, row) in region.chain(frame.slot()) {
                self.tx.push(Descriptor { slot, len: row.len, more: !row.last });
                end = slot;
            }
        }
        let (word, bit) = place(end);
        self.ends_out[word] |= bit;
        let _ = frame.into_parts(); // the rings know it from here on
        Ok(())
    }

    /// Gives the kernel what waits, and makes it send.
    #[inline]
    pub(crate) fn flush(&mut self) {
        self.tx.submit();
        if self.out > 0 && !self.is_gone() {
            self.interface = Interface::Up;
            while self.tx.needs_kick() && self.tx.unsent() > 0 && self.kick() {}
        }
    }

    /// Whether another kick may do more.
    fn kick(&mut self) -> bool {
        match self.tx.kick() {
            Kick::Dropped => {
                self.dropped.add(1);
                return true; // it took that one; on with the next
            }
            Kick::Down => self.interface = Interface::Down,
            Kick::Gone => self.interface = Interface::Gone,
            Kick::Failed(errno) => {
                self.failed.count.add(1);
                self.failed.errno.set(errno.unsigned_abs().into());
            }
            Kick::Done | Kick::Busy => {}
        }
        false
    }

    /// Finds out whether the interface is gone, where nothing else makes a driver tell that sends by itself.
    #[cold]
    pub(crate) fn look(&mut self) {
        if !self.is_gone() {
            self.kick();
        }
    }

    /// Whether the interface is gone for good.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.interface == Interface::Gone
    }

    /// Whether all that has not come back has yet to be taken by the kernel: it sends nothing any more unless it is kicked.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.is_gone() || self.out <= self.tx.unsent()
    }

    /// Calls `unsent` with every frame that has not come back, of an interface that is gone or gets no further kick.
    #[cold]
    pub(crate) fn take_back(&mut self, store: &mut Store, mut unsent: impl FnMut(&mut Store, Frame)) {
        assert!(self.is_at_rest(), "the kernel may still send these frames");
        if std::mem::take(&mut self.out) == 0 {
            return;
        }
        for (word, bits) in (0..).zip(&mut self.ends_out) {
            let mut bits = std::mem::take(bits);
            while bits != 0 {
                let slot = word * u64::BITS + bits.trailing_zeros();
                bits &= bits - 1;
                if let Some(frame) = store.frame_ending_at(slot) {
                    unsent(store, frame);
                }
            }
        }
    }

    /// Calls `sent` with every frame that has come back.
    #[inline]
    pub(crate) fn reap(&mut self, store: &mut Store, mut sent: impl FnMut(&mut Store, Frame)) {
        if self.out > 0 {
            self.out -= self.completion.completed(|slot| {
                if let Some(frame) = store.frame_ending_at(slot) {
                    let (word, bit) = place(slot);
                    self.ends_out[word] &= !bit;
                    sent(store, frame);
                }
            });
        }
    }
}

/// Where a chunk is in a table of one bit for each.
#[inline]
const fn place(slot: u32) -> (usize, u64) {
    ((slot / u64::BITS) as usize, 1 << (slot % u64::BITS))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {

    use xoff_dataplane::frame::FrameStore;

    use super::*;
    use crate::ring::memory::Rings;

    const CHUNKS: u32 = 64;

    fn transmitter(size: u32) -> (Rings, Transmitter<Rings, Rings>, Store) {
        let rings = Rings::new(size as usize);
        let transmitter = Transmitter::new(rings.clone(), rings.clone(), size, CHUNKS);
        (rings, transmitter, Store::plain(&[CHUNKS]).remove(0))
    }

    fn reap_all(transmitter: &mut Transmitter<Rings, Rings>, store: &mut Store) -> Vec<u32> {
        let mut lens = Vec::new();
        transmitter.reap(store, |store, frame| {
            lens.push(frame.len());
            store.free(frame);
        });
        lens
    }

    #[test]
    fn seventeen_frames_and_then_silence_all_leave_and_come_back() {
        let (rings, mut transmitter, mut store) = transmitter(32);
        for _ in 0..17 {
            let frame = store.allocate(60).unwrap();
            transmitter.send(&store, frame).unwrap();
        }
        transmitter.flush();
        assert_eq!(rings.with(|rings| (rings.wire.len(), rings.kicks)), (17, 1));
        assert_eq!(reap_all(&mut transmitter, &mut store).len(), 17);
        assert!(!transmitter.in_flight());
        transmitter.flush(); // nothing to do, no system call
        assert_eq!(rings.with(|rings| rings.kicks), 1);
        assert_eq!(store.free_chunks(), CHUNKS);
    }

    #[test]
    fn a_full_ring_gives_the_frame_back() {
        let (_rings, mut transmitter, mut store) = transmitter(8);
        for _ in 0..8 {
            let frame = store.allocate(60).unwrap();
            transmitter.send(&store, frame).unwrap();
        }
        let frame = store.allocate(60).unwrap();
        let frame = transmitter.send(&store, frame).unwrap_err();
        transmitter.flush();
        let frame = transmitter.send(&store, frame).unwrap_err(); // sent, but not reaped
        assert_eq!(reap_all(&mut transmitter, &mut store).len(), 8);
        transmitter.send(&store, frame).unwrap();
        transmitter.flush();
        reap_all(&mut transmitter, &mut store);
        assert_eq!(store.free_chunks(), CHUNKS);
    }

    #[test]
    fn a_busy_driver_keeps_the_frames_for_the_next_kick() {
        let (rings, mut transmitter, mut store) = transmitter(8);
        rings.with(|rings| rings.answers.extend([Kick::Busy, Kick::Down]));
        let frame = store.allocate(60).unwrap();
        transmitter.send(&store, frame).unwrap();
        for (kicks, in_flight) in [(1, true), (2, false)] {
            transmitter.flush();
            assert_eq!(rings.with(|rings| (rings.tx.len(), rings.kicks)), (1, kicks));
            assert!(reap_all(&mut transmitter, &mut store).is_empty());
            assert_eq!(transmitter.in_flight(), in_flight, "not while the interface is down");
            assert_eq!(transmitter.is_unsent(), in_flight);
        }
        transmitter.flush();
        assert!(transmitter.in_flight() && !transmitter.is_unsent(), "sent, and not seen to be");
        assert_eq!(reap_all(&mut transmitter, &mut store), [60]);
        assert_eq!(transmitter.dropped().get(), 0);
    }

    #[test]
    fn what_an_interface_that_is_gone_has_not_sent_is_taken_back_once() {
        let (rings, mut transmitter, mut store) = transmitter(32);
        rings.with(|rings| rings.answers.extend([Kick::Dropped, Kick::Gone]));
        for len in [60, 61, 8042, 62] {
            let frame = store.allocate(len).unwrap();
            transmitter.send(&store, frame).unwrap();
        }
        transmitter.flush();
        assert!(transmitter.is_gone() && transmitter.room() == 0 && !transmitter.in_flight());
        assert_eq!(reap_all(&mut transmitter, &mut store), [60], "the kernel had taken it");
        let late = rings.with(|rings| rings.tx.pop_front()).unwrap();
        let mut unsent = Vec::new();
        transmitter.take_back(&mut store, |store, frame| {
            unsent.push(frame.len());
            store.free(frame);
        });
        unsent.sort_unstable();
        assert_eq!(unsent, [61, 62, 8042]);
        assert_eq!(store.free_chunks(), CHUNKS);
        rings.with(|rings| rings.completion.push_back(late.slot)); // nobody's frame any more
        transmitter.flush();
        assert!(reap_all(&mut transmitter, &mut store).is_empty());
        transmitter.take_back(&mut store, |_, _| panic!("nothing is left"));
        let frame = store.allocate(60).unwrap();
        store.free(transmitter.send(&store, frame).unwrap_err());
        assert_eq!(rings.with(|rings| rings.kicks), 2);
    }

    #[test]
    fn a_driver_that_sends_by_itself_is_asked_whether_the_interface_is_gone() {
        let (rings, mut transmitter, _) = transmitter(8);
        rings.with(|rings| rings.answers.extend([Kick::Down, Kick::Gone]));
        transmitter.look();
        assert!(!transmitter.is_gone(), "down is not gone");
        transmitter.look();
        assert!(transmitter.is_gone());
    }

    #[test]
    fn a_frame_that_the_kernel_drops_is_counted_and_the_rest_is_sent() {
        let (rings, mut transmitter, mut store) = transmitter(8);
        rings.with(|rings| rings.answers.extend([Kick::Dropped, Kick::Dropped, Kick::Done]));
        for len in [60, 61, 62, 63] {
            let frame = store.allocate(len).unwrap();
            transmitter.send(&store, frame).unwrap();
        }
        transmitter.flush();
        assert_eq!(transmitter.dropped().get(), 2);
        assert_eq!(rings.with(|rings| rings.wire.iter().map(|d| d.len).collect::<Vec<_>>()), [62, 63]);
        assert_eq!(reap_all(&mut transmitter, &mut store), [60, 61, 62, 63]);
        assert_eq!(store.free_chunks(), CHUNKS);
    }

    #[test]
    fn an_unknown_error_is_counted_and_ends_the_kick() {
        let (rings, mut transmitter, mut store) = transmitter(8);
        rings.with(|rings| rings.answers.push_back(Kick::Failed(22)));
        let frame = store.allocate(60).unwrap();
        transmitter.send(&store, frame).unwrap();
        transmitter.flush();
        let failed = transmitter.failed();
        assert_eq!((failed.count.get(), failed.errno.get()), (1, 22));
        transmitter.flush();
        assert_eq!(reap_all(&mut transmitter, &mut store), [60]);
    }

    #[test]
    fn a_frame_of_several_chunks_leaves_whole_or_not_at_all() {
        let (rings, mut transmitter, mut store) = transmitter(8);
        for expected in [true, false] {
            let frame = store.allocate(8042).unwrap(); // five chunks, and room for eight
            match transmitter.send(&store, frame) {
                Ok(()) => assert!(expected),
                Err(frame) => {
                    assert!(!expected);
                    store.free(frame);
                }
            }
        }
        transmitter.flush();
        let more: Vec<bool> = rings.with(|rings| rings.wire.iter().map(|d| d.more).collect());
        assert_eq!(more, [true, true, true, true, false]);
        // Completions that come one by one make one frame, once.
        let last = rings.with(|rings| rings.completion.pop_back()).unwrap();
        assert!(reap_all(&mut transmitter, &mut store).is_empty());
        rings.with(|rings| rings.completion.push_back(last));
        assert_eq!(reap_all(&mut transmitter, &mut store), [8042]);
        assert_eq!(store.free_chunks(), CHUNKS);
    }
}
