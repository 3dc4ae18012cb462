//! What is linked, and by what.

use xoff_dataplane::units::{BitRate, PortId};

use crate::time::Picos;

/// A switch or a host, in the order of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// As an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// Whose.
    pub node: NodeId,
    /// At which of its ports; a host has port 0.
    pub port: PortId,
}

/// What both directions of a link are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its rate.
    pub rate: BitRate,
    /// From one end to the other.
    pub delay: Picos,
}

/// The number of a direction, in the order of nodes and ports that send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkId(pub(crate) u32);
