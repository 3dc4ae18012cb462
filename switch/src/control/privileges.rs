//! `xoff run` starts as root, opens everything, and then keeps only what it needs.
//!
//! What needs what:
//!
//! | step | when | capability |
//! |---|---|---|
//! | AF_XDP sockets | start | CAP_NET_RAW |
//! | UMEM (locked memory beyond the limit) | start | CAP_IPC_LOCK |
//! | loading the XDP program and its maps | start | CAP_BPF, CAP_NET_ADMIN (CAP_SYS_ADMIN before Linux 5.8) |
//! | seeing whose program a killed run left in generic mode | start | CAP_SYS_ADMIN |
//! | attaching it and the filter; device settings (up, promiscuous, VLAN offloads, queueing disciplines) | start | CAP_NET_ADMIN |
//! | sending, receiving and waking on the open sockets, their statistics | always | none |
//! | netlink: following links, reading device counters | always | none |
//! | HTTP on a port below 1024 | start | CAP_NET_BIND_SERVICE |
//! | attaching the program again where somebody took it off | always | CAP_NET_ADMIN |
//! | detaching the program and the filter, putting device settings back | stop | CAP_NET_ADMIN |
//!
//! So [`CAP_NET_ADMIN`](Capability::CAP_NET_ADMIN) is all that is kept, and the process can never get
//! more again: the bounding set shrinks too, and `no_new_privs` is set. Capabilities belong to
//! threads, and new threads inherit them: call this before the workers and the control thread start.

use caps::{CapSet, Capability, CapsHashSet};
use nix::errno::Errno;

/// Why capabilities could not be dropped.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// The kernel refused to change a set.
    #[error("cannot drop capabilities: {0}")]
    Caps(#[from] caps::errors::CapsError),
    /// The kernel refused `no_new_privs`.
    #[error("cannot set no_new_privs: {0}")]
    NoNewPrivileges(#[from] Errno),
}

/// Drops, for the calling thread and those that it starts from now on, every capability but
/// CAP_NET_ADMIN, for good.
///
/// # Errors
/// Where the kernel refuses.
pub fn drop_all_but_network_administration() -> Result<(), PrivilegeError> {
    let permitted = caps::read(None, CapSet::Permitted)?;
    let kept: CapsHashSet = permitted.intersection(&[Capability::CAP_NET_ADMIN].into()).copied().collect();
    nix::sys::prctl::set_no_new_privs()?;
    if permitted.contains(&Capability::CAP_SETPCAP) {
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_network_administration_is_left() {
        // A thread of its own: the test process keeps what it has.
        let sets = std::thread::spawn(|| {
            drop_all_but_network_administration().unwrap();
            [CapSet::Effective, CapSet::Permitted, CapSet::Inheritable, CapSet::Ambient]
                .map(|set| caps::read(None, set).unwrap())
        });
        let kept: CapsHashSet = caps::read(None, CapSet::Permitted)
            .unwrap()
            .intersection(&[Capability::CAP_NET_ADMIN].into())
            .copied()
            .collect();
        let [effective, permitted, inheritable, ambient] = sets.join().unwrap();
        assert_eq!((&effective, &permitted), (&kept, &kept));
        assert!(inheritable.is_empty() && ambient.is_empty());
    }
}
