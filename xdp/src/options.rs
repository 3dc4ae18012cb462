//! How a port is opened.

use xoff_ebpf::Mode;

/// How a port is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortOptions {
    /// Name of the interface.
    pub device: String,
    /// The hardware queues that get a socket each; the first one sends. `None`: all queues of the device.
    pub queues: Option<Vec<u32>>,
    /// Where the XDP program runs. `None`: in the driver, or in the kernel's network stack where the driver cannot.
    pub mode: Option<Mode>,
    /// Entries of each RX ring, a power of two.
    pub rx: u32,
    /// Entries of each TX ring, a power of two.
    pub tx: u32,
    /// Chunks that each queue may have to receive into, at most as many as its fill and RX rings have entries.
    pub receive_chunks: u32,
}
