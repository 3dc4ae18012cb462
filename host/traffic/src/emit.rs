//! Sends single frames repeatedly by a packet socket, so that an AF_XDP host can use the interface, too.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, sendto, socket};
use xoff_wire::units::{MacAddr, Nanos};

/// Maximum time until the sender notices `stop`.
const NAP_MAX: Duration = Duration::from_millis(20);

#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error(
        "no interface `{0}` with an Ethernet address exists in this namespace; `ip link` lists all interfaces"
    )]
    NoDevice(String),
    #[error(
        "the kernel refused a packet socket, which needs CAP_NET_RAW: {0}; run as root, or grant the capability with setcap"
    )]
    Socket(#[source] io::Error),
    #[error(
        "the kernel refused to send a frame on `{device}`: {source}; if the interface is down, run `ip link set {device} up`"
    )]
    Send { device: String, source: io::Error },
}

#[derive(Debug)]
pub struct Link {
    device: String,
    to: LinkAddr,
    address: MacAddr,
    socket: OwnedFd,
}

impl Link {
    pub fn open(device: &str) -> Result<Link, LinkError> {
        let (to, address) = link_address(device).ok_or_else(|| LinkError::NoDevice(device.to_owned()))?;
        let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)
            .map_err(|error| LinkError::Socket(error.into()))?;
        Ok(Link { device: device.to_owned(), to, address, socket })
    }

    #[must_use]
    pub const fn address(&self) -> MacAddr {
        self.address
    }

    pub fn send(&self, frame: &[u8]) -> Result<(), LinkError> {
        self.send_with(frame, MsgFlags::empty()).map_err(|source| self.refused(source))
    }

    /// Sends a frame, or returns false if the kernel's queues are full.
    pub fn try_send(&self, frame: &[u8]) -> Result<bool, LinkError> {
        match self.send_with(frame, MsgFlags::MSG_DONTWAIT) {
            Ok(()) => Ok(true),
            Err(Errno::EAGAIN | Errno::ENOBUFS) => Ok(false),
            Err(source) => Err(self.refused(source)),
        }
    }

    fn send_with(&self, frame: &[u8], flags: MsgFlags) -> Result<(), Errno> {
        sendto(self.socket.as_raw_fd(), frame, &self.to, flags).map(drop)
    }

    fn refused(&self, source: Errno) -> LinkError {
        LinkError::Send { device: self.device.clone(), source: source.into() }
    }
}

fn link_address(device: &str) -> Option<(LinkAddr, MacAddr)> {
    getifaddrs().ok()?.filter(|interface| interface.interface_name == device).find_map(|interface| {
        let link = *interface.address?.as_link_addr()?;
        Some((link, MacAddr(link.addr()?)))
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    pub every: Nanos,
    /// Maximum number of rounds; each sends every frame once.
    pub count: Option<u64>,
    pub duration: Option<Nanos>,
}

/// Sends `frames` in turn, without catching up, until `timing` ends or `stop` is set. Returns how many were sent.
pub fn emit(link: &Link, frames: &[Vec<u8>], timing: &Timing, stop: &AtomicBool) -> Result<u64, LinkError> {
    let begin = Instant::now();
    let end = timing.duration.map(|duration| begin + Duration::from_nanos(duration.0));
    let total = timing.count.map(|count| count.saturating_mul(frames.len() as u64));
    let mut next = begin;
    let mut sent = 0;
    for frame in frames.iter().cycle() {
        if total.is_some_and(|total| sent >= total) || !sleep_until(next, end, stop) {
            break;
        }
        link.send(frame)?;
        sent += 1;
        next = (next + Duration::from_nanos(timing.every.0)).max(Instant::now());
    }
    Ok(sent)
}

fn sleep_until(time: Instant, end: Option<Instant>, stop: &AtomicBool) -> bool {
    loop {
        let now = Instant::now();
        if stop.load(Ordering::Relaxed) || end.is_some_and(|end| time >= end || now >= end) {
            return false;
        }
        match time.checked_duration_since(now) {
            None | Some(Duration::ZERO) => return true,
            Some(left) => thread::sleep(left.min(NAP_MAX)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn error_of_missing_device_names_the_device() {
        let error = Link::open("no-such-dev").unwrap_err().to_string();
        assert!(error.contains("no-such-dev"), "{error}");
    }
}
