use xoff_ebpf::Mode;

use crate::layout::ReceiveChunks;
use crate::umem::{Rings, ZeroCopy};

/// Options for opening a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortOptions {
    /// Interface name.
    pub device: String,
    /// Hardware queues that get a socket; the first one sends. `None`: all.
    pub queues: Option<Vec<u32>>,
    /// Mode of the XDP program. `None`: native if possible, otherwise generic.
    pub mode: Option<Mode>,
    /// Use of zero copy.
    pub zero_copy: ZeroCopy,
    /// Number of entries of each socket's rings.
    pub rings: Rings,
    /// Bytes of a transmit chunk: 2048 holds frames up to 1792 bytes, 4096 up to 3840.
    pub chunk_bytes: u32,
    pub receive_size: ReceiveChunks,
    /// True if frames may be longer than a transmit chunk (XDP multi-buffer, Linux 6.6).
    pub multi_buffer: bool,
    /// Number of receive chunks per queue, at most the entries of its fill and RX rings.
    pub receive_chunks: u32,
    /// Number of additional chunks per queue, in which the last received frames stay. Older frames move to cells.
    pub window: u32,
    /// Number of transmit chunks, at most the entries of the TX and completion rings.
    pub transmit_chunks: u32,
}
