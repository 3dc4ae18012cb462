//! Reasons to punt a frame: to hand it to the host instead of forwarding it.

/// Reason for which a frame is handed to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PuntReason {
    /// LLDP frame to the nearest bridge.
    Lldp,
    /// ARP frame at a router interface.
    Arp,
    /// Frame to a group address at a router interface: routing protocols, neighbour discovery.
    Group,
    /// Packet to the router itself, or to or from a link-local address.
    Local,
    /// Packet to be routed whose hop limit has expired.
    HopLimit,
    /// Packet to be routed with IP options for routers.
    Options,
    /// Packet to be routed that exceeds the MTU of its route.
    TooBig,
    /// Packet to be routed to a neighbour whose MAC address is unknown.
    Unresolved,
    /// Packet to be routed for which there is no route.
    NoRoute,
    /// Packet to be routed out of an interface of the host that is not the switch's.
    Elsewhere,
    /// Frame to the router that is neither IP nor ARP.
    Other,
    /// Copy of a lossless packet that waits for its neighbour's address; the host must resolve it, and not forward
    /// the copy.
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
    /// Returns whether the packet is to be routed to someone else; any sender can cause many of these.
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
