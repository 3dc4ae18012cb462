//! Every received frame is sent, queued, consumed by the switch itself, or dropped for a [`DropReason`]. Only
//! [`DropKind::Lost`] counts against losslessness.

/// Reason for dropping a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// Frame with a truncated Ethernet header.
    Malformed,
    /// Frame longer than the port's MTU.
    TooLong,
    /// Untagged or priority-tagged frame on a port without a PVID.
    NotAdmitted,
    /// Frame with reserved VID 4095.
    ReservedVid,
    /// Frame whose ingress port is not a member of the frame's VLAN.
    NotMember,
    /// Frame whose destination is at the port that received the frame.
    Hairpin,
    /// Frame between two isolated ports.
    Isolated,
    /// Frame received by a LAG member on which LACP has not enabled receiving (collecting).
    NotCollecting,
    /// Frame without an egress port: flooding is off, or no other port of its VLAN has a link (a port of a LACP group
    /// must also have joined it).
    NoDestination,
    /// Multicast frame, in a VLAN with snooping, to a group that has no listener at another port.
    NoListener,
    /// Flooded frame above the rate limit of its ingress port.
    StormLimit,
    /// Flooded frame at a port that is kept out of floods because of a loop.
    Loop,
    /// Frame at a routed port whose router interface is missing or down.
    NoRouter,
    /// Frame received by a routed port, but addressed to another station than the router.
    OtherStation,
    /// Packet to be routed whose IP length or checksum is wrong.
    BadIp,
    /// Packet to be routed whose source or destination address is invalid on a wire.
    Martian,
    /// Packet whose route is a blackhole.
    Blackhole,
    /// Packet that cannot be routed (no route, expired hop limit, or too long and not fragmentable), and exceeds the
    /// punt rate (`[punt]`).
    Unroutable,
    /// Frame from the machine's kernel that only the switch may send: MAC control, or LLDP unless `lldp = "kernel"`.
    HostControl,
    /// Frame whose only egress port has no link (even if the link was lost while the frame was queued), or is a LAG
    /// without an active member.
    LinkDown,

    /// Frame of a lossy class whose ingress memory is exhausted.
    IngressFull,
    /// Frame of a lossless class that found no headroom, because the peer did not stop in time.
    HeadroomExhausted,
    /// Frame whose egress queue is full.
    EgressFull,
    /// Frame for a port of another worker, when the queue to that worker is full.
    HandoverFull,
    /// Frame for which memory was missing: no slot for a copy, no space for a tag, or too many flooded copies
    /// ([`crate::settings::FLOOD_COPIES_MAX`]).
    NoFrames,
    /// Packet whose neighbour's MAC address is unresolved: a lossless packet that waited too long, or a lossy one
    /// beyond the punt rate (`[punt]`).
    Unresolved,
    /// Slow-path frame for the machine's kernel that exceeds the punt rate (`[punt]`).
    PuntLimit,
    /// Slow-path frame for the machine's kernel, when the queue to the kernel is full.
    PuntFull,
    /// Frame from the machine's kernel that exceeds its port's limit, is for a full egress queue, or is sent in a VLAN
    /// to a port that stays paused.
    HostLimit,
    /// Frame that cannot carry an ECN mark, dropped early at a congested egress queue (WRED).
    EarlyDrop,
    /// Frame that the watchdog dropped because its class was in a pause storm.
    PausedDiscard,
    /// Flooded frame for a port that stays paused, when floods already fill their share of the ingress queue.
    FloodPaused,
}

/// Kind of a drop, which decides whether it violates losslessness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropKind {
    /// Bridging rules, configuration or links leave no egress port for the frame.
    Filtered,
    /// The frame could have been forwarded, but memory, time or a link was missing.
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
    NotCollecting: "not_collecting",
    NoDestination: "no_destination",
    NoListener: "no_listener",
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
    /// Returns the drop's kind; only [`DropKind::Lost`] violates losslessness.
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
            | DropReason::NotCollecting
            | DropReason::NoDestination
            | DropReason::NoListener
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
    /// Returns the name of this kind of drop in metrics.
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

    #[test] // proves: verdict
    fn only_expected_drop_reasons_count_as_filtered() {
        let filtered = DropReason::ALL.into_iter().filter(|reason| reason.kind() == DropKind::Filtered);
        let names: Vec<&str> = filtered.map(DropReason::name).collect();
        let expected = "malformed too_long not_admitted reserved_vid not_member hairpin isolated not_collecting no_destination \
                        no_listener storm_limit loop no_router other_station bad_ip martian blackhole unroutable host_control";
        assert_eq!(names.join(" "), expected);
    }
}
