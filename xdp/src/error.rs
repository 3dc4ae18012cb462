//! Errors from opening ports. Failures of open ports are counted instead.

use std::io;

use xoff_ebpf::EbpfError;

use crate::limits;

#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    #[error(
        "not privileged: {} missing; run as root (in a container with `--cap-add`), or give the binary its capabilities with \
         `setcap {setcap}+ep`",
        .missing.join(", ")
    )]
    NotPrivileged {
        missing: Vec<String>,
        /// Capabilities that the program needs, in the notation of `setcap`.
        setcap: &'static str,
    },
    #[error(
        "no AF_XDP: the kernel must be Linux 5.18 or newer with CONFIG_XDP_SOCKETS=y, and no filter of the container or \
         service may exclude the address family (`RestrictAddressFamilies=` of systemd needs AF_XDP)"
    )]
    NoAfXdp,
    #[error("{fault}: {source}, although the process has the capabilities: {}", xoff_ebpf::FORBIDDEN)]
    Forbidden { fault: &'static str, source: io::Error },
    #[error(
        "a killed `xoff nic` has left its queues at {device}; restore the device with \
         `xoff nic restore --device {device}`, and start again"
    )]
    LeftByHost { device: String },
    #[error("no interface {device} in this network namespace; `ip link` lists those that exist")]
    NoSuchInterface { device: String },
    #[error(
        "{device} carries no Ethernet frames: choose a device that `ip link` shows as link/ether, such as a TAP device \
         (`ip tuntap add {device} mode tap`) in place of a TUN device"
    )]
    NotEthernet { device: String },
    #[error("{device} has no hardware queue {queue}: it has {queues} queues, numbered from 0")]
    NoSuchQueue { device: String, queue: u32, queues: u32 },
    #[error(
        "queue {queue} of {device} is taken by another AF_XDP socket (another xoff, Open vSwitch, \
         DPDK, ...); `ss --xdp -p` shows its process"
    )]
    QueueBusy { device: String, queue: u32 },
    #[error(
        "{device} cannot use zero copy, because {}: set zero_copy = \"auto\" or \"off\" in [switch]", .why.describe()
    )]
    NotZeroCopy { device: String, why: Obstacle },
    #[error(
        "{device} has an MTU of {mtu}, but with native XDP its driver loses frames above {most}: use mode \"auto\" or \
         \"generic\", an MTU of {most} (`ip link set {device} mtu {most}`), or Linux 6.3 and newer"
    )]
    LostNatively {
        device: String,
        mtu: u32,
        /// Maximum MTU without loss, in bytes.
        most: u32,
    },
    #[error(
        "the kernel refuses frames in several chunks (XDP multi-buffer) at {device}: use Linux 6.6 or newer"
    )]
    NoMultiBuffer { device: String },
    #[error("{what} is {given}; it must be {allowed}")]
    Size {
        /// Name of the invalid size, such as "the size of the RX ring".
        what: &'static str,
        given: u32,
        allowed: &'static str,
    },
    #[error(
        "cannot set up {bytes} bytes of memory for frames: {source}; lower `stall_budget`, or {}",
        limits::memory_remedy(source)
    )]
    Memory { bytes: u64, source: io::Error },
    #[error("{device}: {fault}: {source}")]
    Device { fault: &'static str, device: String, source: io::Error },
    #[error(transparent)]
    Program(#[from] EbpfError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    Driver,
    Configured,
    /// The XDP program runs in generic mode, which bypasses the driver's zero-copy path.
    Generic,
    SmallChunks,
    /// The driver uses only whole KiB of a chunk, so the longest frame does not fit into one chunk.
    WholeKibibytes {
        room: u32,
        longest: u32,
    },
}

impl Obstacle {
    pub(crate) fn describe(self) -> String {
        match self {
            Obstacle::Driver => "its driver does not support zero copy".to_owned(),
            Obstacle::Configured => "zero_copy = \"off\" is configured".to_owned(),
            Obstacle::Generic => "its XDP program runs in generic mode".to_owned(),
            Obstacle::SmallChunks => "small receive chunks overlap".to_owned(),
            Obstacle::WholeKibibytes { room, longest } => format!(
                "its driver uses at most {room} bytes of a chunk, but frames have up to {longest} bytes"
            ),
        }
    }
}

const NEEDED: [caps::Capability; 3] =
    [caps::Capability::CAP_NET_ADMIN, caps::Capability::CAP_NET_RAW, caps::Capability::CAP_BPF];

pub(crate) fn forbidden(fault: &'static str, source: io::Error) -> XdpError {
    check_privileges().err().unwrap_or(XdpError::Forbidden { fault, source })
}

pub(crate) fn check_privileges() -> Result<(), XdpError> {
    check(&NEEDED, "cap_net_admin,cap_net_raw,cap_bpf,cap_ipc_lock")
}

/// Checks for the capabilities that `xoff nic`, a host's agent, needs.
pub fn check_agent_privileges() -> Result<(), XdpError> {
    let needed = [caps::Capability::CAP_NET_ADMIN, caps::Capability::CAP_NET_RAW];
    check(&needed, "cap_net_admin,cap_net_raw,cap_sys_nice,cap_ipc_lock")
}

fn check(needed: &[caps::Capability], setcap: &'static str) -> Result<(), XdpError> {
    use caps::Capability::{CAP_BPF, CAP_SYS_ADMIN};
    let holds = |capability| caps::has_cap(None, caps::CapSet::Effective, capability).unwrap_or(false);
    let has = |capability| holds(capability) || capability == CAP_BPF && holds(CAP_SYS_ADMIN);
    let missing: Vec<String> = needed.iter().filter(|&&c| !has(c)).map(ToString::to_string).collect();
    if missing.is_empty() { Ok(()) } else { Err(XdpError::NotPrivileged { missing, setcap }) }
}
