//! What the AF_XDP shell is told beside [`SwitchSettings`](xoff_dataplane::settings::SwitchSettings):
//! devices, queues, rings, memory, threads, and where it can be asked.

use std::net::SocketAddr;

use xoff_dataplane::units::{Nanos, PortId};

/// Everything outside the dataplane.
#[derive(Clone, Debug, PartialEq)]
pub struct ShellSettings {
    /// The switch's name in logs and metrics.
    pub name: String,
    /// One for each port of the switch; the index is its [`PortId`].
    pub ports: Vec<PortShell>,
    /// Who works on which ports.
    pub workers: Workers,
    /// What a worker does when there is nothing to do.
    pub poll: Poll,
    /// Where `/metrics`, `/status` and `/healthz` are served; `None`: nowhere.
    pub http: Option<SocketAddr>,
    /// What is logged: a `tracing` filter.
    pub log: String,
    /// The longest stall of a worker through which nothing lossless is lost.
    pub stall_budget: Nanos,
    /// Bytes of one UMEM chunk: 2048 or 4096.
    pub chunk_bytes: u32,
    /// Whether some port's frames need more than one chunk (XDP multi-buffer).
    pub multi_buffer: bool,
}

/// One port's device and sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortShell {
    /// The Linux interface.
    pub device: String,
    /// Which of its hardware queues get a socket.
    pub queues: Queues,
    /// How the XDP program is attached.
    pub mode: Mode,
    /// Whether frames go in and out without a copy.
    pub zero_copy: ZeroCopy,
    /// Ring sizes of every socket of the port.
    pub rings: Rings,
}

/// Hardware queues of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Queues {
    /// All that the device has.
    #[default]
    All,
    /// These, in this order.
    List(Vec<u32>),
}

/// How the XDP program is attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Native where the driver can, else generic.
    #[default]
    Auto,
    /// In the driver, or not at all.
    Native,
    /// In the kernel's network stack.
    Generic,
}

/// Whether a socket shares its memory with the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZeroCopy {
    /// Where the driver can.
    #[default]
    Auto,
    /// Or not at all.
    On,
    /// Copy.
    Off,
}

/// Entries of a socket's four rings, each a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// Chunks for the kernel to receive into.
    pub fill: u32,
    /// Received and not yet seen.
    pub rx: u32,
    /// Handed over to be sent.
    pub tx: u32,
    /// Sent, to be reused.
    pub completion: u32,
}

/// Who works on which ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Workers {
    /// As many as the line rates ask for; see [`Workers::assign`].
    #[default]
    Auto,
    /// So many.
    Count(u16),
    /// These; every port belongs to exactly one.
    List(Vec<Worker>),
}

/// One thread and the ports that it owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// The core to which it is pinned; `None`: the kernel decides.
    pub core: Option<u16>,
    /// Its ports.
    pub ports: Vec<PortId>,
}

/// What a worker does when there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// Ask again, always: least delay, one core for each worker.
    Busy,
    /// Ask again for so long, then sleep until a frame or a deadline comes.
    Adaptive {
        /// Idle time before sleep.
        idle_after: Nanos,
    },
}
