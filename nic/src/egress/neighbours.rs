//! What waits while the kernel asks for a neighbour's address: a queue in front of the device, which by default holds as much as one socket
//! may keep waiting, and drops beyond. The agent lets it hold what a leaf holds, so that sockets wait there as they do in a leaf.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;

/// Those queues of a device, over IPv4 and over IPv6, of the network namespace of the thread that opened them; any thread may use them.
#[derive(Debug)]
pub(super) struct NeighbourQueues {
    device: String,
    files: [Option<File>; 2],
}

/// How many bytes they hold; `None`: the family is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
        let read = |file: &Option<File>| io::read_to_string(file.as_ref()?).ok()?.trim().parse().ok();
        NeighbourBytes(self.files.each_ref().map(read))
    }

    /// The same of the device by the name that it has by now. A device that was renamed is to be in the calling thread's network
    /// namespace: the kernel took the files of the old name away.
    pub(super) fn set_at(&self, device: &str, bytes: NeighbourBytes) -> io::Result<()> {
        if device == self.device { self.set(bytes) } else { NeighbourQueues::open(device).set(bytes) }
    }

    pub(super) fn set(&self, bytes: NeighbourBytes) -> io::Result<()> {
        let families = self.files.iter().zip(bytes.0);
        families
            .filter_map(|(file, bytes)| Some(file.as_ref()?.write_all_at(bytes?.to_string().as_bytes(), 0)))
            .collect()
    }
}

impl NeighbourBytes {
    /// How many numbers it is kept as.
    pub(super) const WORDS: usize = 2;
    /// In the place of a family that is not there.
    const NONE: u32 = u32::MAX;

    /// So many at least.
    pub(super) fn at_least(self, bytes: u32) -> NeighbourBytes {
        NeighbourBytes(self.0.map(|family| family.map(|before| before.max(bytes))))
    }

    pub(super) fn to_words(self) -> [u32; NeighbourBytes::WORDS] {
        self.0.map(|family| family.unwrap_or(NeighbourBytes::NONE))
    }

    pub(super) fn from_words(words: [u32; NeighbourBytes::WORDS]) -> NeighbourBytes {
        NeighbourBytes(words.map(|word| Some(word).filter(|&word| word != NeighbourBytes::NONE)))
    }
}
