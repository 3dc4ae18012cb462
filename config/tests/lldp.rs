#![allow(clippy::unwrap_used)]

use xoff_config::{Config, ConfigError, Machine};
use xoff_flow_control::settings::{AutoPeer, Dcbx, Lldp, PortSettings};

fn read(keys: &str) -> Result<Config, ConfigError> {
    let port = format!("[[port]]\nname = \"a\"\ndevice = \"x\"\nspeed = \"1G\"\n{keys}");
    Config::from_toml("test.toml", &port, Machine::default())
}

fn port(keys: &str) -> PortSettings {
    read(keys).unwrap().switch.ports[0].clone()
}

fn message(keys: &str) -> String {
    let Err(ConfigError::Invalid(invalid)) = read(keys) else { panic!("{keys} is fine") };
    let problems = invalid.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems[0].message.clone()
}

#[test]
fn lldp_and_dcbx_are_on_by_default() {
    let of = |keys: &str| (port(keys).lldp, port(keys).dcbx);
    assert_eq!(of(""), (Lldp::Switch, Dcbx::Compare));
    assert_eq!(of("lldp = false\n"), (Lldp::Off, Dcbx::Compare));
    assert_eq!(of("dcbx = \"off\"\n"), (Lldp::Switch, Dcbx::Off));
    assert_eq!(of("dcbx = \"willing\"\n"), (Lldp::Switch, Dcbx::Willing));
    assert!(message("lldp = \"host\"\n").contains("lldp"));
}

#[test] // proves: lldp
fn key_lldp_set_to_kernel_needs_host_interface() {
    let kernel = "lldp = \"kernel\"\n";
    assert_eq!(port(&format!("{kernel}routed = true\n")).lldp, Lldp::Kernel);
    let bridged = message(kernel);
    assert!(bridged.contains("needs a host interface"), "{bridged}");
    let willing = message(&format!("{kernel}routed = true\ndcbx = \"willing\"\n"));
    assert!(willing.contains("LLDP is left to the kernel"), "{willing}");
}

#[test]
fn peer_keys_set_to_auto_follow_capabilities_of_neighbor() {
    let of = |keys: &str| {
        let port = port(keys);
        (port.ofc_peer, port.gfc_peer, port.auto_peer)
    };
    let auto = |flow_lists, rates| AutoPeer { flow_lists, rates };
    assert_eq!(of(""), (false, false, auto(false, false)));
    assert_eq!(of("ofc_peer = true\ngfc_peer = \"auto\"\n"), (true, false, auto(false, true)));
    assert_eq!(of("ofc_peer = \"auto\"\ngfc_peer = false\n"), (false, false, auto(true, false)));
}

#[test]
fn keys_that_follow_neighbor_need_lldp_and_pfc() {
    for key in ["ofc_peer = \"auto\"", "gfc_peer = \"auto\"", "dcbx = \"willing\""] {
        let (name, _) = key.split_once(' ').unwrap();
        let off = message(&format!("{key}\nlldp = false\n"));
        assert!(off.contains(&format!("`{name}` of port a")), "{off}");
        assert!(off.contains("LLDP is off"), "{off}");
        let whole = message(&format!("{key}\npause = \"802.3x\"\n"));
        assert!(whole.contains(name) && whole.contains("needs PFC"), "{whole}");
    }
}

#[test] // proves: dcbx
fn note_lists_lossless_classes_of_dcbx_willing_port() {
    let config = read("lossless = [3, 4]\ndcbx = \"willing\"\n").unwrap();
    let notes: Vec<&str> = config.notes.iter().map(|problem| problem.message.as_str()).collect();
    assert!(notes.iter().any(|note| note.contains("those of its lossless classes (3-4) ")), "{notes:?}");
}
