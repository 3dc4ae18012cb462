//! What a host beside the kernel's own stack needs, and no safe crate offers: a packet socket that is told
//! of MAC control, what a device's driver says of itself, and a thread that runs before others.

use std::io;
use std::os::fd::BorrowedFd;

use xoff_wire::units::MacAddr;

use crate::driver::Driver;
use crate::sys::{self, Ethtool};

/// Makes the interface receive what is sent to `group`, as long as the packet socket is open.
///
/// # Errors
/// What the kernel says.
pub fn join_group(socket: BorrowedFd<'_>, ifindex: i32, group: MacAddr) -> io::Result<()> {
    sys::join_group(socket, ifindex, group)
}

/// The packet socket is told of received frames only, and costs those that are sent nothing.
///
/// # Errors
/// What the kernel says.
pub fn receive_only(socket: BorrowedFd<'_>) -> io::Result<()> {
    sys::receive_only(socket)
}

/// How many frames the packet socket had no room for since this was asked last.
///
/// # Errors
/// What the kernel says.
pub fn missed(socket: BorrowedFd<'_>) -> io::Result<u32> {
    sys::missed(socket)
}

/// The packet socket gets the frames of one interface with this EtherType (3: all) from now on.
///
/// # Errors
/// What the kernel says.
pub fn bind(socket: BorrowedFd<'_>, ifindex: i32, ether_type: u16) -> io::Result<()> {
    sys::bind_packet(socket, ifindex, ether_type)
}

/// The calling thread runs before all that are not real-time threads, with this priority (1 to 99) among those. Threads and processes
/// that it starts are ordinary ones.
///
/// # Errors
/// Without CAP_SYS_NICE, and where a control group leaves no real-time runtime.
pub fn run_in_real_time(priority: i32) -> io::Result<()> {
    sys::run_in_real_time(priority)
}

/// The driver of `device`, and whether the device obeys 802.3x PAUSE by itself, where it says.
///
/// # Errors
/// No socket.
pub fn driver(device: &str) -> io::Result<(Driver, Option<bool>)> {
    let ethtool = Ethtool::new(device)?;
    let obeys_pause = ethtool.flow_control().map(|flow_control| flow_control.rx);
    Ok((Driver(ethtool.driver().unwrap_or_default()), obeys_pause))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs;
    use std::thread;

    use super::*;

    /// The scheduling policy of the calling thread: 0 is the ordinary one, 1 SCHED_FIFO.
    fn policy() -> u32 {
        let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
        let after_name = stat.rsplit(')').next().unwrap();
        after_name.split_whitespace().nth(41 - 3).unwrap().parse().unwrap()
    }

    #[test]
    fn what_a_real_time_thread_starts_is_an_ordinary_one() {
        thread::spawn(|| match run_in_real_time(1) {
            Ok(()) => {
                assert_eq!(policy(), 1);
                assert_eq!(thread::spawn(policy).join().unwrap(), 0);
            }
            Err(error) => println!("not tried: {error}"),
        })
        .join()
        .unwrap();
    }
}
