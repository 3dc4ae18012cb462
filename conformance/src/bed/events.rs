//! What will happen, ordered by (time, id): two runs of the same bed take the same path.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use xoff_dataplane::units::{Nanos, PortId};

/// A switch or a host, in the order of their making.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// One end of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// Whose.
    pub node: NodeId,
    /// At which of its ports; a host has port 0.
    pub port: PortId,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// The last bit of the frame on the wire has left this end.
    Left(End),
    /// A frame has come in at this end, whole.
    Arrived(End, Vec<u8>),
    /// A host that obeys late obeys now.
    Heed(NodeId, Vec<u8>),
    /// The time that a node waited for.
    Wake(NodeId),
}

#[derive(Debug, Default)]
pub struct Events {
    heap: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    next_id: u64,
}

impl Events {
    pub fn at(&mut self, when: Nanos, event: Event) {
        self.heap.push(Reverse((when, self.next_id, event)));
        self.next_id += 1;
    }

    /// The next event, if it is due by `end`.
    pub fn pop_until(&mut self, end: Nanos) -> Option<(Nanos, Event)> {
        let due = self.heap.peek().is_some_and(|Reverse((when, ..))| *when <= end);
        due.then(|| self.heap.pop()).flatten().map(|Reverse((when, _, event))| (when, event))
    }
}
