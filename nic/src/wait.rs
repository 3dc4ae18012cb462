use std::io;
use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::sockets::Device;
use crate::stacked::own_name;

const LOOK_EVERY_MILLIS: u16 = 200;

/// Waits until the device exists in this network namespace; calls `begin` if it must wait. Returns false if `stop` becomes
/// readable first.
pub fn await_device(device: &str, stop: BorrowedFd<'_>, begin: impl FnOnce()) -> io::Result<bool> {
    let exists = || Device::find(&own_name(device)).map(|found| found.is_some());
    if exists()? {
        return Ok(true);
    }
    begin();
    tracing::warn!(
        "no interface {device} with an Ethernet address yet; waiting for it: `ip link` lists the existing ones"
    );
    loop {
        let mut stops = [PollFd::new(stop, PollFlags::POLLIN)];
        match poll(&mut stops, PollTimeout::from(LOOK_EVERY_MILLIS)) {
            // If the look-up fails, such as at the limit of open files, continue to wait.
            Ok(0) | Err(Errno::EINTR) if exists().unwrap_or(false) => return Ok(true),
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}
