#![allow(clippy::unwrap_used)]

use xoff_config::{Config, ConfigError, Machine};
use xoff_flow_control::settings::{Lacp, Member, Spread, Turns};
use xoff_wire::PathHash;
use xoff_wire::units::{Bytes, PortId};

fn with_ports(text: &str, keys: [&str; 4]) -> String {
    let port = |(name, keys): (&str, &str)| {
        format!("[[port]]\nname = \"{name}\"\ndevice = \"{name}\"\nspeed = \"1G\"\n{keys}")
    };
    let ports: Vec<String> = ["a", "b", "c", "d"].into_iter().zip(keys).map(port).collect();
    format!("{text}{}", ports.concat())
}

fn read(text: &str) -> Result<Config, ConfigError> {
    Config::from_toml("test.toml", text, Machine::default())
}

fn fine(text: &str) -> Config {
    let text = with_ports(text, [""; 4]);
    read(&text).unwrap_or_else(|error| panic!("{error:?}\n{text}"))
}

#[track_caller]
fn wrong(text: &str, place: (usize, usize), words: &[&str]) {
    let Err(ConfigError::Invalid(invalid)) = read(text) else { panic!("nothing is wrong") };
    let [problem] = invalid.problems() else { panic!("{:#?}", invalid.problems()) };
    let text = format!("{problem}; {}", problem.help.clone().unwrap_or_default());
    assert_eq!(problem.position, Some(place), "{text}");
    words.iter().for_each(|word| assert!(text.contains(word), "{word:?} is missing in {text:?}"));
}

#[track_caller]
fn wrong_with_ports(text: &str, place: (usize, usize), words: &[&str]) {
    wrong(&with_ports(text, [""; 4]), place, words);
}

#[test]
fn members_weights_and_spread_of_group_are_read_from_file() {
    let config = fine(
        "[[group]]\nname = \"up\"\nports = [\"b\", { port = \"d\", weight = 3 }]\n\
         [[group]]\nname = \"down\"\nports = [\"a\"]\nspread = \"adaptive\"\nlow = \"10KB\"\nuplinks = true\n\
         [[fdb.static]]\nmac = \"02:00:00:00:00:01\"\ngroup = \"up\"\n",
    );
    let [up, down] = &config.switch.groups[..] else { panic!("two") };
    let member = |port, weight| Member { port: PortId(port), weight };
    assert_eq!(
        (&*up.members, up.spread, up.uplinks),
        (&[member(1, 1), member(3, 3)][..], Spread::Flow, false)
    );
    assert_eq!(
        (down.spread, down.uplinks),
        (Spread::Adaptive { low: Bytes(10_000), high: Bytes(32_000) }, true)
    );
    assert_eq!(config.switch.fdb.statics[0].2, PortId(1), "the address is not at the first member");
    let frame = |turns: &str| {
        fine(&format!("[[group]]\nname = \"up\"\nports = [\"a\"]\nspread = \"frame\"\n{turns}")).switch.groups
            [0]
        .spread
    };
    assert_eq!(frame(""), Spread::Frame(Turns::RoundRobin));
    assert_eq!(frame("turns = \"random\"\n"), Spread::Frame(Turns::Random));
}

#[test] // proves: groups
fn switch_name_changes_path_choice() {
    let salt = |name: &str| {
        let text = format!("[switch]\nname = \"{name}\"\n[[group]]\nname = \"up\"\nports = [\"a\"]\n");
        fine(&text).switch.groups[0].salt
    };
    assert_ne!(salt("leaf1"), salt("leaf2"));
    assert_eq!(salt("leaf1"), salt("leaf1"));
}

#[test] // proves: groups
fn port_in_two_groups_is_refused() {
    let first = "[[group]]\nname = \"x\"\nports = [\"a\", \"b\"]\n";
    let second = |name: &str| format!("{first}[[group]]\nname = \"y\"\nports = [\"c\", \"{name}\"]\n");
    fine(&second("d"));
    wrong_with_ports(&second("b"), (6, 16), &["port b is listed twice as a member of groups"]);
    wrong_with_ports(&second("c"), (6, 16), &["port c", "twice"]);
    wrong_with_ports(&second("e"), (6, 16), &["there is no port \"e\"", "ports: a, b, c, d"]);
    let twice = second("d").replace("\"y\"", "\"x\"");
    wrong_with_ports(&twice, (5, 9), &["two groups have the name \"x\""]);
    wrong_with_ports("[[group]]\nports = [\"a\"]\n", (1, 1), &["`name` is missing in [[group]]"]);
    wrong_with_ports("[[group]]\nname = \"x\"\n", (1, 1), &["`ports` is missing in [[group]]"]);
    for ports in [
        "[]",
        "\"a\"",
        "[{ weight = 2 }]",
        "[{ port = \"a\", weight = 0 }]",
        "[{ port = \"a\", weight = 257 }]",
    ] {
        let text = format!("[[group]]\nname = \"x\"\nports = {ports}\n");
        let place = if ports == "\"a\"" { (3, 10) } else { (3, 9) };
        wrong_with_ports(&text, place, &["a list of 1 to 64 ports by name", "from 1 to 256"]);
    }
}

#[test] // proves: groups
fn group_members_with_different_settings_are_refused() {
    let group = "[[group]]\nname = \"up\"\nports = [\"a\", \"b\"]\n";
    for (key, of_b) in [
        ("pvid", "pvid = 7\n"),
        ("tagged", "tagged = [5]\n"),
        ("mtu", "mtu = 4000\n"),
        ("lossless", "lossless = []\n"),
        ("learning", "learning = false\n"),
        ("learn_limit", "learn_limit = 9\n"),
        ("flood_unknown", "flood_unknown = false\n"),
        ("flood_group", "flood_group = false\n"),
        ("isolated", "isolated = true\n"),
    ] {
        let text = with_ports(group, ["", of_b, of_b, ""]);
        wrong(&text, (3, 16), &[&format!("ports a and b of group \"up\" differ in `{key}`")]);
        assert!(read(&with_ports(group, [of_b, of_b, "", ""])).is_ok(), "{key} of both");
    }
}

#[test]
fn group_key_that_its_spread_does_not_use_is_refused() {
    let of = |text: &str| format!("[[group]]\nname = \"up\"\nports = [\"a\"]\n{text}");
    wrong_with_ports(&of("low = \"1KB\"\n"), (4, 8), &["`low` has no effect", "spread = \"adaptive\""]);
    wrong_with_ports(
        &of("spread = \"adaptive\"\nturns = \"random\"\n"),
        (5, 10),
        &["`turns`", "spread = \"frame\""],
    );
    let high = of("spread = \"adaptive\"\nlow = 2000\nhigh = 1999\n");
    wrong_with_ports(&high, (6, 8), &["`high` is 1999 bytes, less than `low` (2000)"]);
    fine(&of("spread = \"adaptive\"\nlow = 2000\nhigh = 2000\n"));
    fine(&of("spread = \"adaptive\"\nlow = \"1MB\"\n"));
    wrong_with_ports(&of("spread = \"flows\"\n"), (4, 11), &["did you mean \"flow\"?"]);
}

#[test]
fn static_address_at_both_port_and_group_is_refused() {
    let of = |text: &str| {
        format!(
            "[[group]]\nname = \"up\"\nports = [\"a\", \"b\"]\n[[fdb.static]]\nmac = \"02:00:00:00:00:01\"\n{text}"
        )
    };
    fine(&of("port = \"c\"\n"));
    wrong_with_ports(
        &of("port = \"b\"\n"),
        (6, 9),
        &["port b is a member of group \"up\"", "write group = \"up\""],
    );
    wrong_with_ports(&of("group = \"us\"\n"), (6, 10), &["there is no group \"us\"", "did you mean \"up\"?"]);
    wrong_with_ports(&of("group = \"up\"\nvlan = 9\n"), (7, 8), &["group up is no member of VLAN 9"]);
    wrong_with_ports(&of("group = \"up\"\nport = \"c\"\n"), (6, 10), &["at a port or at a group"]);
    wrong_with_ports(&of(""), (4, 1), &["`port` is missing in [[fdb.static]]"]);
}

#[test] // proves: lacp
fn lacp_of_group_is_off_active_or_passive() {
    let lacp =
        |keys: &str| fine(&format!("[[group]]\nname = \"g\"\nports = [\"a\"]\n{keys}")).switch.groups[0].lacp;
    let of = |active, short_timeout| Some(Lacp { active, short_timeout });
    assert_eq!((lacp(""), lacp("lacp = \"off\"\n")), (None, None));
    assert_eq!(lacp("lacp = \"active\"\n"), of(true, false));
    assert_eq!(lacp("lacp = \"passive\"\nlacp_timeout = \"short\"\n"), of(false, true));
    let lonely = "[[group]]\nname = \"g\"\nports = [\"a\"]\nlacp_timeout = \"short\"\n";
    wrong_with_ports(lonely, (4, 17), &["no effect without LACP", "lacp = \"active\""]);
}

#[test] // proves: path-hash
fn path_hash_covers_the_fields_listed_in_file() {
    let hash = |list: &str| fine(&format!("[switch]\nhash = {list}\n")).switch.hash;
    assert_eq!(fine("").switch.hash, hash("[\"ports\", \"protocol\"]"));
    let none = PathHash { protocol: false, ports: false, flow_label: false, inner: false };
    assert_eq!(hash("[]"), none);
    assert_eq!(hash("[\"inner\", \"flow-label\"]"), PathHash { flow_label: true, inner: true, ..none });
    for (list, column) in [("[\"ports\", \"ports\"]", 8), ("[\"addresses\"]", 8), ("\"ports\"", 9)] {
        let text = format!("[switch]\nhash = {list}\n");
        wrong_with_ports(
            &text,
            (2, column),
            &["\"protocol\", \"ports\", \"flow-label\", \"inner\"", "addresses are always hashed"],
        );
    }
}
