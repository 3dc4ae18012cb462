use std::io::{self, ErrorKind};
use std::sync::Once;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, NetlinkBuffer, NetlinkMessage,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use nix::errno::Errno;

use crate::attributes::{HEADER, find, messages, read, text, word};

/// Flag of a reply that contains attributes, such as the kernel's error text.
const NLM_F_ACK_TLVS: u16 = 0x200;
const NLMSGERR_ATTR_MSG: u16 = 1;
/// Flag of a dump that may be inconsistent, because the table changed meanwhile.
pub(crate) const NLM_F_DUMP_INTR: u16 = 0x10;

/// Receive buffer in bytes; the kernel splits dumps at 32 KiB.
pub(crate) const DATAGRAM: usize = 1 << 16;

static UNREADABLE: Once = Once::new();

/// Netlink socket that sends one request at a time and waits for its reply.
#[derive(Debug)]
pub struct Conversation {
    socket: Socket,
    mark: u16,
    sequence: u16,
    datagram: Vec<u8>,
}

impl Conversation {
    pub fn open() -> io::Result<Conversation> {
        Conversation::marked(0)
    }

    /// Opens an rtnetlink socket whose sequence numbers have `mark` in their upper half. Notifications repeat the
    /// number of the request that caused them, so that listeners can skip their own program's changes.
    pub fn marked(mark: u16) -> io::Result<Conversation> {
        Conversation::over(NETLINK_ROUTE, mark)
    }

    pub(crate) fn over(protocol: isize, mark: u16) -> io::Result<Conversation> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        let _ = socket.set_ext_ack(true); // without this option, an error is a bare number
        let _ = socket.set_cap_ack(true);
        Ok(Conversation { socket, mark, sequence: 0, datagram: Vec::with_capacity(DATAGRAM) })
    }

    pub fn request(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.exchange(message, NLM_F_ACK | flags, |_| {})?.accepted().map(drop)
    }

    pub fn get(&mut self, message: RouteNetlinkMessage) -> io::Result<Option<RouteNetlinkMessage>> {
        let mut object = None;
        match self.exchange(message, NLM_F_ACK, |message| object = Some(message))? {
            Acknowledgement { error, .. }
                if matches!(Errno::from_raw(error), Errno::ENODEV | Errno::ENOENT) =>
            {
                Ok(None)
            }
            answer => answer.accepted().map(|_| object),
        }
    }

    /// Passes each entry of a kernel table to `give`, except entries that cannot be parsed. Returns false if the table
    /// changed during the dump.
    pub fn dump(
        &mut self,
        message: RouteNetlinkMessage,
        give: impl FnMut(RouteNetlinkMessage),
    ) -> io::Result<bool> {
        Ok(self.exchange(message, NLM_F_DUMP, give)?.accepted()? & NLM_F_DUMP_INTR == 0)
    }

    fn exchange(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
        mut give: impl FnMut(RouteNetlinkMessage),
    ) -> io::Result<Acknowledgement> {
        let mut message = NetlinkMessage::from(message);
        message.header.flags = NLM_F_REQUEST | flags;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.converse(&mut bytes, |part| match read(part) {
            Some(message) => give(message),
            None => UNREADABLE.call_once(|| {
                let kind = part.message_type();
                tracing::warn!(
                    "cannot parse the kernel's netlink messages of type {kind}; xoff ignores these messages"
                );
            }),
        })
    }

    pub(crate) fn converse(
        &mut self,
        message: &mut [u8],
        mut part: impl FnMut(&NetlinkBuffer<&[u8]>),
    ) -> io::Result<Acknowledgement> {
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = u32::from(self.mark) << 16 | u32::from(self.sequence);
        message[8..12].copy_from_slice(&sequence.to_ne_bytes());
        uninterrupted(|| self.socket.send(message, 0))?;
        let mut flags = 0;
        loop {
            self.datagram.clear();
            uninterrupted(|| self.socket.recv(&mut self.datagram, 0))?;
            // Skip messages with other sequence numbers, because they reply to an abandoned request.
            for message in messages(&self.datagram).filter(|message| message.sequence_number() == sequence) {
                flags |= message.flags();
                match message.message_type() {
                    NLMSG_ERROR => return Ok(Acknowledgement::read(&message, 4 + HEADER, flags)),
                    NLMSG_DONE => return Ok(Acknowledgement::read(&message, 4, flags)),
                    _ => part(&message),
                }
            }
        }
    }
}

fn uninterrupted(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<()> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result.map(drop),
        }
    }
}

pub(crate) struct Acknowledgement {
    error: i32,
    words: String,
    flags: u16,
}

impl Acknowledgement {
    fn read(message: &NetlinkBuffer<&[u8]>, attributes: usize, flags: u16) -> Acknowledgement {
        let error = word(message.payload(), 0).cast_signed().wrapping_neg();
        let words = message.payload().get(attributes..).filter(|_| message.flags() & NLM_F_ACK_TLVS != 0);
        let words = words.and_then(|words| find(words, NLMSGERR_ATTR_MSG)).map(text).unwrap_or_default();
        Acknowledgement { error, words, flags }
    }

    pub(crate) fn accepted(self) -> io::Result<u16> {
        let refusal = io::Error::from_raw_os_error(self.error);
        match (self.error, self.words.trim_end_matches('.')) {
            (0, _) => Ok(self.flags),
            (_, "") => Err(refusal),
            (_, words) => Err(io::Error::new(refusal.kind(), format!("{words} ({refusal})"))),
        }
    }
}
