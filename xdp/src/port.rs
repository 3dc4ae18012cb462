//! One interface: the XDP program, a socket for each hardware queue, and the rings of each.
//!
//! All queues receive. One sends, so that frames leave in the order in which the switch sent them.
//!
//! What it receives into is of the store of a worker. A port by itself has its chunks before the XDP program
//! ([`Port::open`]), so that nothing arrives for which there is none. A switch opens its ports without chunks
//! ([`Port::without_chunks`]), at its start and later: what comes before there is somebody who empties the rings fills none of them. It is
//! not for the switch, and no loss. Whoever has the port gives it chunks ([`Port::begin`]); a port that is refused has none
//! to give back, into which a device may still write.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

use xoff_dataplane::driver::{self, Port as _};
use xoff_dataplane::frame::Frame;
use xoff_ebpf::{Attached, Mode};

use crate::device::{Device, Facts};
use crate::error::XdpError;
use crate::monitor::{Monitor, SocketMemory};
use crate::options::PortOptions;
use crate::receive::Receiver;
use crate::socket::{Socket, XskCompletion, XskFill, XskRx, XskTx};
use crate::store::{Lent, Store};
use crate::sys;
use crate::transmit::Transmitter;
use crate::umem::Umem;

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
    numbers: Lent,
    /// Most bytes of a frame; `None` where it may take several chunks.
    longest: Option<u32>,
    chunk_bytes: u32,
}

impl Prepared {
    /// Makes the device ready and opens a socket for each of its queues, unless it is known beforehand that it does not do.
    fn open(umem: &Umem, options: &PortOptions) -> Result<Prepared, XdpError> {
        let mut device = Device::take(&options.device)?;
        let queues = queues_of(options.queues.as_deref(), &device)?;
        let mode = device.mode(options.mode)?;
        if umem.is_shared() {
            able_to_share(&device, mode.unwrap_or(Mode::Native), umem.settings().chunk_bytes)?;
        }
        device.prepare()?;
        let numbers = umem.numbers(count(&queues));
        let mut receivers = Vec::with_capacity(queues.len());
        let mut transmitter = None;
        let mut idle = Vec::new();
        for (&queue, number) in queues.iter().zip(numbers.sockets()) {
            let Socket { rx, fill, tx, completion } = Socket::open(
                umem,
                (options.rx, options.tx),
                (device.name(), device.ifindex().cast_unsigned()),
                queue,
            )?;
            if transmitter.is_none() {
                let size = options.tx.min(umem.settings().completion);
                sys::set_tx_budget(rx.as_fd(), options.tx);
                transmitter = Some(Transmitter::new(tx, completion, size, umem.chunks()));
            } else {
                idle.push((tx, completion));
            }
            let size = options.receive_chunks.clamp(1, umem.settings().fill.min(options.rx));
            receivers.push(Receiver::new(rx, fill, size, number));
        }
        Ok(Prepared {
            receivers,
            transmitter: transmitter.expect("a port has at least one queue"),
            idle,
            device,
            queues,
            mode,
            numbers,
            longest: (!umem.settings().multi_buffer).then(|| umem.chunk_room()),
            chunk_bytes: umem.settings().chunk_bytes,
        })
    }

    /// Has the frames come: the port is open.
    fn attach(self) -> Result<Port, XdpError> {
        // Where one of them is dropped here, the device is the last.
        let Prepared {
            mut device,
            receivers,
            transmitter,
            idle,
            queues,
            mode,
            numbers,
            longest,
            chunk_bytes,
        } = self;
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
            program,
            receivers,
            transmitter,
            is_data_stopped: false,
            _idle: idle,
            numbers,
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
    // Dropped in this order: program, sockets, device.
    program: Attached,
    receivers: Vec<Receiver<XskRx, XskFill>>,
    transmitter: Transmitter<XskTx, XskCompletion>,
    is_data_stopped: bool,
    /// Halves of further sockets that are not used, but belong to them.
    _idle: Vec<(XskTx, XskCompletion)>,
    numbers: Lent,
    monitor: Arc<Monitor>,
    facts: Facts,
    device: Device,
}

impl Port {
    /// Opens a port of `umem`, and gives its rings chunks from `store`.
    ///
    /// # Errors
    /// [`XdpError`], with the device as it was.
    pub fn open(umem: &Umem, store: &mut Store, options: &PortOptions) -> Result<Port, XdpError> {
        let mut prepared = Prepared::open(umem, options)?;
        prepared.receivers.iter_mut().for_each(|receiver| receiver.refill(store));
        let numbers = prepared.numbers;
        let port = prepared.attach().inspect_err(|_| store.take_back(numbers))?;
        port.monitor.had_chunks();
        Ok(port)
    }

    /// Opens a port of `umem` that has nothing to receive into yet: it [begins](Self::begin) when somebody has it.
    ///
    /// # Errors
    /// [`XdpError`], with the device as it was.
    pub fn without_chunks(umem: &Umem, options: &PortOptions) -> Result<Port, XdpError> {
        Prepared::open(umem, options)?.attach()
    }

    /// There is somebody to take what it receives, with chunks from `store`: what its sockets dropped before is no loss. What the
    /// device did is said of its [monitor](Monitor::begin), by who has the time.
    pub fn begin(&mut self, store: &mut Store) {
        self.refill(store);
        self.monitor.has_chunks();
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

    /// Takes leave of an interface that is gone, or at which the port [is at rest](Self::is_at_rest): calls `unsent` with what has not
    /// been sent. To be called when nothing is left to be [received](Self::receive); what comes in from now on is nobody's.
    ///
    /// # Panics
    /// Where the kernel may still send something.
    #[cold]
    pub fn leave(&mut self, store: &mut Store, unsent: impl FnMut(&mut Store, Frame)) {
        self.take_back(store, unsent);
        self.receivers.iter_mut().for_each(|receiver| receiver.end(store));
    }

    /// Closes a port that was left, or never used, and leaves the device as it was found, if it is there. What it has still been lent
    /// to receive into is to be [taken back](Store::take_back); `None` where it is not certain that a device does not write there any
    /// more: then it is lost to the switch.
    #[must_use]
    pub fn close(self) -> Option<Lent> {
        let Port { program, receivers, transmitter, _idle, numbers, monitor, facts, mut device, .. } = self;
        drop(program);
        let is_unused = if monitor.is_gone() {
            device.forget();
            true
        } else {
            // Whoever was at a frame when the program was taken off is done with it afterwards.
            !facts.zero_copy && sys::wait_for_readers().is_ok()
        };
        drop((receivers, transmitter, _idle, monitor)); // the sockets, before the device is anybody's
        is_unused.then_some(numbers)
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
        self.transmitter.reap(store, sent);
    }

    #[inline]
    fn refill(&mut self, store: &mut Store) {
        self.receivers.iter_mut().for_each(|receiver| receiver.refill(store));
    }

    #[inline]
    fn receive(&mut self, store: &mut Store, budget: u32, mut each: impl FnMut(&mut Store, Frame)) -> u32 {
        self.receivers.iter_mut().map(|receiver| receiver.receive(store, budget, &mut each)).sum()
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
    fn send(&mut self, store: &Store, frame: Frame) -> Result<(), Frame> {
        self.transmitter.send(store, frame)
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
        self.transmitter.take_back(store, unsent);
    }
}

/// How many receive queues a device has: each gets a socket, unless the configuration lists some.
///
/// # Errors
/// [`XdpError::NoSuchInterface`], and what the system says.
pub fn rx_queues(device: &str) -> Result<u32, XdpError> {
    Device::rx_queues(device)
}

/// A device that does not share the packet memory is no port where others do.
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
