//! System calls of `xoff nic`, a host's agent, that no safe crate offers.

use std::io;
use std::os::fd::BorrowedFd;

use xoff_wire::units::{BitRate, MacAddr};

use crate::driver::Driver;
use crate::sys::{self, Ethtool};

/// Makes the interface receive frames to the multicast address `group` while the packet socket is open.
pub fn join_group(socket: BorrowedFd<'_>, ifindex: i32, group: MacAddr) -> io::Result<()> {
    sys::join_group(socket, ifindex, group)
}

/// Keeps copies of sent frames away from the packet socket, so that sending costs less.
pub fn receive_only(socket: BorrowedFd<'_>) -> io::Result<()> {
    sys::receive_only(socket)
}

pub fn missed(socket: BorrowedFd<'_>) -> io::Result<u32> {
    sys::missed(socket)
}

/// Binds the packet socket to an interface and an EtherType; ETH_P_ALL (3) means every EtherType.
pub fn bind(socket: BorrowedFd<'_>, ifindex: i32, ether_type: u16) -> io::Result<()> {
    sys::bind_packet(socket, ifindex, ether_type)
}

/// Gives the calling thread real-time priority (SCHED_FIFO, 1 to 99). Its child processes have ordinary priority.
///
/// # Errors
/// Fails if the process lacks CAP_SYS_NICE, or its control group allows no real-time runtime.
pub fn run_in_real_time(priority: i32) -> io::Result<()> {
    sys::run_in_real_time(priority)
}

/// Returns the device's driver, and whether the NIC itself obeys 802.3x PAUSE (`None` if unknown).
pub fn driver(device: &str) -> io::Result<(Driver, Option<bool>)> {
    let ethtool = Ethtool::new(device)?;
    let obeys_pause = ethtool.flow_control().map(|flow_control| flow_control.rx);
    Ok((Driver(ethtool.driver().unwrap_or_default()), obeys_pause))
}

/// Returns the line rate that the driver reports; `None` without a link, or if the driver reports none.
pub fn speed(device: &str) -> io::Result<Option<BitRate>> {
    Ethtool::new(device)?.speed()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::thread;

    use super::*;

    fn policy() -> u32 {
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let after_name = stat.rsplit(')').next().unwrap();
        after_name.split_whitespace().nth(41 - 3).unwrap().parse().unwrap()
    }

    #[test] // proves: host-guard
    fn child_of_real_time_thread_has_ordinary_priority() {
        thread::spawn(|| match run_in_real_time(1) {
            Ok(()) => {
                assert_eq!(policy(), 1);
                assert_eq!(thread::spawn(policy).join().unwrap(), 0);
            }
            Err(error) => println!("test skipped, because real-time priority is refused: {error}"),
        })
        .join()
        .unwrap();
    }
}
