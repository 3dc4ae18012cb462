//! Every frame of the fabric, once, from the host that sends it to the one that receives it.
//!
//! Of a frame there is its head, or all of it where whoever adds it says so, and a length. What moves from link to switch to link
//! is the number of its place here ([`Packet`]): nothing is copied on the way. Those that are on their way on a link are a [`Chain`].
//! A switch knows a frame by a slot of its own, as a driver's packet memory has them; its [`Slots`](crate::slots::Slots) say which packet
//! is in it.

mod chain;

use std::mem::offset_of;
use std::ops::Range;

use xoff_dataplane::prefetch::prefetch;

use crate::time::Picos;
pub(crate) use chain::Chain;

/// As much of a frame as is kept, and a switch is shown, unless it is added whole.
const HEAD: usize = 128;
/// Free bytes in front, for tags: as a frame is added, and as many as there are beside a whole head.
const ROOM: u8 = 8;
const ROOM_MAX: u8 = 42;
/// What a place has for both, so that it is three cache lines.
const BYTES: usize = ROOM_MAX as usize + HEAD;
const LINE: usize = 64;
const _: () = assert!(size_of::<Place>() == 3 * LINE);
/// The ports of UDP or TCP behind IPv4 end there: as far as switches look at most frames, and that is in the first line.
const LOOKED_AT: usize = 38;
const _: () = assert!(offset_of!(Place, bytes) + ROOM as usize + LOOKED_AT <= LINE);

/// Bytes from the start of a frame that the trace notes: the addresses of hosts and sequence numbers are there.
const MARK: usize = 32;

/// No packet.
const NONE: u32 = u32::MAX;

/// Instead of how many bytes are kept: all are, elsewhere.
const ELSEWHERE: u8 = u8::MAX;
const _: () = assert!(BYTES < ELSEWHERE as usize);

/// A frame of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Where it is in the pool.
    pub(crate) number: u32,
    /// Its length, without FCS.
    pub len: u32,
}

impl Packet {
    fn index(self) -> usize {
        self.number as usize
    }
}

#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Place {
    /// Of the [chain](Chain) that it is in: the packet behind it, if it is not the last, and when that arrives.
    next_arrives: Picos,
    next: u32,
    len: u32,
    start: u8,
    /// How many bytes are kept, from the start.
    kept: u8,
    bytes: [u8; BYTES],
    /// Where all of it is that does not fit here.
    long: u32,
}

const EMPTY: Place =
    Place { next_arrives: Picos::NEVER, next: NONE, len: 0, start: 0, kept: 0, bytes: [0; BYTES], long: 0 };

impl Place {
    #[inline]
    fn kept(&self) -> Range<usize> {
        let start = usize::from(self.start);
        start..start + usize::from(self.kept)
    }
}

/// Places that are filled one after the other, and are free again only when all of them are: frames that follow each other lie side by
/// side, as they come by together, and so they are found in few pages of memory. At worst each frame keeps a block for itself.
const BLOCK: u8 = 8;

/// The frames.
#[derive(Debug, Default)]
pub struct Pool {
    places: Vec<Place>,
    /// By block: how many of its places are not free.
    taken: Vec<u8>,
    /// Blocks of which all places are.
    free: Vec<u32>,
    /// Of the block that is in turn, places that are filled next: they count as taken.
    next: Range<u32>,
    /// Whole frames beyond a head, and which of these are free.
    long: Vec<Vec<u8>>,
    long_free: Vec<u32>,
}

impl Pool {
    /// It has so many places before it has to move; fewer frames may need them all ([`BLOCK`]).
    pub(crate) fn with_capacity(frames: usize) -> Pool {
        Pool { places: Vec::with_capacity(frames), ..Pool::default() }
    }

    /// Frames in flight, wherever they are.
    pub(crate) fn in_use(&self) -> usize {
        self.taken.iter().map(|taken| usize::from(*taken)).sum::<usize>() - self.next.len()
    }

    /// A frame of `len` bytes that begins with `head`: as much of it as is kept.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // at most HEAD
    pub fn add(&mut self, head: &[u8], len: u32) -> Packet {
        let packet = Packet { number: self.place(), len };
        let place = &mut self.places[packet.index()];
        let kept = head.len().min(HEAD);
        (place.start, place.kept, place.len) = (ROOM, kept as u8, len);
        place.bytes[ROOM as usize..][..kept].copy_from_slice(&head[..kept]);
        packet
    }

    /// A frame of these bytes, all of which are kept. One that is longer than a head has no room for tags.
    pub fn add_whole(&mut self, bytes: &[u8]) -> Packet {
        let packet = self.add(bytes, count(bytes));
        if bytes.len() > HEAD {
            let long = self.long();
            self.long[long as usize].extend_from_slice(bytes);
            let place = &mut self.places[packet.index()];
            (place.kept, place.long) = (ELSEWHERE, long);
        }
        packet
    }

    /// Another frame like it.
    pub(crate) fn copy(&mut self, packet: Packet) -> Packet {
        let copy = Packet { number: self.place(), len: packet.len };
        self.places[copy.index()] = self.places[packet.index()].clone();
        let Place { kept, long: of_first, .. } = self.places[packet.index()];
        if kept == ELSEWHERE {
            let bytes = std::mem::take(&mut self.long[of_first as usize]);
            let of_copy = self.long();
            self.long[of_copy as usize].extend_from_slice(&bytes);
            self.long[of_first as usize] = bytes;
            self.places[copy.index()].long = of_copy;
        }
        copy
    }

    /// An empty place for a whole frame.
    fn long(&mut self) -> u32 {
        self.long_free.pop().unwrap_or_else(|| {
            self.long.push(Vec::new());
            count(&self.long) - 1
        })
    }

    /// Has a frame brought near, if there is such a number.
    #[inline]
    fn prefetch(&self, number: u32) {
        self.places.get(number as usize).into_iter().for_each(prefetch);
    }

    /// By what a frame is told from others: a number of its first bytes.
    #[inline]
    pub(crate) fn mark(&self, packet: Packet) -> u64 {
        let place = &self.places[packet.index()];
        let start = usize::from(place.start);
        let words = place.bytes.get(start..start + MARK).map_or(&[][..], |bytes| bytes.as_chunks::<8>().0);
        words.iter().fold(packet.len.into(), |sum: u64, word| sum.rotate_left(17) ^ u64::from_le_bytes(*word))
    }

    /// As much of it as is kept: its first bytes, or all.
    #[inline]
    #[must_use]
    pub fn head(&self, packet: Packet) -> &[u8] {
        let place = &self.places[packet.index()];
        if place.kept == ELSEWHERE {
            return &self.long[place.long as usize];
        }
        &place.bytes[place.kept()]
    }

    /// The same, to be rewritten.
    #[inline]
    pub(crate) fn head_mut(&mut self, packet: Packet) -> &mut [u8] {
        let place = &mut self.places[packet.index()];
        if place.kept == ELSEWHERE {
            return &mut self.long[place.long as usize];
        }
        let kept = place.kept();
        &mut place.bytes[kept]
    }

    /// Moves its start, and all of it where that makes room; answers its length then, or `None` where there is none.
    #[allow(clippy::cast_possible_truncation)] // BYTES fit
    pub(crate) fn move_start(&mut self, packet: Packet, by: i32) -> Option<u32> {
        let place = &mut self.places[packet.index()];
        if place.kept == ELSEWHERE {
            return None;
        }
        let by_8 = i8::try_from(by).ok()?;
        let bytes = place.kept();
        if place.start.checked_add_signed(by_8).is_none() {
            place.start = BYTES as u8 - place.kept;
            place.bytes.copy_within(bytes, place.start.into());
        }
        let start = place.start.checked_add_signed(by_8)?;
        let kept = place.kept.checked_add_signed(by_8.checked_neg()?)?;
        (place.start, place.kept) = (start, kept);
        place.len = place.len.saturating_add_signed(-by);
        Some(place.len)
    }

    /// The frame has come to its end.
    #[inline]
    pub fn free(&mut self, packet: Packet) {
        let place = &mut self.places[packet.index()];
        if place.kept == ELSEWHERE {
            let long = place.long;
            self.long[long as usize].clear();
            self.long_free.push(long);
        }
        // Its place is filled again, soon after the last of its block, beyond the line that was looked at.
        prefetch(&place.bytes[LINE - offset_of!(Place, bytes)]);
        let block = packet.number / u32::from(BLOCK);
        let taken = &mut self.taken[block as usize];
        *taken -= 1;
        if *taken == 0 {
            self.free.push(block);
        }
    }

    #[inline]
    fn place(&mut self) -> u32 {
        if self.next.is_empty() {
            self.next = self.block();
        }
        let place = self.next.start;
        self.next.start += 1;
        place
    }

    /// The places of a block that is free.
    fn block(&mut self) -> Range<u32> {
        let block = self.free.pop().unwrap_or_else(|| {
            self.places.extend((0..BLOCK).map(|_| EMPTY));
            self.taken.push(0);
            count(&self.places) / u32::from(BLOCK) - 1
        });
        self.taken[block as usize] = BLOCK;
        let first = block * u32::from(BLOCK);
        first..first + u32::from(BLOCK)
    }
}

/// Whether a frame with this head is MAC control.
#[inline]
#[must_use]
pub(crate) fn is_mac_control(head: &[u8]) -> bool {
    head.get(12..14) == Some(&[0x88, 0x08])
}

fn count<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).expect("frames are counted in 32 bits")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_frame_that_is_over_is_seen_in_the_next() {
        let mut pool = Pool::default();
        for _ in 0..BLOCK {
            let first = pool.add(&[0xff; 200], 1_500);
            assert_eq!(pool.head(first), [0xff; HEAD]);
            pool.free(first);
        }
        let second = pool.add(&[1; 42], 1_500);
        assert_eq!(second.number, 0, "its place is used again");
        assert_eq!((pool.head(second), second.len), (&[1; 42][..], 1_500));
        assert_eq!(pool.move_start(second, -4), Some(1_504));
        assert_eq!(pool.head(second).len(), 46);
        assert_eq!(pool.move_start(second, 4), Some(1_500));
        assert_eq!(pool.move_start(second, 43), None, "beyond what is kept");
        assert_eq!(pool.head(second), [1; 42]);
    }

    #[test]
    fn frames_lie_side_by_side_and_their_places_are_filled_again_when_all_are_over() {
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
        assert!(is(&third, block(2)), "one is left in the first");
        pool.free(last);
        let fourth = filled(&mut pool);
        assert!(is(&fourth, block(0)), "none is");
        [second, third, fourth].into_iter().flatten().for_each(|packet| pool.free(packet));
        assert_eq!(pool.in_use(), 0);
        let [one, other] = [60, 61].map(|len| pool.add(&[], len));
        assert_eq!(
            (one.number + 1, pool.in_use(), pool.places.len()),
            (other.number, 2, 3 * usize::from(BLOCK))
        );
    }

    /// As many as a place has, at once or one after the other.
    #[test]
    fn a_frame_finds_room_for_more_tags_than_it_was_added_with() {
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
            assert_eq!(pool.move_start(packet, -most - 1), None, "beyond what a place has");
            assert_eq!(pool.move_start(packet, 100), Some(1_400));
            assert_eq!(pool.move_start(packet, 29), None, "beyond what is kept");
            assert_eq!(pool.move_start(packet, -100), Some(1_500));
            pool.head_mut(packet)[..100].fill(7);
            assert_eq!(pool.head(packet), [7; HEAD]);
        }
    }

    #[test]
    fn a_whole_frame_keeps_all_its_bytes_and_so_does_its_copy() {
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
        assert_eq!((pool.long.len(), pool.in_use()), (2, 0), "places are used again");
    }
}
