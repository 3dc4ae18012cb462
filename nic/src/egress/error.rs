use std::io;

use xoff_ebpf::EbpfError;
use xoff_netlink::tc::TcError;
use xoff_xdp::XdpError;

/// Error of installing, changing or removing a tree.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// Missing device.
    #[error("there is no network device {device} here; `ip link` shows those that there are")]
    NoSuchDevice {
        /// Device name.
        device: String,
    },
    /// Root queueing discipline that could not be restored.
    #[error(
        "{device} has queueing discipline {kind} {handle} at its root, which could not be put back as it is; \
         remove it first (`tc qdisc del dev {device} root`)"
    )]
    Stranger {
        /// Device name.
        device: String,
        /// Kind of the queueing discipline.
        kind: String,
        /// Handle of the queueing discipline.
        handle: String,
    },
    /// Kernel without a queue that can be stopped and started.
    #[error(
        "this kernel has no queueing discipline that stops and starts ({tried}); it takes one of CONFIG_NET_SCH_PLUG and \
         CONFIG_NET_SCH_TBF (`modprobe sch_plug`, `modprobe sch_tbf`)"
    )]
    NoLeaf {
        /// Tried kinds, with the kernel's errors.
        tried: String,
    },
    /// Kernel's refusal of the rest of the tree.
    #[error(
        "{source}; the queues of a host that obeys PFC take CONFIG_NET_SCH_HTB and CONFIG_NET_CLS_BPF (`modprobe sch_htb`, \
         `modprobe cls_bpf`), and CAP_NET_ADMIN"
    )]
    Tree {
        /// Kernel's error.
        source: TcError,
    },
    /// MTU too large for a queue that is stopped by its rate.
    #[error(
        "{device} has an MTU of {mtu}: a tbf can be stopped for frames up to 65,500 bytes; make the MTU smaller"
    )]
    TooLong {
        /// Device name.
        device: String,
        /// MTU in bytes.
        mtu: u32,
    },
    /// Tree replaced by another program.
    #[error(
        "somebody has replaced the queues of {device}, and no class of it can be stopped any more: its root queueing discipline is \
         {root} now; leave that to xoff, and start again"
    )]
    Replaced {
        /// Device name.
        device: String,
        /// Present root queueing discipline.
        root: String,
    },
    /// Incompletely restored device.
    #[error("{device} is not all as it was: {}", warnings.join("; "))]
    NotPutBack {
        /// Device name.
        device: String,
        /// Failures.
        warnings: Vec<String>,
    },
    /// Refused change.
    #[error(transparent)]
    Tc(#[from] TcError),
    /// Device in use by another xoff.
    #[error(transparent)]
    Claimed(#[from] EbpfError),
    /// Unreadable device.
    #[error(transparent)]
    Device(#[from] XdpError),
    /// Refusal of the system.
    #[error("cannot {doing} {device}: {source}")]
    System {
        /// Refused action.
        doing: &'static str,
        /// Device name.
        device: String,
        /// System error.
        source: io::Error,
    },
}

impl EgressError {
    pub(crate) fn system(doing: &'static str, device: &str, source: io::Error) -> EgressError {
        EgressError::System { doing, device: device.to_owned(), source }
    }
}
