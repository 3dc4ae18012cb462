//! Every reason for which a frame is dropped.
//!
//! The ledger holds that a received frame is sent, queued, consumed, or dropped for one of these
//! reasons. Consumed is what was meant for this station itself (MAC control, link-local protocols) and
//! is no drop. The list is closed: to lose a frame in a new way is to add a variant, and with it a
//! metric. What a drop means to the people who run the switch is its [`DropKind`]: only
//! [`DropKind::Lost`] counts against losslessness.

/// Why a frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// Ethernet's own header is cut off.
    Malformed,
    /// Longer than the port's MTU.
    TooLong,
    /// Untagged or priority-tagged, on a port without a PVID.
    NotAdmitted,
    /// VID 4095, which the standard reserves.
    ReservedVid,
    /// The ingress port is not a member of the frame's VLAN.
    NotMember,
    /// The destination is on the port that the frame came from.
    Hairpin,
    /// Both ports are isolated.
    Isolated,
    /// No port is left to send it to: the VLAN has no other member with a link, one that had it may have lost it, or flooding is off.
    NoDestination,
    /// A flood above the rate that its ingress port may flood.
    StormLimit,
    /// A flood by a port that takes no part in floods because it is one of two that form a loop.
    Loop,
    /// At a routed port: there is no interface of the router, or that is down.
    NoRouter,
    /// At a routed port: to another station than the router.
    OtherStation,
    /// To be routed, and its IP header is broken: a wrong length or checksum.
    BadIp,
    /// To be routed, from or to an address that is none of a packet on a wire.
    Martian,
    /// A route says that it ends here.
    Blackhole,
    /// To be routed, without a route, at its last hop, or too long and not to be fragmented; beyond the rate at which the host beside
    /// the switch answers such packets ([`crate::settings::PuntLimit`]).
    Unroutable,
    /// From the host beside the switch, and what only the switch says there: MAC control, or LLDP where that is not left to the host.
    HostControl,
    /// Its only destination has no link, or lost it while the frame was queued.
    LinkDown,

    /// A lossy class has used up its ingress memory.
    IngressFull,
    /// A lossless class has used up its headroom: the peer did not obey in time.
    HeadroomExhausted,
    /// The egress queue is full.
    EgressFull,
    /// The outbox to the worker that owns the egress port is full.
    HandoverFull,
    /// The store has no slot for the copy that another port should have had, or no room for a tag; or
    /// floods have as many copies as there may be ([`crate::settings::FLOOD_COPIES_MAX`]).
    NoFrames,
    /// To be routed to a neighbour whose address is unknown: a lossless frame whose neighbour did not answer in time, or a lossy one
    /// beyond the rate at which a port gives the host frames.
    Unresolved,
    /// For the host beside the switch, beyond the rate at which a port gives it frames ([`crate::settings::PuntLimit`]).
    PuntLimit,
    /// For the host beside the switch, which takes frames too slowly.
    PuntFull,
    /// From the host beside the switch, beyond what may wait at a port of that ([`crate::settings::HOST_FRAMES_MAX`]), or to a VLAN's
    /// port whose peer has paused its class for long.
    HostLimit,
    /// Its egress queue is congested, and it cannot be marked (WRED).
    EarlyDrop,
    /// The watchdog gave up a class that has been paused for too long.
    PausedDiscard,
    /// A flood, at a port whose peer has paused its class: floods from its ingress fill already what they may
    /// while they wait for paused ports.
    FloodPaused,
}

/// What a drop means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropKind {
    /// The rules of bridging, the configuration, or links that are down leave it no way on.
    Filtered,
    /// It had a way on, and was not sent: for want of room, time or link.
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
    /// What it means, and with that the one place which decides whether a frame of a lossless class that ends so counts against the
    /// switch's promise ([`DropKind::Lost`]).
    #[must_use]
    pub const fn kind(self) -> DropKind {
        match self {
            // The frame itself is broken, or not what its port admits.
            DropReason::Malformed
            | DropReason::TooLong
            | DropReason::NotAdmitted
            | DropReason::ReservedVid
            | DropReason::NotMember
            | DropReason::OtherStation
            | DropReason::BadIp
            | DropReason::Martian
            // The rules of bridging or routing give it no way on, whatever room there is.
            | DropReason::Hairpin
            | DropReason::Isolated
            | DropReason::NoDestination
            | DropReason::NoRouter
            | DropReason::Blackhole
            | DropReason::Unroutable
            // The operator has asked for the limit, against floods and loops.
            | DropReason::StormLimit
            | DropReason::Loop
            // The host may not send such a frame.
            | DropReason::HostControl => DropKind::Filtered,
            // It had a way on, which lost its link.
            DropReason::LinkDown
            // A queue, or a table of the switch, had no room.
            | DropReason::IngressFull
            | DropReason::HeadroomExhausted
            | DropReason::EgressFull
            | DropReason::HandoverFull
            | DropReason::NoFrames
            | DropReason::EarlyDrop
            // The neighbour that it goes to did not say where it is.
            | DropReason::Unresolved
            // The host would have had it, or has sent it, and the switch's own limits came before that.
            | DropReason::PuntLimit
            | DropReason::PuntFull
            | DropReason::HostLimit
            // Its class was paused for too long.
            | DropReason::PausedDiscard
            | DropReason::FloodPaused => DropKind::Lost,
        }
    }
}

impl DropKind {
    /// Its name in metrics.
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

    /// Whoever adds a reason decides here, too, whether it breaks the promise.
    // proves: verdict
    #[test]
    fn every_drop_but_these_counts_as_lost() {
        let filtered = DropReason::ALL.into_iter().filter(|reason| reason.kind() == DropKind::Filtered);
        let names: Vec<&str> = filtered.map(DropReason::name).collect();
        let expected = "malformed too_long not_admitted reserved_vid not_member hairpin isolated no_destination storm_limit loop \
                        no_router other_station bad_ip martian blackhole unroutable host_control";
        assert_eq!(names.join(" "), expected);
    }
}
