use std::io;

use xoff_ebpf::EbpfError;
use xoff_netlink::tc::TcError;
use xoff_xdp::{XdpError, name_file_limit};

#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    #[error("network device {device} does not exist in this namespace; `ip link` lists the existing ones")]
    NoSuchDevice { device: String },
    #[error(
        "{device} has queueing discipline {kind} {handle} at its root, which xoff could not restore later: \
         remove it first (`tc qdisc del dev {device} root`)"
    )]
    Stranger { device: String, kind: String, handle: String },
    #[error(
        "this kernel has no queueing discipline that can stop a class ({tried}): it needs CONFIG_NET_SCH_PLUG or \
         CONFIG_NET_SCH_TBF (`modprobe sch_plug`, `modprobe sch_tbf`)"
    )]
    NoLeaf { tried: String },
    #[error(
        "{source}; the queues of a host that obeys PFC need CONFIG_NET_SCH_HTB and CONFIG_NET_CLS_BPF (`modprobe sch_htb`, \
         `modprobe cls_bpf`), and CAP_NET_ADMIN"
    )]
    Tree { source: TcError },
    #[error(
        "{device} has an MTU of {mtu}, but the queueing discipline tbf can only stop frames of up to 65,500 bytes: reduce the MTU"
    )]
    TooLong { device: String, mtu: u32 },
    #[error(
        "another program has replaced the root queueing discipline of {device} by {root}, so no class can be stopped"
    )]
    Replaced { device: String, root: String },
    #[error("{device} is not completely restored: {}", warnings.join("; "))]
    NotPutBack { device: String, warnings: Vec<String> },
    #[error(transparent)]
    Tc(#[from] TcError),
    #[error(transparent)]
    Claimed(#[from] EbpfError),
    #[error(transparent)]
    Device(#[from] XdpError),
    #[error("{device}: {fault}: {source}")]
    System { fault: &'static str, device: String, source: io::Error },
}

impl EgressError {
    pub(crate) fn system(fault: &'static str, device: &str, source: io::Error) -> EgressError {
        EgressError::System { fault, device: device.to_owned(), source: name_file_limit(source) }
    }
}
