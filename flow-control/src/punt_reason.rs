//! Every reason for which a frame is punted: handed to the host beside the switch instead of forwarded.

/// Why a frame is not transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PuntReason {
    /// LLDP, to the nearest bridge.
    Lldp,
    /// ARP, at an interface of the router.
    Arp,
    /// To a group, at an interface of the router: routing protocols, neighbour discovery.
    Group,
    /// To the router itself, or to nobody beyond this wire.
    Local,
    /// To be routed, with a hop limit at its end.
    HopLimit,
    /// To be routed, with options that a router is to look at.
    Options,
    /// To be routed, and longer than its way takes.
    TooBig,
    /// To be routed to a station whose address nobody knows yet.
    Unresolved,
    /// To be routed, and no route leads there.
    NoRoute,
    /// To be routed by an interface of the host that is none of the switch.
    Elsewhere,
    /// To the router, and not of IP.
    Other,
    /// A copy of a lossless frame that waits in the switch for its neighbour: the host is to find out that neighbour's address, and
    /// must not forward the copy.
    Resolve,
}

impl PuntReason {
    /// Every reason.
    pub const ALL: [PuntReason; 12] = [
        PuntReason::Lldp,
        PuntReason::Arp,
        PuntReason::Group,
        PuntReason::Local,
        PuntReason::HopLimit,
        PuntReason::Options,
        PuntReason::TooBig,
        PuntReason::Unresolved,
        PuntReason::NoRoute,
        PuntReason::Elsewhere,
        PuntReason::Other,
        PuntReason::Resolve,
    ];
    /// How many there are: the length of tables by [`PuntReason::index`].
    pub const COUNT: usize = PuntReason::ALL.len();

    /// Its place in [`PuntReason::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether it is of a packet that somebody sends through the router: anybody can send many of these.
    #[must_use]
    pub const fn is_transit(self) -> bool {
        match self {
            PuntReason::HopLimit
            | PuntReason::Options
            | PuntReason::TooBig
            | PuntReason::Unresolved
            | PuntReason::NoRoute
            | PuntReason::Elsewhere
            | PuntReason::Resolve => true,
            PuntReason::Lldp
            | PuntReason::Arp
            | PuntReason::Group
            | PuntReason::Local
            | PuntReason::Other => false,
        }
    }

    /// Its name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PuntReason::Lldp => "lldp",
            PuntReason::Arp => "arp",
            PuntReason::Group => "group",
            PuntReason::Local => "local",
            PuntReason::HopLimit => "hop_limit",
            PuntReason::Options => "options",
            PuntReason::TooBig => "too_big",
            PuntReason::Unresolved => "unresolved",
            PuntReason::NoRoute => "no_route",
            PuntReason::Elsewhere => "elsewhere",
            PuntReason::Other => "other",
            PuntReason::Resolve => "resolve",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_distinct() {
        for (index, reason) in PuntReason::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), index);
        }
    }
}
