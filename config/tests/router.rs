#![allow(clippy::unwrap_used)]

// Tests for SPECIFICATION.md: configuration

use xoff_config::{Config, ConfigError, Machine, Problem};

fn mixed(routed: &str, bridged: &str) -> String {
    let port = |name: &str, device: &str, more: &str| {
        format!("[[port]]\nname = \"{name}\"\ndevice = \"{device}\"\nspeed = \"1G\"\n{more}\n")
    };
    port("up", "eth1", &format!("routed = true\n{routed}")) + &port("host", "eth2", bridged)
}

fn read(text: &str) -> Result<Config, Vec<Problem>> {
    Config::from_toml("test.toml", text, Machine::default()).map_err(|error| match error {
        ConfigError::Invalid(invalid) => invalid.problems().to_vec(),
        error => panic!("{error}"),
    })
}

#[track_caller]
fn only(text: &str) -> ((usize, usize), String, String) {
    let errors = read(text).map(|_| ()).unwrap_err();
    let [Problem { position, message, help, .. }] = &errors[..] else { panic!("{errors:#?}") };
    (position.unwrap(), message.clone(), help.clone().unwrap_or_default())
}

fn warnings(text: &str) -> Vec<((usize, usize), String)> {
    let warnings = read(text).unwrap().warnings;
    let routed =
        warnings.into_iter().filter(|it| ["rout", "IPv6"].iter().any(|word| it.message.contains(word)));
    routed.map(|it| (it.position.unwrap(), it.message)).collect()
}

#[test]
fn reserved_interface_names_are_refused() {
    for name in ["lo", "all", "default"] {
        let text = mixed("", "").replacen("\"up\"", &format!("\"{name}\""), 1);
        let (place, message, help) = only(&text);
        assert_eq!(place, (2, 9));
        assert!(
            message.contains(&format!("{name:?}")) && message.contains("the kernel reserves"),
            "{message}"
        );
        assert!(help.contains("any name but"), "{help}");
        assert!(read(&text.replace("routed = true", "")).is_ok(), "{name}: a bridged port may have it");
        let near = mixed("", "").replacen("\"up\"", &format!("\"{name}0\""), 1);
        assert!(read(&near).is_ok(), "{name}0");
        let vlan = format!("{}[[vlan]]\nvid = 1\nrouter = true\nname = {name:?}\n", mixed("", ""));
        assert_eq!(only(&vlan).0, (15, 9), "{vlan}");
    }
}

#[test]
fn invalid_name_of_host_interface_is_reported_once() {
    for name in ["", "a b", "a/b", "a:b"] {
        let (place, message, _) = only(&mixed("", "").replacen("\"up\"", &format!("\"{name}\""), 1));
        assert_eq!(place, (2, if name.is_empty() { 8 } else { 9 }), "{message}");
        assert!(message.contains("has to be a name"), "{message}");
    }
    let long = |len: usize| mixed("", "").replacen("\"up\"", &format!("\"{}\"", "u".repeat(len)), 1);
    assert!(read(&long(15)).is_ok());
    let (place, message, _) = only(&long(16));
    assert_eq!((place, message.contains("cannot be the name of an interface")), ((2, 9), true), "{message}");
}

#[test]
fn routed_port_in_group_is_refused() {
    let group = |ports: &str| format!("[[group]]\nname = \"g\"\nports = {ports}\n");
    for (ports, column) in
        [("[\"up\"]", 11), ("[\"up\", \"host\"]", 11), ("[\"host\", { port = \"up\", weight = 2 }]", 28)]
    {
        let (place, message, help) = only(&(group(ports) + &mixed("", "")));
        assert_eq!(place, (3, column), "{ports}");
        assert_eq!(message, "port up of group \"g\" is routed, but members of a group must be bridged");
        assert!(help.contains("nexthop") && help.contains("[router]"), "{help}");
    }
    let all = group("[\"up\", \"host\"]") + &mixed("", "routed = true");
    assert_eq!(only(&all).0, (3, 11), "a group does not cause exactly one error");
    assert!(read(&(group("[\"host\"]") + &mixed("", ""))).is_ok());
    assert!(read(&all.replace("routed = true", "")).is_ok());
}

#[test]
fn bridging_keys_of_routed_port_are_refused() {
    for (key, value) in [
        ("pvid", "1"),
        ("learning", "false"),
        ("isolated", "true"),
        ("learn_limit", "10"),
        ("loop_detection", "\"block\""),
        ("flood_unknown", "false"),
        ("flood_group", "false"),
        ("multicast_router", "true"),
        ("fast_leave", "true"),
        ("storm_limit", "{ unknown = \"10M\" }"),
    ] {
        let line = format!("{key} = {value}");
        let (place, message, help) = only(&mixed(&line, ""));
        assert_eq!((place.0, message), (6, format!("port up is routed, but `{key}` is for bridged ports")));
        assert!(help.contains("routed = false"), "{help}");
        assert!(read(&mixed("", &line)).is_ok(), "{key} at a bridged port");
        assert!(read(&format!("[defaults]\n{line}\n{}", mixed("", ""))).is_ok(), "{key} in the defaults");
    }
}

#[test]
fn storm_limit_of_routed_port_needs_routed_vlan() {
    let text = mixed("storm_limit = { unknown = \"10M\" }", "");
    assert!(only(&text).1.contains("`storm_limit`"));
    assert!(read(&format!("{text}[[vlan]]\nvid = 1\nrouter = true\n")).is_ok());
    assert!(only(&format!("{text}[[vlan]]\nvid = 1\nrouter = false\n")).1.contains("`storm_limit`"));
}

#[test]
fn router_without_routed_port_or_vlan_causes_warning() {
    let nothing = mixed("", "").replace("routed = true", "");
    for keys in ["", "netns = \"leaf\"\n"] {
        let router = format!("\n[router]\n{keys}");
        let warned = warnings(&(router.clone() + &nothing));
        assert_eq!(
            warned.iter().map(|(_, message)| message.as_str()).collect::<Vec<_>>(),
            ["[router] is given, but no port or VLAN is routed"]
        );
        assert_eq!(warned[0].0.0, 2, "{keys}");
        assert_eq!(warnings(&(router.clone() + &mixed("", ""))), []);
        assert_eq!(warnings(&(router + &nothing + "[[vlan]]\nvid = 1\nrouter = true\n")), []);
    }
    assert_eq!(warnings(&nothing), []);
}

#[test]
fn routed_port_with_mtu_below_1280_causes_warning() {
    let warned = warnings(&mixed("mtu = 1279", "mtu = 1279"));
    assert_eq!(warned, [((6, 7), "no IPv6 at up: the MTU is 1279, but IPv6 needs 1280".to_owned())]);
    assert_eq!(warnings(&mixed("mtu = 1280", "mtu = 1000")), []);
    let warned = warnings(&format!("[defaults]\nmtu = 1000\n{}", mixed("", "routed = true")));
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0].1.starts_with("no IPv6 at up, host: "), "{warned:?}");
}

#[test]
fn vlan_interface_with_mtu_below_1280_causes_warning() {
    let vlan = "[[vlan]]\nvid = 1\nrouter = true\n";
    let warned = warnings(&(mixed("", "mtu = 1279") + vlan));
    assert_eq!(warned, [((11, 7), "no IPv6 at vlan1: the MTU is 1279, but IPv6 needs 1280".to_owned())]);
    assert_eq!(warnings(&(mixed("", "mtu = 1280") + vlan)), []);
    assert_eq!(warnings(&(mixed("", "mtu = 1279") + &vlan.replace("true", "false"))), []);
}
