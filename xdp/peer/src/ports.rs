//! AF_XDP sockets of the crate `xsk-rs`, with one packet memory for all interfaces.
//!
//! Calls of `xsk-rs` that move a descriptor are sound if the descriptor is of the same packet memory, and nobody else has it. In this
//! crate:
//!
//! * The memory belongs to [`Ports`], and no descriptor leaves it.
//! * A descriptor is in one place at a time (free list, ring or batch): each move takes it from one place before adding it to another.

use std::error::Error;
use std::io::{self, Write as _};
use std::num::NonZeroU32;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::thread;
use std::time::Duration;

use nix::net::if_::if_nametoindex;
use xoff_ebpf::{Attached, Claim, Clsact, Mode};
use xsk_rs::config::{
    BindFlags, FrameSize, Interface, LibxdpFlags, QueueSize, SocketConfig, UmemConfig,
    XDP_UMEM_MIN_CHUNK_SIZE,
};
use xsk_rs::socket::SocketCreateError;
use xsk_rs::{CompQueue, FillQueue, FrameDesc, RxQueue, Socket, TxQueue, Umem};

use crate::error::BenchError;

pub(crate) const BATCH: usize = 256;

const REFILL: usize = 64;

const BUSY_RETRIES: u32 = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// Flag of a descriptor whose frame continues in the next buffer (linux/if_xdp.h).
pub(crate) const XDP_PKT_CONTD: u32 = 1;

const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// Rings of a socket. Only the first socket at a device queue has fill and completion rings.
type Rings = (TxQueue, RxQueue, Option<(FillQueue, CompQueue)>);

#[derive(Clone, Copy, Debug)]
pub struct PortSettings {
    pub ring: u32,
    /// Bytes kept free in front of each frame, in addition to XDP's 256.
    pub headroom: u32,
    /// Maximum number of buffers for a frame. More than one requires XDP multi-buffer.
    pub buffers: usize,
}

impl Default for PortSettings {
    fn default() -> PortSettings {
        PortSettings { ring: 2048, headroom: 0, buffers: 1 }
    }
}

/// XDP program of the switch, attached in native mode until this value is dropped.
#[derive(Debug)]
pub struct Program {
    // Declared before the claim, so that the XDP program is detached while the interface is still claimed.
    _attached: Attached,
    _claim: Claim,
}

/// Attaches the XDP program, which passes frames of queue 0 to `socket`, or drops them without one.
pub fn attach(device: &str, socket: Option<BorrowedFd<'_>>) -> Result<Program, BenchError> {
    let ifindex = if_nametoindex(device)
        .map_err(|source| BenchError::NoSuchInterface { device: device.to_owned(), source })?;
    let claim = Claim::take(device, ifindex.cast_signed())?;
    let sockets: Vec<_> = socket.map(|socket| (0, socket)).into_iter().collect();
    // Attach no filter for the kernel's own frames: it needs a clsact qdisc, which this program does not create.
    let attached = xoff_ebpf::attach(&claim, &sockets, Some(Mode::Native), None, false, Clsact::Found)?;
    Ok(Program { _attached: attached, _claim: claim })
}

#[derive(Debug)]
pub struct Ports {
    pub(crate) ports: Vec<Port>,
    pub(crate) free: Vec<FrameDesc>,
    pub(crate) sent: Vec<FrameDesc>,
    pub(crate) batch: [FrameDesc; BATCH],
    pub(crate) umem: Umem,
    room: usize,
    buffers: usize,
}

#[derive(Debug)]
pub(crate) struct Port {
    /// Declared before the socket, so that the XDP program is detached before the socket closes.
    program: Option<Program>,
    pub(crate) rx: RxQueue,
    pub(crate) fill: FillQueue,
    pub(crate) tx: TxQueue,
    pub(crate) completion: CompQueue,
    pub(crate) device: String,
    ring: usize,
    pub(crate) receiving: usize,
}

impl Ports {
    /// Opens a socket on queue 0 of each device. Frames arrive only after [`listen`](Self::listen).
    pub fn open(devices: &[&str], settings: &PortSettings) -> Result<Ports, BenchError> {
        let count = u32::try_from(devices.len()).unwrap_or(u32::MAX);
        let chunks = settings.ring.saturating_mul(2).saturating_mul(count);
        let chunk_bytes = XDP_UMEM_MIN_CHUNK_SIZE;
        let refused = |reason: String| BenchError::Memory { chunks, chunk_bytes, reason };
        let ring = QueueSize::new(settings.ring).map_err(|error| refused(describe(&error)))?;
        let config = UmemConfig::builder()
            .frame_size(FrameSize::new(chunk_bytes).map_err(|error| refused(describe(&error)))?)
            .fill_queue_size(ring)
            .comp_queue_size(ring)
            .frame_headroom(settings.headroom)
            .build()
            .map_err(|error| refused(describe(&error)))?;
        let nonzero = NonZeroU32::new(chunks).ok_or_else(|| refused("no device was given".to_owned()))?;
        let (umem, free) = Umem::new(config, nonzero, false).map_err(|error| refused(describe(&error)))?;
        let ports = devices.iter().map(|device| Port::open(device, &umem, settings, ring));
        Ok(Ports {
            ports: ports.collect::<Result<_, _>>()?,
            sent: free.clone(),
            free,
            batch: [FrameDesc::default(); BATCH],
            umem,
            room: config.mtu() as usize,
            buffers: settings.buffers,
        })
    }

    pub fn listen(&mut self) -> Result<(), BenchError> {
        for at in 0..self.ports.len() {
            self.refill(at);
            let port = &mut self.ports[at];
            // SAFETY: `port.rx` keeps the socket open for longer than this borrow; the program's map then has its own
            // reference.
            let socket = unsafe { BorrowedFd::borrow_raw(port.rx.fd().as_raw_fd()) };
            port.program = Some(attach(&port.device, Some(socket))?);
        }
        Ok(())
    }

    /// Puts a frame on the port's TX ring for the next [`kick`](Self::kick). Returns false if the ring or the memory is full.
    pub fn send(&mut self, port: usize, frame: &[u8]) -> Result<bool, BenchError> {
        let (chunks, most) = (frame.len().div_ceil(self.room), self.buffers.min(BATCH));
        if frame.is_empty() || chunks > most {
            return Err(BenchError::TooLong { bytes: frame.len(), chunks: most, room: self.room });
        }
        let to = &mut self.ports[port];
        if self.free.len() < chunks || (to.tx.nb_free_exact() as usize) < chunks {
            return Ok(false);
        }
        for (part, at) in frame.chunks(self.room).zip(0..) {
            let mut chunk = self.free.pop().expect("a free chunk must be left");
            {
                // SAFETY: the chunk has left the free list, and belongs to this memory.
                let mut data = unsafe { self.umem.data_mut(&mut chunk) };
                let mut cursor = data.cursor();
                cursor.set_pos(0);
                cursor.write_all(part).expect("each part of the frame must fit into a chunk");
            }
            chunk.set_options(if at + 1 < chunks { XDP_PKT_CONTD } else { 0 });
            self.sent[chunk.addr() / XDP_UMEM_MIN_CHUNK_SIZE as usize] = chunk;
            self.batch[at] = chunk;
        }
        // SAFETY: the descriptors have left the free list, and are nowhere else.
        let taken = unsafe { to.tx.produce(&self.batch[..chunks]) };
        assert_eq!(taken, chunks, "the TX ring must have room for the frame");
        Ok(true)
    }

    pub fn kick(&mut self, port: usize) -> Result<(), BenchError> {
        let port = &mut self.ports[port];
        if port.unsent() > 0 && port.tx.needs_wakeup() {
            port.tx.wakeup().map_err(|source| BenchError::Kick { device: port.device.clone(), source })?;
        }
        Ok(())
    }

    pub fn reap(&mut self, port: usize) -> usize {
        // SAFETY: the kernel gives up the chunks of the descriptors that it returns. Those overwritten were passed on
        // before.
        let back = unsafe { self.ports[port].completion.consume(&mut self.batch) };
        self.free.extend_from_slice(&self.batch[..back]);
        back
    }

    pub fn refill(&mut self, port: usize) {
        let to = &mut self.ports[port];
        let missing = (to.ring - to.receiving).min(self.free.len());
        if missing < REFILL.min(to.ring) {
            return;
        }
        let kept = self.free.len() - missing;
        // SAFETY: the descriptors are of this memory, and `truncate` removes them from the free list.
        let taken = unsafe { to.fill.produce(&self.free[kept..]) };
        assert_eq!(taken, missing, "the fill ring must have room for all missing chunks");
        self.free.truncate(kept);
        to.receiving += missing;
        if to.fill.needs_wakeup() {
            // Ignore the result, which only says whether frames are readable.
            let _ = to.fill.wakeup(to.rx.fd_mut(), 0);
        }
    }
}

impl Port {
    fn open(device: &str, umem: &Umem, settings: &PortSettings, ring: QueueSize) -> Result<Port, BenchError> {
        let refused = |reason: String| BenchError::Socket { device: device.to_owned(), reason };
        let interface: Interface = device.parse().map_err(|error| refused(describe(&error)))?;
        let mut flags = BindFlags::XDP_USE_NEED_WAKEUP;
        flags.set(BindFlags::XDP_USE_SG, settings.buffers > 1);
        let config = SocketConfig::builder()
            .rx_queue_size(ring)
            .tx_queue_size(ring)
            .libxdp_flags(LibxdpFlags::XSK_LIBXDP_FLAGS_INHIBIT_PROG_LOAD)
            .bind_flags(flags)
            .build();
        let (tx, rx, shared) = socket(config, umem, &interface).map_err(|error| refused(describe(&error)))?;
        let (fill, completion) = shared.ok_or_else(|| refused("the device was given twice".to_owned()))?;
        raise_budget(tx.fd().as_raw_fd(), settings.ring);
        let ring = settings.ring as usize;
        Ok(Port { program: None, rx, fill, tx, completion, device: device.to_owned(), ring, receiving: 0 })
    }

    pub(crate) fn unsent(&mut self) -> usize {
        self.ring - self.tx.nb_free_exact() as usize
    }
}

fn socket(config: SocketConfig, umem: &Umem, interface: &Interface) -> Result<Rings, SocketCreateError> {
    for _ in 0..BUSY_RETRIES {
        // SAFETY: `config` inhibits program loading, as `new` requires.
        match unsafe { Socket::new(config, umem, interface, 0) } {
            Err(error) if errno(&error) == Some(libc::EBUSY) => thread::sleep(BUSY_PAUSE),
            opened => return opened,
        }
    }
    // SAFETY: as above.
    unsafe { Socket::new(config, umem, interface, 0) }
}

fn errno(error: &SocketCreateError) -> Option<i32> {
    error.source()?.downcast_ref::<io::Error>()?.raw_os_error()
}

pub(crate) const BATCH_U32: u32 = 256;
const _: () = assert!(BATCH_U32 as usize == BATCH);

/// Raises the number of frames that the kernel may send in one system call (Linux 6.17).
fn raise_budget(socket: RawFd, frames: u32) {
    let len = u32::try_from(size_of::<u32>()).expect("an integer exceeds 4 GiB");
    // SAFETY: `frames` is readable, and has the given size. An error costs only speed, so it is ignored.
    unsafe {
        libc::setsockopt(socket, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, (&raw const frames).cast(), len);
    }
}

fn describe(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
