//! Requests and dumps of traffic control in a conversation.

use std::io::{self, ErrorKind};

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST};

use super::node::Node;
use super::request::{Handle, Place, Request};
use crate::conversation::{Answer, Conversation};

const RTM_GETQDISC: u16 = 38;
const RTM_GETTCLASS: u16 = 42;
const RTM_GETTFILTER: u16 = 46;

/// What the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {source}")]
pub struct TcError {
    /// The request.
    pub what: String,
    /// The refusal in the kernel's words.
    pub source: io::Error,
}

impl TcError {
    /// Whether there is no such thing: a kind that the kernel does not know, a place with nothing in it.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == ErrorKind::NotFound
    }
}

impl From<TcError> for io::Error {
    fn from(error: TcError) -> io::Error {
        error.source
    }
}

impl Conversation {
    /// Sends a request and waits for the kernel's answer, which is there when the first system call is over.
    ///
    /// # Errors
    /// The kernel's refusal, in its words.
    pub fn send(&mut self, request: &mut Request) -> Result<(), TcError> {
        self.nodes(request, |_| {})
    }

    /// Reads the queueing disciplines of a device, those that are part of others included.
    ///
    /// # Errors
    /// As [`Conversation::send`].
    pub fn qdiscs(&mut self, ifindex: i32) -> Result<Vec<Node>, TcError> {
        self.dump_nodes(RTM_GETQDISC, ifindex, Handle::NONE, "read the queueing disciplines")
    }

    /// Reads the classes of a device, of whichever queueing discipline.
    ///
    /// # Errors
    /// As [`Conversation::send`].
    pub fn classes(&mut self, ifindex: i32) -> Result<Vec<Node>, TcError> {
        self.dump_nodes(RTM_GETTCLASS, ifindex, Handle::NONE, "read the classes")
    }

    /// Reads the filters at one place of a device: a queueing discipline, or [`Handle::INGRESS`] of a clsact.
    ///
    /// # Errors
    /// As [`Conversation::send`].
    pub fn filters(&mut self, ifindex: i32, parent: Handle) -> Result<Vec<Node>, TcError> {
        self.dump_nodes(RTM_GETTFILTER, ifindex, parent, "read the filters")
    }

    fn dump_nodes(
        &mut self,
        kind: u16,
        ifindex: i32,
        parent: Handle,
        what: &str,
    ) -> Result<Vec<Node>, TcError> {
        let place = Place { ifindex, parent, handle: Handle::NONE };
        let what = format!("{what} of device {ifindex}");
        let mut request = Request::raw(kind, NLM_F_REQUEST | NLM_F_DUMP, place, 0, &[], what);
        let mut nodes = Vec::new();
        self.nodes(&mut request, |body| nodes.extend(Node::read(body, ifindex)))?;
        Ok(nodes)
    }

    fn nodes(&mut self, request: &mut Request, mut give: impl FnMut(&[u8])) -> Result<(), TcError> {
        let answer = self.converse(request.bytes_mut(), |part| give(part.payload()));
        let refused = |source| TcError { what: request.what().to_owned(), source };
        answer.and_then(Answer::accepted).map(drop).map_err(refused)
    }
}
