//! One xoff at a time has an interface, and no longer than its process lives.
//!
//! A program in generic mode outlives the process that attached it, so the program does not say whether
//! it is still in use. A name that the kernel forgets with its process does: an abstract Unix socket,
//! which is known in its network namespace only, as an interface's index is.

use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::EbpfError;

/// An interface that is ours until this is dropped.
#[derive(Debug)]
pub struct Claim {
    device: String,
    ifindex: i32,
    _name: UnixDatagram,
}

impl Claim {
    /// Claims the interface `device`, of index `ifindex` in the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`EbpfError::AnotherXoff`], and what the system says.
    pub fn take(device: &str, ifindex: i32) -> Result<Claim, EbpfError> {
        let device = device.to_owned();
        match bind(ifindex) {
            Ok(name) => Ok(Claim { device, ifindex, _name: name }),
            Err(error) if error.kind() == ErrorKind::AddrInUse => Err(EbpfError::AnotherXoff { device }),
            Err(error) => {
                Err(EbpfError::Refused { doing: "claim the interface", device, source: error.into() })
            }
        }
    }

    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    pub(crate) fn ifindex(&self) -> i32 {
        self.ifindex
    }
}

fn bind(ifindex: i32) -> io::Result<UnixDatagram> {
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(format!("xoff/interface/{ifindex}"))?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_claimed_once_at_a_time() {
        let index = i32::MAX; // of no interface
        let claim = Claim::take("eth1", index).unwrap();
        let again = Claim::take("eth1", index).unwrap_err();
        assert!(matches!(&again, EbpfError::AnotherXoff { device } if device == "eth1"), "{again}");
        assert!(Claim::take("eth2", index - 1).is_ok());
        drop(claim);
        assert!(Claim::take("eth1", index).is_ok());
    }
}
