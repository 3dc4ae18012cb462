use xoff_wire::units::{Bytes, PortId};

/// Maximum members of a group: a set of members fits into one word.
pub const MEMBERS_MAX: usize = 64;

/// Maximum weight of a member.
pub const WEIGHT_MAX: u16 = 256;

/// Ports behind which the same stations are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSettings {
    /// Name in status and errors.
    pub name: String,
    /// Ports with weights, 1 to [`MEMBERS_MAX`]; a port is in at most one group.
    pub members: Vec<Member>,
    /// Distribution of frames over members.
    pub spread: Spread,
    /// True if frames from a member never leave by a member of any group with this flag.
    pub uplinks: bool,
    /// Salt that makes the choice for a flow independent of other switches.
    pub salt: u64,
}

/// Port of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Member port.
    pub port: PortId,
    /// Weight of the member, 1 to [`WEIGHT_MAX`].
    pub weight: u16,
}

/// Distribution of frames over equal-cost paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// All frames of a flow take the same path.
    Flow,
    /// Each frame takes any path.
    Frame(Turns),
    /// Each frame takes a random path with few queued bytes of its class and higher ones (DeTail).
    Adaptive {
        /// Exclusive upper bound of preferred paths.
        low: Bytes,
        /// Exclusive upper bound of other paths; without any below it, all are used.
        high: Bytes,
    },
}

impl Spread {
    /// Returns the name in configuration and status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Spread::Flow => "flow",
            Spread::Frame(_) => "frame",
            Spread::Adaptive { .. } => "adaptive",
        }
    }
}

/// Order in which frames take paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turns {
    /// Round robin.
    #[default]
    RoundRobin,
    /// Random.
    Random,
}
