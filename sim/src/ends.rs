use xoff_wire::units::{BitRate, PortId};

use crate::time::Picos;

/// Index of a node in the plan's order: switches first, then hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// Returns the node's index in the plan.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One end of a link: a port of a switch or host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the names say it
pub struct End {
    pub node: NodeId,
    pub port: PortId,
}

/// Rate and propagation delay of a link; both directions are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Line {
    pub rate: BitRate,
    pub delay: Picos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkId(pub(crate) u32);
