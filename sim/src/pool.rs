//! Memory of all frames, divided into cells. A cell stores only a frame's first bytes, or all if the sender wants that.

mod chain;

use std::mem::offset_of;
use std::ops::Range;

use xoff_flow_control::prefetch::prefetch;

use crate::time::Picos;
pub(crate) use chain::Chain;

const HEAD: usize = 128;
const ROOM: u8 = 8;
const ROOM_MAX: u8 = 42;
const BYTES: usize = ROOM_MAX as usize + HEAD;
const LINE: usize = 64;
const _: () = assert!(size_of::<Cell>() == 3 * LINE);
/// Header bytes up to the UDP or TCP ports over IPv4. They must be in a cell's first cache line.
const PARSED_LEN: usize = 38;
const _: () = assert!(offset_of!(Cell, bytes) + ROOM as usize + PARSED_LEN <= LINE);

/// Bytes at a frame's start (addresses and sequence numbers) that enter the hash of a run's events.
const MARK: usize = 32;

const NONE: u32 = u32::MAX;

const KEPT_WHOLE: u8 = u8::MAX;
const _: () = assert!(BYTES < KEPT_WHOLE as usize);

/// Reference to a frame in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    pub(crate) number: u32,
    /// Frame length in bytes, without FCS.
    pub len: u32,
}

impl Packet {
    fn index(self) -> usize {
        self.number as usize
    }
}

#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Cell {
    next_arrives: Picos,
    next: u32,
    len: u32,
    start: u8,
    kept: u8,
    bytes: [u8; BYTES],
    long: u32,
}

const EMPTY: Cell =
    Cell { next_arrives: Picos::NEVER, next: NONE, len: 0, start: 0, kept: 0, bytes: [0; BYTES], long: 0 };

impl Cell {
    #[inline]
    fn kept(&self) -> Range<usize> {
        let start = usize::from(self.start);
        start..start + usize::from(self.kept)
    }
}

/// Cells per block. Only empty blocks are reused, so that consecutive frames are adjacent in memory.
const BLOCK: u8 = 8;

/// Memory of the fabric's frames.
#[derive(Debug, Default)]
pub struct Pool {
    cells: Vec<Cell>,
    taken: Vec<u8>,
    free: Vec<u32>,
    next: Range<u32>,
    long: Vec<Vec<u8>>,
    long_free: Vec<u32>,
}

impl Pool {
    pub(crate) fn with_capacity(frames: usize) -> Pool {
        Pool { cells: Vec::with_capacity(frames), ..Pool::default() }
    }

    pub(crate) fn in_use(&self) -> usize {
        self.taken.iter().map(|taken| usize::from(*taken)).sum::<usize>() - self.next.len()
    }

    /// Adds a frame of `len` bytes that begins with `head`.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // at most HEAD
    pub fn add(&mut self, head: &[u8], len: u32) -> Packet {
        let packet = Packet { number: self.cell(), len };
        let cell = &mut self.cells[packet.index()];
        let kept = head.len().min(HEAD);
        (cell.start, cell.kept, cell.len) = (ROOM, kept as u8, len);
        cell.bytes[ROOM as usize..][..kept].copy_from_slice(&head[..kept]);
        packet
    }

    /// Adds a frame with all its bytes. If they are more than 128, switches cannot insert tags.
    pub fn add_whole(&mut self, bytes: &[u8]) -> Packet {
        let packet = self.add(bytes, count(bytes));
        if bytes.len() > HEAD {
            let long = self.long();
            self.long[long as usize].extend_from_slice(bytes);
            let cell = &mut self.cells[packet.index()];
            (cell.kept, cell.long) = (KEPT_WHOLE, long);
        }
        packet
    }

    pub(crate) fn copy(&mut self, packet: Packet) -> Packet {
        let copy = Packet { number: self.cell(), len: packet.len };
        self.cells[copy.index()] = self.cells[packet.index()].clone();
        let Cell { kept, long: of_first, .. } = self.cells[packet.index()];
        if kept == KEPT_WHOLE {
            let bytes = std::mem::take(&mut self.long[of_first as usize]);
            let of_copy = self.long();
            self.long[of_copy as usize].extend_from_slice(&bytes);
            self.long[of_first as usize] = bytes;
            self.cells[copy.index()].long = of_copy;
        }
        copy
    }

    fn long(&mut self) -> u32 {
        self.long_free.pop().unwrap_or_else(|| {
            self.long.push(Vec::new());
            count(&self.long) - 1
        })
    }

    #[inline]
    fn prefetch(&self, number: u32) {
        self.cells.get(number as usize).into_iter().for_each(prefetch);
    }

    #[inline]
    pub(crate) fn mark(&self, packet: Packet) -> u64 {
        let cell = &self.cells[packet.index()];
        let start = usize::from(cell.start);
        let words = cell.bytes.get(start..start + MARK).map_or(&[][..], |bytes| bytes.as_chunks::<8>().0);
        words.iter().fold(packet.len.into(), |sum: u64, word| sum.rotate_left(17) ^ u64::from_le_bytes(*word))
    }

    /// Returns a frame's stored bytes: the first ones, or all after [`Pool::add_whole`].
    #[inline]
    #[must_use]
    pub fn head(&self, packet: Packet) -> &[u8] {
        let cell = &self.cells[packet.index()];
        if cell.kept == KEPT_WHOLE {
            return &self.long[cell.long as usize];
        }
        &cell.bytes[cell.kept()]
    }

    #[inline]
    pub(crate) fn head_mut(&mut self, packet: Packet) -> &mut [u8] {
        let cell = &mut self.cells[packet.index()];
        if cell.kept == KEPT_WHOLE {
            return &mut self.long[cell.long as usize];
        }
        let kept = cell.kept();
        &mut cell.bytes[kept]
    }

    #[allow(clippy::cast_possible_truncation)] // BYTES fit
    pub(crate) fn move_start(&mut self, packet: Packet, by: i32) -> Option<u32> {
        let cell = &mut self.cells[packet.index()];
        if cell.kept == KEPT_WHOLE {
            return None;
        }
        let by_8 = i8::try_from(by).ok()?;
        let bytes = cell.kept();
        if cell.start.checked_add_signed(by_8).is_none() {
            cell.start = BYTES as u8 - cell.kept;
            cell.bytes.copy_within(bytes, cell.start.into());
        }
        let start = cell.start.checked_add_signed(by_8)?;
        let kept = cell.kept.checked_add_signed(by_8.checked_neg()?)?;
        (cell.start, cell.kept) = (start, kept);
        cell.len = cell.len.saturating_add_signed(-by);
        Some(cell.len)
    }

    pub(crate) fn resize(&mut self, packet: Packet, len: u32) -> Packet {
        self.cells[packet.index()].len = len;
        Packet { len, ..packet }
    }

    /// Frees a frame.
    #[inline]
    pub fn free(&mut self, packet: Packet) {
        let cell = &mut self.cells[packet.index()];
        if cell.kept == KEPT_WHOLE {
            let long = cell.long;
            self.long[long as usize].clear();
            self.long_free.push(long);
        }
        prefetch(&cell.bytes[LINE - offset_of!(Cell, bytes)]);
        let block = packet.number / u32::from(BLOCK);
        let taken = &mut self.taken[block as usize];
        *taken -= 1;
        if *taken == 0 {
            self.free.push(block);
        }
    }

    #[inline]
    fn cell(&mut self) -> u32 {
        if self.next.is_empty() {
            self.next = self.block();
        }
        let cell = self.next.start;
        self.next.start += 1;
        cell
    }

    fn block(&mut self) -> Range<u32> {
        let block = self.free.pop().unwrap_or_else(|| {
            self.cells.extend((0..BLOCK).map(|_| EMPTY));
            self.taken.push(0);
            count(&self.cells) / u32::from(BLOCK) - 1
        });
        self.taken[block as usize] = BLOCK;
        let first = block * u32::from(BLOCK);
        first..first + u32::from(BLOCK)
    }
}

#[inline]
#[must_use]
pub(crate) fn is_mac_control(head: &[u8]) -> bool {
    head.get(12..14) == Some(&[0x88, 0x08])
}

fn count<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).expect("the number of frames must fit into 32 bits")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn reused_pool_cell_has_no_bytes_of_old_frame() {
        let mut pool = Pool::default();
        for _ in 0..BLOCK {
            let first = pool.add(&[0xff; 200], 1_500);
            assert_eq!(pool.head(first), [0xff; HEAD]);
            pool.free(first);
        }
        let second = pool.add(&[1; 42], 1_500);
        assert_eq!(second.number, 0, "number of the reused cell");
        assert_eq!((pool.head(second), second.len), (&[1; 42][..], 1_500));
        assert_eq!(pool.move_start(second, -4), Some(1_504));
        assert_eq!(pool.head(second).len(), 46);
        assert_eq!(pool.move_start(second, 4), Some(1_500));
        assert_eq!(pool.move_start(second, 43), None, "only stored bytes can be cut off");
        assert_eq!(pool.head(second), [1; 42]);
    }

    #[test]
    fn pool_block_is_filled_in_order_and_reused_when_empty() {
        let block = |number: u32| number * u32::from(BLOCK)..(number + 1) * u32::from(BLOCK);
        let filled = |pool: &mut Pool| (0..BLOCK).map(|_| pool.add(&[], 60)).collect::<Vec<_>>();
        let is = |packets: &[Packet], block: std::ops::Range<u32>| {
            packets.iter().map(|packet| packet.number).eq(block)
        };
        let mut pool = Pool::default();
        let (mut first, second) = (filled(&mut pool), filled(&mut pool));
        assert!(is(&first, block(0)) && is(&second, block(1)));
        let last = first.pop().unwrap();
        first.into_iter().for_each(|packet| pool.free(packet));
        assert_eq!(pool.in_use(), usize::from(BLOCK) + 1);
        let third = filled(&mut pool);
        assert!(is(&third, block(2)), "a block with a frame in it must not be reused");
        pool.free(last);
        let fourth = filled(&mut pool);
        assert!(is(&fourth, block(0)), "the empty first block must be reused");
        [second, third, fourth].into_iter().flatten().for_each(|packet| pool.free(packet));
        assert_eq!(pool.in_use(), 0);
        let [one, other] = [60, 61].map(|len| pool.add(&[], len));
        assert_eq!(
            (one.number + 1, pool.in_use(), pool.cells.len()),
            (other.number, 2, 3 * usize::from(BLOCK))
        );
    }

    #[test]
    fn frame_in_pool_can_gain_tags_up_to_cell_size() {
        let most = i32::from(ROOM_MAX);
        for by in [&[-most][..], &[-1; ROOM_MAX as usize], &[-4; 10], &[-8, -1, -33]] {
            let mut pool = Pool::default();
            let packet = pool.add(&[7; HEAD], 1_500);
            let mut expected = vec![7; HEAD];
            for (tag, by) in (1..).zip(by) {
                let front = vec![tag; usize::try_from(-by).unwrap()];
                assert!(pool.move_start(packet, *by).is_some());
                pool.head_mut(packet)[..front.len()].copy_from_slice(&front);
                expected.splice(..0, front);
                assert_eq!(pool.head(packet), expected);
            }
            let added: i32 = by.iter().sum();
            assert_eq!(pool.move_start(packet, -added), Some(1_500));
            assert_eq!(
                pool.move_start(packet, -most - 1),
                None,
                "a header added at the start must fit into the cell"
            );
            assert_eq!(pool.move_start(packet, 100), Some(1_400));
            assert_eq!(pool.move_start(packet, 29), None, "only stored bytes can be cut off");
            assert_eq!(pool.move_start(packet, -100), Some(1_500));
            pool.head_mut(packet)[..100].fill(7);
            assert_eq!(pool.head(packet), [7; HEAD]);
        }
    }

    #[test]
    fn pool_keeps_all_bytes_of_added_frame_and_of_its_copy() {
        let mut pool = Pool::default();
        let bytes: Vec<u8> = (0..=255).cycle().take(1_514).collect();
        for _ in 0..3 {
            let first = pool.add_whole(&bytes);
            let copy = pool.copy(first);
            assert_eq!((pool.head(first), pool.head(copy)), (&bytes[..], &bytes[..]));
            pool.free(first);
            assert_eq!(pool.head(copy), bytes);
            pool.free(copy);
        }
        assert_eq!(
            (pool.long.len(), pool.in_use()),
            (2, 0),
            "once all frames are freed, two buffers for long frames and no used cell must remain"
        );
    }
}
