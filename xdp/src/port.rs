//! One interface: the XDP program, a socket for each hardware queue, and the rings of each.
//!
//! All queues receive. One sends, so that frames leave in the order in which the switch sent them.
//!
//! A port has packet memory of its own. A switch opens its ports at its start and later, by threads that do not forward: what comes
//! before a worker [has](Port::begin) the port fills no chunk, is not for the switch, and is no loss. A port by itself
//! ([`Port::open`]) has chunks before the XDP program gives it frames.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

use xoff_dataplane::driver::{self, Port as _};
use xoff_dataplane::frame::{FRAME_MAX, Frame};
use xoff_ebpf::{Attached, Mode};
use xoff_wire::units::PortId;

use crate::chunks::PacketMemory;
use crate::device::{Device, Facts};
use crate::error::{Obstacle, XdpError, check_privileges};
use crate::layout::ReceiveChunks;
use crate::monitor::{Monitor, SocketMemory};
use crate::options::PortOptions;
use crate::receive::Receiver;
use crate::socket::{Socket, XskCompletion, XskFill, XskRx, XskTx};
use crate::store::Store;
use crate::sys;
use crate::transmit::Transmitter;
use crate::umem::{Umem, UmemSettings, ZeroCopy};

/// A port to be: its device is ready and its sockets are bound, but nothing arrives yet, because no XDP program gives
/// them anything.
struct Prepared {
    // Dropped in this order: sockets, device.
    receivers: Vec<Receiver<XskRx, XskFill>>,
    transmitter: Transmitter<XskTx, XskCompletion>,
    idle: Vec<(XskTx, XskCompletion)>,
    device: Device,
    queues: Vec<u32>,
    /// As what is known beforehand has it.
    mode: Option<Mode>,
    /// Maximum bytes of a frame; `None` where it may take several chunks.
    longest: Option<u32>,
    chunk_bytes: u32,
}

impl Prepared {
    /// Makes the device ready and opens a socket for each of its queues, unless it is known beforehand that it does not do.
    fn open(options: &PortOptions, zero_copy: ZeroCopy) -> Result<(Prepared, Box<PacketMemory>), XdpError> {
        check_privileges()?;
        let PortOptions { rings, chunk_bytes, receive_size, multi_buffer, .. } = *options;
        if !matches!(chunk_bytes, 2048 | 4096) {
            let (what, allowed) = ("the size of a chunk", "2048 or 4096");
            return Err(XdpError::Size { what, given: chunk_bytes, allowed });
        }
        let mut device = Device::take(&options.device)?;
        let queues = queues_of(options.queues.as_deref(), &device)?;
        let mode = device.mode(options.mode)?;
        let multi_buffer = multi_buffer || receive_size == ReceiveChunks::Small;
        if zero_copy == ZeroCopy::On {
            able_to_share(&device, mode.unwrap_or(Mode::Native), chunk_bytes)?;
        }
        device.prepare()?;
        let receive = options.receive_chunks.clamp(1, rings.fill.min(rings.rx));
        let transmit = options.transmit_chunks.clamp(1, rings.tx.min(rings.completion));
        let chunks = [
            receive.saturating_mul(count(&queues)),
            options.window.saturating_mul(count(&queues)).max(1),
            transmit,
        ];
        let memory = PacketMemory::new(chunk_bytes, receive_size, chunks).map(Box::new);
        let bytes = chunks.iter().map(|&chunks| u64::from(chunks) * u64::from(chunk_bytes)).sum();
        let memory = memory.map_err(|source| XdpError::Memory { bytes, source })?;
        let settings = UmemSettings { chunks: memory.layout(), multi_buffer, zero_copy, rings };
        let umem = Umem::new(memory.mapping(), settings)?;
        let room = memory.layout().transmit_room();
        let pieces_max = if multi_buffer { FRAME_MAX.div_ceil(room) } else { 1 };
        let mut receivers = Vec::with_capacity(queues.len());
        let mut transmitter = None;
        let mut idle = Vec::new();
        for &queue in &queues {
            let Socket { rx, fill, tx, completion } =
                Socket::open(&umem, (device.name(), device.ifindex().cast_unsigned()), queue)?;
            if transmitter.is_none() {
                sys::set_tx_budget(rx.as_fd(), rings.tx);
                transmitter = Some(Transmitter::new(tx, completion, transmit, pieces_max));
            } else {
                idle.push((tx, completion));
            }
            receivers.push(Receiver::new(rx, fill, receive));
        }
        let prepared = Prepared {
            receivers,
            transmitter: transmitter.expect("a port has at least one queue"),
            idle,
            device,
            queues,
            mode,
            longest: (!multi_buffer).then_some(room),
            chunk_bytes,
        };
        Ok((prepared, memory))
    }

    /// Has the frames come: the port is open.
    fn attach(self) -> Result<Port, XdpError> {
        // Where one of them is dropped here, the device is the last.
        let Prepared { mut device, receivers, transmitter, idle, queues, mode, longest, chunk_bytes } = self;
        let sockets: Vec<(u32, BorrowedFd<'_>)> =
            queues.iter().copied().zip(receivers.iter().map(descriptor)).collect();
        let program = xoff_ebpf::attach(device.claim(), &sockets, mode, longest, device.clsact())?;
        device.filtered(program.filter());
        let zero_copy = sys::is_zero_copy(receivers[0].rx().as_fd());
        if zero_copy {
            able_to_share(&device, program.mode(), chunk_bytes)?;
        }
        let memory = if zero_copy { SocketMemory::Shared } else { SocketMemory::Copied };
        let facts = device.facts(count(&queues), program.mode(), zero_copy);
        let descriptors: Vec<_> = sockets.iter().map(|&(_, socket)| socket).collect();
        let malformed = receivers.iter().map(Receiver::malformed).collect();
        let monitor = Monitor::new(
            (device.ifindex(), device.queues()),
            (&descriptors, memory),
            (
                program.program(),
                program.dropped().map_err(XdpError::Program)?,
                program.arrived().map_err(XdpError::Program)?,
            ),
            malformed,
            transmitter.dropped(),
            transmitter.failed(),
        );
        let monitor = monitor.map(Arc::new).map_err(|source| XdpError::Device {
            doing: "read the counters of",
            device: device.name().to_owned(),
            source,
        })?;
        Ok(Port {
            id: PortId(0),
            memory: None,
            program,
            receivers,
            transmitter,
            is_data_stopped: false,
            _idle: idle,
            monitor,
            facts,
            device,
        })
    }
}

/// A port, open: frames arrive at it from the moment that it exists. Dropping it takes the XDP program
/// off, closes the sockets, and leaves the device as it was found; that must happen in the network namespace
/// where it was opened.
#[derive(Debug)]
pub struct Port {
    /// Its number at its worker.
    id: PortId,
    /// Its packet memory, until a worker has it.
    memory: Option<Box<PacketMemory>>,
    // Dropped in this order: program, sockets, device.
    program: Attached,
    receivers: Vec<Receiver<XskRx, XskFill>>,
    transmitter: Transmitter<XskTx, XskCompletion>,
    is_data_stopped: bool,
    /// Halves of further sockets that are not used, but belong to them.
    _idle: Vec<(XskTx, XskCompletion)>,
    monitor: Arc<Monitor>,
    facts: Facts,
    device: Device,
}

impl Port {
    /// Opens a port, and gives it to the worker of `store`, which knows it by this number.
    ///
    /// # Errors
    /// [`XdpError`], with the device as it was.
    ///
    /// # Panics
    /// Where the worker has another port of that number.
    pub fn open(store: &mut Store, id: PortId, options: &PortOptions) -> Result<Port, XdpError> {
        where_it_can(options, |zero_copy| {
            let (mut prepared, memory) = Prepared::open(options, zero_copy)?;
            store.add_memory(id, memory);
            prepared.receivers.iter_mut().for_each(|receiver| receiver.refill(id, store));
            let port = prepared.attach().inspect_err(|_| drop(store.take_memory(id)))?;
            port.monitor.had_chunks();
            Ok(Port { id, ..port })
        })
    }

    /// Opens a port that has nothing to receive into yet: it [begins](Self::begin) when a worker has it.
    ///
    /// # Errors
    /// [`XdpError`], with the device as it was.
    pub fn without_chunks(options: &PortOptions) -> Result<Port, XdpError> {
        where_it_can(options, |zero_copy| {
            let (prepared, memory) = Prepared::open(options, zero_copy)?;
            Ok(Port { memory: Some(memory), ..prepared.attach()? })
        })
    }

    /// A worker has the port from now on, by this number: what its sockets dropped before is no loss. What the
    /// device did is said of its [monitor](Monitor::begin), by who has the time.
    ///
    /// # Panics
    /// Where the worker has another port of that number.
    pub fn begin(&mut self, id: PortId, store: &mut Store) {
        self.id = id;
        if let Some(memory) = self.memory.take() {
            store.add_memory(id, memory);
        }
        self.refill(store);
        self.monitor.has_chunks();
    }

    /// A frame of `len` bytes with unspecified contents, in the port's own memory, to be sent by it. `None` where too much is with the
    /// kernel, or the store has no slot.
    #[inline]
    pub fn compose(&self, store: &mut Store, len: u32) -> Option<Frame> {
        store.compose(self.id, len)
    }

    /// What the port turned out to be.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Chunks that the kernel receives into, or has received into since the last look.
    #[must_use]
    pub fn chunks_out(&self) -> u32 {
        self.receivers.iter().map(Receiver::out).sum()
    }

    /// The link is lost: finds out whether the interface is gone with it.
    pub fn link_lost(&mut self) {
        self.transmitter.look();
    }

    /// Ends the sending of data: [`room`](Self::room) is zero from now on. Pause frames are still sent, and what the kernel has comes back
    /// by [`reap`](Self::reap).
    pub fn stop_data(&mut self) {
        self.is_data_stopped = true;
    }

    /// Whether nothing is with the kernel that it may still send, unless it is told to by another [`flush`](Self::flush).
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.transmitter.is_at_rest()
    }

    /// Whether all that the kernel has received was taken.
    pub fn is_received(&mut self) -> bool {
        self.receivers.iter_mut().all(Receiver::is_empty)
    }

    /// Whether the store has room for the frames that came in by the port and still wait.
    #[must_use]
    pub fn can_leave(&self, store: &Store) -> bool {
        store.can_take_memory(self.id)
    }

    /// Takes leave of an interface that is gone, or at which the port [is at rest](Self::is_at_rest): calls `unsent` with what has not
    /// been sent. To be called when nothing is left to be [received](Self::receive); what comes in from now on is nobody's. Frames that
    /// have come in stay in the store.
    ///
    /// # Panics
    /// Where the kernel may still send something, or the store [has no room](Self::can_leave).
    #[cold]
    pub fn leave(&mut self, store: &mut Store, unsent: impl FnMut(&mut Store, Frame)) {
        self.take_back(store, unsent);
        self.receivers.iter_mut().for_each(|receiver| receiver.end(store));
        self.memory = store.take_memory(self.id);
    }

    /// Closes a port that was left, or never used, and leaves the device as it was found, if it is there.
    pub fn close(self) {
        let Port { program, receivers, transmitter, _idle, memory, monitor, mut device, .. } = self;
        drop(program);
        if monitor.is_gone() {
            device.forget();
        }
        drop((receivers, transmitter, _idle, monitor, memory)); // the sockets, before the device is anybody's
    }

    /// Whether the kernel has yet to take frames that it was given to send: only a [`flush`](Self::flush) makes it.
    #[must_use]
    pub fn is_unsent(&self) -> bool {
        self.transmitter.is_unsent()
    }

    /// The sockets, to wait for frames on.
    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.receivers.iter().map(descriptor)
    }

    /// Answers what was lost at this port, also where the port itself is busy.
    #[must_use]
    pub fn monitor(&self) -> Arc<Monitor> {
        Arc::clone(&self.monitor)
    }
}

impl driver::Port<Store> for Port {
    /// As long as frames are [in flight](Self::in_flight), somebody must call this and [`flush`](Self::flush) now and then.
    #[inline]
    fn reap(&mut self, store: &mut Store, sent: impl FnMut(&mut Store, Frame)) {
        self.transmitter.reap(self.id, store, sent);
    }

    #[inline]
    fn refill(&mut self, store: &mut Store) {
        let id = self.id;
        self.receivers.iter_mut().for_each(|receiver| receiver.refill(id, store));
    }

    #[inline]
    fn receive(&mut self, store: &mut Store, budget: u32, mut each: impl FnMut(&mut Store, Frame)) -> u32 {
        let id = self.id;
        self.receivers.iter_mut().map(|receiver| receiver.receive(id, store, budget, &mut each)).sum()
    }

    #[inline]
    fn room(&self) -> u32 {
        if self.is_data_stopped { 0 } else { self.transmitter.room() }
    }

    #[inline]
    fn control_room(&self) -> u32 {
        self.transmitter.room()
    }

    #[inline]
    fn send(&mut self, store: &mut Store, frame: Frame) -> Result<(), Frame> {
        self.transmitter.send(self.id, store, frame)
    }

    #[inline]
    fn flush(&mut self) {
        self.transmitter.flush();
    }

    #[inline]
    fn in_flight(&self) -> bool {
        self.transmitter.in_flight()
    }

    #[inline]
    fn is_gone(&self) -> bool {
        self.transmitter.is_gone()
    }

    /// # Panics
    /// Where the interface is not gone.
    fn take_back(&mut self, store: &mut Store, unsent: impl FnMut(&mut Store, Frame)) {
        self.transmitter.take_back(self.id, store, unsent);
    }
}

/// How many receive queues a device has: each gets a socket, unless the configuration lists some.
///
/// # Errors
/// [`XdpError::NoSuchInterface`], and what the system says.
pub fn rx_queues(device: &str) -> Result<u32, XdpError> {
    Device::rx_queues(device)
}

/// Opens a port with zero copy where its driver can, or as it is asked for.
fn where_it_can(
    options: &PortOptions,
    mut open: impl FnMut(ZeroCopy) -> Result<Port, XdpError>,
) -> Result<Port, XdpError> {
    match (options.zero_copy, options.receive_size) {
        (ZeroCopy::On, ReceiveChunks::Small) => {
            Err(XdpError::NotZeroCopy { device: options.device.clone(), why: Obstacle::SmallChunks })
        }
        (ZeroCopy::Auto, ReceiveChunks::Small) => open(ZeroCopy::Off),
        (ZeroCopy::Auto, ReceiveChunks::Whole) => match open(ZeroCopy::Auto) {
            Err(XdpError::NotZeroCopy { .. }) => open(ZeroCopy::Off),
            opened => opened,
        },
        (zero_copy, _) => open(zero_copy),
    }
}

/// Whether the device can share packet memory with this XDP mode and chunks of this size.
fn able_to_share(device: &Device, mode: Mode, chunk_bytes: u32) -> Result<(), XdpError> {
    match device.obstacle(mode, chunk_bytes) {
        Some(why) => Err(XdpError::NotZeroCopy { device: device.name().to_owned(), why }),
        None => Ok(()),
    }
}

fn count(queues: &[u32]) -> u32 {
    u32::try_from(queues.len()).expect("a device has fewer than 2^32 queues")
}

fn descriptor(receiver: &Receiver<XskRx, XskFill>) -> BorrowedFd<'_> {
    receiver.rx().as_fd()
}

fn queues_of(wanted: Option<&[u32]>, device: &Device) -> Result<Vec<u32>, XdpError> {
    let queues = device.queues();
    let wanted = wanted.map_or_else(|| (0..queues).collect(), <[u32]>::to_vec);
    match wanted.iter().find(|&&queue| queue >= queues) {
        Some(&queue) => Err(XdpError::NoSuchQueue { device: device.name().to_owned(), queue, queues }),
        None => Ok(wanted),
    }
}
