//! One worker's share of the buffer memory (cells), and the packet memory of its ports.
//!
//! Each frame has a slot until it is freed: a table row with the location of the frame's bytes:
//!
//! ```text
//!   Received   in a receive chunk of the port that received it
//!   Queued     in cells
//!   Sending    in transmit chunks of the port that sends it
//! ```
//!
//! Only the worker that owns a slot frees it. A frame for another worker's port first moves to cells
//! ([`Store::settle`]), which both can access. The other worker copies the frame to its port, and returns the frame
//! after sending.
//!
//! Some slots and cells are reserved, so that a pause frame can always be sent.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use xoff_dataplane::frame::{CELL, FRAME_MAX, Frame, FrameStore, cells_of};
use xoff_wire::units::{Nanos, PORTS_MAX, PortId};

use crate::cells::{Cells, NONE};
use crate::chain::{Chain, FreeCells, append, chain_bytes};
use crate::chunks::PacketMemory;
use crate::error::XdpError;
use crate::place::{FramePlace, Row};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub frames: u32,
    pub cells: u32,
    /// Slots reserved for control frames, in addition to `frames`.
    pub control_frames: u32,
    /// Cells reserved for control frames, in addition to `cells`.
    pub control_cells: u32,
}

/// Frame table and cells of all workers. Rows are atomics only because workers share the table; only a frame's holder
/// uses its row.
#[derive(Debug)]
struct Shared {
    rows: Box<[AtomicU64]>,
    cells: Cells,
}

#[derive(Debug)]
pub struct Store {
    shared: Arc<Shared>,
    own: Range<u32>,
    control: Range<u32>,
    free: Vec<u32>,
    free_control: Vec<u32>,
    free_cells: FreeCells,
    memories: Box<[Option<Box<PacketMemory>>]>,
}

impl Store {
    /// Allocates the buffer memory of all workers, and creates a store for each worker's share.
    pub fn cut(shares: &[Share]) -> Result<Vec<Store>, XdpError> {
        let sum = |of: fn(&Share) -> [u32; 2]| shares.iter().flat_map(of).map(u64::from).sum::<u64>();
        let cells = sum(|share| [share.cells, share.control_cells]);
        let slots = sum(|share| [share.frames, share.control_frames]);
        let bytes = cells.saturating_mul(CELL.into());
        let refused = |source| XdpError::Memory { bytes, source };
        // `u32::MAX` means "no slot" or "no cell", so no slot or cell may have this number.
        let count = |many: u64| u32::try_from(many + 1).map(|count| count - 1);
        let [cells, slots] = [cells, slots].map(count);
        let (Ok(cells), Ok(slots)) = (cells, slots) else {
            return Err(refused(io::ErrorKind::InvalidInput.into()));
        };
        let shared = Arc::new(Shared {
            rows: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            cells: Cells::new(cells).map_err(refused)?,
        });
        let (mut slot, mut cell) = (0, 0);
        let store = |share: &Share| {
            let own = slot..slot + share.frames + share.control_frames;
            let cells = cell..cell + share.cells + share.control_cells;
            (slot, cell) = (own.end, cells.end);
            let control = own.start..own.start + share.control_frames;
            Store {
                shared: Arc::clone(&shared),
                free: (control.end..own.end).rev().collect(),
                free_control: control.clone().rev().collect(),
                free_cells: FreeCells::new(&shared.cells, cells, share.control_cells),
                own,
                control,
                memories: (0..PORTS_MAX).map(|_| None).collect(),
            }
        };
        Ok(shares.iter().map(store).collect())
    }

    /// Creates a store for tests and for hosts with short queues. Its cells suffice for frames of 192 bytes on average.
    ///
    /// # Panics
    ///
    /// If the memory cannot be allocated.
    #[must_use]
    pub fn with_frames(frames: u32) -> Store {
        let share =
            Share { frames, cells: frames * cells_of(2 * CELL) + cells_of(FRAME_MAX), ..Share::default() };
        Store::cut(&[share]).expect("the buffer memory must be allocatable").remove(0)
    }

    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // there are fewer than 2^32 slots
    pub fn free_frames(&self) -> u32 {
        (self.free.len() + self.free_control.len()) as u32
    }

    #[must_use]
    pub fn free_cells(&self) -> u32 {
        self.free_cells.count
    }

    /// Returns whether enough cells are free for [`settle`](Self::settle) to move the frame in this slot.
    #[must_use]
    pub fn can_settle(&self, slot: u32) -> bool {
        match self.row(slot) {
            Row { place: FramePlace::Received(..), len } => cells_of(len) <= self.free_cells.for_data(),
            _ => true,
        }
    }

    #[inline]
    pub(crate) fn can_receive(&self) -> bool {
        self.free_cells.for_data() >= cells_of(FRAME_MAX) && !self.free.is_empty()
    }

    pub(crate) fn add_memory(&mut self, port: PortId, memory: Box<PacketMemory>) {
        let before = self.memories[port.index()].replace(memory);
        assert!(before.is_none(), "a port must not have two packet memories");
    }

    pub(crate) fn can_take_memory(&self, port: PortId) -> bool {
        let memory = self.memories[port.index()].as_deref();
        let residents = memory.into_iter().flat_map(PacketMemory::residents);
        residents.map(|slot| cells_of(self.row(slot).len)).sum::<u32>() <= self.free_cells.for_data()
    }

    /// Moves a port's received frames to cells, then removes and returns its packet memory.
    ///
    /// # Panics
    /// If the frames [do not fit](Self::can_take_memory).
    #[cold]
    pub(crate) fn take_memory(&mut self, port: PortId) -> Option<Box<PacketMemory>> {
        let residents: Vec<u32> = self.memories[port.index()].as_ref()?.residents().collect();
        for slot in residents {
            assert!(
                self.move_to_cells(slot),
                "the buffer memory must have room for the port's received frames"
            );
        }
        self.memories[port.index()].take()
    }

    #[inline]
    pub(crate) fn memory(&mut self, port: PortId) -> &mut PacketMemory {
        self.memories[port.index()].as_deref_mut().expect("the port must have a packet memory in this store")
    }

    #[inline]
    fn row(&self, slot: u32) -> Row {
        Row::unpack(self.shared.rows[slot as usize].load(Relaxed))
    }

    #[inline]
    fn set_row(&self, slot: u32, row: Row) {
        self.shared.rows[slot as usize].store(row.pack(), Relaxed);
    }

    fn memory_of(&self, port: PortId) -> &PacketMemory {
        self.memories[port.index()]
            .as_deref()
            .expect("a received frame must be in packet memory of this worker")
    }

    #[inline]
    pub(crate) fn received(&mut self, port: PortId, chunk: u32, len: u32) -> Frame {
        if let Some(slot) = self.memory(port).leaves_window() {
            self.move_to_cells(slot); // cells for the longest frame were checked before
        }
        let slot = self.free.pop().expect("a free slot must be left");
        self.set_row(slot, Row { place: FramePlace::Received(port, chunk), len });
        self.memory(port).enters_window(chunk, slot);
        Frame::new(slot, len)
    }

    pub(crate) fn add_received(&mut self, chain: &mut Chain, port: PortId, chunk: u32, len: u32) {
        let memory = self.memories[port.index()]
            .as_deref_mut()
            .expect("the port must have a packet memory in this store");
        append(&self.shared.cells, &mut self.free_cells, chain, memory.received(chunk, len));
        memory.free_received(chunk);
    }

    pub(crate) fn finish_chain(&mut self, chain: Chain) -> Frame {
        let slot = self.free.pop().expect("a free slot must be left");
        self.set_row(slot, Row { place: FramePlace::Queued(chain.first), len: chain.len });
        Frame::new(slot, chain.len)
    }

    pub(crate) fn drop_chain(&mut self, chain: &Chain) {
        self.free_chain(chain.first);
    }

    /// Moves a received frame to cells, where other workers can access it. Returns false if too few cells are free.
    pub fn settle(&mut self, frame: &Frame) -> bool {
        match self.row(frame.slot()).place {
            FramePlace::Received(..) => self.move_to_cells(frame.slot()),
            FramePlace::Nowhere | FramePlace::Sending(..) | FramePlace::Queued(_) => true,
        }
    }

    /// Removes and returns the time ([`clock::now`](crate::clock::now)) at which the kernel passed a received frame to the XDP program.
    ///
    /// Call this when the port passes the frame: a frame that moves to cells loses its stamp. Returns `None` without a stamp: the port's
    /// chunks are not [stamped](crate::ReceiveChunks::Stamped), its driver has no room for metadata, or the frame took several chunks.
    pub fn take_stamp(&mut self, frame: &Frame) -> Option<Nanos> {
        match self.row(frame.slot()).place {
            FramePlace::Received(port, chunk) => self.memory(port).take_stamp(chunk),
            FramePlace::Nowhere | FramePlace::Sending(..) | FramePlace::Queued(_) => None,
        }
    }

    fn move_to_cells(&mut self, slot: u32) -> bool {
        let Row { place: FramePlace::Received(port, chunk), len } = self.row(slot) else { return true };
        if cells_of(len) > self.free_cells.for_data() {
            return false;
        }
        let mut chain = Chain::EMPTY;
        self.add_received(&mut chain, port, chunk, len);
        self.set_row(slot, Row { place: FramePlace::Queued(chain.first), len });
        true
    }

    fn free_chain(&mut self, first: u32) {
        if first == NONE || !self.shared.cells.unshare(first) {
            return;
        }
        self.free_cells.give(&self.shared.cells, first);
    }

    #[inline]
    pub(crate) fn compose(&mut self, port: PortId, len: u32) -> Option<Frame> {
        let slot = self.free.pop()?;
        let Some(first) = self.memory(port).take_transmit(slot, len) else {
            self.free.push(slot);
            return None;
        };
        self.set_row(slot, Row { place: FramePlace::Sending(port, first), len });
        Some(Frame::new(slot, len))
    }

    #[inline]
    pub(crate) fn stage_at(&mut self, port: PortId, frame: &Frame) -> Option<u32> {
        let slot = frame.slot();
        let Row { place, len } = self.row(slot);
        let memory = self.memories[port.index()].as_deref_mut()?;
        match place {
            FramePlace::Sending(_, first) => return Some(first),
            FramePlace::Received(from, chunk) if from == port => {
                let first = memory.take_transmit(slot, len)?;
                memory.copy_received(chunk, first);
                memory.free_received(chunk);
                self.set_row(slot, Row { place: FramePlace::Sending(port, first), len });
                return Some(first);
            }
            FramePlace::Received(..) | FramePlace::Queued(_) | FramePlace::Nowhere => {}
        }
        let first = memory.take_transmit(slot, len)?;
        match place {
            FramePlace::Received(from, chunk) => {
                let [memory, other] = self
                    .memories
                    .get_disjoint_mut([port.index(), from.index()])
                    .expect("the two ports must differ")
                    .map(|memory| memory.as_deref_mut().expect("both ports must belong to this worker"));
                memory.fill(first, std::iter::once(other.received(chunk, len)));
                other.free_received(chunk);
            }
            FramePlace::Queued(cell) => {
                // SAFETY: this store's worker has the frame, and so its cells. Nobody writes the cells of a flooded
                // frame.
                let bytes = chain_bytes(&self.shared.cells, cell, len)
                    .map(|(cell, len)| unsafe { self.shared.cells.bytes(cell, len) });
                memory.fill(first, bytes);
                memory.keep(first, cell, len);
            }
            FramePlace::Sending(..) | FramePlace::Nowhere => {} // no bytes to copy
        }
        self.set_row(slot, Row { place: FramePlace::Sending(port, first), len });
        Some(first)
    }

    #[inline]
    fn unstage(&mut self, slot: u32) -> Option<Frame> {
        let Row { place: FramePlace::Sending(port, first), len } = self.row(slot) else { return None };
        let row = match self.memory(port).free_transmitted(first) {
            (NONE, _) => Row { place: FramePlace::Nowhere, len: 0 },
            (cell, len) => Row { place: FramePlace::Queued(cell), len },
        };
        self.set_row(slot, row);
        Some(Frame::new(slot, len))
    }

    #[inline]
    pub(crate) fn completed(&mut self, port: PortId, chunk: u32) -> Option<Frame> {
        let slot = self.memory(port).completed(chunk)?;
        self.unstage(slot)
    }

    #[cold]
    pub(crate) fn take_back(&mut self, port: PortId, slot: u32) -> Option<Frame> {
        let Row { place: FramePlace::Sending(_, first), len } = self.row(slot) else { return None };
        let memory = self.memories[port.index()].as_deref_mut()?;
        memory.took_back(first);
        let keeps_bytes = memory.keeps_cells(first) || !self.own.contains(&slot);
        if !keeps_bytes && cells_of(len) <= self.free_cells.for_data() {
            let mut chain = Chain::EMPTY;
            memory
                .pieces(first)
                .for_each(|bytes| append(&self.shared.cells, &mut self.free_cells, &mut chain, bytes));
            memory.keep(first, chain.first, len);
        }
        self.unstage(slot)
    }

    pub fn fragments(&self, frame: &Frame) -> impl Iterator<Item = &[u8]> {
        let Row { place, len } = self.row(frame.slot());
        let received = match place {
            FramePlace::Received(port, chunk) => Some(self.memory_of(port).received(chunk, len)),
            _ => None,
        };
        let sending = match place {
            FramePlace::Sending(port, first) => Some(self.memory_of(port).pieces(first)),
            _ => None,
        };
        let queued = match place {
            FramePlace::Queued(first) => Some(chain_bytes(&self.shared.cells, first, len)),
            _ => None,
        };
        // SAFETY: this store's worker has the frame, and so its cells. Writing takes `&mut self`.
        let queued =
            queued.into_iter().flatten().map(|(cell, len)| unsafe { self.shared.cells.bytes(cell, len) });
        received.into_iter().chain(sending.into_iter().flatten()).chain(queued)
    }

    #[inline]
    fn give(&mut self, slot: u32) {
        if self.control.contains(&slot) {
            self.free_control.push(slot);
        } else {
            assert!(self.own.contains(&slot), "a frame must be freed by the worker that owns it");
            self.free.push(slot);
        }
    }

    fn fill(&mut self, slot: u32, bytes: &[u8]) -> Frame {
        let mut chain = Chain::EMPTY;
        append(&self.shared.cells, &mut self.free_cells, &mut chain, bytes);
        self.set_row(slot, Row { place: FramePlace::Queued(chain.first), len: chain.len });
        Frame::new(slot, chain.len)
    }
}

impl FrameStore for Store {
    #[allow(clippy::cast_possible_truncation)] // created from a u32
    fn capacity(&self) -> u32 {
        self.shared.rows.len() as u32
    }

    #[inline]
    fn head(&self, frame: &Frame) -> &[u8] {
        let Row { place, len } = self.row(frame.slot());
        match place {
            FramePlace::Received(port, chunk) => self.memory_of(port).received(chunk, len),
            // SAFETY: this store's worker has the frame; writing takes `&mut self`.
            FramePlace::Queued(first) => unsafe { self.shared.cells.bytes(first, len.min(CELL)) },
            FramePlace::Sending(port, first) => self.memory_of(port).head(first),
            FramePlace::Nowhere => &[],
        }
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
        let Row { place, len } = self.row(frame.slot());
        match place {
            FramePlace::Received(port, chunk) => self.memory(port).received_mut(chunk, len),
            FramePlace::Queued(first) => {
                assert!(
                    !self.shared.cells.is_shared(first),
                    "cells must not be written while copies of the frame share them"
                );
                // SAFETY: this store's worker has the frame, no copy shares its cells, and `&mut self` excludes every
                // other use.
                unsafe { self.shared.cells.bytes_mut(first, len.min(CELL)) }
            }
            FramePlace::Sending(port, first) => self.memory(port).head_mut(first),
            FramePlace::Nowhere => &mut [],
        }
    }

    fn move_start(&mut self, frame: &mut Frame, by: i32) -> bool {
        let Row { place: FramePlace::Sending(port, first), len } = self.row(frame.slot()) else {
            return false;
        };
        let is_moved = self.memory(port).move_start(first, by);
        if is_moved {
            let len =
                len.checked_add_signed(-by).expect("a frame's start must not move beyond the frame's end");
            self.set_row(frame.slot(), Row { place: FramePlace::Sending(port, first), len });
            frame.resize(len);
        }
        is_moved
    }

    fn copy(&mut self, frame: &Frame) -> Option<Frame> {
        if self.free.is_empty() || !self.settle(frame) {
            return None;
        }
        let row @ Row { place: FramePlace::Queued(first), len } = self.row(frame.slot()) else { return None };
        let slot = self.free.pop()?;
        self.shared.cells.share(first);
        self.set_row(slot, row);
        Some(Frame::new(slot, len))
    }

    fn make(&mut self, bytes: &[u8]) -> Option<Frame> {
        let len = u32::try_from(bytes.len()).ok().filter(|len| (1..=FRAME_MAX).contains(len))?;
        if cells_of(len) > self.free_cells.for_data() {
            return None;
        }
        let slot = self.free.pop()?;
        Some(self.fill(slot, bytes))
    }

    fn control(&mut self, bytes: &[u8]) -> Option<Frame> {
        let cells = cells_of(u32::try_from(bytes.len()).ok().filter(|len| (1..=FRAME_MAX).contains(len))?);
        if cells > self.free_cells.control {
            return None;
        }
        let slot = self.free_control.pop()?;
        self.free_cells.control -= cells;
        Some(self.fill(slot, bytes))
    }

    #[inline]
    fn stage(&mut self, port: PortId, frame: &Frame) -> bool {
        self.stage_at(port, frame).is_some()
    }

    #[inline]
    fn free(&mut self, frame: Frame) {
        let (slot, _) = frame.into_parts();
        let Row { place, len } = self.row(slot);
        match place {
            FramePlace::Nowhere => {}
            FramePlace::Received(port, chunk) => self.memory(port).free_received(chunk),
            FramePlace::Sending(..) => {
                let frame = self.unstage(slot).map(Frame::into_parts);
                debug_assert!(frame.is_some());
                return self.free(Frame::new(slot, len));
            }
            FramePlace::Queued(first) => {
                if self.control.contains(&slot) {
                    self.free_cells.control += cells_of(len);
                }
                self.free_chain(first);
            }
        }
        self.set_row(slot, Row { place: FramePlace::Nowhere, len: 0 });
        self.give(slot);
    }

    #[inline]
    fn leaves_soon(&self, slot: u32) {
        if let FramePlace::Queued(first) = self.row(slot).place {
            self.shared.cells.prefetch(first);
        }
    }
}

#[cfg(test)]
mod tests;
