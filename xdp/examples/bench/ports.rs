//! Interfaces by AF_XDP sockets of the crate `xsk-rs`, with one packet memory for all of them.
//!
//! Each call of `xsk-rs` that moves a descriptor is unsafe: the descriptor must be of the same packet memory, and
//! nobody else may have it. Here that holds by construction. The memory belongs to [`Ports`], which no descriptor
//! ever leaves; and a descriptor is in one place at a time: among the free ones, or with the kernel (in one of four
//! rings), or in the batch on its way between these. So each is taken from where it was before it is given on.
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
use xsk_rs::socket::{SocketCreateError, XdpStatistics};
use xsk_rs::{CompQueue, FillQueue, FrameDesc, RxQueue, Socket, TxQueue, Umem};

use crate::error::BenchError;

/// Most descriptors that are moved at once.
const BATCH: usize = 256;

/// Chunks that are worth refilling a ring for.
const REFILL: usize = 64;

/// How often a queue that is in use is tried again.
const BUSY_RETRIES: u32 = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// Descriptor of a buffer after which the frame goes on (linux/if_xdp.h).
const XDP_PKT_CONTD: u32 = 1;

/// XDP_MAX_TX_SKB_BUDGET (linux/if_xdp.h): most frames that one kick sends.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// What there is of a socket; the latter two where it is the first of its queue.
type Rings = (TxQueue, RxQueue, Option<(FillQueue, CompQueue)>);

/// How many buffers a frame may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// One.
    One,
    /// As many as it needs (XDP multi-buffer).
    Several,
}

/// How ports are opened.
#[derive(Clone, Copy, Debug)]
pub struct PortSettings {
    /// Entries of every ring. A port may keep as many chunks for what comes in, and as many for what is sent.
    pub ring: u32,
    /// Bytes that stay free at the start of each chunk, beside the 256 that XDP takes.
    pub headroom: u32,
    /// How many buffers a frame may take.
    pub buffers: Buffers,
}

impl Default for PortSettings {
    fn default() -> PortSettings {
        PortSettings { ring: 2048, headroom: 0, buffers: Buffers::One }
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
    ports: Vec<Port>,
    free: Vec<FrameDesc>,
    /// By chunk, what was last sent of it; for [`Ports::send_again`].
    sent: Vec<FrameDesc>,
    batch: [FrameDesc; BATCH],
    umem: Umem,
    /// Bytes of a frame that a chunk holds.
    room: usize,
}

#[derive(Debug)]
struct Port {
    /// Goes before the socket does.
    program: Option<Program>,
    rx: RxQueue,
    fill: FillQueue,
    tx: TxQueue,
    completion: CompQueue,
    device: String,
    ring: usize,
    /// Chunks in the fill or the RX ring, or between them.
    receiving: usize,
    /// Buffers of a frame whose end has not come yet.
    partial: Vec<u8>,
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

    /// Moves what has come in at one port to the other, makes the kernel send it, and says how many descriptors it was.
    ///
    /// # Errors
    /// Where the kernel does not send.
    pub fn forward(&mut self, from: usize, to: usize) -> Result<usize, BenchError> {
        self.reap(to);
        let room = self.ports[to].tx.nb_free(BATCH_U32) as usize;
        let batch = &mut self.batch[..room.min(BATCH)];
        // SAFETY: what is in the batch was given on; the descriptors that are written there leave the RX ring.
        let received = unsafe { self.ports[from].rx.consume(batch) };
        self.ports[from].receiving -= received;
        // SAFETY: they left the RX ring just now, and are nowhere else.
        let taken = unsafe { self.ports[to].tx.produce(&batch[..received]) };
        assert_eq!(taken, received, "the ring had room");
        self.kick(to)?;
        self.refill(from);
        Ok(received)
    }

    /// Writes a frame, and puts it on the port's TX ring; [`kick`](Self::kick) makes the kernel send it. Says whether
    /// there was room.
    ///
    /// # Errors
    /// Where it takes more than one chunk, and may not.
    pub fn send(&mut self, port: usize, buffers: Buffers, frame: &[u8]) -> Result<bool, BenchError> {
        let chunks = if buffers == Buffers::One { 1 } else { frame.len().div_ceil(self.room) };
        if frame.is_empty() || frame.len() > chunks * self.room || chunks > BATCH {
            return Err(BenchError::TooLong { bytes: frame.len(), chunks, room: self.room });
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

    /// Puts what has left on the port's TX ring once more, and makes the kernel send it.
    ///
    /// # Errors
    /// Where the kernel does not send.
    pub fn send_again(&mut self, port: usize) -> Result<(), BenchError> {
        let to = &mut self.ports[port];
        // SAFETY: what is in the batch was given on; the descriptors that are written there leave the completion ring.
        let back = unsafe { to.completion.consume(&mut self.batch) };
        for chunk in &mut self.batch[..back] {
            *chunk = self.sent[chunk.addr() / XDP_UMEM_MIN_CHUNK_SIZE as usize];
        }
        // SAFETY: the same chunks, with the lengths that they had: they left the completion ring just now.
        let taken = unsafe { to.tx.produce(&self.batch[..back]) };
        assert_eq!(taken, back, "they had room before");
        self.kick(port)
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

    /// The next frame that has come in whole.
    pub fn receive(&mut self, port: usize) -> Option<Vec<u8>> {
        let from = &mut self.ports[port];
        let mut chunk = FrameDesc::default();
        // SAFETY: the descriptor that is written leaves the RX ring.
        while unsafe { from.rx.consume_one(&mut chunk) } == 1 {
            from.receiving -= 1;
            // SAFETY: it left the RX ring just now, and is nowhere else; the kernel says how much of it was written.
            from.partial.extend_from_slice(unsafe { self.umem.data(&chunk) }.contents());
            self.free.push(chunk);
            if !chunk.has_more_frames() {
                return Some(std::mem::take(&mut from.partial));
            }
        }
        None
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

    /// Descriptors on the TX ring that the kernel has not taken.
    pub fn unsent(&mut self, port: usize) -> usize {
        self.ports[port].unsent()
    }

    /// Whether the kernel wants to be told of what is on the TX ring.
    #[must_use]
    pub fn needs_kick(&self, port: usize) -> bool {
        self.ports[port].tx.needs_wakeup()
    }

    /// What the socket has counted.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn statistics(&self, port: usize) -> io::Result<XdpStatistics> {
        self.ports[port].rx.fd().xdp_statistics()
    }
}

impl Port {
    fn open(device: &str, umem: &Umem, settings: &PortSettings, ring: QueueSize) -> Result<Port, BenchError> {
        let refused = |reason: String| BenchError::Socket { device: device.to_owned(), reason };
        let interface: Interface = device.parse().map_err(|error| refused(said(&error)))?;
        let mut flags = BindFlags::XDP_USE_NEED_WAKEUP;
        flags.set(BindFlags::XDP_USE_SG, settings.buffers == Buffers::Several);
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
        Ok(Port {
            program: None,
            rx,
            fill,
            tx,
            completion,
            device: device.to_owned(),
            ring,
            receiving: 0,
            partial: Vec::new(),
        })
    }

    fn unsent(&mut self) -> usize {
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
const BATCH_U32: u32 = 256;
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
