//! Scheduled fabric: leaves with virtual output queues (VOQs), credits from each output, and cells.
//!
//! ```text
//!   server --> VOQ by (output, class) --request--> arbiter of the output
//!                     | <----------grant---------------'  (if credits suffice for the frame)
//!                     '--cells over all spines--> reassembly in order --> output queue --> server
//! ```
//!
//! A frame's credits return when it has left for its server. The output therefore never overflows: excess frames wait
//! in VOQs, where congestion points (QCN) sample them. After N. Chrysos et al., IEEE Micro 2016, section II.

mod any_switch;
mod arbiter;
mod frames;
mod header;
mod leaf;
mod reassembly;
mod spine;
mod uplinks;

pub use any_switch::{AnySwitch, MaybeDataplane};
pub use leaf::CellLeaf;
pub use spine::CellSpine;

use xoff_wire::units::{Bytes, PortId};

use crate::ends::Line;
use crate::plan::Plan;
use crate::topology::{Build, LeafSpine};

/// Shape and buffers of a scheduled fabric, in which each leaf has one uplink to each spine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// Number of leaves.
    pub leaves: u8,
    /// Number of spines.
    pub spines: u8,
    /// Number of servers (hosts) per leaf.
    pub hosts: u8,
    /// Maximum bytes of a frame in one cell.
    pub cell: u32,
    /// Credits of each output and class; a cell takes one.
    pub credits: u32,
    /// Size of a spine port's input buffer, and of its output buffer, in cells.
    pub spine_buffer: u8,
}

impl Scheduled {
    /// Builds the plan: `host_line` leads to servers, `spine_line` from leaves to spines.
    #[must_use]
    pub fn plan(&self, host_line: Line, spine_line: Line, build: &Build) -> Plan {
        let &Scheduled { leaves, spines, hosts, .. } = self;
        let mut plan =
            LeafSpine { leaves, spines, hosts, host_line, spine_line, without: Vec::new() }.plan(build);
        plan.set_smallest(Bytes(header::BYTES.into()));
        plan
    }

    /// Returns how many cells a frame of `len` bytes (without FCS) takes.
    #[must_use]
    pub const fn cells(&self, len: u32) -> u32 {
        let bytes = Bytes::of_frame(len).0;
        #[allow(clippy::cast_possible_truncation)] // not above `len`
        let cells = bytes.div_ceil(self.cell as u64) as u32;
        cells
    }

    const fn payload(&self, len: u32, index: u32) -> u32 {
        #[allow(clippy::cast_possible_truncation)] // not above `cell`
        let left = (Bytes::of_frame(len).0 - index as u64 * self.cell as u64) as u32;
        if left < self.cell { left } else { self.cell }
    }

    const fn servers(&self) -> u32 {
        self.leaves as u32 * self.hosts as u32
    }

    #[allow(clippy::cast_possible_truncation)] // at most 255 leaves
    const fn leaf_of(&self, server: u16) -> u8 {
        (server / self.hosts as u16) as u8
    }

    #[allow(clippy::cast_possible_truncation)] // at most 255 servers at a leaf
    const fn port_of(&self, server: u16) -> PortId {
        PortId((server % self.hosts as u16) as u8)
    }

    #[allow(clippy::cast_possible_truncation)] // at most 255 spines
    const fn spine_of_messages(&self, from: u16, to: u16) -> u8 {
        ((from as u32 + to as u32) % self.spines as u32) as u8
    }

    const fn uplink(&self, spine: u8) -> PortId {
        PortId(self.hosts + spine)
    }
}
