//! Interfaces by AF_XDP sockets of the crate `xsk-rs`, with one packet memory for all of them.
//!
//! Each call of `xsk-rs` that moves a descriptor is unsafe: the descriptor must be of the same packet memory, and
//! nobody else may have it. Here that holds by construction. The memory belongs to [`Ports`], which no descriptor
//! ever leaves; and a descriptor is in one place at a time: among the free ones, or with the kernel (in one of four
//! rings), or in the batch on its way between these. So each is taken from where it was before it is given on. That holds
//! in the files, too, that move descriptors beside this one: what only the benchmark does, and what only the test does.
//!
//! In front of the sockets is the XDP program of a switch ([`attach`]); it is at the benchmark's far end, too, without a socket.

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

/// Most descriptors that are moved at once.
pub(crate) const BATCH: usize = 256;

/// Chunks that are worth refilling a ring for.
const REFILL: usize = 64;

/// How often a queue that is in use is tried again.
const BUSY_RETRIES: u32 = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// Descriptor of a buffer after which the frame goes on (linux/if_xdp.h).
pub(crate) const XDP_PKT_CONTD: u32 = 1;

/// XDP_MAX_TX_SKB_BUDGET (linux/if_xdp.h): most frames that one kick sends.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// What there is of a socket; the latter two where it is the first of its queue.
type Rings = (TxQueue, RxQueue, Option<(FillQueue, CompQueue)>);

/// How ports are opened.
#[derive(Clone, Copy, Debug)]
pub struct PortSettings {
    /// Entries of every ring. A port may keep as many chunks for what comes in, and as many for what is sent.
    pub ring: u32,
    /// Bytes that stay free at the start of each chunk, beside the 256 that XDP takes.
    pub headroom: u32,
    /// Most buffers that a frame may take: more than one is XDP multi-buffer.
    pub buffers: usize,
}

impl Default for PortSettings {
    fn default() -> PortSettings {
        PortSettings { ring: 2048, headroom: 0, buffers: 1 }
    }
}

/// A switch's XDP program at work on an interface, natively; dropping it takes it off.
#[derive(Debug)]
pub struct Program {
    // Goes before the claim does.
    _attached: Attached,
    _claim: Claim,
}

/// Gives what comes in on queue 0 of `device` to the socket, or ends it where there is none.
///
/// # Errors
/// Where the driver does not run XDP programs, and what else the kernel says.
pub fn attach(device: &str, socket: Option<BorrowedFd<'_>>) -> Result<Program, BenchError> {
    let ifindex = if_nametoindex(device)
        .map_err(|source| BenchError::NoSuchInterface { device: device.to_owned(), source })?;
    let claim = Claim::take(device, ifindex.cast_signed())?;
    let sockets: Vec<_> = socket.map(|socket| (0, socket)).into_iter().collect();
    // No clsact is made, so that where there is none the program is alone, without the filter for what the stack sends.
    let attached = xoff_ebpf::attach(&claim, &sockets, Some(Mode::Native), None, Clsact::Found)?;
    Ok(Program { _attached: attached, _claim: claim })
}

/// Ports, and the packet memory that they share.
#[derive(Debug)]
pub struct Ports {
    pub(crate) ports: Vec<Port>,
    pub(crate) free: Vec<FrameDesc>,
    /// By chunk, what was last sent of it.
    pub(crate) sent: Vec<FrameDesc>,
    pub(crate) batch: [FrameDesc; BATCH],
    pub(crate) umem: Umem,
    /// Bytes of a frame that a chunk holds.
    room: usize,
    /// Most chunks that a frame may take.
    buffers: usize,
}

#[derive(Debug)]
pub(crate) struct Port {
    /// Goes before the socket does.
    program: Option<Program>,
    pub(crate) rx: RxQueue,
    pub(crate) fill: FillQueue,
    pub(crate) tx: TxQueue,
    pub(crate) completion: CompQueue,
    pub(crate) device: String,
    ring: usize,
    /// Chunks in the fill or the RX ring, or between them.
    pub(crate) receiving: usize,
}

impl Ports {
    /// Opens a socket on queue 0 of each device. Frames come in once [`listen`](Self::listen) was called.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn open(devices: &[&str], settings: &PortSettings) -> Result<Ports, BenchError> {
        let count = u32::try_from(devices.len()).unwrap_or(u32::MAX);
        let chunks = settings.ring.saturating_mul(2).saturating_mul(count);
        let chunk_bytes = XDP_UMEM_MIN_CHUNK_SIZE;
        let refused = |reason: String| BenchError::Memory { chunks, chunk_bytes, reason };
        let ring = QueueSize::new(settings.ring).map_err(|error| refused(said(&error)))?;
        let config = UmemConfig::builder()
            .frame_size(FrameSize::new(chunk_bytes).map_err(|error| refused(said(&error)))?)
            .fill_queue_size(ring)
            .comp_queue_size(ring)
            .frame_headroom(settings.headroom)
            .build()
            .map_err(|error| refused(said(&error)))?;
        let nonzero = NonZeroU32::new(chunks).ok_or_else(|| refused("name a device".to_owned()))?;
        let (umem, free) = Umem::new(config, nonzero, false).map_err(|error| refused(said(&error)))?;
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

    /// Takes in everything that comes to the ports from here on.
    ///
    /// # Errors
    /// Where the driver does not run XDP programs.
    pub fn listen(&mut self) -> Result<(), BenchError> {
        for at in 0..self.ports.len() {
            self.refill(at);
            let port = &mut self.ports[at];
            // SAFETY: the socket is open as long as `port.rx` is there, and that is longer than what borrows it here:
            // `attach` enters it into the program's map, which keeps it by itself.
            let socket = unsafe { BorrowedFd::borrow_raw(port.rx.fd().as_raw_fd()) };
            port.program = Some(attach(&port.device, Some(socket))?);
        }
        Ok(())
    }

    /// Writes a frame, and puts it on the port's TX ring; [`kick`](Self::kick) makes the kernel send it. Says whether
    /// there was room.
    ///
    /// # Errors
    /// Where it takes more chunks than it may.
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
            let mut chunk = self.free.pop().expect("looked at above");
            {
                // SAFETY: it was free until here, and belongs to this memory.
                let mut data = unsafe { self.umem.data_mut(&mut chunk) };
                let mut cursor = data.cursor();
                cursor.set_pos(0);
                cursor.write_all(part).expect("a part fits a chunk");
            }
            chunk.set_options(if at + 1 < chunks { XDP_PKT_CONTD } else { 0 });
            self.sent[chunk.addr() / XDP_UMEM_MIN_CHUNK_SIZE as usize] = chunk;
            self.batch[at] = chunk;
        }
        // SAFETY: the descriptors were taken from the free ones above.
        let taken = unsafe { to.tx.produce(&self.batch[..chunks]) };
        assert_eq!(taken, chunks, "the ring had room");
        Ok(true)
    }

    /// Makes the kernel send what is on the TX ring, if it has to be told.
    ///
    /// # Errors
    /// Where the kernel does not send.
    pub fn kick(&mut self, port: usize) -> Result<(), BenchError> {
        let port = &mut self.ports[port];
        if port.unsent() > 0 && port.tx.needs_wakeup() {
            port.tx.wakeup().map_err(|source| BenchError::Kick { device: port.device.clone(), source })?;
        }
        Ok(())
    }

    /// Takes back what has left, and says how many chunks that was.
    pub fn reap(&mut self, port: usize) -> usize {
        // SAFETY: what is in the batch was given on; the descriptors that are written there leave the completion ring.
        let back = unsafe { self.ports[port].completion.consume(&mut self.batch) };
        self.free.extend_from_slice(&self.batch[..back]);
        back
    }

    /// Gives the kernel free chunks to receive into, as many as the ring holds; waits until a batch is worth it.
    pub fn refill(&mut self, port: usize) {
        let to = &mut self.ports[port];
        let missing = (to.ring - to.receiving).min(self.free.len());
        if missing < REFILL.min(to.ring) {
            return;
        }
        let kept = self.free.len() - missing;
        // SAFETY: they are taken from the free ones right below.
        let taken = unsafe { to.fill.produce(&self.free[kept..]) };
        assert_eq!(taken, missing, "the ring had room");
        self.free.truncate(kept);
        to.receiving += missing;
        if to.fill.needs_wakeup() {
            // What it says is whether there is something to read.
            let _ = to.fill.wakeup(to.rx.fd_mut(), 0);
        }
    }
}

impl Port {
    fn open(device: &str, umem: &Umem, settings: &PortSettings, ring: QueueSize) -> Result<Port, BenchError> {
        let refused = |reason: String| BenchError::Socket { device: device.to_owned(), reason };
        let interface: Interface = device.parse().map_err(|error| refused(said(&error)))?;
        let mut flags = BindFlags::XDP_USE_NEED_WAKEUP;
        flags.set(BindFlags::XDP_USE_SG, settings.buffers > 1);
        let config = SocketConfig::builder()
            .rx_queue_size(ring)
            .tx_queue_size(ring)
            .libxdp_flags(LibxdpFlags::XSK_LIBXDP_FLAGS_INHIBIT_PROG_LOAD)
            .bind_flags(flags)
            .build();
        let (tx, rx, shared) = socket(config, umem, &interface).map_err(|error| refused(said(&error)))?;
        let (fill, completion) = shared.ok_or_else(|| refused("it was named twice".to_owned()))?;
        raise_budget(tx.fd().as_raw_fd(), settings.ring);
        let ring = settings.ring as usize;
        Ok(Port { program: None, rx, fill, tx, completion, device: device.to_owned(), ring, receiving: 0 })
    }

    /// Descriptors on the TX ring that the kernel has not taken.
    pub(crate) fn unsent(&mut self) -> usize {
        self.ring - self.tx.nb_free_exact() as usize
    }
}

/// Opens a socket; waits a moment where that of a process which has ended still has the queue.
fn socket(config: SocketConfig, umem: &Umem, interface: &Interface) -> Result<Rings, SocketCreateError> {
    for _ in 0..BUSY_RETRIES {
        // SAFETY: no program is loaded with it.
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

/// [`BATCH`], as the rings count.
pub(crate) const BATCH_U32: u32 = 256;
const _: () = assert!(BATCH_U32 as usize == BATCH);

/// Lets one kick send `frames`, where the kernel knows the option (Linux 6.17); others send 32.
fn raise_budget(socket: RawFd, frames: u32) {
    let len = u32::try_from(size_of::<u32>()).expect("a few bytes");
    // SAFETY: `frames` is readable, and of the size given. Only a matter of speed: whether it holds says the kick.
    unsafe {
        libc::setsockopt(socket, libc::SOL_XDP, XDP_MAX_TX_SKB_BUDGET, (&raw const frames).cast(), len);
    }
}

/// An error of `xsk-rs` with what is behind it.
fn said(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
