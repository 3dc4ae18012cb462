use xoff_wire::units::{BitRate, PortId};

use crate::time::Picos;

/// Number of a node in the order of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// Returns the number as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// End of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// Node.
    pub node: NodeId,
    /// Port of the node; a host has port 0.
    pub port: PortId,
}

/// Link properties, equal in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Rate.
    pub rate: BitRate,
    /// Propagation delay.
    pub delay: Picos,
}

/// Link direction, by sending node and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkId(pub(crate) u32);
