//! The conversation with the kernel.

use std::io::{self, ErrorKind};

use rtnetlink::packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR};
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{Socket, SocketAddr};

use crate::attributes::{find, text, word};
use crate::node::Node;
use crate::request::{HEADER, Handle, Place, Request};

const RTM_GETQDISC: u16 = 38;
const RTM_GETTCLASS: u16 = 42;
const RTM_GETTFILTER: u16 = 46;

/// Where the kernel puts its words behind an answer, and their number there (extended ACK).
const NLM_F_ACK_TLVS: u16 = 0x200;
const NLMSGERR_ATTR_MSG: u16 = 1;

/// The kernel answers a dump in pieces of 32 KiB at most.
const BUFFER: usize = 1 << 16;

/// What the kernel refused, in its words.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {}", self.words())]
pub struct TcError {
    /// What was asked for.
    pub what: String,
    /// What the kernel said besides a number; empty where it said nothing.
    pub said: String,
    /// The number.
    pub source: io::Error,
}

impl TcError {
    fn words(&self) -> String {
        if self.said.is_empty() {
            self.source.to_string()
        } else {
            format!("{} ({})", self.said, self.source)
        }
    }

    /// Whether there is no such thing: a kind that the kernel does not know, a place with nothing in it.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == ErrorKind::NotFound
    }
}

/// A socket to the kernel, about the network namespace of the thread that opened it. It may be used from any thread.
pub struct Tc {
    socket: Socket,
    sequence: u16,
    answer: Vec<u8>,
}

impl std::fmt::Debug for Tc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tc").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

impl Tc {
    /// Upper half of the sequence number of every request. The kernel repeats that number when it announces a change to others, so
    /// that a listener can tell changes of this program from those of somebody else.
    pub const MARK: u16 = 0x786e;

    /// Opens it.
    ///
    /// # Errors
    /// Where the system has no more sockets.
    pub fn open() -> io::Result<Tc> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        let _ = socket.set_ext_ack(true); // without it an error is a number
        let _ = socket.set_cap_ack(true);
        Ok(Tc { socket, sequence: 0, answer: Vec::with_capacity(BUFFER) })
    }

    /// Sends a request and waits for the kernel's answer, which is there when the first system call is over.
    ///
    /// # Errors
    /// The kernel's refusal, in its words.
    pub fn send(&mut self, request: &mut Request) -> Result<(), TcError> {
        match self.ask(request) {
            Ok(Answer { error: 0, .. }) => Ok(()),
            Ok(Answer { error, said }) => {
                Err(failed(request.what(), said, io::Error::from_raw_os_error(error)))
            }
            Err(source) => Err(failed(request.what(), String::new(), source)),
        }
    }

    /// The queueing disciplines of a device, those that are part of others included.
    ///
    /// # Errors
    /// As [`Tc::send`].
    pub fn qdiscs(&mut self, ifindex: i32) -> Result<Vec<Node>, TcError> {
        self.dump(RTM_GETQDISC, ifindex, Handle::NONE, "read the queueing disciplines")
    }

    /// The classes of a device, of whichever queueing discipline.
    ///
    /// # Errors
    /// As [`Tc::send`].
    pub fn classes(&mut self, ifindex: i32) -> Result<Vec<Node>, TcError> {
        self.dump(RTM_GETTCLASS, ifindex, Handle::NONE, "read the classes")
    }

    /// The filters at one place of a device: a queueing discipline, or [`Handle::INGRESS`] of a clsact.
    ///
    /// # Errors
    /// As [`Tc::send`].
    pub fn filters(&mut self, ifindex: i32, parent: Handle) -> Result<Vec<Node>, TcError> {
        self.dump(RTM_GETTFILTER, ifindex, parent, "read the filters")
    }

    fn dump(&mut self, kind: u16, ifindex: i32, parent: Handle, what: &str) -> Result<Vec<Node>, TcError> {
        let place = Place { ifindex, parent, handle: Handle::NONE };
        let what = format!("{what} of device {ifindex}");
        let mut request = Request::raw(kind, NLM_F_REQUEST | NLM_F_DUMP, place, 0, &[], what);
        let mut nodes = Vec::new();
        match self.converse(&mut request, |message| nodes.extend(Node::read(message, ifindex))) {
            Ok(Answer { error: 0, .. }) => Ok(nodes),
            Ok(Answer { error, said }) => {
                Err(failed(request.what(), said, io::Error::from_raw_os_error(error)))
            }
            Err(source) => Err(failed(request.what(), String::new(), source)),
        }
    }

    fn ask(&mut self, request: &mut Request) -> io::Result<Answer> {
        self.converse(request, |_| {})
    }

    /// Sends, and reads up to the message that ends the answer; `part` sees those before it.
    fn converse(&mut self, request: &mut Request, mut part: impl FnMut(&[u8])) -> io::Result<Answer> {
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = u32::from(Tc::MARK) << 16 | u32::from(self.sequence);
        let bytes = request.numbered(sequence);
        while let Err(error) = self.socket.send(bytes, 0) {
            if error.kind() != ErrorKind::Interrupted {
                return Err(error);
            }
        }
        loop {
            self.answer.clear();
            match self.socket.recv(&mut self.answer, 0) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let mut rest = self.answer.as_slice();
            while let Some((message, after)) = split(rest) {
                rest = after;
                if word(message, 2) != sequence {
                    continue; // the answer to a question that was given up
                }
                match kind(message) {
                    NLMSG_ERROR => return Ok(Answer::read(message, HEADER + 4 + HEADER)),
                    NLMSG_DONE => return Ok(Answer::read(message, HEADER + 4)),
                    _ => part(message),
                }
            }
        }
    }
}

/// How a conversation ended: the number of an error, or 0, and words.
struct Answer {
    error: i32,
    said: String,
}

impl Answer {
    /// `attributes`: where they begin, if there are any.
    fn read(message: &[u8], attributes: usize) -> Answer {
        let error = word(message, HEADER / 4).cast_signed().wrapping_neg();
        let flags = u16::from_ne_bytes([message[6], message[7]]);
        let words = message.get(attributes..).filter(|_| flags & NLM_F_ACK_TLVS != 0);
        let said = words.and_then(|words| find(words, NLMSGERR_ATTR_MSG)).map(text).unwrap_or_default();
        Answer { error, said }
    }
}

fn kind(message: &[u8]) -> u16 {
    u16::from_ne_bytes([message[4], message[5]])
}

/// The first message of several, and those after it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = usize::try_from(word(bytes, 0)).ok().filter(|&len| len >= HEADER && len <= bytes.len())?;
    Some((&bytes[..len], bytes.get(len.next_multiple_of(4)..).unwrap_or_default()))
}

fn failed(what: &str, said: String, source: io::Error) -> TcError {
    TcError { what: what.to_owned(), said: said.trim_end_matches('.').to_owned(), source }
}
