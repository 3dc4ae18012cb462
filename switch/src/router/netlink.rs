//! Two netlink sockets in the namespace of the thread that makes them: one that is told of changes, one that asks. Neither is read in
//! the background: what the first has no room for the kernel drops, and says so, so that memory is bounded and a reader knows
//! when to ask for everything again.

use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Once;

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use rtnetlink::MulticastGroup;
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{Socket, SocketAddr};

/// The kernel marks a dump during which the table changed (NLM_F_DUMP_INTR).
const DUMP_INTERRUPTED: u16 = 0x10;

/// Of a message about next-hop objects (RTM_NEWNEXTHOP to RTM_GETNEXTHOP): that there was one is all that is needed.
const NEXTHOPS: RangeInclusive<u16> = 104..=106;

/// The longest datagram of the kernel.
const DATAGRAM: usize = 1 << 16;

/// It is said once that there are messages which cannot be read: a table has many of a kind.
static UNREADABLE: Once = Once::new();

/// What the kernel has told.
pub(super) enum Told {
    /// Of something, with the flags of the message.
    Of(RouteNetlinkMessage, u16),
    /// Of a next-hop object.
    Nexthop,
    /// Something was lost, or could not be read.
    Lost,
}

/// What is told of changes.
pub(super) struct Notifications {
    socket: Socket,
    bytes: Vec<u8>,
}

impl Notifications {
    /// Of these groups, with room for so many `bytes` of what was not read yet.
    pub(super) fn open(groups: &[MulticastGroup], bytes: usize) -> io::Result<Notifications> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        // Beyond net.core.rmem_max with CAP_NET_ADMIN.
        if setsockopt(&socket, sockopt::RcvBufForce, &bytes).is_err() {
            setsockopt(&socket, sockopt::RcvBuf, &bytes)?;
        }
        socket.bind(&SocketAddr::new(0, 0))?;
        for group in groups {
            socket.add_membership(*group as u32)?;
        }
        socket.set_non_blocking(true)?;
        Ok(Notifications { socket, bytes: Vec::with_capacity(DATAGRAM) })
    }

    /// Gives out all that waits.
    pub(super) fn read(&mut self, mut give: impl FnMut(Told)) -> io::Result<()> {
        loop {
            self.bytes.clear();
            match self.socket.recv(&mut self.bytes, 0) {
                Ok(_) => for_each_message(&self.bytes, |header, payload| {
                    give(match payload {
                        Some(NetlinkPayload::InnerMessage(message)) => Told::Of(message, header.flags),
                        _ if NEXTHOPS.contains(&header.message_type) => Told::Nexthop,
                        _ => Told::Lost,
                    });
                }),
                Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => give(Told::Lost),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for Notifications {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Asks, one question after the other, each until its answer is whole.
pub(super) struct Questions {
    socket: Socket,
    number: u32,
    bytes: Vec<u8>,
}

impl Questions {
    pub(super) fn open() -> io::Result<Questions> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, 0))?;
        Ok(Questions { socket, number: 0, bytes: Vec::with_capacity(DATAGRAM) })
    }

    /// Gives out all of a table that can be read. False where it changed meanwhile.
    pub(super) fn dump(
        &mut self,
        question: RouteNetlinkMessage,
        give: impl FnMut(RouteNetlinkMessage),
    ) -> io::Result<bool> {
        self.send(question, NLM_F_REQUEST | NLM_F_DUMP)?;
        Ok(self.answers(give)? & DUMP_INTERRUPTED == 0)
    }

    /// Sends a request, with these flags beside the usual ones, and waits until the kernel has done it.
    pub(super) fn request(&mut self, request: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.send(request, NLM_F_REQUEST | NLM_F_ACK | flags)?;
        self.answers(|_| {}).map(drop)
    }

    fn send(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.number += 1;
        let mut message = NetlinkMessage::from(message);
        (message.header.flags, message.header.sequence_number) = (flags, self.number);
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map(drop)
    }

    /// Gives out what is answered to the last question, and answers what flags any of that had.
    fn answers(&mut self, mut give: impl FnMut(RouteNetlinkMessage)) -> io::Result<u16> {
        let mut flags = 0;
        loop {
            self.bytes.clear();
            self.socket.recv(&mut self.bytes, 0)?;
            let (mut is_over, mut failed) = (false, None);
            for_each_message(&self.bytes, |header, payload| {
                if header.sequence_number != self.number {
                    return;
                }
                flags |= header.flags;
                match (header.message_type, payload) {
                    (NLMSG_DONE, Some(NetlinkPayload::Done(done))) if done.code < 0 => {
                        (is_over, failed) = (true, Some(io::Error::from_raw_os_error(done.code.saturating_neg())));
                    }
                    (NLMSG_DONE, _) => is_over = true,
                    (NLMSG_ERROR, Some(NetlinkPayload::Error(error))) => {
                        (is_over, failed) = (true, error.code.map(|_| error.to_io()));
                    }
                    (_, Some(NetlinkPayload::InnerMessage(message))) => give(message),
                    (kind, _) => UNREADABLE.call_once(|| {
                        tracing::warn!("the kernel tells something that cannot be read, a message of type {kind}; it is left out");
                    }),
                }
            });
            match failed {
                Some(error) => return Err(error),
                None if is_over => return Ok(flags),
                None => {}
            }
        }
    }
}

/// Each message of a datagram, without its payload where that could not be read.
fn for_each_message(
    mut bytes: &[u8],
    mut give: impl FnMut(NetlinkHeader, Option<NetlinkPayload<RouteNetlinkMessage>>),
) {
    while let Ok(message) = NetlinkBuffer::new_checked(bytes) {
        let len = message.length() as usize;
        let mut header = NetlinkHeader::default();
        (header.length, header.message_type, header.flags, header.sequence_number) =
            (message.length(), message.message_type(), message.flags(), message.sequence_number());
        give(header, NetlinkMessage::deserialize(&bytes[..len]).ok().map(|message| message.payload));
        bytes = &bytes[len.next_multiple_of(4).min(bytes.len())..];
    }
}
