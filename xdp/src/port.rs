//! One interface: the XDP program, a socket for each hardware queue, and the rings of each.
//!
//! All queues receive. One sends, so that frames leave in the order in which the switch sent them.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

use xoff_config::shell::{Mode as ModeSetting, PortShell, Queues};
use xoff_dataplane::frame::{Frame, FrameStore as _};
use xoff_ebpf::{Attached, Mode};

use crate::device::{Device, Facts};
use crate::error::XdpError;
use crate::monitor::Monitor;
use crate::receive::Receiver;
use crate::socket::{Socket, XskCompletion, XskFill, XskRx, XskTx};
use crate::store::Store;
use crate::sys;
use crate::transmit::Transmitter;
use crate::umem::Umem;

/// A port, open: frames arrive at it from the moment that it exists. Dropping it takes the XDP program
/// off, closes the sockets, and leaves the device as it was found; that must happen in the network namespace
/// where it was opened.
#[derive(Debug)]
pub struct Port {
    // Dropped in this order: program, sockets, device.
    _program: Attached,
    receivers: Vec<Receiver<XskRx, XskFill>>,
    transmitter: Transmitter<XskTx, XskCompletion>,
    /// Halves of further sockets that are not used, but belong to them.
    _idle: Vec<(XskTx, XskCompletion)>,
    monitor: Arc<Monitor>,
    facts: Facts,
    _device: Device,
}

impl Port {
    /// Opens a port of `umem`, and gives its rings chunks from `store`.
    ///
    /// # Errors
    /// [`XdpError`], with the device as it was.
    pub fn open(umem: &Umem, store: &mut Store, shell: &PortShell) -> Result<Port, XdpError> {
        let mut device = Device::prepare(&shell.device)?;
        let queues = queues_of(&shell.queues, &device)?;
        let mut receivers = Vec::with_capacity(queues.len());
        let mut transmitter = None;
        let mut idle = Vec::new();
        for &queue in &queues {
            let Socket { rx, fill, tx, completion } =
                Socket::open(umem, &shell.rings, (device.name(), device.ifindex().cast_unsigned()), queue)?;
            if transmitter.is_none() {
                let size = shell.rings.tx.min(umem.settings().completion);
                sys::set_tx_budget(rx.as_fd(), shell.rings.tx);
                transmitter = Some(Transmitter::new(tx, completion, size, store.capacity()));
            } else {
                idle.push((tx, completion));
            }
            let size = shell.stall_frames.clamp(1, shell.rings.fill.min(shell.rings.rx));
            let mut receiver = Receiver::new(rx, fill, size);
            receiver.refill(store);
            receivers.push(receiver);
        }
        let transmitter = transmitter.expect("a port has at least one queue");
        let sockets: Vec<(u32, BorrowedFd<'_>)> =
            queues.iter().copied().zip(receivers.iter().map(descriptor)).collect();
        let mode = match shell.mode {
            ModeSetting::Auto => None,
            ModeSetting::Native => Some(Mode::Native),
            ModeSetting::Generic => Some(Mode::Generic),
        };
        let longest = (!umem.settings().multi_buffer).then(|| store.chunk_room());
        let program = xoff_ebpf::attach(device.claim(), &sockets, mode, longest, device.clsact())?;
        device.filtered(program.filter());
        let count = u32::try_from(queues.len()).expect("a device has fewer than 2^32 queues");
        let facts = device.facts(count, program.mode(), sys::is_zero_copy(receivers[0].rx().as_fd()));
        let descriptors: Vec<_> = sockets.iter().map(|&(_, socket)| socket).collect();
        let malformed = receivers.iter().map(Receiver::malformed).collect();
        let monitor = Monitor::new(
            device.ifindex(),
            &descriptors,
            (program.program(), program.dropped().map_err(XdpError::Program)?),
            malformed,
            transmitter.dropped(),
            transmitter.failed(),
        );
        let monitor = monitor.map(Arc::new).map_err(|source| XdpError::Device {
            doing: "read the counters of",
            device: device.name().to_owned(),
            source,
        })?;
        Ok(Port { _program: program, receivers, transmitter, _idle: idle, monitor, facts, _device: device })
    }

    /// What the port turned out to be.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Gives the kernel free chunks to receive into.
    #[inline]
    pub fn refill(&mut self, store: &mut Store) {
        self.receivers.iter_mut().for_each(|receiver| receiver.refill(store));
    }

    /// Calls `each` with received frames, of up to `budget` descriptors for each queue, and says how many
    /// descriptors there were.
    #[inline]
    pub fn receive(
        &mut self,
        store: &mut Store,
        budget: u32,
        mut each: impl FnMut(&mut Store, Frame),
    ) -> u32 {
        let mut taken = 0;
        for receiver in &mut self.receivers {
            taken += receiver.receive(store, budget, &mut each);
        }
        taken
    }

    /// Chunks that the kernel receives into, or has received into since the last look.
    #[must_use]
    pub fn chunks_out(&self) -> u32 {
        self.receivers.iter().map(Receiver::out).sum()
    }

    /// Takes a frame to be sent by the next [`flush`](Self::flush).
    ///
    /// # Errors
    /// Gives the frame back where the rings have no room: reap, and try again.
    #[inline]
    pub fn send(&mut self, store: &Store, frame: Frame) -> Result<(), Frame> {
        self.transmitter.send(store, frame)
    }

    /// How many frames [`send`](Self::send) takes, however long they are.
    #[inline]
    #[must_use]
    pub fn room(&self) -> u32 {
        self.transmitter.room()
    }

    /// Gives the kernel what waits to be sent, and makes it send: also what an earlier flush could not
    /// get rid of.
    #[inline]
    pub fn flush(&mut self) {
        self.transmitter.flush();
    }

    /// Calls `sent` with every frame that has left since the last time.
    #[inline]
    pub fn reap(&mut self, store: &mut Store, sent: impl FnMut(&mut Store, Frame)) {
        self.transmitter.reap(store, sent);
    }

    /// The link is lost: finds out whether the interface is gone with it.
    pub fn link_lost(&mut self) {
        self.transmitter.look();
    }

    /// Whether the interface is gone: what was to be sent is to be [taken back](Self::take_back).
    #[inline]
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.transmitter.is_gone()
    }

    /// Calls `unsent` with every frame that an interface which is gone has not sent.
    ///
    /// # Panics
    /// Where it is not gone.
    pub fn take_back(&mut self, store: &mut Store, unsent: impl FnMut(&mut Store, Frame)) {
        self.transmitter.take_back(store, unsent);
    }

    /// Whether frames are with the kernel to be sent. As long as there are any, somebody must call
    /// [`flush`](Self::flush) and [`reap`](Self::reap) now and then.
    #[inline]
    #[must_use]
    pub fn in_flight(&self) -> bool {
        self.transmitter.in_flight()
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

/// How many receive queues a device has: each gets a socket, unless the configuration lists some.
///
/// # Errors
/// [`XdpError::NoSuchInterface`], and what the system says.
pub fn rx_queues(device: &str) -> Result<u32, XdpError> {
    Device::rx_queues(device)
}

fn descriptor(receiver: &Receiver<XskRx, XskFill>) -> BorrowedFd<'_> {
    receiver.rx().as_fd()
}

fn queues_of(wanted: &Queues, device: &Device) -> Result<Vec<u32>, XdpError> {
    let queues = device.queues();
    match wanted {
        Queues::All => Ok((0..queues).collect()),
        Queues::List(list) => match list.iter().find(|&&queue| queue >= queues) {
            Some(&queue) => Err(XdpError::NoSuchQueue { device: device.name().to_owned(), queue, queues }),
            None => Ok(list.clone()),
        },
    }
}
