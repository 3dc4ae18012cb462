//! What becomes of the device's link, as the kernel tells it: whether it was lost since anybody asked. What else has changed with it,
//! who hears of that looks up.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, NetlinkAddr, bind, recv};
use socket2::{Domain, Protocol, SockFilter, Socket, Type};

const AF_NETLINK: i32 = 16;
const NETLINK_ROUTE: i32 = 0;
/// Messages about links.
const LINKS: u32 = 1;

/// Where these are in a message (struct nlmsghdr, struct ifinfomsg).
const INDEX_AT: u32 = 20;
const TYPE_AT: usize = 4;
const FLAGS_AT: usize = 24;
const NEW_LINK: u16 = 16;
/// IFF_UP and IFF_LOWER_UP.
const CARRIER: u32 = 1 | 1 << 16;

/// What is said of one device.
#[derive(Debug)]
pub(crate) struct LinkNews {
    socket: Socket,
}

/// Something was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct News {
    /// The link was lost, though it may be back.
    pub(crate) lost: bool,
}

impl LinkNews {
    /// Of the device of that index in the network namespace of the calling thread, from now on. The thread that waits for it is
    /// woken for no other.
    pub(crate) fn open(ifindex: u32) -> io::Result<LinkNews> {
        const LOAD_WORD: u16 = 0x20;
        const IF_EQUAL: u16 = 0x15;
        const RETURN: u16 = 0x06;
        // A filter loads big-endian numbers, and the kernel writes its own.
        let index = u32::from_be_bytes(ifindex.to_ne_bytes());
        let filter = [
            SockFilter::new(LOAD_WORD, 0, 0, INDEX_AT),
            SockFilter::new(IF_EQUAL, 0, 1, index),
            SockFilter::new(RETURN, 0, 0, u32::MAX),
            SockFilter::new(RETURN, 0, 0, 0),
        ];
        let kind = Type::RAW.nonblocking();
        let socket = Socket::new(Domain::from(AF_NETLINK), kind, Some(Protocol::from(NETLINK_ROUTE)))?;
        socket.attach_filter(&filter)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, LINKS))?;
        Ok(LinkNews { socket })
    }

    /// What to wait on.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// All that was said since this was asked last; `None`: nothing.
    pub(crate) fn read(&self) -> io::Result<Option<News>> {
        let mut heard = None;
        let mut message = [0; 64];
        loop {
            let lost = match recv(self.socket.as_raw_fd(), &mut message, MsgFlags::MSG_TRUNC) {
                Ok(_) => is_lost(&message),
                Err(Errno::EAGAIN) => return Ok(heard),
                Err(Errno::EINTR) => continue,
                // There was more than the socket had room for: it may have been that.
                Err(Errno::ENOBUFS) => true,
                Err(error) => return Err(error.into()),
            };
            heard = Some(News { lost: lost || heard.is_some_and(|before: News| before.lost) });
        }
    }
}

/// Whether a message says that there is no link.
fn is_lost(message: &[u8; 64]) -> bool {
    let kind = u16::from_ne_bytes([message[TYPE_AT], message[TYPE_AT + 1]]);
    let flags = message[FLAGS_AT..].first_chunk().map_or(0, |&bytes| u32::from_ne_bytes(bytes));
    kind == NEW_LINK && flags & CARRIER != CARRIER
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::Command;
    use std::thread;

    use nix::net::if_::if_nametoindex;
    use nix::sched::{CloneFlags, unshare};

    use super::*;

    #[test]
    fn a_link_that_was_lost_is_told_though_it_is_back_and_no_other_device_is() {
        let test = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            let ip = |words: &str| {
                assert!(Command::new("ip").args(words.split(' ')).status().unwrap().success(), "{words}");
            };
            ip("link set lo up");
            let link = LinkNews::open(if_nametoindex("lo").unwrap()).unwrap();
            ip("link add v0 type veth peer name v1");
            ip("link set v0 up");
            assert_eq!(link.read().unwrap(), None);
            ip("link set lo mtu 5000");
            assert_eq!(link.read().unwrap(), Some(News { lost: false }));
            ip("link set lo down");
            ip("link set lo up");
            assert_eq!(link.read().unwrap(), Some(News { lost: true }));
            assert_eq!(link.read().unwrap(), None);
        });
        test.join().unwrap();
    }
}
