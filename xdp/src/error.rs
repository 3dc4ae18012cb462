//! Everything that can go wrong while ports are opened. Afterwards nothing fails: it is counted.

use std::io;

use xoff_ebpf::EbpfError;

/// Why a port, or memory for frames, could not be had.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// The process lacks capabilities.
    #[error(
        "not privileged: {} missing; run as root, or give the binary what it needs with \
         `setcap cap_net_admin,cap_net_raw,cap_bpf,cap_ipc_lock+ep`",
        .missing.join(", ")
    )]
    NotPrivileged {
        /// Names of the capabilities.
        missing: Vec<String>,
    },
    /// The kernel was built without AF_XDP.
    #[error("this kernel has no AF_XDP: it must be Linux 5.18 or newer with CONFIG_XDP_SOCKETS=y")]
    NoAfXdp,
    /// An agent that was killed has left its queues there.
    #[error(
        "a killed `xoff nic` has left its queues at {device}; put back what was there with \
         `xoff nic --device {device} --restore`, and start again"
    )]
    LeftByHost {
        /// The interface.
        device: String,
    },
    /// There is no such interface.
    #[error("no interface {device} in this network namespace; `ip link` lists those that exist")]
    NoSuchInterface {
        /// The name given.
        device: String,
    },
    /// A queue was named that the interface does not have.
    #[error("{device} has no hardware queue {queue}, it has {queues}, counted from 0")]
    NoSuchQueue {
        /// The interface.
        device: String,
        /// The queue named.
        queue: u32,
        /// How many there are.
        queues: u32,
    },
    /// Another socket is bound to the queue.
    #[error(
        "queue {queue} of {device} is taken by another AF_XDP socket (another xoff, Open vSwitch, \
         DPDK, ...); `ss --xdp -p` shows whose it is"
    )]
    QueueBusy {
        /// The interface.
        device: String,
        /// The queue.
        queue: u32,
    },
    /// The memory is to be shared with the devices, and this one cannot do that.
    #[error(
        "{device} cannot do zero copy{}: set zero_copy = \"auto\" or \"off\" in [switch]", .why.as_clause()
    )]
    NotZeroCopy {
        /// The interface.
        device: String,
        /// What keeps it from that.
        why: Obstacle,
    },
    /// The driver takes the XDP program, and loses frames.
    #[error(
        "{device} has an MTU of {mtu}, and its driver loses frames above {most} where it runs XDP natively: use mode \"auto\" or \
         \"generic\", an MTU of {most} (`ip link set {device} mtu {most}`), or Linux 6.3"
    )]
    LostNatively {
        /// The interface.
        device: String,
        /// Its MTU.
        mtu: u32,
        /// The largest MTU with which it works.
        most: u32,
    },
    /// The kernel does not know frames of several chunks.
    #[error(
        "the kernel refuses {device} frames in several chunks (XDP multi-buffer), which take Linux 6.6 or newer"
    )]
    NoMultiBuffer {
        /// The interface.
        device: String,
    },
    /// A size that the kernel does not take.
    #[error("{what} is {given}, it must be {allowed}")]
    Size {
        /// Which size.
        what: &'static str,
        /// The value given.
        given: u32,
        /// The values allowed.
        allowed: &'static str,
    },
    /// Memory for frames could not be had.
    #[error(
        "cannot set up {bytes} bytes of memory for frames: {source}; lower the stall budget, or raise the \
         limit on locked memory (`ulimit -l`) where cap_ipc_lock is missing"
    )]
    Memory {
        /// How much.
        bytes: u64,
        /// The kernel's words.
        source: io::Error,
    },
    /// The kernel refused something about a device.
    #[error("cannot {doing} {device}: {source}")]
    Device {
        /// What was tried.
        doing: &'static str,
        /// The interface.
        device: String,
        /// The kernel's words.
        source: io::Error,
    },
    /// The XDP program could not be attached.
    #[error(transparent)]
    Program(#[from] EbpfError),
}

/// What keeps a device from sharing the packet memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Its driver does not know how.
    Driver,
    /// The XDP program runs in generic mode: the driver's own path, where frames would come without a copy, is not taken.
    Generic,
    /// Receive chunks are small, and overlap.
    SmallChunks,
    /// Its driver makes whole KiB of the room in a chunk, and longer frames come in pieces.
    WholeKibibytes {
        /// Bytes that are left of a chunk so.
        room: u32,
        /// Bytes of the longest frame.
        longest: u32,
    },
}

impl Obstacle {
    fn as_clause(self) -> String {
        match self {
            Obstacle::Driver => String::new(),
            Obstacle::Generic => " while its XDP program runs in generic mode".to_owned(),
            Obstacle::SmallChunks => " with small receive chunks".to_owned(),
            Obstacle::WholeKibibytes { room, longest } => format!(
                " with frames of up to {longest} bytes, because its driver takes no more than {room} of a chunk"
            ),
        }
    }
}

/// Capabilities needed to open ports.
const NEEDED: [caps::Capability; 3] =
    [caps::Capability::CAP_NET_ADMIN, caps::Capability::CAP_NET_RAW, caps::Capability::CAP_BPF];

/// Checks that this thread may open ports.
///
/// # Errors
/// [`XdpError::NotPrivileged`] with what is missing.
pub(crate) fn check_privileges() -> Result<(), XdpError> {
    use caps::Capability::{CAP_BPF, CAP_SYS_ADMIN};
    let holds = |capability| caps::has_cap(None, caps::CapSet::Effective, capability).unwrap_or(false);
    let has = |capability| holds(capability) || capability == CAP_BPF && holds(CAP_SYS_ADMIN);
    let missing: Vec<String> = NEEDED.into_iter().filter(|&c| !has(c)).map(|c| c.to_string()).collect();
    if missing.is_empty() { Ok(()) } else { Err(XdpError::NotPrivileged { missing }) }
}
