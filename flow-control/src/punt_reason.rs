//! Reasons for punting a frame: handing it to the host instead of forwarding it.

/// Reason for handing a frame to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names say it
pub enum PuntReason {
    Lldp,
    /// LACP frame or marker to a port whose group has LACP.
    Lacp,
    Arp,
    /// Frame to a group address at a router interface, such as of a routing protocol or neighbour discovery.
    Group,
    /// Packet to the router, or to or from a link-local address.
    Local,
    HopLimit,
    Options,
    TooBig,
    Unresolved,
    NoRoute,
    /// Packet whose route leads to a host interface that is no router interface of the switch.
    Elsewhere,
    Other,
    /// Copy of a lossless packet whose neighbour's MAC address is unknown. The host resolves it, but does not forward
    /// the copy.
    Resolve,
    /// Copy of a multicast report, query, or PIM hello, in a VLAN with snooping.
    Membership,
}

xoff_wire::named! { PuntReason {
    Lldp: "lldp",
    Lacp: "lacp",
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
    Membership: "membership",
} }

impl PuntReason {
    /// Returns whether the packet is for another station; any sender can cause many such packets.
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
            | PuntReason::Lacp
            | PuntReason::Arp
            | PuntReason::Group
            | PuntReason::Local
            | PuntReason::Membership
            | PuntReason::Other => false,
        }
    }
}
