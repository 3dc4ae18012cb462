// Tests for SPECIFICATION.md: reload

use std::sync::Arc;

use xoff_flow_control::settings::{Memory, SharedMemory};

use super::*;
use crate::{ConfigError, Machine};

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

fn changes(replaced: &[(&str, &str)]) -> (Config, Changes) {
    let text = replaced.iter().fold(FILE.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    });
    config(FILE).changes(1, config(&text))
}

fn lines(list: &[Change]) -> Vec<String> {
    list.iter().map(|Change { what, before, after }| format!("{what}: {before} -> {after}")).collect()
}

#[test]
fn reload_of_reordered_ports_changes_nothing() {
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
fn reload_changes_thresholds_and_priority_maps_without_restart() {
    let (new, of) =
        changes(&[("60KB", "80KB"), ("name = \"a\"", "name = \"a\"\ntrust = \"pcp\"\npcp_map = { 5 = 3 }")]);
    assert!(of.restart.is_empty(), "{:?}", lines(&of.restart));
    let live = lines(&of.live);
    for line in [
        "port \"a\": class 3: xoff: 60KB -> 80KB",
        "port \"b\": class 3: xoff: 60KB -> 80KB",
        "port \"a\": trust: both -> pcp",
        "port \"a\": pcp_map: 0 = 0, 1 = 1, 2 = 2, 3 = 3, 4 = 4, 5 = 5, 6 = 6, 7 = 7 -> 0 = 0, 1 = 1, 2 = 2, 3 = 3, 4 = 4, 5 = 3, 6 = 6, 7 = 7",
    ] {
        assert!(live.iter().any(|lines| lines == line), "{line}: {live:#?}");
    }
    assert_eq!(new.switch.ports[0].classes[3].xoff.0, 80_000);
}

#[test]
fn reload_to_slower_port_speed_keeps_rings() {
    let (slow, of) = changes(&[("speed = \"1G\"", "speed = \"100M\"\nmax_rate = \"50M\"")]);
    assert!(of.restart.is_empty(), "{:?}", lines(&of.restart));
    for line in ["port \"a\": speed: 1Gb/s -> 100Mb/s", "port \"a\": max_rate: none -> 50Mb/s"] {
        assert!(lines(&of.live).contains(&line.to_owned()), "{line}: {:#?}", lines(&of.live));
    }
    assert_eq!(slow.shell.ports, config(FILE).shell.ports);
    assert!(slow.switch.ports[0].past_xoff < config(FILE).switch.ports[0].past_xoff);
    let (fast, of) = slow.changes(1, config(FILE));
    assert_eq!((fast, lines(&of.restart)), (config(FILE), vec![]));
    let (_, of) = changes(&[("speed = \"1G\"", "speed = \"10G\"")]);
    assert!(!of.restart.is_empty(), "{of:?}");
}

#[test]
fn reload_lists_each_change_that_needs_restart() {
    let (_, of) =
        changes(&[("\"leaf\"", "\"spine\"\nhttp = \"off\"\nwhen_full = \"stop\""), ("eth2", "eth7")]);
    assert_eq!(
        lines(&of.restart),
        [
            "switch.when_full: drop -> stop",
            "port \"b\": device: eth2 -> eth7",
            "switch.name: leaf -> spine",
            "switch.http: 127.0.0.1:9464 -> none",
        ]
    );
}

#[test]
fn change_of_pause_key_from_pfc_to_802_3x_needs_restart() {
    let (_, of) = changes(&[("lossless = [3]", "lossless = [3, 4]")]);
    assert!(of.restart.is_empty(), "{:?}", lines(&of.restart));
    assert!(lines(&of.live).contains(&"port \"a\": class 4: lossless: false -> true".to_owned()));
    let (_, of) = changes(&[("lossless = [3]", "lossless = [3]\npause = \"802.3x\"")]);
    assert!(lines(&of.restart).iter().any(|change| change.starts_with("port \"a\": pause: pfc, ")), "{of:?}");
}

#[test]
fn reload_changes_vlans_and_policies_without_restart() {
    let more = "[[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"b\"\n[class.3]";
    let (new, of) = changes(&[
        ("[class.3]", more),
        ("\"leaf\"", "\"leaf\"\nworkers = 1\npolicy = \"capfc-stop-max\"\nlog = \"debug\""),
    ]);
    assert!(of.restart.is_empty(), "{:?}", lines(&of.restart));
    let live = lines(&of.live);
    for line in [
        "policy of class 3: pfc -> capfc-stop-max",
        "static address 02:00:00:00:00:01 in VLAN 1: none -> port \"b\"",
        "switch.log: info -> debug",
    ] {
        assert!(live.iter().any(|lines| lines == line), "{line}: {live:#?}");
    }
    assert_eq!(new.switch.fdb.statics.len(), 1);
    let (_, of) = changes(&[("name = \"a\"", "name = \"a\"\npvid = 7\n")]);
    assert!(of.restart.is_empty(), "{:?}", lines(&of.restart));
    assert!(lines(&of.live).contains(&"port \"a\": untagged: 1 -> 7".to_owned()), "{:?}", lines(&of.live));
}

#[test] // proves: group-changes
fn reload_changes_port_groups_without_restart() {
    let group = |text: &str| format!("[[group]]\nname = \"up\"\n{text}\n[class.3]");
    let (new, of) = changes(&[(
        "[class.3]",
        &group("ports = [\"b\", { port = \"a\", weight = 3 }]\nspread = \"adaptive\""),
    )]);
    assert!(of.restart.is_empty(), "{:?}", lines(&of.restart));
    let line = "group \"up\": none -> ports b, a (weight 3), spread adaptive, low 16KB, high 32KB";
    assert!(lines(&of.live).contains(&line.to_owned()), "{:?}", lines(&of.live));
    assert_eq!(new.switch.groups[0].members[1].port, PortId(0));
    let changed = |before: &str, after: &str| {
        let [before, after] =
            [before, after].map(|text| config(&FILE.replacen("[class.3]", &group(text), 1)));
        let (_, of) = before.changes(1, after);
        (lines(&of.live), lines(&of.restart))
    };
    let differences = changed(
        "ports = [\"a\", \"b\"]",
        "ports = [\"a\", { port = \"b\", weight = 2 }]\nuplinks = true\nlacp = \"passive\"",
    );
    let line = "group \"up\": ports a, b, spread flow -> ports a, b (weight 2), spread flow, uplinks, lacp passive, lacp_timeout long";
    assert_eq!(differences, (vec![line.to_owned()], vec![]));
    let by_label = FILE.replacen("[switch]\n", "[switch]\nhash = [\"flow-label\", \"ports\"]\n", 1);
    let (_, of) = config(FILE).changes(1, config(&by_label));
    assert_eq!(lines(&of.live), ["switch.hash: addresses, protocol, ports -> addresses, ports, flow-label"]);
    let turned =
        FILE.replacen("[class.3]", &group("ports = [\"a\", \"b\"]\nspread = \"frame\"\nuplinks = true"), 1);
    let (_, of) = config(&turned).changes(1, config(FILE));
    let line = "group \"up\": ports a, b, spread frame, turns round-robin, uplinks -> none";
    assert_eq!(lines(&of.live), [line]);
}

#[test]
fn reload_shows_router_changes_as_written_in_file() {
    let file =
        |router: &str| format!("[router]\nnetns = \"leaf\"\n{router}\n[defaults]\nrouted = true\n{FILE}");
    let restart = |before: &str, after: &str| {
        let (_, of) = config(&file(before)).changes(1, config(&file(after)));
        assert!(of.live.is_empty(), "{:?}", lines(&of.live));
        lines(&of.restart)
    };
    assert_eq!(restart("", "spread = \"flow\""), Vec::<String>::new());
    let is = "a, b, namespace /run/netns/leaf, spread";
    let what = "switch.router (depends on [router], routed ports and VLANs)";
    assert_eq!(restart("", "spread = \"frame\""), [format!("{what}: {is} flow -> {is} frame")]);
    let adaptive = restart("spread = \"frame\"", "spread = \"adaptive\"\nlow = \"8KB\"");
    assert_eq!(adaptive, [format!("{what}: {is} frame -> {is} adaptive, low 8KB, high 32KB")]);
}

const A: &str = "[[port]]\nname = \"a\"\ndevice = \"eth1\"\nspeed = \"1G\"\nlossless = [3]\n";
const C: &str = "[[port]]\nname = \"c\"\ndevice = \"eth3\"\nspeed = \"1G\"\nlossless = [3]\n[class.3]";

fn spare(places: u8) -> String {
    FILE.replacen("[switch]", &format!("[switch]\nspare_ports = {places}"), 1)
}

#[test]
fn port_that_is_added_again_gets_its_old_index() {
    let without = FILE.replacen(A, "", 1);
    let (left, of) = config(FILE).changes(1, config(&without));
    assert!(
        lines(&of.live).contains(&"port \"a\": eth1 -> none".to_owned()) && of.restart.is_empty(),
        "{of:?}"
    );
    assert_eq!((&of.removed, &of.added), (&vec![PortId(0)], &vec![]));
    let (place, class) = (&left.switch.ports[0], &left.switch.ports[0].classes[3]);
    assert!(left.shell.ports[0].is_vacant() && !class.lossless && place.pvid.is_none(), "{place:?}");
    assert!(left.switch.vlans.iter().all(|vlan| !vlan.untagged.contains(&PortId(0))));
    assert_eq!(left.switch.ports[1], config(&without).switch.ports[0]);
    let (again, of) = left.changes(1, config(FILE));
    assert!(
        lines(&of.live).contains(&"port \"a\": none -> eth1".to_owned()) && of.restart.is_empty(),
        "{of:?}"
    );
    assert_eq!(of.added, [PortId(0)]);
    assert_eq!(again.switch, config(FILE).switch);
    let (_, of) = left.changes(1, config(&without.replacen("[class.3]", C, 1)));
    let [no_place] = &lines(&of.restart)[..] else { panic!("its place does not keep its name") };
    assert!(no_place.starts_with("port \"c\" (") && no_place.contains("need `spare_ports`"), "{no_place}");
}

#[test]
fn added_port_takes_spare_index() {
    let running = config(&spare(1)).with_spare_places();
    assert!(running.is_spare(2) && running.shell.ports.len() == 3);
    let with_c = spare(1).replacen("[class.3]", C, 1);
    let (new, of) = running.changes(1, config(&with_c));
    assert!(
        lines(&of.live).contains(&"port \"c\": none -> eth3".to_owned()) && of.restart.is_empty(),
        "{of:?}"
    );
    assert_eq!((of.added, new.switch), (vec![PortId(2)], config(&with_c).switch));
    let (_, of) = running.changes(1, config(&(with_c + "queue = \"voq\"\n")));
    let restart = lines(&of.restart);
    assert!(restart.contains(&"port \"c\": class 3: queue: fifo -> voq".to_owned()), "{restart:?}");
}

fn reloaded(running: &Config, text: &str) -> (Config, Changes) {
    let machine = Machine { running: Some(Arc::new(running.clone())), ..Machine::default() };
    running.changes(1, Config::from_toml("test", text, machine).unwrap())
}

#[test]
fn added_ports_fit_into_memory_reserved_at_start() {
    let smallest = config(&(spare(2) + "[memory]\nlossy_pool = 12208\n")).plan(&Machine::default()).needed();
    let tight = format!("budget = {}", smallest.0);
    let with_c = spare(2).replacen("[class.3]", C, 1);
    let with_d = with_c.replacen("[class.3]", &C.replace("\"c\"", "\"d\"").replace("eth3", "eth4"), 1);
    for memory in [
        "",
        "lossy_pool = \"none\"",
        "lossy_pool = 12208",
        "lossy_pool = \"100MiB\"",
        "budget = \"200MiB\"",
        "budget = \"1GiB\"",
        &tight,
        "model = \"shared\"",
        "model = \"shared\"\npool = \"4MiB\"",
    ] {
        let memory = format!("[memory]\n{memory}\n");
        let mut running = config(&(spare(2) + &memory)).with_spare_places();
        let all = [0, 1, 2, 3].map(PortId);
        let start = running.share(1, &all, &[]);
        for text in [&with_c, &with_d] {
            let (new, of) = reloaded(&running, &(text.clone() + &memory));
            assert_eq!((lines(&of.restart), of.added.len()), (vec![], 1), "{memory}");
            let share = Config::share_of(&[&running, &new], 1, &all, &[]);
            assert!(share.data().fits(start.data()), "{memory}: {share:?} {start:?}");
            running = new;
        }
    }
    let refused = Config::from_toml("test", &format!("{with_d}[memory]\n{tight}\n"), Machine::default());
    assert!(refused.is_err(), "a start with two more spare places needs more memory");
}

#[test]
fn reload_keeps_size_of_shared_pool_if_file_gives_none() {
    let shared = |keys: &str| spare(1) + "[memory]\nmodel = \"shared\"\n" + keys;
    let pool = |config: &Config| match config.switch.memory {
        Memory::Shared(SharedMemory { pool, .. }) => pool.0,
        Memory::Dedicated => unreachable!(),
    };
    let default = config(&shared("")).with_spare_places();
    let wider = shared("").replacen("60KB", "80KB", 1);
    assert!(pool(&config(&wider)) > pool(&default));
    let (new, of) = reloaded(&default, &wider);
    assert_eq!((pool(&new), lines(&of.restart)), (pool(&default), vec![]));
    let same = format!("pool = {}\n", pool(&default));
    assert_eq!(reloaded(&default, &shared(&same)).1, Changes::default());
    let given = config(&shared("pool = \"4MB\"\n")).with_spare_places();
    let (_, of) = reloaded(&given, &shared(""));
    assert_eq!(of.restart.len(), 1, "{of:?}");
    assert!(lines(&of.restart)[0].starts_with("memory: "), "{of:?}");
}

#[test]
fn added_port_may_run_on_existing_worker_without_restart() {
    let two = |ports: &str| {
        let workers = format!("[switch]\nworkers = [{{ ports = [\"a\"] }}, {{ ports = {ports} }}]");
        spare(2).replacen("[switch]", &workers, 1)
    };
    let running = config(&two("[\"b\"]")).with_spare_places();
    let with_c = two("[\"b\", \"c\"]").replacen("[class.3]", C, 1);
    let (_, of) = running.changes(2, config(&with_c));
    assert_eq!((of.added, lines(&of.restart)), (vec![PortId(3)], vec![]));
}

#[test]
fn spare_port_reserves_as_much_memory_as_largest_port() {
    let needed = |config: &Config| config.memory(&config.workers(&[]), &[]).needed();
    let with_c = FILE.replacen("[class.3]", C, 1);
    for memory in
        ["", "lossy_pool = \"none\"", "lossy_pool = \"4MiB\"", "model = \"shared\"\npool = \"4MiB\""]
    {
        let memory = format!("[memory]\n{memory}\n");
        let spare = config(&(spare(1) + &memory)).with_spare_places();
        assert_eq!(needed(&spare), needed(&config(&(with_c.clone() + &memory))), "{memory}");
    }
    assert_eq!(needed(&config(&spare(0)).with_spare_places()), needed(&config(FILE)));
    let text = spare(255);
    let ConfigError::Invalid(refused) = Config::from_toml("test", &text, Machine::default()).unwrap_err()
    else {
        panic!("it was read");
    };
    let message = format!("{:?}", refused.problems());
    assert!(
        message.contains("2 ports and 255 spare ports") && message.contains("spare_ports = 254"),
        "{message}"
    );
}
