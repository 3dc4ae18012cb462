//! Every frame of the fabric, once, from the host that sends it to the one that receives it.
//!
//! Of a frame there is its head, of MAC control all, and a length. What moves from link to switch to link is the number of its
//! place here ([`Packet`]): nothing is copied on the way. A switch knows a frame by a slot of its own, as a driver's packet memory
//! has them; its [`Slots`](crate::slots::Slots) say which packet is in it.

/// As much of a frame as is kept, and a switch is shown; but of MAC control all.
const HEAD: usize = 128;
/// Free bytes in front, for tags.
const ROOM: u32 = 12;
/// What a place has for both, so that it is three cache lines, and addresses and ports are in the first.
const BYTES: usize = 180;
const _: () = assert!(ROOM as usize + HEAD <= BYTES);

/// None of `Pool::long`.
const NONE: u32 = u32::MAX;

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
    /// Where all of it is that does not fit here.
    long: u32,
    len: u32,
    start: u32,
    bytes: [u8; BYTES],
}

const EMPTY: Place = Place { long: NONE, len: 0, start: 0, bytes: [0; BYTES] };

/// The frames.
#[derive(Debug, Default)]
pub struct Pool {
    places: Vec<Place>,
    /// Their numbers.
    free: Vec<u32>,
    /// MAC control beyond a head, and which of these are free.
    long: Vec<Vec<u8>>,
    long_free: Vec<u32>,
}

impl Pool {
    /// It has room for so many frames before it has to move.
    pub(crate) fn with_capacity(frames: usize) -> Pool {
        Pool { places: Vec::with_capacity(frames), ..Pool::default() }
    }

    /// Frames in flight, wherever they are.
    pub(crate) fn in_use(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// A frame of `len` bytes that begins with `head`: as much of it as is kept.
    #[inline]
    pub fn add(&mut self, head: &[u8], len: u32) -> Packet {
        let packet = Packet { number: self.place(), len };
        let place = &mut self.places[packet.index()];
        let kept = head.len().min(HEAD);
        (place.start, place.len) = (ROOM, len);
        place.bytes[ROOM as usize..][..kept].copy_from_slice(&head[..kept]);
        packet
    }

    /// A frame of these bytes; all of them are kept if it is MAC control.
    pub fn add_whole(&mut self, bytes: &[u8]) -> Packet {
        let packet = self.add(bytes, count(bytes));
        if bytes.len() > HEAD && is_mac_control(bytes) {
            let long = self.long_free.pop().unwrap_or_else(|| {
                self.long.push(Vec::new());
                count(&self.long) - 1
            });
            self.long[long as usize].extend_from_slice(bytes);
            self.places[packet.index()].long = long;
        }
        packet
    }

    /// Another frame like it.
    pub(crate) fn copy(&mut self, packet: Packet) -> Packet {
        let copy = Packet { number: self.place(), len: packet.len };
        self.places[copy.index()] = self.places[packet.index()].clone();
        let of_copy = &mut self.places[copy.index()];
        if of_copy.long != NONE {
            of_copy.long = NONE;
            let bytes = self.long[self.places[packet.index()].long as usize].clone();
            self.long.push(bytes);
            self.places[copy.index()].long = count(&self.long) - 1;
        }
        copy
    }

    /// Reads the first of what is kept of it.
    #[inline]
    pub(crate) fn look_ahead(&self, packet: Packet) -> u64 {
        self.places[packet.index()].len.into()
    }

    /// Its first bytes; of MAC control all.
    #[inline]
    #[must_use]
    pub fn head(&self, packet: Packet) -> &[u8] {
        let place = &self.places[packet.index()];
        if place.long != NONE {
            return &self.long[place.long as usize];
        }
        let end = BYTES.min((place.start + place.len) as usize);
        &place.bytes[place.start as usize..end]
    }

    /// The same, to be rewritten.
    #[inline]
    pub(crate) fn head_mut(&mut self, packet: Packet) -> &mut [u8] {
        let place = &mut self.places[packet.index()];
        if place.long != NONE {
            return &mut self.long[place.long as usize];
        }
        let end = BYTES.min((place.start + place.len) as usize);
        &mut place.bytes[place.start as usize..end]
    }

    /// Moves its start; answers its length then, or `None` where there is no room.
    pub(crate) fn move_start(&mut self, packet: Packet, by: i32) -> Option<u32> {
        let place = &mut self.places[packet.index()];
        let start = place.start.checked_add_signed(by)?;
        if place.long != NONE || start as usize > BYTES - HEAD {
            return None;
        }
        place.start = start;
        place.len = place.len.saturating_add_signed(-by);
        Some(place.len)
    }

    /// The frame has come to its end.
    #[inline]
    pub fn free(&mut self, packet: Packet) {
        let place = &mut self.places[packet.index()];
        if place.long != NONE {
            let long = std::mem::replace(&mut place.long, NONE);
            self.long[long as usize].clear();
            self.long_free.push(long);
        }
        self.free.push(packet.number);
    }

    #[inline]
    fn place(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.places.push(EMPTY);
            count(&self.places) - 1
        })
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
