//! Why a tree cannot be had.

use std::io;

use xoff_ebpf::EbpfError;
use xoff_netlink::tc::TcError;
use xoff_xdp::XdpError;

/// Why a tree cannot be had, or does not do what it is told.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// There is no such device.
    #[error("there is no network device {device} here; `ip link` shows those that there are")]
    NoSuchDevice {
        /// The device.
        device: String,
    },
    /// Somebody else's queueing disciplines could not be put back.
    #[error(
        "{device} has queueing discipline {kind} {handle} at its root, which could not be put back as it is; \
         remove it first (`tc qdisc del dev {device} root`)"
    )]
    Stranger {
        /// The device.
        device: String,
        /// Its kind.
        kind: String,
        /// Its number.
        handle: String,
    },
    /// The kernel has no queue that can be stopped and started.
    #[error(
        "this kernel has no queueing discipline that stops and starts ({tried}); it takes one of CONFIG_NET_SCH_PLUG and \
         CONFIG_NET_SCH_TBF (`modprobe sch_plug`, `modprobe sch_tbf`)"
    )]
    NoLeaf {
        /// What was tried, and what the kernel said.
        tried: String,
    },
    /// The rest of the tree.
    #[error(
        "{source}; the queues of a host that obeys PFC take CONFIG_NET_SCH_HTB and CONFIG_NET_CLS_BPF (`modprobe sch_htb`, \
         `modprobe cls_bpf`), and CAP_NET_ADMIN"
    )]
    Tree {
        /// The kernel's words.
        source: TcError,
    },
    /// Frames are too long for a queue that is stopped by its rate.
    #[error(
        "{device} has an MTU of {mtu}: a tbf can be stopped for frames up to 65,500 bytes; make the MTU smaller"
    )]
    TooLong {
        /// The device.
        device: String,
        /// Its MTU.
        mtu: u32,
    },
    /// Somebody else has changed the device's queueing.
    #[error(
        "somebody has replaced the queues of {device}, and no class of it can be stopped any more: its root queueing discipline is \
         {root} now; leave that to xoff, and start again"
    )]
    Replaced {
        /// The device.
        device: String,
        /// What is there now.
        root: String,
    },
    /// Not all that was at the device is there again.
    #[error("{device} is not all as it was: {}", warnings.join("; "))]
    NotPutBack {
        /// The device.
        device: String,
        /// What could not be put back, in words.
        warnings: Vec<String>,
    },
    /// The kernel refused a change.
    #[error(transparent)]
    Tc(#[from] TcError),
    /// Another xoff has the device.
    #[error(transparent)]
    Claimed(#[from] EbpfError),
    /// The device does not answer.
    #[error(transparent)]
    Device(#[from] XdpError),
    /// The system refused.
    #[error("cannot {doing} {device}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// The device.
        device: String,
        /// The system's words.
        source: io::Error,
    },
}

impl EgressError {
    pub(crate) fn system(doing: &'static str, device: &str, source: io::Error) -> EgressError {
        EgressError::System { doing, device: device.to_owned(), source }
    }
}
