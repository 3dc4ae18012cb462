//! Ports that lead to the same place, and how frames are spread over them.

use xoff_wire::units::{Bytes, PortId};

/// Most members of a group, so that a set of them is one word.
pub const MEMBERS_MAX: usize = 64;

/// Highest weight of a member.
pub const WEIGHT_MAX: u16 = 256;

/// Ports behind which the same stations are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSettings {
    /// Its name in status and errors.
    pub name: String,
    /// Ports and their weights, 1 to [`MEMBERS_MAX`] of them; a port is a member of one group at most.
    pub members: Vec<Member>,
    /// Who goes where.
    pub spread: Spread,
    /// Whether frames that come in by a member go out by no member of any group that says so, either.
    pub uplinks: bool,
    /// What tells this switch's choice for a flow from that of another switch.
    pub salt: u64,
}

/// A port of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The port.
    pub port: PortId,
    /// Its share, 1 to [`WEIGHT_MAX`].
    pub weight: u16,
}

/// How frames are spread over ways that lead to the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// All frames of a flow take the same one.
    Flow,
    /// Each frame takes one, whatever flow it is of.
    Frame(Turns),
    /// Each frame takes one at random among those where little waits, as DeTail does: bytes of the frame's class and of those
    /// above it.
    Adaptive {
        /// Those with less than this, if there are any.
        low: Bytes,
        /// Else those with less than this; else any.
        high: Bytes,
    },
}

impl Spread {
    /// Its name in configuration and status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Spread::Flow => "flow",
            Spread::Frame(_) => "frame",
            Spread::Adaptive { .. } => "adaptive",
        }
    }
}

/// Which way is the next frame's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turns {
    /// One after the other.
    #[default]
    RoundRobin,
    /// Any.
    Random,
}
