use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::sys::socket::{MsgFlags, send};

use crate::sys;

/// Packet socket that sends through a device's queueing discipline and receives nothing.
#[derive(Debug)]
pub struct PacketSender(OwnedFd);

impl PacketSender {
    pub fn open(ifindex: i32) -> io::Result<PacketSender> {
        sys::packet_sender(ifindex).map(PacketSender)
    }

    /// Sends a frame that includes its Ethernet header, without waiting for space in the queue.
    ///
    /// # Errors
    /// Fails if the device is down or its queueing discipline is full.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        send(self.0.as_raw_fd(), frame, MsgFlags::MSG_DONTWAIT)?;
        Ok(())
    }
}
