//! Linux capabilities that the steps of a switch need:
//!
//! | step | when | capability |
//! |---|---|---|
//! | AF_XDP sockets | start, reopening | CAP_NET_RAW |
//! | UMEM (locked memory beyond the limit) | start | CAP_IPC_LOCK |
//! | loading the XDP program and its maps | start, reopening | CAP_BPF, CAP_NET_ADMIN (CAP_SYS_ADMIN before Linux 5.8) |
//! | finding the owner of an XDP program that a killed switch left in generic mode | start | CAP_SYS_ADMIN |
//! | attaching program and filter; device settings (up, offloads, qdiscs) | start, reopening | CAP_NET_ADMIN |
//! | HTTP on a port below 1024 | start | CAP_NET_BIND_SERVICE |
//! | attaching the program again after its removal | always | CAP_NET_ADMIN |
//! | detaching program and filter, restoring device settings | stop | CAP_NET_ADMIN |
//! | becoming another user | start | CAP_SETUID, CAP_SETGID |

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
