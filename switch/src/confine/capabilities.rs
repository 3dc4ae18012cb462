//! Linux capabilities that a switch needs at its start, and, where marked R, also when a port is reopened:
//!
//! * CAP_NET_RAW (R): AF_XDP sockets
//! * CAP_IPC_LOCK (R): UMEM beyond the limit of locked memory
//! * CAP_BPF and CAP_NET_ADMIN, before Linux 5.8 CAP_SYS_ADMIN (R): loading the XDP program
//! * CAP_NET_ADMIN (R): attaching XDP program and filter (again, if removed), changing device settings (up, offloads,
//!   qdiscs), and undoing this at the stop
//! * CAP_SYS_ADMIN: finding the owner of an XDP program that a killed switch left in generic mode
//! * CAP_NET_BIND_SERVICE: HTTP on a port below 1024
//! * CAP_SETUID and CAP_SETGID: becoming another user

use caps::{CapSet, Capability, CapsHashSet};

use super::{ConfineError, Part};

pub const OWNER: [Capability; 1] = [Capability::CAP_NET_ADMIN];

pub const OPENER: [Capability; 4] =
    [Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW, Capability::CAP_BPF, Capability::CAP_IPC_LOCK];

pub(super) fn limit(part: Part) -> Result<(), ConfineError> {
    let needed: CapsHashSet = match part {
        Part::Owner => OWNER.into(),
        Part::Opener => OPENER.into(),
        Part::Worker | Part::Http | Part::HostPath | Part::Log => CapsHashSet::new(),
    };
    let permitted = caps::read(None, CapSet::Permitted)?;
    let kept: CapsHashSet = permitted.intersection(&needed).copied().collect();
    if permitted.contains(&Capability::CAP_SETPCAP) {
        // Make CAP_SETPCAP effective again: the change of user cleared it, and dropping bounding capabilities needs it.
        caps::set(None, CapSet::Effective, &permitted)?;
        for capability in caps::read(None, CapSet::Bounding)?.difference(&kept) {
            caps::drop(None, CapSet::Bounding, *capability)?;
        }
    }
    caps::clear(None, CapSet::Ambient)?;
    caps::clear(None, CapSet::Inheritable)?;
    caps::set(None, CapSet::Effective, &kept)?;
    caps::set(None, CapSet::Permitted, &kept)?;
    Ok(())
}
