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

/// Queueing discipline, class or filter, as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub kind: String,
    pub parent: Handle,
    pub handle: Handle,
    /// Priority and protocol of a filter, or the handle of a class's queueing discipline.
    pub info: u32,
    /// Chain of the filter. The kernel enters chains other than 0 only by a jump.
    pub chain: u32,
    pub options: Vec<u8>,
    pub statistics: Statistics,
}

/// Counters since the object's creation, and its current backlog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub bytes: u64,
    pub frames: u64,
    /// Number of dropped frames, modulo 2^32.
    pub drops: u32,
    pub backlog: u32,
    pub qlen: u32,
}

impl Node {
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

    #[must_use]
    pub fn priority(&self) -> u16 {
        Handle(self.info).major()
    }

    /// Returns whether the node is a BPF filter for every EtherType.
    #[must_use]
    pub fn is_program(&self) -> bool {
        self.kind == "bpf" && self.info & 0xffff == u32::from(ALL_PROTOCOLS.to_be())
    }

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
        // Prefer the attribute with 64 bits: the basic statistics count frames with 32 bits only.
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
