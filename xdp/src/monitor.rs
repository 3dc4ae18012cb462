use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::net::{sockopt, xdp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xoff_ebpf::{Arrivals, Arrived, Dropped, EbpfError, Place, Program};
use xoff_flow_control::counter::Counter;

use crate::reading::{DeviceDrops, Reader, Reading};
use crate::sys::{self, Ethtool};
use crate::transmit::FailedKicks;

/// Frames lost by the kernel and the sockets of a port since it was opened, as sums over its queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct XdpStatistics {
    /// Frames dropped because the fill ring was empty, or for other reasons.
    pub rx_dropped: u64,
    /// Frames dropped because the RX ring was full.
    pub rx_ring_full: u64,
    /// Frames dropped because the fill ring was empty; also in `rx_dropped`.
    pub rx_fill_ring_empty: u64,
    /// Invalid chunks in the fill ring, which the kernel skipped.
    pub rx_invalid: u64,
    /// Frames received by a queue without a socket.
    pub rx_unclaimed: u64,
    /// Frames longer than a chunk, which the XDP program drops. They are no loss, because they also exceed every port's
    /// MTU.
    #[serde(default)]
    pub rx_too_long: u64,
    /// Frames of the machine's own network stack that the switch kept from the port; they are no loss.
    #[serde(default)]
    pub tx_held_back: u64,
    /// Received frames with an invalid layout in their chunks; dropped.
    pub rx_malformed: u64,
    /// Invalid descriptors in the TX ring.
    pub tx_invalid: u64,
    /// Frames that the kernel dropped, although it reported them as sent.
    pub tx_dropped: u64,
    /// Failed attempts to make the kernel send, with unexpected errors. The frames stay queued.
    #[serde(default)]
    pub tx_failed_kicks: u64,
    /// Error number (errno) of the last attempt in `tx_failed_kicks`; 0 if none has failed.
    #[serde(default)]
    pub tx_failed_errno: u64,
    /// Number of times that the kernel found the TX ring empty, which is no loss.
    pub tx_ring_empty: u64,
}

impl XdpStatistics {
    /// Adds the statistics of earlier sockets of the same port.
    #[must_use]
    pub const fn and(self, before: XdpStatistics) -> XdpStatistics {
        let errno = if self.tx_failed_errno == 0 { before.tx_failed_errno } else { self.tx_failed_errno };
        XdpStatistics {
            rx_dropped: self.rx_dropped + before.rx_dropped,
            rx_ring_full: self.rx_ring_full + before.rx_ring_full,
            rx_fill_ring_empty: self.rx_fill_ring_empty + before.rx_fill_ring_empty,
            rx_invalid: self.rx_invalid + before.rx_invalid,
            rx_unclaimed: self.rx_unclaimed + before.rx_unclaimed,
            rx_too_long: self.rx_too_long + before.rx_too_long,
            tx_held_back: self.tx_held_back + before.tx_held_back,
            rx_malformed: self.rx_malformed + before.rx_malformed,
            tx_invalid: self.tx_invalid + before.tx_invalid,
            tx_dropped: self.tx_dropped + before.tx_dropped,
            tx_failed_kicks: self.tx_failed_kicks + before.tx_failed_kicks,
            tx_failed_errno: errno,
            tx_ring_empty: self.tx_ring_empty + before.tx_ring_empty,
        }
    }

    /// Returns these statistics, but with the receive counters of `before`.
    #[must_use]
    pub const fn but_received(self, before: XdpStatistics) -> XdpStatistics {
        XdpStatistics {
            rx_dropped: before.rx_dropped,
            rx_ring_full: before.rx_ring_full,
            rx_fill_ring_empty: before.rx_fill_ring_empty,
            rx_invalid: before.rx_invalid,
            rx_unclaimed: before.rx_unclaimed,
            rx_too_long: before.rx_too_long,
            rx_malformed: before.rx_malformed,
            ..self
        }
    }

    #[must_use]
    pub const fn drops(&self) -> [(&'static str, u64); 9] {
        [
            ("rx_dropped", self.rx_dropped),
            ("rx_ring_full", self.rx_ring_full),
            ("rx_fill_ring_empty", self.rx_fill_ring_empty),
            ("rx_invalid", self.rx_invalid),
            ("rx_unclaimed", self.rx_unclaimed),
            ("rx_too_long", self.rx_too_long),
            ("rx_malformed", self.rx_malformed),
            ("tx_invalid", self.tx_invalid),
            ("tx_dropped", self.tx_dropped),
        ]
    }

    #[must_use]
    pub fn lost(&self) -> u64 {
        self.rx_lost() + self.tx_invalid + self.tx_dropped
    }

    /// Returns the number of received frames that were lost after the XDP program counted them.
    #[must_use]
    pub const fn rx_lost(&self) -> u64 {
        self.rx_by_sockets() + self.rx_invalid + self.rx_unclaimed + self.rx_malformed
    }

    /// Returns the number of frames dropped by sockets, without `rx_invalid`: invalid chunks cost no frame (they
    /// indicate a bug of xoff).
    pub(crate) const fn rx_by_sockets(&self) -> u64 {
        self.rx_dropped + self.rx_ring_full
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the device's drop counters cannot be read: {why}")]
pub struct Unread {
    pub last: DeviceDrops,
    pub why: io::Error,
}

#[derive(Debug)]
pub enum Look {
    /// The device is gone. Another device may now have its name or index.
    Gone,
    /// The device is present. The value identifies the XDP program at the device.
    There(Place),
    Unknown(io::Error),
}

pub trait PortDriver: Send + Sync {
    fn xdp_statistics(&self) -> io::Result<XdpStatistics>;

    fn device_drops(&self) -> Result<DeviceDrops, Unread>;

    fn look(&self) -> Look;

    fn arrivals(&self) -> io::Result<Arrivals> {
        Ok(Arrivals::default())
    }

    fn queues_at_open(&self) -> u32 {
        1
    }

    fn queues_now(&self) -> Option<u32> {
        None
    }

    /// Attaches the XDP program again if it is missing. Call this in the port's network namespace.
    fn attach_again(&self) -> Result<(), EbpfError>;

    /// Attaches the egress filter again if it is missing, and returns whether it was. Call this in the port's network namespace.
    fn restore_filter(&self) -> Result<bool, EbpfError> {
        Ok(false)
    }
}

impl fmt::Debug for dyn PortDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PortDriver")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketMemory {
    Copied,
    /// The NIC itself writes frames into chunks (zero copy).
    Shared,
}

impl SocketMemory {
    /// Returns the frames lost because no chunk was free.
    ///
    /// With zero copy, an empty fill ring is no loss: the driver takes chunks in advance, and the device counts its
    /// own drops.
    fn frames_without_chunk(self, socket: &xdp::XdpStatistics) -> u64 {
        match self {
            SocketMemory::Copied => socket.rx_fill_ring_empty_descs.unwrap_or(0), // the counter exists since Linux 5.9
            SocketMemory::Shared => 0,
        }
    }
}

#[derive(Debug)]
pub struct Monitor {
    device: Reader,
    ethtool: Ethtool,
    queues_at_open: u32,
    counted: Mutex<Counted>,
    early: OnceLock<Early>,
    early_program: OnceLock<EarlyProgram>,
    sockets: Vec<OwnedFd>,
    memory: SocketMemory,
    program: Arc<Program>,
    program_drops: Dropped,
    program_arrivals: Arrived,
    malformed: Vec<Arc<Counter>>,
    tx_dropped: Arc<Counter>,
    failed_kicks: Arc<FailedKicks>,
}

#[derive(Debug)]
struct Counted {
    at_start: DeviceDrops,
    last: DeviceDrops,
    was_reset: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Early {
    rx_dropped: u64,
    rx_ring_full: u64,
    rx_fill_ring_empty: u64,
}

impl Early {
    const fn all_of(sum: &XdpStatistics) -> Early {
        let &XdpStatistics { rx_dropped, rx_ring_full, rx_fill_ring_empty, .. } = sum;
        Early { rx_dropped, rx_ring_full, rx_fill_ring_empty }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct EarlyProgram {
    rx_unclaimed: u64,
    rx_too_long: u64,
}

impl Counted {
    fn read(&mut self, now: DeviceDrops) -> Result<DeviceDrops, Unread> {
        match now.since(self.at_start).filter(|drops| drops.since(self.last).is_some()) {
            Some(drops) if !self.was_reset => {
                self.last = drops;
                Ok(drops)
            }
            _ => {
                self.was_reset = true;
                Err(self.unread(io::Error::other("they were reset, so its losses are unknown")))
            }
        }
    }

    fn unread(&self, why: io::Error) -> Unread {
        Unread { last: self.last, why }
    }
}

impl Monitor {
    pub(crate) fn new(
        (ifindex, queues_at_open): (i32, u32),
        (sockets, memory): (&[BorrowedFd<'_>], SocketMemory),
        program: (Arc<Program>, Dropped, Arrived),
        malformed: Vec<Arc<Counter>>,
        tx_dropped: Arc<Counter>,
        failed_kicks: Arc<FailedKicks>,
    ) -> io::Result<Monitor> {
        let device = Reader::open(ifindex.cast_unsigned())?;
        let at_start = device.read()?.drops;
        Ok(Monitor {
            device,
            ethtool: Ethtool::new("")?,
            queues_at_open,
            counted: Mutex::new(Counted { at_start, last: DeviceDrops::default(), was_reset: false }),
            early: OnceLock::new(),
            early_program: OnceLock::new(),
            sockets: sockets.iter().map(BorrowedFd::try_clone_to_owned).collect::<io::Result<_>>()?,
            memory,
            program: program.0,
            program_drops: program.1,
            program_arrivals: program.2,
            malformed,
            tx_dropped,
            failed_kicks,
        })
    }

    pub(crate) fn had_chunks(&self) {
        let _ = self.early.set(Early::default()); // only the first call sets the value
    }

    /// Saves the sockets' counters as baseline, so that earlier drops do not count as losses. Does not block, so the
    /// port's worker may call this.
    pub(crate) fn has_chunks(&self) {
        let before = self.of_sockets().map(|sum| Early::all_of(&sum));
        let _ = self.early.set(before.unwrap_or_default()); // the first call wins
    }

    /// Saves the counters of the XDP program and the device as baseline of later counts. May block.
    pub fn begin(&self) {
        if let Ok(sum) = self.since_open() {
            let XdpStatistics { rx_unclaimed, rx_too_long, .. } = sum;
            let _ = self.early_program.set(EarlyProgram { rx_unclaimed, rx_too_long }); // the first call wins
        }
        // Exclude from the device's baseline the drops that sockets or the XDP program also count: [`Losses::of`]
        // subtracts them from the device's count, and would otherwise hide drops that only the device counts. Read the
        // device last, so that it has counted all of these.
        let counted_twice =
            self.xdp_statistics().map_or(0, |xdp| xdp.rx_by_sockets() + xdp.rx_unclaimed + xdp.rx_too_long);
        let mut counted = self.counted();
        if let Ok(Reading { mut drops, .. }) = self.device.read() {
            drops.rx_dropped = drops.rx_dropped.saturating_sub(counted_twice);
            counted.at_start = drops;
            counted.last = DeviceDrops::default();
        }
    }

    /// Locks the last readings. Call this before reading counters, so that readings are stored in order.
    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.sockets.iter().all(|socket| sys::is_unbound(socket.as_fd()))
    }

    fn read(&self) -> (Option<io::Result<Reading>>, Result<DeviceDrops, Unread>) {
        let mut counted = self.counted();
        let reading = self.device.read();
        if self.is_removed() {
            return (None, Err(counted.unread(io::Error::other("the device was removed"))));
        }
        let drops = match &reading {
            Ok(reading) => counted.read(reading.drops),
            Err(error) => Err(counted.unread(io::Error::new(error.kind(), error.to_string()))),
        };
        (Some(reading), drops)
    }

    fn since_open(&self) -> io::Result<XdpStatistics> {
        let sum = XdpStatistics {
            rx_unclaimed: self.program_drops.unclaimed().map_err(io::Error::other)?,
            rx_too_long: self.program_drops.too_long().map_err(io::Error::other)?,
            tx_held_back: self.program_drops.held_back().map_err(io::Error::other)?,
            rx_malformed: self.malformed.iter().map(|counter| counter.get()).sum(),
            tx_dropped: self.tx_dropped.get(),
            tx_failed_kicks: self.failed_kicks.count.get(),
            tx_failed_errno: self.failed_kicks.errno.get(),
            ..self.of_sockets()?
        };
        Ok(sum)
    }

    fn of_sockets(&self) -> io::Result<XdpStatistics> {
        let mut sum = XdpStatistics::default();
        for socket in &self.sockets {
            let socket = sockopt::xdp_statistics(socket)?;
            sum.rx_dropped += socket.rx_dropped;
            sum.rx_ring_full += socket.rx_ring_full.unwrap_or(0);
            sum.rx_fill_ring_empty += self.memory.frames_without_chunk(&socket);
            sum.rx_invalid += socket.rx_invalid_descs;
            sum.tx_invalid += socket.tx_invalid_descs;
            sum.tx_ring_empty += socket.tx_ring_empty_descs.unwrap_or(0);
        }
        Ok(sum)
    }
}

impl PortDriver for Monitor {
    fn xdp_statistics(&self) -> io::Result<XdpStatistics> {
        // Read the baselines before the sums, so that no baseline exceeds its sum.
        let (early, program) = (self.early.get(), self.early_program.get().copied().unwrap_or_default());
        let sum = self.since_open()?;
        let early = early.copied().unwrap_or(Early::all_of(&sum));
        Ok(XdpStatistics {
            rx_dropped: sum.rx_dropped - early.rx_dropped,
            rx_ring_full: sum.rx_ring_full - early.rx_ring_full,
            rx_fill_ring_empty: sum.rx_fill_ring_empty - early.rx_fill_ring_empty,
            rx_unclaimed: sum.rx_unclaimed - program.rx_unclaimed,
            rx_too_long: sum.rx_too_long - program.rx_too_long,
            ..sum
        })
    }

    fn device_drops(&self) -> Result<DeviceDrops, Unread> {
        self.read().1
    }

    fn look(&self) -> Look {
        match self.read().0 {
            None => Look::Gone,
            Some(Ok(reading)) => Look::There(self.program.place(reading.program)),
            Some(Err(error)) => Look::Unknown(error),
        }
    }

    fn arrivals(&self) -> io::Result<Arrivals> {
        self.program_arrivals.read().map_err(io::Error::other)
    }

    fn queues_at_open(&self) -> u32 {
        self.queues_at_open
    }

    fn queues_now(&self) -> Option<u32> {
        let name = self.device.read().ok()?.name;
        self.ethtool.about(&name).reported_rx_queues()
    }

    fn attach_again(&self) -> Result<(), EbpfError> {
        self.program.attach_again()
    }

    fn restore_filter(&self) -> Result<bool, EbpfError> {
        self.program.restore_filter()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test] // proves: frames
    fn empty_fill_ring_is_no_loss_with_zero_copy() {
        let socket = xdp::XdpStatistics {
            rx_dropped: 0,
            rx_invalid_descs: 0,
            tx_invalid_descs: 0,
            rx_ring_full: Some(0),
            rx_fill_ring_empty_descs: Some(6),
            tx_ring_empty_descs: Some(0),
        };
        assert_eq!(SocketMemory::Copied.frames_without_chunk(&socket), 6);
        assert_eq!(SocketMemory::Shared.frames_without_chunk(&socket), 0);
    }

    #[test] // proves: verdict
    fn losses_of_device_stay_unknown_after_counter_reset() {
        let at = |tx_dropped| DeviceDrops { tx_dropped, ..DeviceDrops::default() };
        let mut counted = Counted { at_start: at(5), last: at(0), was_reset: false };
        assert_eq!(counted.read(at(5)).unwrap().lost(), 0);
        assert_eq!(counted.read(at(8)).unwrap().lost(), 3);
        for later in [6, 8, 100] {
            let unread = counted.read(at(later)).unwrap_err();
            assert_eq!(unread.last, at(3));
            assert_eq!(
                unread.to_string(),
                "the device's drop counters cannot be read: they were reset, so its losses are unknown"
            );
        }
    }
}
