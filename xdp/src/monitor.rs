//! What a port's sockets and device have lost, for whoever asks: by system calls on descriptors of
//! its own, without the worker that owns the port.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xoff_dataplane::counter::Counter;
use xoff_ebpf::Dropped;

use crate::sys;
use crate::transmit::FailedKicks;

/// What the kernel and the sockets of a port lost, added up over its queues, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct XdpStatistics {
    /// Dropped for want of a chunk in the fill ring, or for other reasons.
    pub rx_dropped: u64,
    /// The RX ring was full.
    pub rx_ring_full: u64,
    /// The fill ring was empty.
    pub rx_fill_ring_empty: u64,
    /// The kernel found an invalid chunk in the fill ring.
    pub rx_invalid: u64,
    /// Frames came in by a queue without a socket.
    pub rx_unclaimed: u64,
    /// Frames were longer than a chunk, and so than any port's MTU: filtered, not lost.
    #[serde(default)]
    pub rx_too_long: u64,
    /// The kernel laid a frame out otherwise than it promises.
    pub rx_malformed: u64,
    /// The kernel found an invalid descriptor in the TX ring.
    pub tx_invalid: u64,
    /// The kernel dropped a frame that it should have sent, and completed it.
    pub tx_dropped: u64,
    /// Times that the kernel refused to send for a reason that xoff does not know; the frames wait on.
    #[serde(default)]
    pub tx_failed_kicks: u64,
    /// The error number (errno) of the last of them; zero: none yet.
    #[serde(default)]
    pub tx_failed_errno: u64,
    /// How often the kernel looked for a frame to send, and there was none: no loss.
    pub tx_ring_empty: u64,
}

impl XdpStatistics {
    /// All that tell of a dropped frame, by name.
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

    /// Frames lost, for whatever reason; each may be in several counters (in copy mode one that finds the fill
    /// ring empty is in two).
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.drops().iter().map(|(_, frames)| frames).sum::<u64>() - self.rx_too_long
    }
}

/// Frames that a device lost by its own account, since the port was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceDrops {
    /// Dropped on receive, or missed for want of buffers.
    pub rx_dropped: u64,
    /// Received with errors.
    pub rx_errors: u64,
    /// Dropped on transmit.
    pub tx_dropped: u64,
    /// Transmit errors.
    pub tx_errors: u64,
}

impl DeviceDrops {
    /// All of them, by name.
    #[must_use]
    pub const fn losses(&self) -> [(&'static str, u64); 4] {
        [
            ("rx_dropped", self.rx_dropped),
            ("rx_errors", self.rx_errors),
            ("tx_dropped", self.tx_dropped),
            ("tx_errors", self.tx_errors),
        ]
    }

    /// All of them added up.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.losses().iter().map(|(_, frames)| frames).sum()
    }

    fn since(self, start: DeviceDrops) -> DeviceDrops {
        DeviceDrops {
            rx_dropped: self.rx_dropped.saturating_sub(start.rx_dropped),
            rx_errors: self.rx_errors.saturating_sub(start.rx_errors),
            tx_dropped: self.tx_dropped.saturating_sub(start.tx_dropped),
            tx_errors: self.tx_errors.saturating_sub(start.tx_errors),
        }
    }
}

/// What a port's sockets and device tell without their worker's help: by system calls on file
/// descriptors that the control thread may use at any time.
pub trait PortDriver: Send + Sync {
    /// XDP statistics, all sockets of the port added up.
    ///
    /// # Errors
    /// What the system says.
    fn xdp_statistics(&self) -> io::Result<XdpStatistics>;

    /// The device's own counters of frames that it dropped, since the switch was started.
    ///
    /// # Errors
    /// What the system says.
    fn device_drops(&self) -> io::Result<DeviceDrops>;
}

impl fmt::Debug for dyn PortDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PortDriver")
    }
}

/// Answers for one port.
#[derive(Debug)]
pub struct Monitor {
    device: String,
    /// `/proc/net/dev` of the namespace in which the port was opened.
    devices: File,
    at_start: DeviceDrops,
    sockets: Vec<OwnedFd>,
    program: Dropped,
    malformed: Vec<Arc<Counter>>,
    tx_dropped: Arc<Counter>,
    failed_kicks: Arc<FailedKicks>,
}

impl Monitor {
    /// Of the port on `device` in the namespace of the calling thread.
    pub(crate) fn new(
        device: &str,
        sockets: &[BorrowedFd<'_>],
        program: Dropped,
        malformed: Vec<Arc<Counter>>,
        tx_dropped: Arc<Counter>,
        failed_kicks: Arc<FailedKicks>,
    ) -> io::Result<Monitor> {
        let mut monitor = Monitor {
            device: device.to_owned(),
            devices: File::open("/proc/thread-self/net/dev")?,
            at_start: DeviceDrops::default(),
            sockets: sockets.iter().map(BorrowedFd::try_clone_to_owned).collect::<io::Result<_>>()?,
            program,
            malformed,
            tx_dropped,
            failed_kicks,
        };
        monitor.at_start = monitor.device_drops()?;
        Ok(monitor)
    }
}

impl PortDriver for Monitor {
    fn xdp_statistics(&self) -> io::Result<XdpStatistics> {
        let mut sum = XdpStatistics {
            rx_unclaimed: self.program.unclaimed(),
            rx_too_long: self.program.too_long(),
            rx_malformed: self.malformed.iter().map(|counter| counter.get()).sum(),
            tx_dropped: self.tx_dropped.get(),
            tx_failed_kicks: self.failed_kicks.count.get(),
            tx_failed_errno: self.failed_kicks.errno.get(),
            ..XdpStatistics::default()
        };
        for socket in &self.sockets {
            let socket = sys::xdp_statistics(socket.as_fd())?;
            sum.rx_dropped += socket.rx_dropped;
            sum.rx_ring_full += socket.rx_ring_full;
            sum.rx_fill_ring_empty += socket.rx_fill_ring_empty_descs;
            sum.rx_invalid += socket.rx_invalid_descs;
            sum.tx_invalid += socket.tx_invalid_descs;
            sum.tx_ring_empty += socket.tx_ring_empty_descs;
        }
        Ok(sum)
    }

    fn device_drops(&self) -> io::Result<DeviceDrops> {
        let mut text = Vec::new();
        let mut chunk = [0; 4096];
        loop {
            match self.devices.read_at(&mut chunk, text.len() as u64)? {
                0 => break,
                n => text.extend_from_slice(&chunk[..n]),
            }
        }
        let drops = drops_of(&self.device, &String::from_utf8_lossy(&text));
        drops.map(|drops| drops.since(self.at_start)).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Reads `/proc/net/dev`: name, then bytes, packets, errs, drop, fifo, frame, compressed, multicast
/// received, then bytes, packets, errs, drop... sent.
fn drops_of(device: &str, text: &str) -> Option<DeviceDrops> {
    let numbers = text.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    let numbers: Vec<u64> = numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let at = |n: usize| numbers.get(n).copied();
    Some(DeviceDrops { rx_errors: at(2)?, rx_dropped: at(3)?, tx_errors: at(10)?, tx_dropped: at(11)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_proc_net_dev() {
        let text = "Inter-|   Receive |  Transmit\n face |bytes    packets errs drop\n    \
                    p1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n   p11: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
        let drops = DeviceDrops { rx_errors: 3, rx_dropped: 4, tx_errors: 11, tx_dropped: 12 };
        assert_eq!(drops_of("p1", text), Some(drops));
        assert_eq!(drops_of("p11", text).map(|drops| drops.lost()), Some(0));
        assert_eq!(drops_of("p", text), None);
    }
}
