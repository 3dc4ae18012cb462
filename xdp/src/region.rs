//! The bytes of all chunks, and a row of notes for each.
//!
//! Every chunk starts with the 256 bytes that XDP keeps in front of a packet; a frame's bytes always
//! begin right behind them: a frame that gets a tag moves its bytes, not its address.
//!
//! A row says how many bytes of its chunk are in use and which chunk is next. The chunks of one frame
//! form a ring: the last one points back to the first. Thus a completion for the last chunk, the only
//! thing that the kernel reports, finds the whole frame.
//!
//! The row of a chunk that is with the kernel, to receive into, says by which socket instead, until something is
//! received in it: where a device is gone, so the chunks are found that it took along.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use xoff_dataplane::prefetch::prefetch;

use crate::mapping::Mapping;

/// XDP_PACKET_HEADROOM: what the kernel keeps free in front of every packet.
pub(crate) const HEADROOM: u32 = 256;

/// What is known of one chunk of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Bytes of the frame in this chunk.
    pub(crate) len: u32,
    /// The frame's next chunk; of the last chunk, its first.
    pub(crate) next: u32,
    /// Whether this is the frame's last chunk.
    pub(crate) last: bool,
}

impl Row {
    const LAST: u64 = 1 << 31;
    /// Not a row at all: the other half is the number of a socket.
    const LENT: u64 = 1 << 30;

    fn pack(self) -> u64 {
        let last = if self.last { Row::LAST } else { 0 };
        u64::from(self.next) << 32 | last | u64::from(self.len)
    }

    #[allow(clippy::cast_possible_truncation)] // the halves of a word
    fn unpack(word: u64) -> Row {
        Row { len: word as u32 & 0xffff, next: (word >> 32) as u32, last: word & Row::LAST != 0 }
    }
}

/// Packet memory: chunks, and their rows.
///
/// Rows are atomics only so that all workers can share the table; like its bytes, a chunk's row is
/// used by its owner alone. Ownership moves through rings and queues that synchronise.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    chunk_bytes: u32,
    rows: Box<[AtomicU64]>,
    /// What `base` is the address of.
    memory: Mapping,
}

// SAFETY: `base` is the address of memory that lives as long as the region. It is used only through
// `bytes` and `bytes_mut`, whose callers own the chunk, and ownership of a chunk passes between threads
// only by synchronising means (rings of the kernel, bounded queues).
unsafe impl Send for Region {}
// SAFETY: as above; `&Region` gives no access to bytes but by those two unsafe functions.
unsafe impl Sync for Region {}

impl Region {
    /// `memory`, at which nobody else looks but the kernel, cut into `chunks` chunks.
    pub(crate) fn new(memory: Mapping, chunk_bytes: u32, chunks: u32) -> Region {
        assert!(chunk_bytes > HEADROOM && chunk_bytes <= 0x8000, "a chunk has room for a packet");
        let rows = (0..chunks).map(|_| AtomicU64::new(0)).collect();
        let base = memory.at(0, chunks as usize * chunk_bytes as usize);
        Region { base, chunk_bytes, rows, memory }
    }

    /// A region of its own, for tests.
    pub(crate) fn plain(chunk_bytes: u32, chunks: u32) -> Region {
        let memory = Mapping::anonymous((chunk_bytes * chunks) as usize).expect("a little memory");
        Region::new(memory, chunk_bytes, chunks)
    }

    /// How many chunks there are.
    #[allow(clippy::cast_possible_truncation)] // made from a u32
    pub(crate) fn chunks(&self) -> u32 {
        self.rows.len() as u32
    }

    /// Most bytes of a frame in one chunk.
    #[inline]
    pub(crate) fn room(&self) -> u32 {
        self.chunk_bytes - HEADROOM
    }

    #[inline]
    pub(crate) fn row(&self, slot: u32) -> Row {
        Row::unpack(self.rows[slot as usize].load(Relaxed))
    }

    #[inline]
    pub(crate) fn set_row(&self, slot: u32, row: Row) {
        debug_assert!(row.len <= self.room());
        self.rows[slot as usize].store(row.pack(), Relaxed);
    }

    /// Takes note that the socket of that number may receive into a chunk, until it has a row.
    #[inline]
    pub(crate) fn lend(&self, slot: u32, socket: u32) {
        self.rows[slot as usize].store(u64::from(socket) << 32 | Row::LENT, Relaxed);
    }

    /// The number of the socket that has a chunk to receive into, if one has.
    #[allow(clippy::cast_possible_truncation)] // the halves of a word
    pub(crate) fn borrower(&self, slot: u32) -> Option<u32> {
        let word = self.rows[slot as usize].load(Relaxed);
        (word as u32 == Row::LENT as u32).then_some((word >> 32) as u32)
    }

    /// All of it, for the kernel.
    pub(crate) fn memory(&self) -> &Mapping {
        &self.memory
    }

    /// The chunks of the frame that begins with `first`, with their rows.
    #[inline]
    pub(crate) fn chain(&self, first: u32) -> impl Iterator<Item = (u32, Row)> {
        let mut next = Some(first);
        std::iter::from_fn(move || {
            let slot = next?;
            let row = self.row(slot);
            next = (!row.last).then_some(row.next);
            Some((slot, row))
        })
    }

    /// How many chunks the frame that begins with `first` has.
    #[allow(clippy::cast_possible_truncation)] // no more than there are chunks
    pub(crate) fn chunks_of(&self, first: u32) -> u32 {
        self.chain(first).count() as u32
    }

    /// The first `len` bytes of the frame in a chunk.
    ///
    /// # Safety
    /// The caller owns the chunk and lets nobody write to it as long as the result lives.
    #[inline]
    pub(crate) unsafe fn bytes(&self, slot: u32, len: u32) -> &[u8] {
        // SAFETY: `start` checks that chunk and length are inside the memory; the caller owns it.
        unsafe { std::slice::from_raw_parts(self.start(slot, len), len as usize) }
    }

    /// The same bytes, to be written.
    ///
    /// # Safety
    /// The caller owns the chunk and lets nobody read or write it as long as the result lives.
    #[inline]
    #[allow(clippy::mut_from_ref)] // exclusive by the contract
    pub(crate) unsafe fn bytes_mut(&self, slot: u32, len: u32) -> &mut [u8] {
        // SAFETY: `start` checks that chunk and length are inside the memory; the caller owns it.
        unsafe { std::slice::from_raw_parts_mut(self.start(slot, len), len as usize) }
    }

    /// Has the first bytes of the frame in a chunk brought near, for who will look at them soon.
    #[inline]
    pub(crate) fn prefetch(&self, slot: u32) {
        let start: *const [u8; 0] = self.start(slot, 0).cast();
        // SAFETY: of no bytes, and not null.
        prefetch(unsafe { &*start });
    }

    #[inline]
    fn start(&self, slot: u32, len: u32) -> *mut u8 {
        assert!(slot < self.chunks() && len <= self.room(), "chunk {slot}, {len} bytes: out of memory");
        let offset = slot as usize * self.chunk_bytes as usize + HEADROOM as usize;
        // SAFETY: the memory has room for all chunks, as `new` has checked; this is one of them.
        unsafe { self.base.as_ptr().add(offset) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_survives_packing() {
        for row in [
            Row { len: 0, next: 0, last: false },
            Row { len: 3840, next: u32::MAX, last: true },
            Row { len: 64, next: 7, last: true },
        ] {
            assert_eq!(Row::unpack(row.pack()), row);
        }
    }

    #[test]
    fn a_chunk_is_lent_to_one_socket_until_it_has_a_row() {
        let region = Region::plain(2048, 2);
        let row = Row { len: 64, next: 1, last: true };
        region.set_row(1, row);
        assert_eq!(region.borrower(1), None);
        region.lend(1, 7);
        assert_eq!(region.borrower(1), Some(7));
        assert_eq!(region.borrower(0), None, "nobody has it");
        region.set_row(1, row);
        assert_eq!((region.borrower(1), region.row(1)), (None, row));
    }

    #[test]
    #[should_panic(expected = "out of memory")]
    fn bytes_beyond_a_chunk_are_refused() {
        let region = Region::plain(2048, 2);
        // SAFETY: nobody else uses the region; it is about to panic anyway.
        let _ = unsafe { region.bytes(1, 1793) };
    }
}
