use xoff_wire::units::{Bytes, PortId};

/// Maximum number of members of a group: one for each bit of a 64-bit word.
pub const MEMBERS_MAX: usize = 64;

/// Maximum weight of a member.
pub const WEIGHT_MAX: u16 = 256;

/// Group of ports that lead to the same stations.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct GroupSettings {
    pub name: String,
    /// Ports of the group, 1 to [`MEMBERS_MAX`]; a port is in at most one group.
    pub members: Vec<Member>,
    pub spread: Spread,
    /// True for uplinks: no frame passes between members of groups with this flag.
    pub uplinks: bool,
    /// LACP settings; with `None`, every member with a link is used.
    pub lacp: Option<Lacp>,
    pub salt: u64,
}

/// Settings of LACP (IEEE 802.1AX).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lacp {
    /// True if the ports send LACP even to a passive partner.
    pub active: bool,
    /// True if a silent partner times out after 3 seconds, false after 90.
    pub short_timeout: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Member {
    pub port: PortId,
    /// Weight of the member, 1 to [`WEIGHT_MAX`].
    pub weight: u16,
}

/// Distribution of frames over equal-cost paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// All frames of a flow take the same path.
    Flow,
    /// Each frame takes the next path in this order.
    Frame(Turns),
    /// Each frame takes a random path with few queued bytes in its class and higher classes (DeTail).
    Adaptive {
        /// Queue length in bytes below which a path is preferred.
        low: Bytes,
        /// Queue length in bytes below which a path is used if no queue is below `low`. If none is below `high`, all
        /// are used.
        high: Bytes,
    },
}

impl Spread {
    /// Returns the name of this spread in configuration and status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Spread::Flow => "flow",
            Spread::Frame(_) => "frame",
            Spread::Adaptive { .. } => "adaptive",
        }
    }
}

/// Order in which frames take the paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Turns {
    #[default]
    RoundRobin,
    Random,
}
