//! Netlink notifications. The kernel reports when notifications were lost; the reader must then read the whole
//! table again.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_core::NetlinkBuffer;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};

use crate::attributes::{messages, read};
use crate::conversation::DATAGRAM;

const NEXTHOPS: std::ops::RangeInclusive<u16> = 104..=106;

#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub enum Group {
    Link = 1,
    Neigh = 3,
    Ipv4Ifaddr = 5,
    Ipv4Route = 7,
    Ipv6Ifaddr = 9,
    Ipv6Route = 11,
    Nexthop = 32,
}

#[derive(Debug)]
pub enum Notification {
    Message(RouteNetlinkMessage, u16),
    Nexthop,
    /// Notifications were lost, or one could not be parsed.
    Lost,
}

/// Subscription to multicast groups of rtnetlink. Its file descriptor is readable while notifications are pending.
#[derive(Debug)]
pub struct Notifications(Subscription);

impl Notifications {
    /// Subscribes in the calling thread's network namespace, with a receive buffer of `bytes`.
    pub fn open(groups: &[Group], bytes: usize) -> io::Result<Notifications> {
        Subscription::open(NETLINK_ROUTE, groups.iter().map(|&group| group as u32), bytes).map(Notifications)
    }

    /// Passes pending notifications to `give` without blocking.
    pub fn read(&mut self, mut give: impl FnMut(Notification)) -> io::Result<()> {
        self.0.read(|message| {
            give(match message.map(|message| (message, read(message))) {
                Some((message, Some(inner))) => Notification::Message(inner, message.flags()),
                Some((message, None)) if NEXTHOPS.contains(&message.message_type()) => Notification::Nexthop,
                _ => Notification::Lost,
            });
        })
    }
}

impl AsFd for Notifications {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.socket.as_fd()
    }
}

#[derive(Debug)]
pub(crate) struct Subscription {
    socket: Socket,
    datagram: Vec<u8>,
}

impl Subscription {
    pub(crate) fn open(
        protocol: isize,
        groups: impl IntoIterator<Item = u32>,
        bytes: usize,
    ) -> io::Result<Subscription> {
        let mut socket = Socket::new(protocol)?;
        // Try SO_RCVBUFFORCE first, which may exceed net.core.rmem_max but needs CAP_NET_ADMIN.
        if setsockopt(&socket, sockopt::RcvBufForce, &bytes).is_err() {
            setsockopt(&socket, sockopt::RcvBuf, &bytes)?;
        }
        socket.bind(&SocketAddr::new(0, 0))?;
        groups.into_iter().try_for_each(|group| socket.add_membership(group))?;
        socket.set_non_blocking(true)?;
        Ok(Subscription { socket, datagram: Vec::with_capacity(DATAGRAM) })
    }

    pub(crate) fn read(&mut self, mut give: impl FnMut(Option<&NetlinkBuffer<&[u8]>>)) -> io::Result<()> {
        loop {
            self.datagram.clear();
            match self.socket.recv(&mut self.datagram, 0) {
                Ok(_) => messages(&self.datagram).for_each(|message| give(Some(&message))),
                Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => give(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}
