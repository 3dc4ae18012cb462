//! Announcements of the kernel that a device has another number of queues: ethtool's netlink group `monitor`.
//!
//! rtnetlink does not say it: IFLA_NUM_RX_QUEUES is how many queues a device may have. A poll finds the number of the moment
//! only, and a number that is there for less than a poll's interval loses frames, too.

use std::io;

use rtnetlink::packet_core::NLM_F_REQUEST;
use rtnetlink::sys::{Socket, SocketAddr};

const NETLINK_GENERIC: isize = 16;
/// GENL_ID_CTRL, CTRL_CMD_GETFAMILY and its attributes (linux/genetlink.h).
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const FAMILY_GROUPS: u16 = 7;
const GROUP_NAME: u16 = 1;
const GROUP_ID: u16 = 2;
/// ETHTOOL_MSG_CHANNELS_NTF and its attributes (linux/ethtool_netlink.h).
const CHANNELS_CHANGED: u8 = 19;
const CHANNELS_HEADER: u16 = 1;
const CHANNELS_RX: u16 = 6;
const CHANNELS_COMBINED: u16 = 9;
const HEADER_INDEX: u16 = 1;
/// NLMSG_HDRLEN.
const HEAD: usize = 16;
/// Room for a thousand announcements and more.
const RECEIVE_BUFFER: usize = 1 << 20;

/// What the kernel announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueEvent {
    /// A device has another number of queues, of which so many receive.
    Changed {
        /// Index of the device.
        ifindex: u32,
        /// Its receive queues now.
        rx_queues: u32,
    },
    /// Announcements found no room in the socket: any device may have changed.
    Missed,
}

/// Receives what is announced in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct QueueMonitor {
    socket: Socket,
    family: u16,
}

impl QueueMonitor {
    /// Subscribes; `None` where the kernel announces nothing (it is built without ETHTOOL_NETLINK).
    ///
    /// # Errors
    /// What the kernel says.
    pub fn open() -> io::Result<Option<QueueMonitor>> {
        let mut socket = Socket::new(NETLINK_GENERIC)?;
        socket.bind_auto()?;
        let Some((family, group)) = family(&socket)? else { return Ok(None) };
        socket.set_rx_buf_sz(RECEIVE_BUFFER)?;
        socket.add_membership(group)?;
        socket.set_non_blocking(true)?;
        Ok(Some(QueueMonitor { socket, family }))
    }

    /// Returns all pending events without blocking.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn take(&self) -> io::Result<Vec<QueueEvent>> {
        let mut events = Vec::new();
        loop {
            match self.socket.recv_from_full() {
                Ok((bytes, _)) => events.extend(messages(&bytes).filter_map(|it| event(self.family, it))),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => events.push(QueueEvent::Missed),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(events),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Number of ethtool's family, and of its group `monitor`.
fn family(socket: &Socket) -> io::Result<Option<(u16, u32)>> {
    let name = b"ethtool\0";
    let request = [
        &32_u32.to_ne_bytes()[..], // length: two heads, and an attribute of 4 + 8 bytes
        &CONTROL.to_ne_bytes(),
        &NLM_F_REQUEST.to_ne_bytes(),
        &[0; 8], // sequence number, port
        &[GET_FAMILY, 1, 0, 0],
        &12_u16.to_ne_bytes(),
        &FAMILY_NAME.to_ne_bytes(),
        name,
    ];
    let request = request.concat();
    socket.send_to(&request, &SocketAddr::new(0, 0), 0)?;
    let (bytes, _) = socket.recv_from_full()?;
    let Some((CONTROL, body)) = messages(&bytes).next() else { return Ok(None) }; // an error: there is no such family
    let body = body.get(4..).unwrap_or_default();
    let id = attribute(body, FAMILY_ID).and_then(number16);
    let groups = attribute(body, FAMILY_GROUPS).unwrap_or_default();
    let mut groups = attributes(groups).map(|(_, group)| group);
    let monitor = groups.find(|group| attribute(group, GROUP_NAME) == Some(b"monitor\0"));
    let group = monitor.and_then(|group| attribute(group, GROUP_ID).and_then(number32));
    Ok(id.zip(group))
}

/// The messages of a datagram: kind, and what follows the head.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::try_from(number32(bytes)?).ok()?;
        let message = (number16(bytes.get(4..)?)?, bytes.get(HEAD..len)?);
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// Attributes one after the other: kind and value.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    const NESTED: u16 = 1 << 15;
    std::iter::from_fn(move || {
        let len = usize::from(number16(bytes)?);
        let attribute = (number16(bytes.get(2..)?)? & !NESTED, bytes.get(4..len)?);
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(attribute)
    })
}

fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

fn event(family: u16, (kind, body): (u16, &[u8])) -> Option<QueueEvent> {
    if kind != family || body.first() != Some(&CHANNELS_CHANGED) {
        return None;
    }
    let body = body.get(4..)?;
    let ifindex = attribute(attribute(body, CHANNELS_HEADER)?, HEADER_INDEX).and_then(number32)?;
    let count = |kind| attribute(body, kind).and_then(number32);
    let rx_queues = [CHANNELS_RX, CHANNELS_COMBINED].into_iter().filter_map(count).sum();
    Some(QueueEvent::Changed { ifindex, rx_queues })
}

fn number16(bytes: &[u8]) -> Option<u16> {
    bytes.first_chunk().map(|&bytes| u16::from_ne_bytes(bytes))
}

fn number32(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|&bytes| u32::from_ne_bytes(bytes))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::process::Command;
    use std::thread;

    use nix::sched::{CloneFlags, unshare};

    use super::*;

    fn run(program: &str, words: &str) {
        assert!(
            Command::new(program).args(words.split(' ')).status().unwrap().success(),
            "{program} {words}"
        );
    }

    #[test]
    fn each_change_of_queues_is_announced() {
        let test = || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            run("ip", "link add v0 index 10 numrxqueues 3 numtxqueues 3 type veth peer name v1 index 11");
            let monitor = QueueMonitor::open().unwrap().unwrap();
            assert_eq!(monitor.take().unwrap(), []);
            run("ethtool", "-L v0 rx 2");
            run("ethtool", "-L v0 rx 3");
            run("ethtool", "-L v0 tx 2");
            run("ip", "link set v0 name other");
            let changed = |rx_queues| QueueEvent::Changed { ifindex: 10, rx_queues };
            assert_eq!(monitor.take().unwrap(), [changed(2), changed(3), changed(3)]);
        };
        thread::spawn(test).join().unwrap();
    }

    #[test]
    fn truncated_messages_end_the_datagram() {
        assert_eq!(messages(&[0; 16]).next(), None, "a length of nothing");
        assert_eq!(attributes(&[0; 16]).next(), None);
        assert_eq!(messages(&[255; 40]).next(), None, "longer than there is");
        let header = [&8_u16.to_ne_bytes()[..], &HEADER_INDEX.to_ne_bytes(), &7_u32.to_ne_bytes()].concat();
        let header = [&12_u16.to_ne_bytes()[..], &CHANNELS_HEADER.to_ne_bytes(), &header].concat();
        let body = [&[CHANNELS_CHANGED, 1, 0, 0], &header[..]].concat();
        assert_eq!(event(20, (20, &body)), Some(QueueEvent::Changed { ifindex: 7, rx_queues: 0 }));
        (0..body.len()).for_each(|len| assert_eq!(event(20, (20, &body[..len])), None));
    }
}
