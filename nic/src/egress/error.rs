//! Errors of a tree.

use std::io;

use xoff_ebpf::EbpfError;
use xoff_netlink::tc::TcError;
use xoff_xdp::XdpError;

/// Error of installing, changing or removing a tree.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// The device does not exist.
    #[error("there is no network device {device} here; `ip link` shows those that there are")]
    NoSuchDevice {
        /// Name of the device.
        device: String,
    },
    /// The device has a root queueing discipline that could not be restored.
    #[error(
        "{device} has queueing discipline {kind} {handle} at its root, which could not be put back as it is; \
         remove it first (`tc qdisc del dev {device} root`)"
    )]
    Stranger {
        /// Name of the device.
        device: String,
        /// Kind of the queueing discipline.
        kind: String,
        /// Handle of the queueing discipline.
        handle: String,
    },
    /// The kernel has no queue that can be stopped and started.
    #[error(
        "this kernel has no queueing discipline that stops and starts ({tried}); it takes one of CONFIG_NET_SCH_PLUG and \
         CONFIG_NET_SCH_TBF (`modprobe sch_plug`, `modprobe sch_tbf`)"
    )]
    NoLeaf {
        /// Kinds that were tried, with the kernel's errors.
        tried: String,
    },
    /// The kernel refuses the rest of the tree.
    #[error(
        "{source}; the queues of a host that obeys PFC take CONFIG_NET_SCH_HTB and CONFIG_NET_CLS_BPF (`modprobe sch_htb`, \
         `modprobe cls_bpf`), and CAP_NET_ADMIN"
    )]
    Tree {
        /// The kernel's error.
        source: TcError,
    },
    /// The MTU is too large for a queue that is stopped by its rate.
    #[error(
        "{device} has an MTU of {mtu}: a tbf can be stopped for frames up to 65,500 bytes; make the MTU smaller"
    )]
    TooLong {
        /// Name of the device.
        device: String,
        /// MTU of the device.
        mtu: u32,
    },
    /// Another program has replaced the tree.
    #[error(
        "somebody has replaced the queues of {device}, and no class of it can be stopped any more: its root queueing discipline is \
         {root} now; leave that to xoff, and start again"
    )]
    Replaced {
        /// Name of the device.
        device: String,
        /// Present root queueing discipline.
        root: String,
    },
    /// The device was not completely restored.
    #[error("{device} is not all as it was: {}", warnings.join("; "))]
    NotPutBack {
        /// Name of the device.
        device: String,
        /// Failures, as text.
        warnings: Vec<String>,
    },
    /// The kernel refused a change.
    #[error(transparent)]
    Tc(#[from] TcError),
    /// Another xoff uses the device.
    #[error(transparent)]
    Claimed(#[from] EbpfError),
    /// The device cannot be read.
    #[error(transparent)]
    Device(#[from] XdpError),
    /// The system refused an action.
    #[error("cannot {doing} {device}: {source}")]
    System {
        /// Phrase that names the refused action.
        doing: &'static str,
        /// Name of the device.
        device: String,
        /// The system's error.
        source: io::Error,
    },
}

impl EgressError {
    pub(crate) fn system(doing: &'static str, device: &str, source: io::Error) -> EgressError {
        EgressError::System { doing, device: device.to_owned(), source }
    }
}
