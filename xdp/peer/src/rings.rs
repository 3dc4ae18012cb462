//! xoff's ring traits on the queues of `xsk-rs`.
//!
//! Only `xsk-rs` can make descriptors, and it moves them in groups. So each ring here has an array for a group, and a table with the
//! descriptor of each chunk. A queue of `xsk-rs` without space for the whole array accepts nothing: the chunks then wait in the array.
//!
//! The safety argument of [`crate::ports`] applies: the forwarding loop takes each chunk from one ring before adding it to another.

use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::rc::Rc;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use xoff_xdp::bare::{CompletionRing, Descriptor, FillRing, Kick, RxRing, TxRing};
use xsk_rs::config::XDP_UMEM_MIN_CHUNK_SIZE;
use xsk_rs::{CompQueue, FillQueue, FrameDesc, RxQueue, TxQueue, Umem};

use crate::error::BenchError;
use crate::exchange::{Exchange, Interface};
use crate::ports::{BATCH, Port, PortSettings, Ports, XDP_PKT_CONTD};

#[allow(clippy::cast_possible_truncation)] // the value is 256
const HEADROOM: u32 = XDP_PACKET_HEADROOM as u32;

const CHUNK: usize = XDP_UMEM_MIN_CHUNK_SIZE as usize;
const _: () = assert!(CHUNK.is_power_of_two());

const XDP_PACKET_HEADROOM: usize = 256;

#[inline]
#[allow(clippy::cast_possible_truncation)] // there are fewer than 2^32 chunks
fn slot(address: usize) -> u32 {
    (address / CHUNK) as u32
}

pub fn with_xsk_rs_rings(devices: [&str; 2]) -> Result<Exchange<Rx, Fill, Tx, Completion>, BenchError> {
    let settings = PortSettings::default();
    let Ports { ports, free, umem, .. } = Ports::open(&devices, &settings)?;
    let chunks = u32::try_from(free.len()).expect("there must be fewer than 2^32 chunks");
    let table: Rc<[FrameDesc]> = free.into();
    let interface = |port: Port| {
        let Port { rx, fill, tx, completion, device, .. } = port;
        let rx = Rx::new(rx);
        let socket = rx
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| BenchError::Socket { device: device.clone(), reason: error.to_string() })?;
        let fill = Fill { queue: fill, socket, batch: Vec::new(), table: Rc::clone(&table) };
        let tx = Tx {
            queue: RefCell::new(tx),
            entries: settings.ring,
            batch: Vec::new(),
            umem: umem.clone(),
            table: Rc::clone(&table),
        };
        let completion = Completion::new(completion);
        Ok(Interface { device, rx, fill, tx, completion, entries: settings.ring, receiving: 0, sending: 0 })
    };
    let interfaces = ports.into_iter().map(interface).collect::<Result<Vec<_>, BenchError>>()?;
    let Ok(interfaces) = <[_; 2]>::try_from(interfaces) else {
        unreachable!("the number of ports must be two")
    };
    Exchange::begin(interfaces, chunks)
}

pub struct Rx {
    queue: RxQueue,
    batch: Box<[FrameDesc; BATCH]>,
    released: usize,
    received: usize,
}

impl Rx {
    fn new(queue: RxQueue) -> Rx {
        Rx { queue, batch: Box::new([FrameDesc::default(); BATCH]), released: 0, received: 0 }
    }
}

impl AsFd for Rx {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the socket is open as long as the queue exists, and the result borrows the queue.
        unsafe { BorrowedFd::borrow_raw(self.queue.fd().as_raw_fd()) }
    }
}

impl RxRing for Rx {
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // at most a batch
    fn available(&mut self) -> u32 {
        if self.released == self.received {
            // SAFETY: the kernel gives up the chunks of the descriptors that it returns. Those overwritten were
            // released.
            self.received = unsafe { self.queue.consume(&mut self.batch[..]) };
            self.released = 0;
        }
        (self.received - self.released) as u32
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // shorter than a chunk
    fn peek(&self, n: u32) -> Descriptor {
        let from = &self.batch[self.released + n as usize];
        let in_place = from.addr() % CHUNK == XDP_PACKET_HEADROOM;
        let len = if in_place { from.lengths().data() as u32 } else { 0 };
        Descriptor { chunk: slot(from.addr()), offset: HEADROOM, len, more: from.has_more_frames() }
    }

    #[inline]
    fn release(&mut self, n: u32) {
        self.released += n as usize;
    }
}

pub struct Fill {
    queue: FillQueue,
    socket: OwnedFd,
    batch: Vec<FrameDesc>,
    table: Rc<[FrameDesc]>,
}

impl FillRing for Fill {
    #[inline]
    fn push(&mut self, slot: u32) {
        self.batch.push(self.table[slot as usize]);
    }

    #[inline]
    fn submit(&mut self) {
        // SAFETY: the descriptors are of this memory, and the loop has given up their chunks.
        if unsafe { self.queue.produce(&self.batch) } == 0 {
            return;
        }
        self.batch.clear();
        if self.queue.needs_wakeup() {
            // Ignore the result, which only says whether frames are readable.
            let _ = poll(&mut [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO);
        }
    }
}

pub struct Tx {
    /// TX ring, in a `RefCell` because counting its free entries needs `&mut`.
    queue: RefCell<TxQueue>,
    entries: u32,
    batch: Vec<FrameDesc>,
    umem: Umem,
    table: Rc<[FrameDesc]>,
}

impl TxRing for Tx {
    #[inline]
    fn push(&mut self, descriptor: Descriptor) {
        let mut chunk = self.table[descriptor.chunk as usize];
        // SAFETY: the descriptor is of this memory, and the loop has given up its chunk.
        unsafe { self.umem.data_mut(&mut chunk) }.cursor().set_pos(descriptor.len as usize);
        chunk.set_options(if descriptor.more { XDP_PKT_CONTD } else { 0 });
        self.batch.push(chunk);
    }

    #[inline]
    fn submit(&mut self) {
        // SAFETY: the descriptors are of this memory. The loop uses their chunks again only after they return through
        // the completion ring.
        if unsafe { self.queue.get_mut().produce(&self.batch) } > 0 {
            self.batch.clear();
        }
    }

    #[inline]
    fn unsent(&self) -> u32 {
        self.entries - self.queue.borrow_mut().nb_free_exact()
    }

    #[inline]
    fn needs_kick(&self) -> bool {
        self.queue.borrow().needs_wakeup()
    }

    /// Returns `Kick::Done` or an unexpected error, because `xsk-rs` reports no other results.
    #[inline]
    fn kick(&mut self) -> Kick {
        match self.queue.get_mut().wakeup() {
            Ok(()) => Kick::Done,
            Err(error) => Kick::Failed(error.raw_os_error().unwrap_or(0)),
        }
    }
}

pub struct Completion {
    queue: CompQueue,
    batch: Box<[FrameDesc; BATCH]>,
}

impl Completion {
    fn new(queue: CompQueue) -> Completion {
        Completion { queue, batch: Box::new([FrameDesc::default(); BATCH]) }
    }
}

impl CompletionRing for Completion {
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // at most the entries of a ring
    fn completed(&mut self, mut each: impl FnMut(u32)) -> u32 {
        let mut all = 0;
        loop {
            // SAFETY: the kernel gives up the chunks of the descriptors that it returns. Those overwritten were
            // passed on before.
            let n = unsafe { self.queue.consume(&mut self.batch[..]) };
            self.batch[..n].iter().for_each(|chunk| each(slot(chunk.addr())));
            all += n as u32;
            if n < BATCH {
                return all;
            }
        }
    }
}
