use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xoff_flow_control::settings::ports_where;
use xoff_wire::ip::Address;
use xoff_wire::multicast::MembershipError;
use xoff_wire::units::{Nanos, PortId};

use super::view::SwitchView;
use crate::snooping::{Segment, SnoopingCounts};

const GROUPS_SHOWN: usize = 256;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MulticastStatus {
    /// Number of multicast groups with members.
    pub groups: u64,
    /// Maximum number of multicast groups.
    pub groups_max: u64,
    /// Joins refused because the table of groups was full; frames to their groups are flooded.
    pub joins_refused: u64,
    /// IGMP and MLD reports and leaves received.
    pub reports_received: u64,
    /// IGMP and MLD queries received.
    pub queries_received: u64,
    /// IGMP and MLD queries that the switch sent as querier.
    pub queries_sent: u64,
    /// Malformed IGMP, MLD or router messages received, by reason.
    pub malformed: BTreeMap<String, u64>,
    /// VLANs with snooping, one entry for each protocol.
    pub vlans: Vec<MulticastVlanStatus>,
    /// True if there are more groups than are listed.
    pub truncated: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MulticastVlanStatus {
    /// VLAN identifier.
    pub vid: u16,
    /// Protocol: `igmp` or `mld`.
    pub protocol: String,
    /// True if frames of groups with members go only to members and routers. False without a querier, and until all
    /// hosts had time to answer.
    pub restricted: bool,
    /// Address of the elected querier; `None` if there is none.
    pub querier: Option<String>,
    /// Port of the querier; `None` if it is this switch.
    pub querier_port: Option<String>,
    /// Ports with a multicast router or a querier.
    pub router_ports: Vec<String>,
    /// Multicast groups with members.
    pub groups: Vec<MulticastGroupStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MulticastGroupStatus {
    /// Address of the group.
    pub address: String,
    /// Ports with members of the group.
    pub ports: Vec<String>,
}

pub(super) fn address(address: Address) -> String {
    match address {
        Address::V4(address) => Ipv4Addr::from_bits(address).to_string(),
        Address::V6(address) => Ipv6Addr::from_bits(address).to_string(),
    }
}

pub(super) fn status(view: &SwitchView) -> Option<MulticastStatus> {
    let (settings, now) = (view.settings(), (view.clock)());
    if settings.multicast.vlans.is_empty() {
        return None;
    }
    let snooper = view.snooping.lock();
    let SnoopingCounts { queries, reports, queries_sent, malformed, refused } = &snooper.counts;
    let by_reason = MembershipError::ALL.map(|reason| (reason.name().to_owned(), malformed[reason.index()]));
    let routers = ports_where(&settings.ports, |_, port| port.multicast_router);
    let names =
        |ports: &mut dyn Iterator<Item = PortId>| ports.map(|port| view.name_of(port).to_owned()).collect();
    let groups = snooper.groups();
    let mut left = GROUPS_SHOWN;
    let vlan = |(vid, protocol, segment): (u16, &str, &Segment)| {
        let shown = segment.groups().iter().take(left);
        let groups: Vec<MulticastGroupStatus> = shown
            .map(|(group, members)| MulticastGroupStatus {
                address: address(*group),
                ports: names(&mut members.keys().copied()),
            })
            .collect();
        left -= groups.len();
        let (querier, querier_port) = querier(segment, now);
        let router_ports = routers.or(&segment.routers().collect());
        MulticastVlanStatus {
            vid,
            protocol: protocol.into(),
            restricted: snooper.is_restricted(now, segment),
            querier,
            querier_port: querier_port.map(|port| view.name_of(port).to_owned()),
            router_ports: names(&mut router_ports.iter()),
            groups,
        }
    };
    let segments = snooper.segments().map(|(vid, version, segment)| (vid, version.protocol(), segment));
    Some(MulticastStatus {
        groups: groups as u64,
        groups_max: settings.multicast.groups_max as u64,
        joins_refused: *refused,
        reports_received: *reports,
        queries_received: *queries,
        queries_sent: *queries_sent,
        malformed: by_reason.into(),
        vlans: segments.map(vlan).collect(),
        truncated: groups > GROUPS_SHOWN,
    })
}

fn querier(segment: &Segment, now: Nanos) -> (Option<String>, Option<PortId>) {
    match (segment.own_source(now), segment.other_querier(now)) {
        (Some(own), _) => (Some(address(own)), None),
        (None, Some(other)) => (Some(address(other.address)), Some(other.port)),
        (None, None) => (None, None),
    }
}
