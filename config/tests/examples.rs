#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use xoff_config::shell::{Mode, Poll, Queues, Worker, Workers};
use xoff_config::{Config, Machine};
use xoff_flow_control::settings::{FlowControl, PolicyKind, PortSettings, Service};
use xoff_wire::units::{BitRate, Bytes, Class, ClassSet, Nanos, PortId};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)
}

fn load(name: &str) -> Config {
    Config::load(&path(name), Machine::default()).unwrap()
}

#[test]
fn example_files_are_valid_with_8_gib_of_memory() {
    let machine = Machine { memory: Some(Bytes(8 << 30).into()), cores: vec![0, 1], ..Machine::default() };
    let mut names: Vec<String> = std::fs::read_dir(path(""))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_file())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "minimal.toml",
            "policies.toml",
            "roce-leaf.toml",
            "two-nics.toml",
            "two-switches-1.toml",
            "two-switches-2.toml"
        ]
    );
    for name in names {
        let warnings = Config::load(&path(&name), machine.clone()).unwrap().warnings;
        let assumed = warnings.iter().filter(|warning| warning.message.contains("peer_response")).count();
        assert_eq!(warnings.len(), assumed, "{name}: {warnings:?}");
        assert_eq!(assumed, usize::from(name == "minimal.toml"), "{name}");
    }
}

#[test]
fn fabric_example_is_routed() {
    for (name, ports) in [("leaf1", 4), ("leaf2", 4), ("spine1", 2), ("spine2", 2)] {
        let config = load(&format!("leaf-spine/{name}.toml"));
        assert!(config.warnings.is_empty(), "{name}: {:?}", config.warnings);
        assert_eq!(config.switch.routed_ports().len(), ports);
        let router = config.shell.router.unwrap();
        assert_eq!(
            (router.netns.unwrap(), router.interfaces.len()),
            (format!("/run/netns/ls-{name}").into(), ports)
        );
    }
}

#[test]
fn minimal_example_is_lossless_in_class_3() {
    let config = load("minimal.toml");
    assert_eq!(config.switch.ports.len(), 3);
    let port = &config.switch.ports[1];
    assert_eq!((port.name.as_str(), port.speed, port.mtu_frame), ("b", BitRate::from_gbps(1), 1514));
    let class_3: ClassSet = Class::new(3).into_iter().collect();
    assert_eq!(port.lossless(), class_3);
    assert_eq!(port.flow_control, FlowControl::Pfc { obey: class_3, send: class_3 });
    assert_eq!(config.shell.stall_budget, Nanos::from_millis(25));
    assert_eq!(config.shell.ports[1].device, "eth2");
    assert!(config.shell.http.is_some());
}

#[test]
fn policies_example_sets_class_3_policy_and_shadow_policies() {
    let config = load("policies.toml");
    assert_eq!(config.switch.policies[3], PolicyKind::CaPfcStopMax);
    assert!(
        config.switch.policies.iter().enumerate().all(|(class, kind)| class == 3 || *kind == PolicyKind::Pfc)
    );
    assert_eq!(config.switch.shadows, [PolicyKind::Pfc, PolicyKind::CaPfcStopCalibrate]);
    let (slow, fast) = (&config.switch.ports[0], &config.switch.ports[3]);
    let queued = |port: &PortSettings| (port.classes[3].egress_xoff - port.commit).0;
    assert_eq!((queued(slow), queued(fast)), (250_000, 625_000), "Table II, for 10 and 25 Gb/s");
}

#[test]
fn roce_leaf_example_overrides_profile() {
    let config = load("roce-leaf.toml");
    let port = &config.switch.ports[4];
    let dscp = |code: usize| port.dscp_to_class[code].get();
    assert_eq!([0, 23, 24, 26, 31, 32, 46, 48, 55, 56].map(dscp), [0, 0, 3, 3, 3, 0, 0, 6, 6, 0]);
    assert_eq!(port.pcp_to_class.map(Class::get), [0, 0, 0, 3, 0, 0, 6, 0]);
    assert_eq!(port.classes[6].service, Service::Strict);
    assert_eq!(
        (port.classes[0].service, port.classes[3].service),
        (Service::Weighted(50), Service::Weighted(50))
    );
    assert_eq!((port.speed, port.classes[3].xoff), (BitRate::from_gbps(40), Bytes(1_600_000)));
    assert_eq!(config.switch.ports[0].classes[3].xoff, Bytes(400_000));
    assert_eq!(port.rewrite_dscp.unwrap()[3], 26);
    assert_eq!(config.shell.poll, Poll::Busy);
    let spine = Worker { core: Some(1), ports: vec![PortId(4)] };
    assert!(matches!(&config.shell.workers, Workers::List(workers) if workers[1] == spine));
    assert!(config.shell.chunks.multi_buffer, "4218 bytes do not fit into 3840");
}

#[test]
fn two_nics_example_sends_pauses_of_classes_3_and_4() {
    let config = load("two-nics.toml");
    let send = ClassSet(1 << 3 | 1 << 4);
    assert_eq!(config.switch.ports[0].flow_control, FlowControl::Pfc { obey: ClassSet::ALL, send });
    assert_eq!(config.shell.ports[0].mode, Mode::Native);
    assert_eq!(config.shell.ports[0].queues, Queues::List(vec![0]));
    assert_eq!(config.switch.ports[1].learn_limit, Some(1000));
}

#[test]
fn trunk_example_tags_two_vlans_at_trunk_port() {
    for name in ["two-switches-1.toml", "two-switches-2.toml"] {
        let config = load(name);
        let vlans: Vec<_> =
            config.switch.vlans.iter().map(|vlan| (vlan.vid, &vlan.tagged[..], &vlan.untagged[..])).collect();
        let (trunk, first, second) = ([PortId(2)], [PortId(0)], [PortId(1)]);
        assert_eq!(vlans, [(10, &trunk[..], &first[..]), (20, &trunk[..], &second[..])]);
        assert_eq!(
            config.switch.ports.iter().map(|port| port.pvid).collect::<Vec<_>>(),
            [Some(10), Some(20), None]
        );
    }
}
