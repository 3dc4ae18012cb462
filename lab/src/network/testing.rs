use xoff_switch::Promise;
use xoff_switch::control::status::{PortStatus, Status, Verdict};
use xoff_switch::control::testing::view;
use xoff_switch::control::{Answer, snapshot};

use super::links::{Downs, EndStatus, LinkStatus};
use super::view::{HostStatus, InterfaceCounters, InterfaceStatus, NetworkStatus};

/// Returns a network with these links. Names of switches begin with `s`.
#[must_use]
pub fn network_of(links: &[(String, String)]) -> NetworkStatus {
    let like = network();
    let mut names: Vec<&String> = links.iter().flat_map(|(a, b)| [a, b]).collect();
    names.sort_by_key(|name| (name.len(), (*name).clone()));
    names.dedup();
    let (switches, hosts): (Vec<_>, Vec<_>) = names.into_iter().partition(|name| name.starts_with('s'));
    let end =
        |node: &String| EndStatus { node: node.clone(), port: "p".into(), is_switch: node.starts_with('s') };
    NetworkStatus {
        hosts: hosts
            .into_iter()
            .map(|name| HostStatus { name: name.clone(), ..like.hosts[0].clone() })
            .collect(),
        links: links
            .iter()
            .map(|(a, b)| LinkStatus {
                ends: [end(a), end(b)],
                speed_bits_per_second: 1_000_000_000,
                sending_bits_per_second: None,
                line: None,
                failure: None,
                downs: Downs::default(),
            })
            .collect(),
        switches: switches
            .into_iter()
            .map(|name| Status { name: name.clone(), ..like.switches[0].clone() })
            .collect(),
        ..like
    }
}

#[must_use]
pub fn network() -> NetworkStatus {
    let (view, _inbox) = view();
    let mut switch = snapshot(&view, &[Answer::Given(Default::default())]);
    switch.verdict = Verdict {
        lossless: true,
        promise: Promise::Kept,
        unproved: Vec::new(),
        acknowledged: Vec::new(),
        lossless_lost: 0,
        lossless_flooded_unknown: 0,
        unseen_lost: 0,
        unseen_unknown: 0,
        unseen_lossy: 0,
        unseen_at_least: false,
        unseen_lossy_at: Vec::new(),
        headroom_free_min_bytes: Some(1),
        ledger_balanced: Some(true),
    };
    let host = |(number, port): (usize, &PortStatus)| HostStatus {
        name: format!("h{number}"),
        place: "namespace".into(),
        lost_namespace: None,
        nic: false,
        interfaces: vec![InterfaceStatus {
            device: "eth0".into(),
            mac: format!("02:00:00:00:00:0{number}"),
            ipv4: format!("10.1.0.{number}"),
            ipv6: format!("fd78::{number}"),
            agent: None,
            counters: Some(InterfaceCounters { tx_frames: 1_234, rx_frames: 77, ..Default::default() }),
        }],
        socket_drops: u64::from(port.name.is_empty()),
    };
    let hosts = (1..).zip(&switch.ports).map(host).collect();
    let link = |(number, port): (usize, &PortStatus)| LinkStatus {
        ends: [
            EndStatus { node: format!("h{number}"), port: "eth0".into(), is_switch: false },
            EndStatus { node: switch.name.clone(), port: port.name.clone(), is_switch: true },
        ],
        speed_bits_per_second: port.speed_bits_per_second,
        sending_bits_per_second: None,
        line: None,
        failure: None,
        downs: Downs::default(),
    };
    let links = (1..).zip(&switch.ports).map(link).collect();
    NetworkStatus {
        name: "n".into(),
        uptime_nanos: 5_000_000_000,
        hosts,
        links,
        switches: vec![switch],
        restarts: Vec::new(),
    }
}
