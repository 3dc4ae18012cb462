use std::io::{self, ErrorKind};

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST};

use super::node::Node;
use super::request::{Handle, Place, Request};
use crate::conversation::{Acknowledgement, Conversation};

const RTM_GETQDISC: u16 = 38;
const RTM_GETTCLASS: u16 = 42;
const RTM_GETTFILTER: u16 = 46;

#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {source}")]
pub struct TcError {
    /// Description of the refused request, such as "add tbf 7873: below 786e:13 at device 4".
    pub what: String,
    pub source: io::Error,
}

impl TcError {
    /// Returns whether the request failed because the kernel does not support the object's kind, or has no such object.
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
    pub fn send(&mut self, request: &mut Request) -> Result<(), TcError> {
        self.nodes(request, |_| {})
    }

    pub fn qdiscs(&mut self, ifindex: i32) -> Result<Vec<Node>, TcError> {
        self.dump_nodes(RTM_GETQDISC, ifindex, Handle::NONE, "read the queueing disciplines")
    }

    pub fn classes(&mut self, ifindex: i32) -> Result<Vec<Node>, TcError> {
        self.dump_nodes(RTM_GETTCLASS, ifindex, Handle::NONE, "read the classes")
    }

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
        answer.and_then(Acknowledgement::accepted).map(drop).map_err(refused)
    }
}
