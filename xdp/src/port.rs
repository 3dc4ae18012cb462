//! Port: an XDP program, and a socket with four rings for each hardware queue. All queues receive; one sends, so that
//! frames leave in order.
//!
//! [`Port::open`] provides chunks before the XDP program passes frames. A port opened [without chunks](Port::without_chunks) receives no
//! frame until a worker [begins](Port::begin).

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

use xoff_dataplane::driver::{self, Port as _};
use xoff_dataplane::frame::{FRAME_MAX, Frame};
use xoff_ebpf::{Attached, Mode};
use xoff_wire::units::PortId;

use crate::chunks::PacketMemory;
use crate::device::{Device, Facts};
use crate::error::{Obstacle, XdpError, check_privileges};
use crate::fallback::why_copied;
use crate::layout::{Layout, ReceiveChunks};
use crate::monitor::{Monitor, SocketMemory};
use crate::options::PortOptions;
use crate::receive::Receiver;
use crate::socket::{Socket, XskCompletion, XskFill, XskRx, XskTx};
use crate::store::Store;
use crate::sys;
use crate::transmit::Transmitter;
use crate::umem::{Umem, UmemSettings, ZeroCopy};

struct Prepared {
    // The fields drop in this order: sockets, then device.
    receivers: Vec<Receiver<XskRx, XskFill>>,
    transmitter: Transmitter<XskTx, XskCompletion>,
    idle: Vec<(XskTx, XskCompletion)>,
    device: Device,
    queues: Vec<u32>,
    mode: Option<Mode>,
    wanted_mode: Option<Mode>,
    longest: Option<u32>,
    chunk_bytes: u32,
    receive_size: ReceiveChunks,
}

impl Prepared {
    /// Prepares the device and opens its sockets. Fails before any change if zero copy is required but known to be
    /// impossible.
    fn open(options: &PortOptions, zero_copy: ZeroCopy) -> Result<(Prepared, Box<PacketMemory>), XdpError> {
        check_privileges()?;
        let PortOptions { rings, chunk_bytes, receive_size, multi_buffer, .. } = *options;
        if !matches!(chunk_bytes, 2048 | 4096) {
            let (what, allowed) = ("the chunk size", "2048 or 4096");
            return Err(XdpError::Size { what, given: chunk_bytes, allowed });
        }
        let mut device = Device::take(&options.device)?;
        let queues = queues_of(options.queues.as_deref(), &device)?;
        let mode = device.mode(options.mode)?;
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
        let bytes =
            Layout::new(chunk_bytes, receive_size, [chunks[0].saturating_add(chunks[1]), transmit]).bytes();
        let memory = memory.map_err(|source| XdpError::Memory { bytes, source })?;
        let several = multi_buffer || receive_size == ReceiveChunks::Small;
        let settings = UmemSettings { chunks: memory.layout(), multi_buffer: several, zero_copy, rings };
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
            transmitter: transmitter.expect("a port must have a queue"),
            idle,
            device,
            queues,
            mode,
            wanted_mode: options.mode,
            longest: (!multi_buffer).then_some(room),
            chunk_bytes,
            receive_size,
        };
        Ok((prepared, memory))
    }

    fn attach(self) -> Result<Port, XdpError> {
        // After an error, these bindings drop in reverse order, so that the device drops last.
        let Prepared {
            mut device,
            receivers,
            transmitter,
            idle,
            queues,
            mode,
            wanted_mode,
            longest,
            chunk_bytes,
            receive_size,
        } = self;
        let sockets: Vec<(u32, BorrowedFd<'_>)> =
            queues.iter().copied().zip(receivers.iter().map(descriptor)).collect();
        let has_stamps = receive_size == ReceiveChunks::Stamped;
        let program =
            xoff_ebpf::attach(device.claim(), &sockets, mode, longest, has_stamps, device.clsact())?;
        device.filtered(program.filter());
        let zero_copy = sys::is_zero_copy(receivers[0].rx().as_fd());
        if zero_copy {
            able_to_share(&device, program.mode(), chunk_bytes)?;
            if receive_size == ReceiveChunks::Small {
                // Refuse zero copy: the device would write whole chunks, but small chunks overlap.
                let device = device.name().to_owned();
                return Err(XdpError::NotZeroCopy { device, why: Obstacle::SmallChunks });
            }
        }
        let memory = if zero_copy { SocketMemory::Shared } else { SocketMemory::Copied };
        let mut facts = device.facts(count(&queues), program.mode(), zero_copy);
        if program.mode() == Mode::Generic {
            facts.fallbacks.generic = Some(device.why_generic(wanted_mode, program.native_refusal()));
        }
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
            fault: "cannot read the device's counters",
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

/// Open port, which receives frames. Dropping it closes the port and restores the device. Drop it in the network
/// namespace where it was opened.
#[derive(Debug)]
pub struct Port {
    id: PortId,
    memory: Option<Box<PacketMemory>>,
    // The fields drop in this order: XDP program, sockets, then device.
    program: Attached,
    receivers: Vec<Receiver<XskRx, XskFill>>,
    transmitter: Transmitter<XskTx, XskCompletion>,
    is_data_stopped: bool,
    _idle: Vec<(XskTx, XskCompletion)>,
    monitor: Arc<Monitor>,
    facts: Facts,
    device: Device,
}

impl Port {
    /// Opens a port for the worker that owns `store`.
    ///
    /// # Errors
    /// Fails with an [`XdpError`]; the device then stays as it was.
    ///
    /// # Panics
    /// If the worker has another port of that number.
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

    pub fn without_chunks(options: &PortOptions) -> Result<Port, XdpError> {
        where_it_can(options, |zero_copy| {
            let (prepared, memory) = Prepared::open(options, zero_copy)?;
            Ok(Port { memory: Some(memory), ..prepared.attach()? })
        })
    }

    /// Lets a worker use the port. Earlier drops by the port's sockets do not count as losses; [`Monitor::begin`]
    /// starts the device's counts.
    ///
    /// # Panics
    /// If the worker has another port of that number.
    pub fn begin(&mut self, id: PortId, store: &mut Store) {
        self.id = id;
        if let Some(memory) = self.memory.take() {
            store.add_memory(id, memory);
        }
        self.refill(store);
        self.monitor.has_chunks();
    }

    /// Creates a frame of `len` unspecified bytes. Returns `None` if no chunk or slot is free.
    #[inline]
    pub fn compose(&self, store: &mut Store, len: u32) -> Option<Frame> {
        store.compose(self.id, len)
    }

    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the number of receive chunks in the kernel or the RX rings.
    #[must_use]
    pub fn chunks_out(&self) -> u32 {
        self.receivers.iter().map(Receiver::out).sum()
    }

    pub fn link_lost(&mut self) {
        self.transmitter.look();
    }

    /// Stops sending data: [`room`](Self::room) becomes zero. Pause frames are still sent, and [`reap`](Self::reap)
    /// still returns frames.
    pub fn stop_data(&mut self) {
        self.is_data_stopped = true;
    }

    pub fn resume_data(&mut self) {
        self.is_data_stopped = false;
    }

    /// Returns whether the kernel sends nothing before another [`flush`](Self::flush).
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.transmitter.is_at_rest()
    }

    pub fn is_received(&mut self) -> bool {
        self.receivers.iter_mut().all(Receiver::is_empty)
    }

    /// Returns whether the store has memory for all frames in the port's packet memory.
    #[must_use]
    pub fn can_leave(&self, store: &Store) -> bool {
        store.can_take_memory(self.id)
    }

    /// Ends the worker's use of the port. Unsent frames go to `unsent`; received ones stay in the store.
    ///
    /// Requires that the interface is gone, or that the port is [at rest](Self::is_at_rest) and all its frames are
    /// [received](Self::receive).
    ///
    /// # Panics
    /// If the kernel may still send a frame, or the store [lacks memory](Self::can_leave).
    #[cold]
    pub fn leave(&mut self, store: &mut Store, unsent: impl FnMut(&mut Store, Frame)) {
        self.take_back(store, unsent);
        self.receivers.iter_mut().for_each(|receiver| receiver.end(store));
        self.memory = store.take_memory(self.id);
    }

    pub fn close(self) {
        let Port { program, receivers, transmitter, _idle, memory, monitor, mut device, .. } = self;
        drop(program);
        if monitor.is_removed() {
            device.forget();
        }
        drop((receivers, transmitter, _idle, monitor, memory)); // close the sockets before the device is released
    }

    /// Returns whether frames are left that the kernel takes only after a [`flush`](Self::flush).
    #[must_use]
    pub fn is_unsent(&self) -> bool {
        self.transmitter.is_unsent()
    }

    pub fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.receivers.iter().map(descriptor)
    }

    #[must_use]
    pub fn monitor(&self) -> Arc<Monitor> {
        Arc::clone(&self.monitor)
    }
}

impl driver::Port<Store> for Port {
    /// Frees sent frames. Call this and [`flush`](Self::flush) while frames are [in flight](Self::in_flight).
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
    fn is_removed(&self) -> bool {
        self.transmitter.is_removed()
    }

    /// Passes all unsent frames to `unsent`.
    ///
    /// # Panics
    /// If the interface still exists.
    fn take_back(&mut self, store: &mut Store, unsent: impl FnMut(&mut Store, Frame)) {
        self.transmitter.take_back(self.id, store, unsent);
    }
}

pub fn rx_queues(device: &str) -> Result<u32, XdpError> {
    Device::rx_queues(device)
}

fn where_it_can(
    options: &PortOptions,
    mut open: impl FnMut(ZeroCopy) -> Result<Port, XdpError>,
) -> Result<Port, XdpError> {
    let (opened, obstacle) = match (options.zero_copy, options.receive_size) {
        (ZeroCopy::On, ReceiveChunks::Small) => {
            let device = options.device.clone();
            return Err(XdpError::NotZeroCopy { device, why: Obstacle::SmallChunks });
        }
        (ZeroCopy::Auto, ReceiveChunks::Small) => (open(ZeroCopy::Off), Some(Obstacle::SmallChunks)),
        (ZeroCopy::Auto, ReceiveChunks::Whole | ReceiveChunks::Stamped) => match open(ZeroCopy::Auto) {
            Err(XdpError::NotZeroCopy { why, .. }) => (open(ZeroCopy::Off), Some(why)),
            opened => (opened, None),
        },
        (zero_copy, _) => (open(zero_copy), None),
    };
    let mut port = opened?;
    if !port.facts.zero_copy {
        port.facts.fallbacks.copy = Some(why_copied(options, port.facts.mode, obstacle).describe());
    }
    Ok(port)
}

fn able_to_share(device: &Device, mode: Mode, chunk_bytes: u32) -> Result<(), XdpError> {
    match device.obstacle(mode, chunk_bytes) {
        Some(why) => Err(XdpError::NotZeroCopy { device: device.name().to_owned(), why }),
        None => Ok(()),
    }
}

fn count(queues: &[u32]) -> u32 {
    u32::try_from(queues.len()).expect("a device must have fewer than 2^32 queues")
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
