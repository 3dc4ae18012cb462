//! How a port is opened.

use xoff_ebpf::Mode;

use crate::layout::ReceiveChunks;
use crate::umem::{Rings, ZeroCopy};

/// How a port is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortOptions {
    /// Name of the interface.
    pub device: String,
    /// The hardware queues that get a socket each; the first one sends. `None`: all queues of the device.
    pub queues: Option<Vec<u32>>,
    /// Where the XDP program runs. `None`: in the driver, or in the kernel's network stack where the driver cannot.
    pub mode: Option<Mode>,
    /// Whether the device reads and writes packet memory itself.
    pub zero_copy: ZeroCopy,
    /// Entries of the rings of each socket.
    pub rings: Rings,
    /// Bytes of a transmit chunk: 2048 holds frames up to 1792 bytes, 4096 up to 3840.
    pub chunk_bytes: u32,
    /// Size of receive chunks; small ones need `multi_buffer`, and the kernel copies.
    pub receive_size: ReceiveChunks,
    /// Whether longer frames may take several chunks (XDP multi-buffer, Linux 6.6).
    pub multi_buffer: bool,
    /// Chunks of each queue to receive into, at most as many as its fill and RX rings have entries.
    pub receive_chunks: u32,
    /// Received frames of each queue that stay in their chunks beside those that the rings need; older ones are moved to the buffer
    /// memory.
    pub window: u32,
    /// Chunks to send from, at most as many as the TX and completion rings have entries.
    pub transmit_chunks: u32,
}
