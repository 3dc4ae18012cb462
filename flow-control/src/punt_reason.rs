//! Reasons to punt a frame: to hand it to the host instead of forwarding it.

/// Reason for which a frame takes the slow path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PuntReason {
    /// LLDP to the nearest bridge.
    Lldp,
    /// ARP at a router interface.
    Arp,
    /// Group address at a router interface: routing protocols, neighbour discovery.
    Group,
    /// Packet to the router itself, or to a link-local scope.
    Local,
    /// Packet to be routed whose hop limit has expired.
    HopLimit,
    /// Packet to be routed with options for routers.
    Options,
    /// Packet to be routed that exceeds the MTU of its route.
    TooBig,
    /// Packet to be routed to a neighbour of unknown address.
    Unresolved,
    /// Packet to be routed without a route.
    NoRoute,
    /// Packet to be routed by an interface of the host that does not belong to the switch.
    Elsewhere,
    /// Frame to the router that is not IP.
    Other,
    /// Copy of a lossless frame held for its neighbour; the host resolves the address and must not forward the copy.
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
    /// Returns whether the packet is routed for someone else; any sender can cause many of these.
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
