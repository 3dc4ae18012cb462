//! One worker's share of the packet memory.
//!
//! Frames are made of the worker's own free chunks, and every frame in the worker's hands can be read
//! and changed, whoever's chunks it is made of. Freeing sorts chunks by owner: own ones become free,
//! those of other workers wait in [`Store::take_foreign`] to be sent home. That is rare: a frame of
//! another worker goes home whole with its account; only a chunk that was added to a chain on the way
//! comes back like this.
//!
//! Some of the share is kept for control frames, so that a pause frame can always be sent.

use std::ops::Range;
use std::sync::Arc;

use xoff_dataplane::frame::{Frame, FrameStore};

use crate::region::{Region, Row};

/// The numbers of a port's sockets, one after the other, by which they are lent chunks to receive into. Who has them from a
/// port that is [closed](crate::Port::close) may take the chunks back.
#[derive(Clone, Copy, Debug)]
pub struct Lent {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

impl Lent {
    /// The number of each.
    pub(crate) fn sockets(self) -> impl Iterator<Item = u32> {
        (0..self.count).map(move |at| self.first.wrapping_add(at))
    }

    fn contains(self, socket: u32) -> bool {
        socket.wrapping_sub(self.first) < self.count
    }
}

/// One worker's share of the packet memory.
#[derive(Debug)]
pub struct Store {
    region: Arc<Region>,
    /// Who has which chunks, in the order of the workers.
    shares: Arc<[Range<u32>]>,
    own: Range<u32>,
    /// Those of `own` that carry control frames.
    control: Range<u32>,
    free: Vec<u32>,
    free_control: Vec<u32>,
    foreign: Vec<u32>,
}

impl Store {
    /// Share number `index` of `shares` of `region`; its first `control` chunks are for control frames.
    pub(crate) fn new(region: Arc<Region>, shares: Arc<[Range<u32>]>, index: usize, control: u32) -> Store {
        let own = shares[index].clone();
        assert!(own.end <= region.chunks() && control <= own.end - own.start);
        let control = own.start..own.start + control;
        let foreign = region.chunks() - (own.end - own.start);
        Store {
            free: (control.end..own.end).rev().collect(),
            free_control: control.clone().rev().collect(),
            foreign: Vec::with_capacity(foreign as usize),
            region,
            shares,
            own,
            control,
        }
    }

    /// Free chunks, without those for control frames.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // no more than there are chunks
    pub fn free_chunks(&self) -> u32 {
        self.free.len() as u32
    }

    /// Free chunks for control frames.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // no more than there are chunks
    pub fn free_control_chunks(&self) -> u32 {
        self.free_control.len() as u32
    }

    /// Most bytes of a frame in one chunk.
    #[must_use]
    pub fn chunk_room(&self) -> u32 {
        self.region.room()
    }

    /// A frame of `len` bytes with unspecified contents, to be sent by its maker. `None` where free
    /// chunks do not suffice.
    pub fn allocate(&mut self, len: u32) -> Option<Frame> {
        let room = self.region.room();
        if len == 0 || len.div_ceil(room) > self.free_chunks() {
            return None;
        }
        let mut chain: Option<Chain> = None;
        let mut left = len;
        while left > 0 {
            let slot = self.take().expect("counted above");
            let here = left.min(room);
            left -= here;
            match &mut chain {
                None => chain = Some(Chain::new(&self.region, slot, here)),
                Some(chain) => chain.append(&self.region, slot, here),
            }
        }
        chain.map(|chain| chain.finish())
    }

    /// The bytes of a frame, chunk by chunk.
    pub fn fragments(&self, frame: &Frame) -> impl Iterator<Item = &[u8]> {
        // SAFETY: the frame is in the hands of this store's worker, so its chunks are. Writing takes
        // `&mut self`, which the result excludes.
        self.region.chain(frame.slot()).map(|(slot, row)| unsafe { self.region.bytes(slot, row.len) })
    }

    /// Calls `write` with the bytes of a frame, chunk by chunk.
    pub fn for_each_fragment_mut(&mut self, frame: &Frame, mut write: impl FnMut(&mut [u8])) {
        for (slot, row) in self.region.chain(frame.slot()) {
            // SAFETY: the frame is in the hands of this store's worker, and `&mut self` excludes every
            // other use of it. The slices of one frame are of different chunks.
            write(unsafe { self.region.bytes_mut(slot, row.len) });
        }
    }

    /// A chunk of another worker that was part of a freed frame, and the number of the share that it
    /// belongs to. It must be sent there, to be freed.
    pub fn take_foreign(&mut self) -> Option<(usize, Frame)> {
        let slot = self.foreign.pop()?;
        let home = self.shares.iter().position(|share| share.contains(&slot));
        self.region.set_row(slot, Row { len: 0, next: slot, last: true });
        Some((home.expect("every chunk is of some share"), Frame::new(slot, 0)))
    }

    /// Whether the frame's first chunk is of this share.
    #[must_use]
    pub fn owns(&self, frame: &Frame) -> bool {
        self.own.contains(&frame.slot())
    }

    /// Has the first bytes of the frame in a chunk brought near, for who will look at them soon.
    #[inline]
    pub(crate) fn prefetch(&self, slot: u32) {
        self.region.prefetch(slot);
    }

    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    #[inline]
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// A free chunk for the socket of that number to receive into.
    #[inline]
    pub(crate) fn lend(&mut self, socket: u32) -> Option<u32> {
        let slot = self.free.pop()?;
        self.region.lend(slot, socket);
        Some(slot)
    }

    /// Has back what sockets had to receive into at which the kernel looks no more.
    #[cold]
    pub fn take_back(&mut self, lent: Lent) {
        for slot in self.own.clone() {
            if self.region.borrower(slot).is_some_and(|socket| lent.contains(socket)) {
                self.region.set_row(slot, Row { len: 0, next: slot, last: true });
                self.give(slot);
            }
        }
    }

    #[inline]
    pub(crate) fn give(&mut self, slot: u32) {
        if self.control.contains(&slot) {
            self.free_control.push(slot);
        } else if self.own.contains(&slot) {
            self.free.push(slot);
        } else {
            self.foreign.push(slot);
        }
    }

    /// The frame whose last chunk is `slot`, if it is one.
    #[inline]
    pub(crate) fn frame_ending_at(&self, slot: u32) -> Option<Frame> {
        let row = self.region.row(slot);
        if !row.last {
            return None;
        }
        if row.next == slot {
            return Some(Frame::new(slot, row.len));
        }
        let len = self.region.chain(row.next).map(|(_, row)| row.len).sum();
        Some(Frame::new(row.next, len))
    }

    /// Moves the second half of a frame's first chunk into a chunk of its own, so that there is room
    /// to grow.
    #[cold]
    fn split(&mut self, first: u32) -> bool {
        let Some(slot) = self.take() else { return false };
        let row = self.region.row(first);
        let keep = row.len / 2;
        let (Row { next, last, .. }, moved) = (row, row.len - keep);
        // SAFETY: `first` belongs to a frame in this worker's hands, `slot` was free; `&mut self`
        // excludes every other use of both.
        let (from, to) = unsafe { (self.region.bytes(first, row.len), self.region.bytes_mut(slot, moved)) };
        to.copy_from_slice(&from[keep as usize..]);
        self.region.set_row(slot, Row { len: moved, next: if last { first } else { next }, last });
        self.region.set_row(first, Row { len: keep, next: slot, last: false });
        true
    }
}

impl Store {
    /// Shares of so many chunks each, in memory that no socket has: for tests of what moves frames between workers.
    ///
    /// # Panics
    /// Where the memory cannot be had.
    #[must_use]
    pub fn plain(shares: &[u32]) -> Vec<Store> {
        let region = Arc::new(Region::plain(2048, shares.iter().sum()));
        let mut start = 0;
        let ranges: Arc<[_]> = shares
            .iter()
            .map(|chunks| {
                start += chunks;
                start - chunks..start
            })
            .collect();
        let share = |index| Store::new(Arc::clone(&region), Arc::clone(&ranges), index, 0);
        (0..shares.len()).map(share).collect()
    }
}

impl FrameStore for Store {
    fn capacity(&self) -> u32 {
        self.region.chunks()
    }

    #[inline]
    fn head(&self, frame: &Frame) -> &[u8] {
        let row = self.region.row(frame.slot());
        // SAFETY: the frame is in the hands of this store's worker; writing takes `&mut self`.
        unsafe { self.region.bytes(frame.slot(), row.len) }
    }

    fn read(&self, frame: &Frame, into: &mut [u8]) -> usize {
        let mut done = 0;
        for bytes in self.fragments(frame) {
            let len = bytes.len().min(into.len() - done);
            into[done..done + len].copy_from_slice(&bytes[..len]);
            done += len;
        }
        done
    }

    #[inline]
    fn head_mut(&mut self, frame: &Frame) -> &mut [u8] {
        let row = self.region.row(frame.slot());
        // SAFETY: the frame is in the hands of this store's worker, and `&mut self` excludes every
        // other use of it.
        unsafe { self.region.bytes_mut(frame.slot(), row.len) }
    }

    fn move_start(&mut self, frame: &mut Frame, by: i32) -> bool {
        let slot = frame.slot();
        let shortened = |row: Row| row.len.checked_add_signed(-by).filter(|&len| len > 0);
        let mut row = self.region.row(slot);
        let Some(mut len) = shortened(row) else { return false };
        if len > self.region.room() {
            if !self.split(slot) {
                return false;
            }
            row = self.region.row(slot);
            len = row.len.saturating_add_signed(-by);
        }
        // SAFETY: the frame is in the hands of this store's worker, and `&mut self` excludes every
        // other use of it.
        let bytes = unsafe { self.region.bytes_mut(slot, len.max(row.len)) };
        let shift = by.unsigned_abs() as usize;
        if by < 0 {
            bytes.copy_within(..row.len as usize, shift);
        } else {
            bytes.copy_within(shift.., 0);
        }
        self.region.set_row(slot, Row { len, ..row });
        frame.resize(frame.len().saturating_add_signed(-by));
        true
    }

    fn copy(&mut self, frame: &Frame) -> Option<Frame> {
        let chunks = self.region.chain(frame.slot()).count();
        if self.free.len() < chunks {
            return None;
        }
        let mut chain: Option<Chain> = None;
        for (from, row) in self.region.chain(frame.slot()) {
            let slot = self.free.pop().expect("counted above");
            // SAFETY: the frame is in the hands of this store's worker, `slot` was free and is another
            // chunk; `&mut self` excludes every other use of both.
            let (from, to) =
                unsafe { (self.region.bytes(from, row.len), self.region.bytes_mut(slot, row.len)) };
            to.copy_from_slice(from);
            match &mut chain {
                None => chain = Some(Chain::new(&self.region, slot, row.len)),
                Some(chain) => chain.append(&self.region, slot, row.len),
            }
        }
        chain.map(|chain| chain.finish())
    }

    fn make(&mut self, bytes: &[u8]) -> Option<Frame> {
        let frame = self.allocate(u32::try_from(bytes.len()).ok()?)?;
        let mut rest = bytes;
        self.for_each_fragment_mut(&frame, |into| {
            let (here, behind) = rest.split_at(into.len());
            into.copy_from_slice(here);
            rest = behind;
        });
        Some(frame)
    }

    fn control(&mut self, bytes: &[u8]) -> Option<Frame> {
        let len = u32::try_from(bytes.len()).ok().filter(|&len| len <= self.region.room())?;
        let slot = self.free_control.pop()?;
        // SAFETY: the chunk was free, and `&mut self` excludes every other use of it.
        unsafe { self.region.bytes_mut(slot, len) }.copy_from_slice(bytes);
        Some(Chain::new(&self.region, slot, len).finish())
    }

    #[inline]
    fn free(&mut self, frame: Frame) {
        let (mut slot, _) = frame.into_parts();
        loop {
            let row = self.region.row(slot);
            self.give(slot);
            if row.last {
                return;
            }
            slot = row.next;
        }
    }
}

/// A frame in the making: the chunks that it has so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    first: u32,
    last: u32,
    last_len: u32,
    len: u32,
}

impl Chain {
    /// A frame that begins with `len` bytes in `slot`.
    #[inline]
    pub(crate) fn new(region: &Region, slot: u32, len: u32) -> Chain {
        region.set_row(slot, Row { len, next: slot, last: true });
        Chain { first: slot, last: slot, last_len: len, len }
    }

    /// It goes on with `len` bytes in `slot`.
    #[inline]
    pub(crate) fn append(&mut self, region: &Region, slot: u32, len: u32) {
        region.set_row(self.last, Row { len: self.last_len, next: slot, last: false });
        region.set_row(slot, Row { len, next: self.first, last: true });
        (self.last, self.last_len) = (slot, len);
        self.len += len;
    }

    /// That was all of it.
    #[inline]
    pub(crate) fn finish(self) -> Frame {
        Frame::new(self.first, self.len)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const CHUNKS: u32 = 32;

    fn store() -> Store {
        Store::new(Arc::new(Region::plain(2048, CHUNKS)), [Range { start: 0, end: CHUNKS }].into(), 0, 4)
    }

    /// A frame of `len` bytes that count up.
    fn filled(store: &mut Store, len: u32) -> Frame {
        let frame = store.allocate(len).unwrap();
        let mut next = 0u8;
        store.for_each_fragment_mut(&frame, |bytes| {
            for byte in bytes {
                *byte = next;
                next = next.wrapping_add(1);
            }
        });
        frame
    }

    fn bytes_of(store: &Store, frame: &Frame) -> Vec<u8> {
        store.fragments(frame).flatten().copied().collect()
    }

    #[test]
    fn a_frame_takes_as_few_chunks_as_can_be_and_gives_them_back() {
        let mut store = store();
        for (len, chunks) in [(1, 1), (1792, 1), (1793, 2), (9018, 6)] {
            let frame = filled(&mut store, len);
            assert_eq!((frame.len(), store.free_chunks()), (len, 28 - chunks));
            assert_eq!(bytes_of(&store, &frame).len(), len as usize);
            store.free(frame);
            assert_eq!(store.free_chunks(), 28);
        }
        assert_eq!(store.allocate(0), None);
        assert_eq!(store.allocate(28 * 1792 + 1), None);
        let all = store.allocate(28 * 1792).unwrap();
        assert_eq!(store.free_chunks(), 0);
        store.free(all);
    }

    #[test]
    fn a_copy_has_the_same_bytes_in_chunks_of_its_own() {
        let mut store = store();
        for len in [60, 5000] {
            let frame = filled(&mut store, len);
            let mut copy = store.copy(&frame).unwrap();
            assert_eq!(bytes_of(&store, &copy), bytes_of(&store, &frame));
            store.head_mut(&copy)[0] = 0xff;
            assert_eq!(store.head(&frame)[0], 0);
            assert!(store.move_start(&mut copy, 1));
            store.free(frame);
            store.free(copy);
        }
        let most = store.allocate(15 * 1792).unwrap();
        assert_eq!(store.copy(&most), None, "13 chunks are left");
        store.free(most);
        assert_eq!(store.free_chunks(), 28);
    }

    #[test]
    fn control_frames_have_chunks_of_their_own() {
        let mut store = store();
        let data = store.allocate(28 * 1792).unwrap();
        let control: Vec<Frame> = (0..4).map(|n| store.control(&[n; 60]).unwrap()).collect();
        assert_eq!(store.control(&[0; 60]), None);
        assert_eq!(store.head(&control[3]), [3; 60]);
        store.free(data);
        assert_eq!((store.free_chunks(), store.free_control_chunks()), (28, 0));
        control.into_iter().for_each(|frame| store.free(frame));
        assert_eq!((store.free_chunks(), store.free_control_chunks()), (28, 4));
        assert_eq!(store.control(&[0; 1793]), None);
    }

    #[test]
    fn the_start_moves_both_ways() {
        let mut store = store();
        // Lengths around the room of one chunk and of two.
        for len in [60, 1788, 1789, 1792, 1793, 3584, 9018] {
            let mut frame = filled(&mut store, len);
            let before = bytes_of(&store, &frame);
            assert!(store.move_start(&mut frame, -4), "{len}");
            assert_eq!(frame.len(), len + 4);
            let grown = bytes_of(&store, &frame);
            assert_eq!((grown.len(), &grown[4..]), (before.len() + 4, &before[..]));
            assert!(store.head(&frame).len() >= frame.len().min(128) as usize);
            assert!(store.move_start(&mut frame, 8));
            assert_eq!(bytes_of(&store, &frame), before[4..]);
            assert_eq!(frame.len(), len - 4);
            store.free(frame);
            assert_eq!(store.free_chunks(), 28);
        }
    }

    #[test]
    fn a_start_that_cannot_move_stays() {
        let mut store = store();
        let mut short = filled(&mut store, 60);
        assert!(!store.move_start(&mut short, 60) && !store.move_start(&mut short, 61));
        let mut full = filled(&mut store, 1792);
        let rest = store.allocate(26 * 1792).unwrap();
        assert!(!store.move_start(&mut full, -4), "no chunk is left to grow into");
        assert_eq!((short.len(), full.len()), (60, 1792));
        assert_eq!(bytes_of(&store, &full).len(), 1792);
        for frame in [short, full, rest] {
            store.free(frame);
        }
    }

    #[test]
    fn a_frame_is_found_by_its_last_chunk_only() {
        let mut store = store();
        for (len, chunks) in [(60, 1), (1793, 2), (9018, 6)] {
            let frame = store.allocate(len).unwrap();
            let slots: Vec<u32> = store.region.chain(frame.slot()).map(|(slot, _)| slot).collect();
            assert_eq!(slots.len(), chunks);
            for &slot in &slots[..chunks - 1] {
                assert_eq!(store.frame_ending_at(slot), None);
            }
            let found = store.frame_ending_at(slots[chunks - 1]).unwrap();
            assert_eq!(found, frame);
            let _ = found.into_parts();
            store.free(frame);
        }
    }

    #[test]
    fn chunks_of_another_worker_go_home() {
        let region = Arc::new(Region::plain(2048, CHUNKS));
        let shares: Arc<[_]> = [0..16, 16..CHUNKS].into();
        let mut here = Store::new(Arc::clone(&region), Arc::clone(&shares), 0, 0);
        let mut there = Store::new(region, shares, 1, 0);
        let mut frame = filled(&mut here, 1792);
        assert!(here.owns(&frame) && !there.owns(&frame));
        assert_eq!(there.head(&frame)[..4], [0, 1, 2, 3]);
        assert!(there.move_start(&mut frame, -4), "with a chunk of the worker that sends it");
        assert_eq!((here.free_chunks(), there.free_chunks()), (15, 15));
        here.free(frame);
        assert_eq!((here.free_chunks(), there.free_chunks()), (16, 15));
        let (home, stray) = here.take_foreign().unwrap();
        assert_eq!(home, 1);
        there.free(stray);
        assert_eq!(there.free_chunks(), 16);
        assert_eq!(here.take_foreign(), None);
    }
}
