use xoff_ebpf::Mode;

use crate::layout::ReceiveChunks;
use crate::umem::{Rings, ZeroCopy};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortOptions {
    pub device: String,
    /// Hardware queues with a socket; only the first one sends. `None`: all queues.
    pub queues: Option<Vec<u32>>,
    /// XDP mode; `None`: native if possible, otherwise generic.
    pub mode: Option<Mode>,
    pub zero_copy: ZeroCopy,
    pub rings: Rings,
    /// Bytes of a transmit chunk: 2048 (frames up to 1792) or 4096 (up to 3840).
    pub chunk_bytes: u32,
    pub receive_size: ReceiveChunks,
    /// True if a frame may be longer than a transmit chunk (XDP multi-buffer, Linux 6.6).
    pub multi_buffer: bool,
    /// Receive chunks per queue; at most the entries of the fill ring and of the RX ring.
    pub receive_chunks: u32,
    /// Additional chunks per queue, in which the last received frames stay. Older frames move to cells of the buffer
    /// memory.
    pub window: u32,
    /// Transmit chunks; at most the entries of the TX ring and of the completion ring.
    pub transmit_chunks: u32,
}
