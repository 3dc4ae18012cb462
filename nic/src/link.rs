//! Kernel notifications about the device's link, and about changes of its queues by other programs. Changes by the agent and its guard
//! carry [a mark](MARK) and are filtered out.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, NetlinkAddr, bind, recv};
use socket2::{Domain, Protocol, SockFilter, Socket, Type};
use xoff_netlink::tc::Handle;
use xoff_wire::units::ClassSet;

use crate::egress::{MARK, class_of};

const AF_NETLINK: i32 = 16;
const NETLINK_ROUTE: i32 = 0;
const GROUPS: u32 = 1 | 1 << 3;

/// Offset of the device's index in a notification: behind struct nlmsghdr, in struct ifinfomsg or tcmsg.
const INDEX_AT: u32 = 20;
const TYPE_AT: usize = 4;
const SEQUENCE_AT: u32 = 8;
const FLAGS_AT: usize = 24;
const HANDLE_AT: usize = 24;
const NEW_LINK: u16 = 16;
const LINKS: std::ops::RangeInclusive<u16> = 16..=19;
const QDISCS: std::ops::RangeInclusive<u16> = 36..=37;
const CARRIER: u32 = 1 | 1 << 16;

#[derive(Debug)]
pub(crate) struct LinkMonitor {
    socket: Socket,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkEvents {
    pub(crate) of_link: bool,
    pub(crate) lost: bool,
    pub(crate) of_queues: bool,
    pub(crate) leafs: ClassSet,
}

impl LinkEvents {
    const ANY: LinkEvents = LinkEvents { of_link: true, lost: true, of_queues: true, leafs: ClassSet::ALL };

    fn of(message: &[u8; 64]) -> LinkEvents {
        let kind = u16::from_ne_bytes([message[TYPE_AT], message[TYPE_AT + 1]]);
        let number = |at: usize| message[at..].first_chunk().map_or(0, |&bytes| u32::from_ne_bytes(bytes));
        let of_link = LINKS.contains(&kind);
        let leaf = QDISCS.contains(&kind).then(|| class_of(Handle(number(HANDLE_AT)))).flatten();
        LinkEvents {
            of_link,
            lost: kind == NEW_LINK && number(FLAGS_AT) & CARRIER != CARRIER,
            of_queues: !of_link,
            leafs: leaf.into_iter().collect(),
        }
    }

    fn and(self, other: LinkEvents) -> LinkEvents {
        LinkEvents {
            of_link: self.of_link || other.of_link,
            lost: self.lost || other.lost,
            of_queues: self.of_queues || other.of_queues,
            leafs: ClassSet(self.leafs.0 | other.leafs.0),
        }
    }
}

impl LinkMonitor {
    pub(crate) fn open(ifindex: u32) -> io::Result<LinkMonitor> {
        const LOAD_WORD: u16 = 0x20;
        const AND: u16 = 0x54;
        const IF_EQUAL: u16 = 0x15;
        const RETURN: u16 = 0x06;
        // Convert constants: BPF reads words as big-endian, but netlink messages have native byte order.
        let native = |number: u32| u32::from_be_bytes(number.to_ne_bytes());
        let filter = [
            SockFilter::new(LOAD_WORD, 0, 0, INDEX_AT),
            SockFilter::new(IF_EQUAL, 0, 4, native(ifindex)),
            SockFilter::new(LOAD_WORD, 0, 0, SEQUENCE_AT),
            SockFilter::new(AND, 0, 0, native(0xffff_0000)),
            SockFilter::new(IF_EQUAL, 1, 0, native(u32::from(MARK) << 16)),
            SockFilter::new(RETURN, 0, 0, u32::MAX),
            SockFilter::new(RETURN, 0, 0, 0),
        ];
        let kind = Type::RAW.nonblocking();
        let socket = Socket::new(Domain::from(AF_NETLINK), kind, Some(Protocol::from(NETLINK_ROUTE)))?;
        socket.attach_filter(&filter)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, GROUPS))?;
        Ok(LinkMonitor { socket })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(crate) fn read(&self) -> io::Result<LinkEvents> {
        let mut events = LinkEvents::default();
        let mut message = [0; 64];
        loop {
            let event = match recv(self.socket.as_raw_fd(), &mut message, MsgFlags::MSG_TRUNC) {
                Ok(_) => LinkEvents::of(&message),
                Err(Errno::EAGAIN) => return Ok(events),
                Err(Errno::EINTR) => continue,
                Err(Errno::ENOBUFS) => LinkEvents::ANY,
                Err(error) => return Err(error.into()),
            };
            events = events.and(event);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::Command;
    use std::thread;

    use nix::net::if_::if_nametoindex;
    use nix::sched::{CloneFlags, unshare};
    use xoff_netlink::Conversation;
    use xoff_netlink::tc::{Place, Qdisc};

    use super::*;

    #[test] // proves: host-service
    fn short_link_loss_is_reported_for_its_device_only() {
        let test = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            let ip = |words: &str| {
                assert!(Command::new("ip").args(words.split(' ')).status().unwrap().success(), "{words}");
            };
            ip("link set lo up");
            let link = LinkMonitor::open(if_nametoindex("lo").unwrap()).unwrap();
            ip("link add v0 type veth peer name v1");
            ip("link set v0 up");
            assert_eq!(link.read().unwrap(), LinkEvents::default());
            let changed = LinkEvents { of_link: true, ..LinkEvents::default() };
            ip("link set lo mtu 5000");
            assert_eq!(link.read().unwrap(), changed);
            ip("link set lo down");
            ip("link set lo up");
            assert_eq!(link.read().unwrap(), LinkEvents { lost: true, ..changed });
            assert_eq!(link.read().unwrap(), LinkEvents::default());
        });
        test.join().unwrap();
    }

    #[test] // proves: host-guard
    fn queue_changes_of_other_programs_are_reported() {
        let test = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            let run = |words: &str| {
                let mut words = words.split(' ');
                let program = words.next().unwrap();
                assert!(Command::new(program).args(words).status().unwrap().success());
            };
            let link = LinkMonitor::open(if_nametoindex("lo").unwrap()).unwrap();
            let changes = |leafs| LinkEvents { of_queues: true, leafs, ..LinkEvents::default() };
            let (place, mut tc) = (
                Place { ifindex: 1, parent: Handle::ROOT, handle: Handle::new(0x786e, 0) },
                Conversation::marked(MARK).unwrap(),
            );
            tc.send(&mut Qdisc::Htb.replace(place)).unwrap();
            assert_eq!(
                link.read().unwrap(),
                LinkEvents::default(),
                "a change by this program must not be reported as foreign"
            );
            run("tc class add dev lo parent 786e: classid 786e:1 htb rate 1mbit");
            assert_eq!(link.read().unwrap(), changes(ClassSet::NONE));
            run("tc qdisc add dev lo parent 786e:1 handle 7873: pfifo");
            assert_eq!(link.read().unwrap(), changes(ClassSet(1 << 3)));
            run("tc filter add dev lo parent 786e: protocol all prio 7 u32 match u32 0 0 flowid 786e:1");
            assert_eq!(link.read().unwrap(), changes(ClassSet::NONE));
        });
        test.join().unwrap();
    }
}
