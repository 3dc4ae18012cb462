//! Limits on packets that wait for a neighbour's address. The agent raises these limits, so that a full send buffer makes programs sleep
//! before the kernel drops packets.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;

use serde::{Deserialize, Serialize};

#[derive(Debug)]
pub(super) struct NeighbourQueues {
    device: String,
    files: [Option<File>; 2],
}

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
        let read = |file: &Option<File>| {
            let mut text = [0; 16];
            let len = file.as_ref()?.read_at(&mut text, 0).ok()?;
            str::from_utf8(&text[..len]).ok()?.trim().parse().ok()
        };
        NeighbourBytes(self.files.each_ref().map(read))
    }

    /// Restores each limit of `before`, unless another program has changed the agent's value (`set`). A renamed device must be in the
    /// calling thread's namespace.
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
    pub(super) fn unless_changed(self, set: NeighbourBytes, now: NeighbourBytes) -> NeighbourBytes {
        let of = |family: usize| {
            let is_ours = set.0[family] == now.0[family];
            if is_ours { self.0[family] } else { now.0[family] }
        };
        NeighbourBytes([of(0), of(1)])
    }

    pub(super) fn at_least(self, bytes: u32) -> NeighbourBytes {
        NeighbourBytes(self.0.map(|family| family.map(|before| before.max(bytes))))
    }
}
