//! Closed list of reasons for which a frame is dropped.
//!
//! Every received frame is sent, queued, consumed by the switch itself, or dropped for one of these reasons. Only
//! [`DropKind::Lost`] counts against losslessness.

/// Reason for which a frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// Frame with a truncated Ethernet header.
    Malformed,
    /// Frame longer than the port's MTU.
    TooLong,
    /// Untagged or priority-tagged frame on a port without a PVID.
    NotAdmitted,
    /// Frame with VID 4095, which the standard reserves.
    ReservedVid,
    /// Frame whose ingress port is not a member of its VLAN.
    NotMember,
    /// Frame whose destination is on its ingress port.
    Hairpin,
    /// Frame between two isolated ports.
    Isolated,
    /// Frame without an egress port: its VLAN has no other member with a link, the link was lost, or flooding is off.
    NoDestination,
    /// Flooded frame above the rate limit of its ingress port.
    StormLimit,
    /// Flooded frame at a port that is excluded from floods because of a loop.
    Loop,
    /// Frame at a routed port whose router interface is missing or down.
    NoRouter,
    /// Frame at a routed port, but not addressed to the router.
    OtherStation,
    /// Packet to be routed whose IP header has a wrong length or checksum.
    BadIp,
    /// Packet to be routed whose source or destination address is invalid on a wire.
    Martian,
    /// Packet whose route is a blackhole.
    Blackhole,
    /// Packet without a route, with an expired hop limit, or too long with DF, beyond the host's answer rate
    /// ([`crate::settings::PuntLimit`]).
    Unroutable,
    /// Frame from the host that only the switch may send: MAC control, or LLDP unless the host runs it.
    HostControl,
    /// Frame whose only destination has no link, or lost it while the frame was queued.
    LinkDown,

    /// Frame of a lossy class whose ingress memory is exhausted.
    IngressFull,
    /// Frame of a lossless class whose headroom is exhausted: the peer did not obey in time.
    HeadroomExhausted,
    /// Frame whose egress queue is full.
    EgressFull,
    /// Frame whose outbox to the worker of its egress port is full.
    HandoverFull,
    /// Frame without a slot for its copy, without room for a tag, or beyond the limit of copies
    /// ([`crate::settings::FLOOD_COPIES_MAX`]).
    NoFrames,
    /// Packet whose neighbour's address is unknown: lossless and unanswered in time, or lossy and beyond the punt
    /// rate.
    Unresolved,
    /// Frame for the host beyond the port's punt rate ([`crate::settings::PuntLimit`]).
    PuntLimit,
    /// Frame for the host while the queue to the host is full.
    PuntFull,
    /// Frame from the host beyond its port's limit of queued frames ([`crate::settings::HOST_FRAMES_MAX`]), or to a
    /// VLAN's port that has long been paused.
    HostLimit,
    /// Frame dropped early at a congested egress queue because it cannot be marked (WRED).
    EarlyDrop,
    /// Frame of a class that the watchdog gave up after a pause storm began.
    PausedDiscard,
    /// Flooded frame for a paused port, where floods of its ingress port already fill their share.
    FloodPaused,
}

/// Meaning of a drop for losslessness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropKind {
    /// Bridging rules, the configuration, or missing links allow no egress port.
    Filtered,
    /// Drop of a forwardable frame because room, time or the link was missing.
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
    /// Returns the kind of the drop. Nothing else decides which drops break losslessness ([`DropKind::Lost`]).
    #[must_use]
    pub const fn kind(self) -> DropKind {
        match self {
            DropReason::Malformed
            | DropReason::TooLong
            | DropReason::NotAdmitted
            | DropReason::ReservedVid
            | DropReason::NotMember
            | DropReason::OtherStation
            | DropReason::BadIp
            | DropReason::Martian
            | DropReason::Hairpin
            | DropReason::Isolated
            | DropReason::NoDestination
            | DropReason::NoRouter
            | DropReason::Blackhole
            | DropReason::Unroutable
            | DropReason::StormLimit
            | DropReason::Loop
            | DropReason::HostControl => DropKind::Filtered,
            DropReason::LinkDown
            | DropReason::IngressFull
            | DropReason::HeadroomExhausted
            | DropReason::EgressFull
            | DropReason::HandoverFull
            | DropReason::NoFrames
            | DropReason::EarlyDrop
            | DropReason::Unresolved
            | DropReason::PuntLimit
            | DropReason::PuntFull
            | DropReason::HostLimit
            | DropReason::PausedDiscard
            | DropReason::FloodPaused => DropKind::Lost,
        }
    }
}

impl DropKind {
    /// Returns the name of the kind in metrics.
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

    // proves: verdict
    #[test]
    fn filtered_drop_reasons_match_explicit_list() {
        let filtered = DropReason::ALL.into_iter().filter(|reason| reason.kind() == DropKind::Filtered);
        let names: Vec<&str> = filtered.map(DropReason::name).collect();
        let expected = "malformed too_long not_admitted reserved_vid not_member hairpin isolated no_destination storm_limit loop \
                        no_router other_station bad_ip martian blackhole unroutable host_control";
        assert_eq!(names.join(" "), expected);
    }
}
