//! Packet memory (UMEM) of one port: the chunks in which the kernel receives and sends frames.
//!
//! Each port has its own memory, because for every socket the kernel keeps a table of all chunks in that socket's
//! memory. A received frame stays in its chunk while it is among the port's last received frames (the window). Then it
//! moves to cells of the buffer memory ([`Store`](crate::Store)).

use std::io;
use std::ptr::NonNull;

use xoff_flow_control::prefetch::prefetch;
use xoff_wire::units::Nanos;

use crate::cells::NONE;
use crate::layout::{HEADROOM, Layout, ReceiveChunks};
use crate::mapping::Mapping;
use crate::ring::Descriptor;

/// Bytes of a time stamp, directly in front of a frame.
const STAMP: u32 = 8;
const _: () = assert!(STAMP <= HEADROOM);

#[derive(Debug)]
struct Chunks {
    base: NonNull<u8>,
    layout: Layout,
    memory: Mapping,
}

// SAFETY: `base` is the address of memory that lives as long as the chunks; it is used through `&self` and `&mut
// self` of one owner.
unsafe impl Send for Chunks {}

impl Chunks {
    #[inline]
    fn start(&self, chunk: u32, offset: u32, len: u32) -> *mut u8 {
        let inside = u64::from(offset) + u64::from(len) <= u64::from(self.layout.chunk_bytes());
        assert!(
            chunk < self.layout.count() && inside,
            "{len} bytes at offset {offset} of chunk {chunk} are outside the packet memory"
        );
        #[allow(clippy::cast_possible_truncation)] // the memory was mapped
        let address = self.layout.address(chunk) as usize;
        // SAFETY: `PacketMemory::new` has made room for all chunks, and the assertion checks that this is inside one of
        // them.
        unsafe { self.base.as_ptr().add(address + offset as usize) }
    }

    /// Returns bytes of a chunk.
    ///
    /// # Safety
    /// The kernel must not write these bytes while the result lives. It may read them, and it may write other bytes of the chunk, because
    /// small receive chunks overlap.
    #[inline]
    unsafe fn bytes(&self, chunk: u32, offset: u32, len: u32) -> &[u8] {
        // SAFETY: the bytes are inside the memory. Nobody writes them, by the contract and because writing takes `&mut
        // self`.
        unsafe { std::slice::from_raw_parts(self.start(chunk, offset, len), len as usize) }
    }

    /// Returns bytes of a chunk for writing.
    ///
    /// # Safety
    /// The kernel must neither read nor write these bytes while the result lives. It may write other bytes of the chunk, because small
    /// receive chunks overlap.
    #[inline]
    unsafe fn bytes_mut(&mut self, chunk: u32, offset: u32, len: u32) -> &mut [u8] {
        // SAFETY: the bytes are inside the memory; the contract and `&mut self` exclude every other use.
        unsafe { std::slice::from_raw_parts_mut(self.start(chunk, offset, len), len as usize) }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    slot: u32,
    next: u32,
    offset: u32,
    len: u32,
    /// First cell of the frame's copy in buffer memory, or [`NONE`]. Set, like `kept_len`, only for the frame's first chunk.
    kept: u32,
    kept_len: u32,
    /// True while the chunk is in a ring or used by the kernel.
    is_out: bool,
}

impl Piece {
    const EMPTY: Piece =
        Piece { slot: NONE, next: NONE, offset: HEADROOM, len: 0, kept: NONE, kept_len: 0, is_out: false };
}

#[derive(Debug)]
pub(crate) struct PacketMemory {
    chunks: Chunks,
    has_stamps: bool,
    received: Box<[u32]>,
    free_receive: Vec<u32>,
    /// Chunks with the last received frames: a ring buffer from index `oldest` on.
    window: Box<[u32]>,
    oldest: usize,
    pieces: Box<[Piece]>,
    free_transmit: Vec<u32>,
}

impl PacketMemory {
    pub(crate) fn new(
        chunk_bytes: u32,
        size: ReceiveChunks,
        [receive, window, transmit]: [u32; 3],
    ) -> io::Result<PacketMemory> {
        assert!(window > 0, "the window must have room for at least one received frame");
        let too_many = || io::Error::from(io::ErrorKind::InvalidInput);
        let receive = receive.checked_add(window).ok_or_else(too_many)?;
        let count = receive.checked_add(transmit).filter(|&count| count < NONE).ok_or_else(too_many)?;
        let layout = Layout::new(chunk_bytes, size, [receive, transmit]);
        let bytes = usize::try_from(layout.bytes()).map_err(|_| too_many())?;
        let memory = Mapping::anonymous(bytes)?;
        let base = memory.at(0, bytes);
        Ok(PacketMemory {
            chunks: Chunks { base, layout, memory },
            has_stamps: size == ReceiveChunks::Stamped,
            received: vec![NONE; receive as usize].into(),
            free_receive: (0..receive).rev().collect(),
            window: vec![NONE; window as usize].into(),
            oldest: 0,
            pieces: vec![Piece::EMPTY; transmit as usize].into(),
            free_transmit: (receive..count).rev().collect(),
        })
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.chunks.memory
    }

    pub(crate) fn layout(&self) -> Layout {
        self.chunks.layout
    }

    #[inline]
    fn room(&self) -> u32 {
        self.chunks.layout.transmit_room()
    }

    #[inline]
    pub(crate) fn pieces_of(&self, len: u32) -> u32 {
        if len <= self.room() { 1 } else { len.div_ceil(self.room()) }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // there are fewer than 2^32 chunks
    pub(crate) fn free_transmit(&self) -> u32 {
        self.free_transmit.len() as u32
    }

    #[cfg(test)]
    pub(crate) fn free_receive(&self) -> u32 {
        u32::try_from(self.free_receive.len()).expect("there must be fewer than 2^32 chunks")
    }

    #[inline]
    pub(crate) fn take_receive(&mut self) -> Option<u32> {
        self.free_receive.pop()
    }

    #[inline]
    pub(crate) fn free_received(&mut self, chunk: u32) {
        self.received[chunk as usize] = NONE;
        self.free_receive.push(chunk);
    }

    #[inline]
    pub(crate) fn prefetch(&self, chunk: u32) {
        let start: *const [u8; 0] = self.chunks.start(chunk, self.chunks.layout.receive_offset(), 0).cast();
        // SAFETY: the pointer is not null, and a reference to an empty array accesses no memory.
        prefetch(unsafe { &*start });
    }

    #[inline]
    pub(crate) fn leaves_window(&self) -> Option<u32> {
        let chunk = self.window[self.oldest];
        let slot = if chunk == NONE { NONE } else { self.received[chunk as usize] };
        (slot != NONE).then_some(slot)
    }

    /// Adds a received frame to the window. The caller must first move to cells the frame that [leaves the
    /// window](Self::leaves_window).
    #[inline]
    pub(crate) fn enters_window(&mut self, chunk: u32, slot: u32) {
        debug_assert_eq!(
            self.leaves_window(),
            None,
            "the oldest received frame must be in cells before a newer one enters the window"
        );
        self.received[chunk as usize] = slot;
        self.window[self.oldest] = chunk;
        self.oldest += 1;
        if self.oldest == self.window.len() {
            self.oldest = 0;
        }
    }

    pub(crate) fn residents(&self) -> impl Iterator<Item = u32> {
        self.received.iter().copied().filter(|&slot| slot != NONE)
    }

    #[inline]
    pub(crate) fn received(&self, chunk: u32, len: u32) -> &[u8] {
        // SAFETY: the kernel returned the chunk, and gets it again only after its frame is gone. In other receive
        // chunks it writes only bytes from the receive offset on, and these parts do not overlap (`Layout`).
        unsafe { self.chunks.bytes(chunk, self.chunks.layout.receive_offset(), len) }
    }

    #[inline]
    pub(crate) fn received_mut(&mut self, chunk: u32, len: u32) -> &mut [u8] {
        // SAFETY: as for `received`; `&mut self` excludes every other use in this process.
        unsafe { self.chunks.bytes_mut(chunk, self.chunks.layout.receive_offset(), len) }
    }

    /// Returns and clears the time stamp in front of the received frame, so that the chunk's next frame does not show
    /// it.
    pub(crate) fn take_stamp(&mut self, chunk: u32) -> Option<Nanos> {
        if !self.has_stamps {
            return None;
        }
        let at = self.chunks.layout.receive_offset() - STAMP;
        // SAFETY: as for `received_mut`. A stamped chunk is whole, so these bytes are in no other chunk.
        let bytes = unsafe { self.chunks.bytes_mut(chunk, at, STAMP) };
        let stamp = bytes.first_chunk().map(|&stamp| Nanos(u64::from_ne_bytes(stamp)));
        bytes.fill(0);
        stamp.filter(|&stamp| stamp != Nanos::ZERO)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // there are fewer than 2^32 chunks
    fn first_transmit(&self) -> u32 {
        self.received.len() as u32
    }

    #[inline]
    fn piece(&self, chunk: u32) -> &Piece {
        &self.pieces[(chunk - self.first_transmit()) as usize]
    }

    #[inline]
    fn piece_mut(&mut self, chunk: u32) -> &mut Piece {
        let first = self.first_transmit();
        &mut self.pieces[(chunk - first) as usize]
    }

    #[inline]
    pub(crate) fn take_transmit(&mut self, slot: u32, len: u32) -> Option<u32> {
        let count = self.pieces_of(len);
        if count > self.free_transmit() {
            return None;
        }
        let first = self.free_transmit.pop().expect("a transmit chunk must still be free");
        let room = self.room();
        let (mut chunk, mut left) = (first, len);
        for _ in 1..count {
            let next = self.free_transmit.pop().expect("a transmit chunk must still be free");
            *self.piece_mut(chunk) = Piece { slot, next, len: room, ..Piece::EMPTY };
            (chunk, left) = (next, left - room);
        }
        *self.piece_mut(chunk) = Piece { slot, len: left, ..Piece::EMPTY };
        Some(first)
    }

    #[inline]
    pub(crate) fn keep(&mut self, first: u32, cell: u32, len: u32) {
        let piece = self.piece_mut(first);
        (piece.kept, piece.kept_len) = (cell, len);
    }

    pub(crate) fn keeps_cells(&self, first: u32) -> bool {
        self.piece(first).kept != NONE
    }

    /// Frees the transmitted frame at chunk `first`. Returns the first cell ([`NONE`] without one) and the length of the frame's copy in
    /// buffer memory.
    #[inline]
    pub(crate) fn free_transmitted(&mut self, first: u32) -> (u32, u32) {
        let &Piece { kept, kept_len, .. } = self.piece(first);
        let mut chunk = first;
        while chunk != NONE {
            let next = std::mem::replace(self.piece_mut(chunk), Piece::EMPTY).next;
            self.free_transmit.push(chunk);
            chunk = next;
        }
        (kept, kept_len)
    }

    #[inline]
    pub(crate) fn head(&self, first: u32) -> &[u8] {
        let &Piece { offset, len, .. } = self.piece(first);
        // SAFETY: the kernel never writes a transmit chunk.
        unsafe { self.chunks.bytes(first, offset, len) }
    }

    #[inline]
    pub(crate) fn head_mut(&mut self, first: u32) -> &mut [u8] {
        let &Piece { offset, len, is_out, .. } = self.piece(first);
        assert!(!is_out, "a frame must not be written while it is in the TX ring");
        // SAFETY: the kernel does not have the chunk, as was just checked.
        unsafe { self.chunks.bytes_mut(first, offset, len) }
    }

    pub(crate) fn move_start(&mut self, first: u32, by: i32) -> bool {
        let piece = self.piece_mut(first);
        let moved = piece.offset.checked_add_signed(by).zip(piece.len.checked_add_signed(-by));
        match moved.filter(|&(_, len)| len > 0 && !piece.is_out) {
            Some((offset, len)) => {
                (piece.offset, piece.len) = (offset, len);
                true
            }
            None => false,
        }
    }

    pub(crate) fn copy_received(&mut self, chunk: u32, first: u32) {
        let &Piece { offset, len, is_out, .. } = self.piece(first);
        assert!(chunk != first && !is_out);
        let received_at = self.chunks.layout.receive_offset();
        let (from, to) = (self.chunks.start(chunk, received_at, len), self.chunks.start(first, offset, len));
        // SAFETY: both ranges are inside the memory. A transmit chunk overlaps no receive chunk, and the kernel has
        // neither.
        unsafe { std::ptr::copy_nonoverlapping(from, to, len as usize) };
    }

    #[inline]
    fn write(&mut self, first: u32, mut write: impl FnMut(&mut [u8])) {
        let mut chunk = first;
        while chunk != NONE {
            let &Piece { offset, len, next, is_out, .. } = self.piece(chunk);
            assert!(!is_out, "a frame must not be written while it is in the TX ring");
            // SAFETY: the kernel does not have the chunk, as was just checked.
            write(unsafe { self.chunks.bytes_mut(chunk, offset, len) });
            chunk = next;
        }
    }

    #[inline]
    pub(crate) fn fill<'a>(&mut self, first: u32, mut from: impl Iterator<Item = &'a [u8]>) {
        let mut piece: &[u8] = &[];
        self.write(first, |mut room| {
            while !room.is_empty() {
                if piece.is_empty() {
                    match from.next() {
                        Some(next) => piece = next,
                        None => return,
                    }
                }
                let here = room.len().min(piece.len());
                let (now, later) = room.split_at_mut(here);
                now.copy_from_slice(&piece[..here]);
                (room, piece) = (later, &piece[here..]);
            }
        });
    }

    #[inline]
    pub(crate) fn give_out(&mut self, first: u32, mut send: impl FnMut(Descriptor)) {
        let mut chunk = first;
        while chunk != NONE {
            let piece = self.piece_mut(chunk);
            piece.is_out = true;
            let Piece { offset, len, next, .. } = *piece;
            send(Descriptor { chunk, offset, len, more: next != NONE });
            chunk = next;
        }
    }

    #[inline]
    pub(crate) fn completed(&mut self, chunk: u32) -> Option<u32> {
        let first = self.first_transmit();
        let piece = self.pieces.get(chunk.checked_sub(first)? as usize)?;
        (piece.is_out && piece.next == NONE).then_some(piece.slot)
    }

    pub(crate) fn out(&self) -> Vec<u32> {
        self.pieces
            .iter()
            .filter(|piece| piece.is_out && piece.next == NONE)
            .map(|piece| piece.slot)
            .collect()
    }

    pub(crate) fn took_back(&mut self, first: u32) {
        let mut chunk = first;
        while chunk != NONE {
            let piece = self.piece_mut(chunk);
            piece.is_out = false;
            chunk = piece.next;
        }
    }

    pub(crate) fn pieces(&self, first: u32) -> impl Iterator<Item = &[u8]> {
        let mut next = first;
        std::iter::from_fn(move || {
            let chunk = (next != NONE).then_some(next)?;
            let &Piece { offset, len, next: after, .. } = self.piece(chunk);
            next = after;
            // SAFETY: the kernel never writes a transmit chunk.
            Some(unsafe { self.chunks.bytes(chunk, offset, len) })
        })
    }
}
