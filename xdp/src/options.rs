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
    /// Receive chunks per queue; neither the fill ring nor the RX ring may have fewer entries.
    pub receive_chunks: u32,
    /// Additional chunks per queue for the last received frames. Older frames move to cells of the buffer memory.
    pub window: u32,
    /// Transmit chunks; neither the TX ring nor the completion ring may have fewer entries.
    pub transmit_chunks: u32,
}
