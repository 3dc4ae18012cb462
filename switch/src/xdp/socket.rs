//! Sockets and the kernel's rings, by xsk-rs.
//!
//! xsk-rs leaves one promise to its users: a chunk is in one place at a time. It is kept here by
//! what is given to the rings: chunks out of a [`Store`](super::Store)'s free list, and those of frames
//! whose handles were given up. What comes out of them belongs to whoever took it out.
//!
//! xsk-rs makes the descriptors of all chunks once, and only it can; a table of them translates the
//! chunk numbers that the rest of the program knows.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use xoff_config::shell::Rings;
use xsk_rs::config::{LibxdpFlags, SocketConfig};
use xsk_rs::umem::frame::FrameDesc;
use xsk_rs::{CompQueue, FillQueue, RxQueue, Socket, TxQueue};

use super::error::XdpError;
use super::region::HEADROOM;
use super::ring::{BATCH, CompletionRing, Descriptor, FillRing, Kick, RxRing, TxRing};
use super::sys;
use super::umem::{Umem, io_error, queue_size};

/// XDP_PKT_CONTD: the frame goes on in the next descriptor.
const CONTINUED: u32 = 1;

/// A socket of a killed process keeps its queue for a moment: how often that is waited for.
const BUSY_RETRIES: u32 = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(20);

type Bound = (TxQueue, RxQueue, FillQueue, CompQueue);

/// A socket for one queue; waits a moment where a killed process still has it.
pub(super) fn bind(umem: &Umem, rings: &Rings, device: &str, queue: u32) -> Result<Bound, XdpError> {
    let config = SocketConfig::builder()
        .rx_queue_size(queue_size("the RX ring", rings.rx)?)
        .tx_queue_size(queue_size("the TX ring", rings.tx)?)
        .libxdp_flags(LibxdpFlags::XSK_LIBXDP_FLAGS_INHIBIT_PROG_LOAD)
        .bind_flags(umem.bind_flags())
        .build();
    let name = device.parse().expect("an existing interface's name has no zero byte");
    let mut left = BUSY_RETRIES;
    loop {
        // SAFETY: no program is loaded by libxdp, which is all that this function asks for.
        let error = match unsafe { Socket::new(config, &umem.table().umem, &name, queue) } {
            Ok((tx, rx, Some((fill, completion)))) => return Ok((tx, rx, fill, completion)),
            Ok((.., None)) => return Err(XdpError::QueueBusy { device: device.to_owned(), queue }),
            Err(error) => io_error(&error),
        };
        let device = device.to_owned();
        match error.raw_os_error() {
            Some(libc::EBUSY) if left > 0 => {
                left -= 1;
                thread::sleep(BUSY_PAUSE);
            }
            Some(libc::EBUSY) => return Err(XdpError::QueueBusy { device, queue }),
            Some(libc::EOPNOTSUPP) => return Err(XdpError::NotZeroCopy { device }),
            _ => return Err(XdpError::Device { doing: "bind an AF_XDP socket to", device, source: error }),
        }
    }
}

/// xsk-rs's descriptors, one for each chunk, and what turns an address into a chunk.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) umem: xsk_rs::Umem,
    pub(super) descriptors: Box<[FrameDesc]>,
    /// Bytes of a chunk, a power of two, and which.
    pub(super) chunk_bytes: usize,
    pub(super) chunk_bits: u32,
}

impl Table {
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // there are fewer than 2^32 chunks
    fn slot(&self, address: usize) -> u32 {
        (address >> self.chunk_bits) as u32
    }
}

/// The RX ring of a socket.
#[derive(Debug)]
pub(super) struct XskRx {
    queue: RxQueue,
    batch: Box<[FrameDesc; BATCH]>,
    table: Arc<Table>,
}

impl XskRx {
    pub(super) fn new(queue: RxQueue, table: Arc<Table>) -> XskRx {
        XskRx { queue, batch: Box::new([FrameDesc::default(); BATCH]), table }
    }

    pub(super) fn fd(&self) -> RawFd {
        self.queue.fd().as_raw_fd()
    }
}

impl RxRing for XskRx {
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // shorter than a chunk
    fn receive(&mut self, most: usize, mut each: impl FnMut(Descriptor)) -> usize {
        let wanted = most.min(BATCH);
        // SAFETY: the batch is overwritten, whatever it holds; its descriptors come out of the ring of
        // this socket and so are of this memory.
        let n = unsafe { self.queue.consume(&mut self.batch[..wanted]) };
        for from in &self.batch[..n] {
            let in_place = from.addr() & (self.table.chunk_bytes - 1) == HEADROOM as usize;
            each(Descriptor {
                slot: self.table.slot(from.addr()),
                len: if in_place { from.lengths().data() as u32 } else { 0 },
                more: from.has_more_frames(),
            });
        }
        n
    }
}

/// The fill ring of a socket.
#[derive(Debug)]
pub(super) struct XskFill {
    queue: FillQueue,
    socket: RawFd,
    batch: Vec<FrameDesc>,
    table: Arc<Table>,
}

impl XskFill {
    /// `socket` is the descriptor of the socket that `queue` belongs to, and lives as long as it.
    pub(super) fn new(queue: FillQueue, socket: RawFd, table: Arc<Table>) -> XskFill {
        XskFill { queue, socket, batch: Vec::with_capacity(BATCH), table }
    }
}

impl FillRing for XskFill {
    fn fill(&mut self, slots: &[u32]) -> bool {
        self.batch.clear();
        self.batch.extend(slots.iter().map(|&slot| self.table.descriptors[slot as usize]));
        // SAFETY: the descriptors are of this memory. The chunks come from a free list and are nowhere
        // else: the caller has given them up.
        let taken = unsafe { self.queue.produce(&self.batch) } == slots.len();
        if self.queue.needs_wakeup() {
            sys::kick_rx(self.socket);
        }
        taken
    }
}

/// The TX ring of a socket.
#[derive(Debug)]
pub(super) struct XskTx {
    queue: TxQueue,
    batch: Vec<FrameDesc>,
    size: u32,
    table: Arc<Table>,
}

impl XskTx {
    pub(super) fn new(queue: TxQueue, size: u32, table: Arc<Table>) -> XskTx {
        XskTx { queue, batch: Vec::with_capacity(size as usize), size, table }
    }
}

impl TxRing for XskTx {
    #[inline]
    fn push(&mut self, descriptor: Descriptor) {
        let mut desc = self.table.descriptors[descriptor.slot as usize];
        // SAFETY: the chunk is of this memory, and of a frame that its owner has given up to be sent:
        // nobody else reads or writes it.
        unsafe { self.table.umem.data_mut(&mut desc) }.cursor().set_pos(descriptor.len as usize);
        desc.set_options(if descriptor.more { CONTINUED } else { 0 });
        self.batch.push(desc);
    }

    #[inline]
    fn submit(&mut self) {
        // The kernel may show a frame as sent a moment before it shows that it has left the TX ring, so
        // there may be no room for a moment.
        //
        // SAFETY: as above; the chunks come back by the completion ring before they are used again.
        if !self.batch.is_empty() && unsafe { self.queue.produce(&self.batch) } > 0 {
            self.batch.clear();
        }
    }

    #[inline]
    fn unsent(&mut self) -> u32 {
        self.size - self.queue.nb_free_exact()
    }

    #[inline]
    fn needs_kick(&self) -> bool {
        self.queue.needs_wakeup()
    }

    #[inline]
    fn kick(&mut self) -> Kick {
        sys::kick_tx(self.queue.fd().as_raw_fd())
    }
}

/// The completion ring of a socket.
#[derive(Debug)]
pub(super) struct XskCompletion {
    queue: CompQueue,
    batch: Box<[FrameDesc; BATCH]>,
    table: Arc<Table>,
}

impl XskCompletion {
    pub(super) fn new(queue: CompQueue, table: Arc<Table>) -> XskCompletion {
        XskCompletion { queue, batch: Box::new([FrameDesc::default(); BATCH]), table }
    }
}

impl CompletionRing for XskCompletion {
    #[inline]
    fn completed(&mut self, mut each: impl FnMut(u32)) -> usize {
        // SAFETY: the batch is overwritten, whatever it holds; its descriptors come out of the ring of
        // this socket and so are of this memory.
        let n = unsafe { self.queue.consume(&mut self.batch[..]) };
        self.batch[..n].iter().for_each(|from| each(self.table.slot(from.addr())));
        n
    }
}
