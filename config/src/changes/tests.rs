use super::*;
use crate::Machine;

const FILE: &str = r#"
[switch]
name = "leaf"
[[port]]
name = "a"
device = "eth1"
speed = "1G"
lossless = [3]
[[port]]
name = "b"
device = "eth2"
speed = "1G"
lossless = [3]
[class.3]
xoff = "60KB"
xon = "40KB"
"#;

fn config(text: &str) -> Config {
    Config::from_toml("test", text, Machine::default()).unwrap()
}

/// What these replacements of the file change.
fn changes(replaced: &[(&str, &str)]) -> (Config, Changes) {
    let text = replaced.iter().fold(FILE.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    });
    config(FILE).changes(1, config(&text))
}

fn told(list: &[Change]) -> Vec<String> {
    list.iter().map(|Change { what, before, after }| format!("{what}: {before} -> {after}")).collect()
}

#[test]
fn the_same_file_changes_nothing_in_whatever_order_its_ports_stand() {
    let (same, none) = config(FILE).changes(1, config(FILE));
    assert_eq!((same, none), (config(FILE), Changes::default()));
    let swapped = changes(&[
        ("\"a\"", "\"x\""),
        ("\"b\"", "\"a\""),
        ("\"x\"", "\"b\""),
        ("eth1", "eth"),
        ("eth2", "eth1"),
        ("= \"eth\"", "= \"eth2\""),
    ]);
    assert_eq!(swapped.1, Changes::default());
    assert_eq!(swapped.0.switch, config(FILE).switch);
}

#[test]
fn thresholds_and_maps_are_changed_live_and_told_with_both_values() {
    let (new, of) =
        changes(&[("60KB", "80KB"), ("name = \"a\"", "name = \"a\"\ntrust = \"pcp\"\npcp_map = { 5 = 3 }")]);
    assert!(of.restart.is_empty(), "{:?}", told(&of.restart));
    let live = told(&of.live);
    for line in [
        "port \"a\": class 3: xoff: 60KB -> 80KB",
        "port \"b\": class 3: xoff: 60KB -> 80KB",
        "port \"a\": trust: both -> pcp",
        "port \"a\": pcp_map: 0 = 0, 1 = 1, 2 = 2, 3 = 3, 4 = 4, 5 = 5, 6 = 6, 7 = 7 -> 0 = 0, 1 = 1, 2 = 2, 3 = 3, 4 = 4, 5 = 3, 6 = 6, 7 = 7",
    ] {
        assert!(live.iter().any(|told| told == line), "{line}: {live:#?}");
    }
    assert_eq!(new.switch.ports[0].classes[3].xoff.0, 80_000);
}

#[test]
fn what_takes_a_restart_is_named() {
    let (_, of) =
        changes(&[("\"leaf\"", "\"spine\"\nhttp = \"off\"\nwhen_full = \"stop-class\""), ("eth2", "eth7")]);
    assert_eq!(
        told(&of.restart),
        [
            "switch.when_full: drop -> stop-class",
            "port \"b\": device: eth2 -> eth7",
            "switch.name: leaf -> spine",
            "switch.http: 127.0.0.1:9464 -> none",
        ]
    );
}

#[test]
fn how_pauses_are_told_stays_and_for_which_classes_does_not() {
    let (_, of) = changes(&[("lossless = [3]", "lossless = [3, 4]")]);
    assert!(of.restart.is_empty(), "{:?}", told(&of.restart));
    assert!(told(&of.live).contains(&"port \"a\": class 4: lossless: false -> true".to_owned()));
    let (_, of) = changes(&[("lossless = [3]", "lossless = [3]\npause = \"802.3x\"")]);
    assert!(told(&of.restart).iter().any(|told| told.starts_with("port \"a\": pause: pfc, ")), "{of:?}");
}

#[test]
fn vlans_static_addresses_and_policies_are_changed_live() {
    let more = "[[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"b\"\n[class.3]";
    let (new, of) = changes(&[
        ("[class.3]", more),
        ("\"leaf\"", "\"leaf\"\nworkers = 1\npolicy = \"capfc-stop-max\"\nlog = \"debug\""),
    ]);
    assert!(of.restart.is_empty(), "{:?}", told(&of.restart));
    let live = told(&of.live);
    for line in [
        "policy of class 3: pfc -> capfc-stop-max",
        "static address 02:00:00:00:00:01 in VLAN 1: none -> port \"b\"",
        "switch.log: info -> debug",
    ] {
        assert!(live.iter().any(|told| told == line), "{line}: {live:#?}");
    }
    assert_eq!(new.switch.fdb.statics.len(), 1);
    let (_, of) = changes(&[("name = \"a\"", "name = \"a\"\npvid = 7\n")]);
    assert!(of.restart.is_empty(), "{:?}", told(&of.restart));
    assert!(told(&of.live).contains(&"port \"a\": untagged: 1 -> 7".to_owned()), "{:?}", told(&of.live));
}

#[test]
fn ports_that_come_and_go_take_a_restart() {
    let without =
        FILE.replacen("[[port]]\nname = \"a\"\ndevice = \"eth1\"\nspeed = \"1G\"\nlossless = [3]\n", "", 1);
    let (_, of) = config(FILE).changes(1, config(&without));
    assert_eq!(told(&of.restart), ["port \"a\": eth1 -> none"]);
    let (_, of) =
        changes(&[("[class.3]", "[[port]]\nname = \"c\"\ndevice = \"eth3\"\nspeed = \"1G\"\n[class.3]")]);
    assert_eq!(told(&of.restart), ["port \"c\": none -> eth3"]);
}
