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

xoff_wire::named! { PuntReason {
    Lldp: "lldp",
    Arp: "arp",
    Group: "group",
    Local: "local",
    HopLimit: "hop_limit",
    Options: "options",
    TooBig: "too_big",
    Unresolved: "unresolved",
    NoRoute: "no_route",
    Elsewhere: "elsewhere",
    Other: "other",
    Resolve: "resolve",
} }

impl PuntReason {
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
}
