//! What the kernel shows: queueing disciplines, classes and filters, with their counters.

use super::bpf::{ALL_PROTOCOLS, BpfInstruction, TCA_BPF_OPS};
use super::request::{Handle, TC_HEADER};
use crate::attributes::{find, long, text, word};

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_CHAIN: u16 = 11;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_PKT64: u16 = 8;

/// A queueing discipline, a class or a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it is: `htb`, `bpf`.
    pub kind: String,
    /// What it hangs on.
    pub parent: Handle,
    /// Its own number.
    pub handle: Handle,
    /// Of a filter, its priority and protocol; of a class, the number of its queueing discipline; of others, a number of the kernel's.
    pub info: u32,
    /// Of a filter, its chain: only those of chain 0 are asked unless one of them says otherwise.
    pub chain: u32,
    /// Its options as the kernel writes them.
    pub options: Vec<u8>,
    /// Its counters.
    pub statistics: Statistics,
}

/// Counters of a queueing discipline since it was made, and what waits in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Bytes that it has passed on.
    pub bytes: u64,
    /// Frames that it has passed on.
    pub frames: u64,
    /// Frames that it has dropped. The kernel counts up to 2^32 of them, and begins again.
    pub drops: u32,
    /// Bytes that wait.
    pub backlog: u32,
    /// Frames that wait.
    pub qlen: u32,
}

impl Node {
    /// From the body of a message; what belongs to another device is `None`.
    pub(crate) fn read(body: &[u8], ifindex: i32) -> Option<Node> {
        let (head, attributes) = body.split_at_checked(TC_HEADER)?;
        if word(head, 1) != ifindex.cast_unsigned() {
            return None;
        }
        Some(Node {
            kind: find(attributes, TCA_KIND).map(text).unwrap_or_default(),
            handle: Handle(word(head, 2)),
            parent: Handle(word(head, 3)),
            info: word(head, 4),
            chain: find(attributes, TCA_CHAIN).map_or(0, |chain| word(chain, 0)),
            options: find(attributes, TCA_OPTIONS).unwrap_or_default().to_vec(),
            statistics: find(attributes, TCA_STATS2).map(Statistics::read).unwrap_or_default(),
        })
    }

    /// Of a filter, its priority.
    #[must_use]
    pub fn priority(&self) -> u16 {
        Handle(self.info).major()
    }

    /// Whether a filter is a program that is asked about frames of every EtherType, as [`Filter`](crate::tc::Filter) is.
    #[must_use]
    pub fn is_program(&self) -> bool {
        self.kind == "bpf" && self.info & 0xffff == u32::from(ALL_PROTOCOLS.to_be())
    }

    /// The program of a filter in classic BPF; empty where there is none.
    #[must_use]
    pub fn program(&self) -> Vec<BpfInstruction> {
        let bytes = find(&self.options, TCA_BPF_OPS).unwrap_or_default();
        bytes.as_chunks().0.iter().copied().map(BpfInstruction::from_bytes).collect()
    }
}

impl Statistics {
    fn read(attributes: &[u8]) -> Statistics {
        let basic = find(attributes, TCA_STATS_BASIC).unwrap_or_default();
        let queue = find(attributes, TCA_STATS_QUEUE).unwrap_or_default();
        // More than 32 bits of frames are in an attribute of their own.
        let frames = find(attributes, TCA_STATS_PKT64).map_or(u64::from(word(basic, 2)), long);
        Statistics {
            bytes: long(basic),
            frames,
            qlen: word(queue, 0),
            backlog: word(queue, 1),
            drops: word(queue, 2),
        }
    }
}
