use std::collections::BTreeMap;

use serde_json::{Map, Value};
use xoff_config::written::grouped;

use super::What;
use super::groups;
use super::headroom;
use super::layout::{has_traffic, table};
use super::multicast;
use super::neighbors;
use super::policies::{flow_table, shadow_table};
use super::routes;
use super::summary::ongoing;
use super::tables::{class_table, losses, pause, port_table, quantiles, why};
use xoff_switch::control::UNFINISHED_CHECKSUM;
use xoff_switch::control::status::{ClassStatus, FdbEntry, PortStatus, Status};

enum Keys {
    All,
    These(&'static [&'static str]),
}

fn keys(what: What) -> [Keys; 2] {
    use Keys::{All, These};
    match what {
        What::Ports => [All, These(&[])],
        What::Classes => [These(&[]), All],
        What::Pauses => [
            These(&[
                "flow_control",
                "pause_frames_sent",
                "pfc_frames_received",
                "pause_frames_received",
                "pause_peer",
            ]),
            These(&[
                "pause_sent",
                "cause",
                "causes",
                "culprits",
                "refreshes_sent",
                "pause_received",
                "watchdog",
            ]),
        ],
        What::Drops => [
            These(&["xdp_statistics", "device_drops", "device_drops_last"]),
            These(&["drops", "lost", "first_loss_nanos"]),
        ],
        What::Headroom => [These(&["peer"]), These(&["lossless", "ingress", "response"])],
        What::Neighbors => [These(&["lldp"]), These(&[])],
        What::Flows => [These(&[]), These(&["flows"])],
        What::Mac | What::Multicast | What::Routes | What::Groups | What::Causes | What::Schema => {
            [These(&[]), These(&[])]
        }
    }
}

pub(super) fn json(what: What, status: &Status) -> Value {
    if what == What::Mac {
        return serde_json::json!(status.fdb);
    }
    if what == What::Multicast {
        return serde_json::json!(status.multicast);
    }
    if what == What::Routes {
        return serde_json::json!(status.routes);
    }
    if what == What::Groups {
        return groups::json(status);
    }
    let [of_port, of_class] = keys(what);
    let port = |port: &PortStatus| {
        let classes = port.classes.iter().map(|class| picked(class, "class", &of_class));
        let mut picked = picked(port, "name", &of_port);
        picked.remove("classes");
        if !matches!(of_class, Keys::These([])) {
            picked.insert("classes".into(), classes.collect());
        }
        Value::from(picked)
    };
    status.ports.iter().map(port).collect()
}

fn picked(of: &impl serde::Serialize, name: &str, keys: &Keys) -> Map<String, Value> {
    let Ok(Value::Object(mut all)) = serde_json::to_value(of) else { return Map::new() };
    if let Keys::These(keys) = keys {
        all.retain(|key, _| key == name || keys.contains(&key.as_str()));
    }
    all
}

pub(super) fn text(what: What, status: &Status, before: Option<&Status>) -> String {
    let ports: Vec<&PortStatus> = status.ports.iter().collect();
    let text = match what {
        What::Ports => port_table(&ports, status, before) + &fallbacks(&ports),
        What::Classes => class_table(&ports, status, before),
        What::Pauses => pause_table(&ports),
        What::Drops => {
            drop_table(&ports)
                + &unseen_table(&ports)
                + &ongoing(status, |event| event == UNFINISHED_CHECKSUM)
        }
        What::Headroom => headroom::table_of(&ports),
        What::Neighbors => neighbors::tables(&ports),
        What::Multicast => multicast::tables(status),
        What::Mac => address_table(&status.fdb),
        What::Routes => routes::route_table(&status.routes),
        What::Groups => groups::group_table(status),
        What::Flows => flow_table(&ports, |_| true) + &shadow_table(&ports, |shadow| shadow.flows.is_some()),
        What::Causes | What::Schema => String::new(),
    };
    let nothing = match what {
        What::Ports => "no port is congested or paused",
        What::Classes => "no class had traffic",
        What::Pauses => "no class was paused",
        What::Drops => "no frame was dropped",
        What::Headroom => "no class is lossless",
        What::Neighbors => "no neighbor is known",
        What::Multicast => "no VLAN has IGMP or MLD snooping",
        What::Mac => "no address is known",
        What::Routes if status.router.is_none() => {
            "this switch has no router: no port is `routed`, and no VLAN has a router interface"
        }
        What::Routes => "the kernel has no route",
        What::Groups => "no group has a selected port",
        What::Flows => "no peer supports pauses of single flows, and no policy in `shadow` requests them",
        What::Causes | What::Schema => "",
    };
    match text.trim_start_matches('\n') {
        "" => nothing.to_owned(),
        text => text.to_owned(),
    }
}

fn fallbacks(ports: &[&PortStatus]) -> String {
    let mut reasons = BTreeMap::<String, Vec<&str>>::new();
    for port in ports {
        let generic = port.xdp_reason.iter().map(|why| format!("generic XDP: {why}"));
        let copy = port.memory_reason.iter().map(|why| format!("copy: {why}"));
        generic.chain(copy).for_each(|reason| reasons.entry(reason).or_default().push(&port.name));
    }
    reasons.iter().map(|(reason, ports)| format!("{}: {reason}\n", ports.join(", "))).collect()
}

fn pause_table(ports: &[&PortStatus]) -> String {
    let header = [
        "port",
        "class",
        "peer held",
        "duration p50 / p99 up to",
        "refreshed",
        "held by peer",
        "duration p50 / p99",
    ];
    let row = |port: &PortStatus, class: &ClassStatus| {
        vec![
            port.name.clone(),
            class.class.to_string(),
            pause(&class.pause_sent) + &why(class),
            quantiles(&class.pause_sent.durations),
            grouped(class.refreshes_sent),
            pause(&class.pause_received),
            quantiles(&class.pause_received.durations),
        ]
    };
    let was_paused = |class: &&ClassStatus| class.pause_sent.xoff + class.pause_received.xoff > 0;
    table(
        &header,
        rows(ports, |port| port.classes.iter().filter(was_paused).map(|class| row(port, class)).collect()),
    )
}

fn drop_table(ports: &[&PortStatus]) -> String {
    let header = ["port", "class", "reason", "frames"];
    table(
        &header,
        rows(ports, |port| {
            let dropped = port.classes.iter().filter(|class| has_traffic(class));
            let reasons = dropped
                .flat_map(|class| class.drops.iter().map(move |(reason, count)| (class, reason, *count)));
            let row = |(class, reason, count): (&ClassStatus, &String, u64)| {
                let lossless = if class.lossless { " lossless" } else { "" };
                vec![port.name.clone(), format!("{}{lossless}", class.class), reason.clone(), grouped(count)]
            };
            reasons.filter(|(_, _, count)| *count > 0).map(row).collect()
        }),
    )
}

fn unseen_table(ports: &[&PortStatus]) -> String {
    let row = |port: &PortStatus, (whose, reason, count): (&str, &str, u64)| {
        vec![port.name.clone(), whose.into(), reason.into(), grouped(count)]
    };
    let header = ["port", "kernel drops", "reason", "frames"];
    table(&header, rows(ports, |port| losses(port).map(|loss| row(port, loss)).collect()))
}

fn address_table(addresses: &[FdbEntry]) -> String {
    let row = |entry: &FdbEntry| {
        let how = if entry.fixed { "static" } else { "learned" };
        let at = entry.group.as_ref().map_or_else(|| entry.port.clone(), |group| format!("group {group}"));
        vec![entry.vid.to_string(), entry.mac.clone(), at, how.into()]
    };
    table(&["VLAN", "address", "port", "how"], addresses.iter().map(row))
}

fn rows<'a>(
    ports: &'a [&'a PortStatus],
    of: impl Fn(&'a PortStatus) -> Vec<Vec<String>> + 'a,
) -> impl Iterator<Item = Vec<String>> + 'a {
    ports.iter().flat_map(move |port| of(port))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use clap::ValueEnum as _;

    use super::super::tables::tests::{line, status};
    use super::*;
    use xoff_switch::control::status::{
        FlowStatus, MulticastGroupStatus, MulticastStatus, MulticastVlanStatus,
    };

    #[test] // proves: status
    fn json_of_status_view_has_same_keys_as_whole_status() {
        let status = status();
        let whole = serde_json::to_value(&status).unwrap();
        let within = |part: &Value, whole: &Value| {
            let part = part.as_object().unwrap();
            part.iter().filter(|(key, _)| *key != "classes").all(|(key, value)| whole[key] == *value)
        };
        for &what in What::value_variants() {
            if matches!(what, What::Mac | What::Groups | What::Multicast | What::Causes | What::Schema) {
                continue;
            }
            let part = json(what, &status);
            for (at, port) in part.as_array().unwrap().iter().enumerate() {
                let whole = &whole["ports"][at];
                assert!(within(port, whole) && port["name"] == whole["name"], "{what:?}: {port}");
                let classes = port.get("classes").map_or(&[][..], |classes| classes.as_array().unwrap());
                assert_eq!(
                    classes.len(),
                    if matches!(what, What::Ports | What::Neighbors) { 0 } else { 8 },
                    "{what:?}"
                );
                assert!(classes.iter().zip(0..).all(|(class, at)| within(class, &whole["classes"][at])));
            }
            let [of_port, of_class] = keys(what);
            for (keys, has) in [(of_port, &part[0]), (of_class, &part[0]["classes"][3])] {
                if let Keys::These(keys) = keys {
                    assert!(keys.iter().all(|key| has.get(key).is_some()), "{what:?}: {has}");
                }
            }
        }
        assert!(json(What::Pauses, &status)[0]["classes"][3].get("drops").is_none());
    }

    #[test] // proves: status
    fn each_status_view_prints_only_its_part() {
        let mut status = status();
        let pauses = text(What::Pauses, &status, None);
        line(&pauses, &["left", "3", "2 x, 1.25 s, NOW (egress right)"]);
        assert!(!pauses.contains("right  "), "classes that were never paused must not be shown:\n{pauses}");
        let drops = text(What::Drops, &status, None);
        line(&drops, &["left", "3 lossless", "hairpin", "3"]);
        line(&drops, &["left", "xdp", "rx_ring_full", "2"]);
        assert!(text(What::Ports, &status, None).trim_start().starts_with("port"));
        line(&text(What::Headroom, &status, None), &["left", "3", "30.0 kB"]);
        line(&text(What::Classes, &status, None), &["left", "3 lossless", "1,000 (64.0 kB)"]);
        for class in status.ports.iter_mut().flat_map(|port| &mut port.classes) {
            class.shadows.clear();
            class.flows = None;
        }
        assert!(text(What::Flows, &status, None).starts_with("no peer supports"));
        status.ports[1].classes[3].flows = Some(FlowStatus { paused: 6, ..Default::default() });
        line(&text(What::Flows, &status, None), &["right", "3", "6 now"]);
        assert_eq!(text(What::Mac, &status, None), "no address is known");
        let (mac, port) = ("02:00:00:00:00:01".into(), "left".into());
        status.fdb = vec![FdbEntry { vid: 7, mac, port, group: None, fixed: false }];
        line(&text(What::Mac, &status, None), &["7", "02:00:00:00:00:01", "left", "learned"]);
        assert_eq!(json(What::Mac, &status)[0]["port"], "left");
        status.fdb[0].group = Some("up".into());
        line(&text(What::Mac, &status, None), &["7", "02:00:00:00:00:01", "group up", "learned"]);
        assert_eq!(text(What::Groups, &status, None), "no group has a selected port");
        assert_eq!(text(What::Multicast, &status, None), "no VLAN has IGMP or MLD snooping");
        let ports = vec!["left".into(), "right".into()];
        let groups = vec![MulticastGroupStatus { address: "239.1.2.3".into(), ports }];
        let vlan = MulticastVlanStatus { vid: 7, protocol: "igmp".into(), groups, ..Default::default() };
        status.multicast =
            Some(MulticastStatus { groups: 1, groups_max: 9, vlans: vec![vlan], ..Default::default() });
        let shown = text(What::Multicast, &status, None);
        line(&shown, &["7", "igmp", "no querier: all groups are flooded"]);
        line(&shown, &["7", "239.1.2.3", "left, right"]);
        line(&shown, &["1 of 9 groups"]);
        status.router = None;
        assert!(text(What::Routes, &status, None).starts_with("this switch has no router"));
    }
}
