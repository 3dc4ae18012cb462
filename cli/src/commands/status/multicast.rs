use xoff_config::written::grouped;
use xoff_switch::control::status::{MulticastStatus, MulticastVlanStatus, Status};

use super::layout::table;

pub(super) fn tables(status: &Status) -> String {
    let Some(multicast) = &status.multicast else { return String::new() };
    let vlan = |vlan: &MulticastVlanStatus| {
        let querier = vlan.querier.clone().map_or("no querier: all groups are flooded".into(), |querier| {
            let at = vlan.querier_port.as_ref().map_or("this switch".into(), |port| format!("port {port}"));
            format!("{querier} ({at})")
        });
        vec![vlan.vid.to_string(), vlan.protocol.clone(), querier, vlan.router_ports.join(", ")]
    };
    let groups = multicast.vlans.iter().flat_map(|vlan| {
        vlan.groups
            .iter()
            .map(|group| vec![vlan.vid.to_string(), group.address.clone(), group.ports.join(", ")])
    });
    table(&["VLAN", "protocol", "querier", "router ports"], multicast.vlans.iter().map(vlan))
        + "\n"
        + &table(&["VLAN", "address", "ports"], groups)
        + &end(multicast)
}

fn end(multicast: &MulticastStatus) -> String {
    let MulticastStatus { groups, groups_max, joins_refused, truncated, .. } = multicast;
    let refused = match joins_refused {
        0 => String::new(),
        joins => format!(", {} joins refused", grouped(*joins)),
    };
    let more = if *truncated { ", not all shown" } else { "" };
    format!("{} of {} groups{refused}{more}\n", grouped(*groups), grouped(*groups_max))
}
