//! What waits while the kernel asks for a neighbour's address: a queue in front of the device, which by default holds as much as one socket
//! may keep waiting, and drops beyond. The agent lets it hold what a leaf holds, so that sockets wait there as they do in a leaf.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;

use serde::{Deserialize, Serialize};

/// The limits of a device's queues of packets that wait for a neighbour's address, one for IPv4 and one for IPv6, in the network
/// namespace of the thread that opened them. Any thread may use them.
#[derive(Debug)]
pub(super) struct NeighbourQueues {
    device: String,
    files: [Option<File>; 2],
}

/// Values of the limits of a device's [`NeighbourQueues`], in bytes, for IPv4 and IPv6; `None`: the device does not have the family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NeighbourBytes([Option<u32>; 2]);

impl NeighbourQueues {
    pub(super) fn open(device: &str) -> NeighbourQueues {
        let open = |family| {
            let path = format!("/proc/sys/net/{family}/neigh/{device}/unres_qlen_bytes");
            OpenOptions::new().read(true).write(true).open(path).ok()
        };
        NeighbourQueues { device: device.to_owned(), files: ["ipv4", "ipv6"].map(open) }
    }

    pub(super) fn read(&self) -> NeighbourBytes {
        // From the beginning, however often it is read.
        let read = |file: &Option<File>| {
            let mut text = [0; 16];
            let len = file.as_ref()?.read_at(&mut text, 0).ok()?;
            str::from_utf8(&text[..len]).ok()?.trim().parse().ok()
        };
        NeighbourBytes(self.files.each_ref().map(read))
    }

    /// Puts back what still is as it was set, at the device by the name that it has by now. A device that was renamed is to be in the
    /// calling thread's network namespace: the kernel took the files of the old name away.
    pub(super) fn put_back(
        &self,
        device: &str,
        before: NeighbourBytes,
        set: NeighbourBytes,
    ) -> io::Result<()> {
        if device != self.device {
            return NeighbourQueues::open(device).put_back(device, before, set);
        }
        let now = self.read();
        self.set(before.unless_changed(set, now))
    }

    pub(super) fn set(&self, bytes: NeighbourBytes) -> io::Result<()> {
        let families = self.files.iter().zip(bytes.0);
        families
            .filter_map(|(file, bytes)| Some(file.as_ref()?.write_all_at(bytes?.to_string().as_bytes(), 0)))
            .collect()
    }
}

impl NeighbourBytes {
    /// Returns the limits to put back: `self`, those before xoff, for each that still is as xoff `set` it, and `now` for each that
    /// somebody has changed since.
    pub(super) fn unless_changed(self, set: NeighbourBytes, now: NeighbourBytes) -> NeighbourBytes {
        let of = |family: usize| {
            let is_ours = set.0[family] == now.0[family];
            if is_ours { self.0[family] } else { now.0[family] }
        };
        NeighbourBytes([of(0), of(1)])
    }

    /// Returns the limits, each raised to `bytes` where it is below.
    pub(super) fn at_least(self, bytes: u32) -> NeighbourBytes {
        NeighbourBytes(self.0.map(|family| family.map(|before| before.max(bytes))))
    }
}
