//! Closed list of reasons for which a frame is dropped.
//!
//! By the ledger, a received frame is sent, queued, consumed, or dropped for one of these reasons. Frames for the
//! switch itself are consumed. Only [`DropKind::Lost`] counts against losslessness.

/// Reason for which a frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// Truncated Ethernet header.
    Malformed,
    /// Longer than the port's MTU.
    TooLong,
    /// Untagged or priority-tagged, on a port without a PVID.
    NotAdmitted,
    /// VID 4095, which the standard reserves.
    ReservedVid,
    /// Ingress port not a member of the frame's VLAN.
    NotMember,
    /// Destination on the ingress port.
    Hairpin,
    /// Ingress and egress port both isolated.
    Isolated,
    /// No egress port: the VLAN has no other member with a link, the link was lost, or flooding is off.
    NoDestination,
    /// Flood above the configured rate of its ingress port.
    StormLimit,
    /// Flood by a port that takes no part in floods because it forms a loop with another.
    Loop,
    /// Frame at a routed port without a router interface, or with one that is down.
    NoRouter,
    /// Frame at a routed port, addressed to another station than the router.
    OtherStation,
    /// Packet to be routed, with a wrong length or checksum in its IP header.
    BadIp,
    /// Packet to be routed, with a source or destination address that is invalid on a wire.
    Martian,
    /// Packet whose route is a blackhole.
    Blackhole,
    /// Packet without a route, with an expired hop limit, or too long with DF, beyond the host's answer rate
    /// ([`crate::settings::PuntLimit`]).
    Unroutable,
    /// Frame from the host that only the switch may send: MAC control, or LLDP unless the host runs it.
    HostControl,
    /// The only destination has no link, or lost it while the frame was queued.
    LinkDown,

    /// Ingress memory of a lossy class exhausted.
    IngressFull,
    /// Headroom of a lossless class exhausted: the peer did not obey in time.
    HeadroomExhausted,
    /// Egress queue full.
    EgressFull,
    /// Outbox to the worker of the egress port full.
    HandoverFull,
    /// No slot in the store for another port's copy, no room for a tag, or too many copies of floods
    /// ([`crate::settings::FLOOD_COPIES_MAX`]).
    NoFrames,
    /// Packet to a neighbour of unknown address: lossless and without an answer in time, or lossy and beyond the punt
    /// rate.
    Unresolved,
    /// Frame for the host beyond the port's punt rate ([`crate::settings::PuntLimit`]).
    PuntLimit,
    /// Frame for the host, which accepts frames too slowly.
    PuntFull,
    /// Frame from the host beyond the limit of queued frames at its port ([`crate::settings::HOST_FRAMES_MAX`]), or
    /// to a port of a VLAN that has long been paused.
    HostLimit,
    /// Egress queue congested, and the frame cannot be marked (WRED).
    EarlyDrop,
    /// The watchdog gave up a class that was paused for too long.
    PausedDiscard,
    /// Flood at a paused port, while floods of its ingress port already fill their share at paused ports.
    FloodPaused,
}

/// Meaning of a drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropKind {
    /// Bridging rules, the configuration, or missing links allow no egress port.
    Filtered,
    /// Forwardable frame dropped because room, time or the link was missing.
    Lost,
}

xoff_wire::named! { DropReason {
    Malformed: "malformed",
    TooLong: "too_long",
    NotAdmitted: "not_admitted",
    ReservedVid: "reserved_vid",
    NotMember: "not_member",
    Hairpin: "hairpin",
    Isolated: "isolated",
    NoDestination: "no_destination",
    StormLimit: "storm_limit",
    Loop: "loop",
    NoRouter: "no_router",
    OtherStation: "other_station",
    BadIp: "bad_ip",
    Martian: "martian",
    Blackhole: "blackhole",
    Unroutable: "unroutable",
    HostControl: "host_control",
    LinkDown: "link_down",
    IngressFull: "ingress_full",
    HeadroomExhausted: "headroom_exhausted",
    EgressFull: "egress_full",
    HandoverFull: "handover_full",
    NoFrames: "no_frames",
    Unresolved: "unresolved",
    PuntLimit: "punt_limit",
    PuntFull: "punt_full",
    HostLimit: "host_limit",
    EarlyDrop: "early_drop",
    PausedDiscard: "paused_discard",
    FloodPaused: "flood_paused",
} }

impl DropReason {
    /// Returns the kind of the drop: the only place that decides which drops break the promise ([`DropKind::Lost`]).
    #[must_use]
    pub const fn kind(self) -> DropKind {
        match self {
            // The frame is broken, or its port does not admit it.
            DropReason::Malformed
            | DropReason::TooLong
            | DropReason::NotAdmitted
            | DropReason::ReservedVid
            | DropReason::NotMember
            | DropReason::OtherStation
            | DropReason::BadIp
            | DropReason::Martian
            // Bridging or routing rules allow no egress port, independent of room.
            | DropReason::Hairpin
            | DropReason::Isolated
            | DropReason::NoDestination
            | DropReason::NoRouter
            | DropReason::Blackhole
            | DropReason::Unroutable
            // The operator configured the limit against floods and loops.
            | DropReason::StormLimit
            | DropReason::Loop
            // The host may not send such a frame.
            | DropReason::HostControl => DropKind::Filtered,
            // The egress port lost its link.
            DropReason::LinkDown
            // A queue or table of the switch had no room.
            | DropReason::IngressFull
            | DropReason::HeadroomExhausted
            | DropReason::EgressFull
            | DropReason::HandoverFull
            | DropReason::NoFrames
            | DropReason::EarlyDrop
            // The neighbour did not answer address resolution.
            | DropReason::Unresolved
            // The switch's own limits on frames to or from the host applied.
            | DropReason::PuntLimit
            | DropReason::PuntFull
            | DropReason::HostLimit
            // The class was paused for too long.
            | DropReason::PausedDiscard
            | DropReason::FloodPaused => DropKind::Lost,
        }
    }
}

impl DropKind {
    /// Returns the name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DropKind::Filtered => "filtered",
            DropKind::Lost => "lost",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Forces the author of a new reason to decide whether it breaks the promise.
    // proves: verdict
    #[test]
    fn lost_drop_reasons_are_listed() {
        let filtered = DropReason::ALL.into_iter().filter(|reason| reason.kind() == DropKind::Filtered);
        let names: Vec<&str> = filtered.map(DropReason::name).collect();
        let expected = "malformed too_long not_admitted reserved_vid not_member hairpin isolated no_destination storm_limit loop \
                        no_router other_station bad_ip martian blackhole unroutable host_control";
        assert_eq!(names.join(" "), expected);
    }
}
