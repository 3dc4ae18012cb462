#![allow(clippy::unwrap_used)]

// Tests for SPECIFICATION.md: lab-file

use std::fs;
use std::path::PathBuf;

use xoff_config::ReceiveChunks;
use xoff_flow_control::settings::PolicyKind;
use xoff_wire::units::Bytes;

use super::*;

mod ofc;

const FIVE_LINES: &str = "[defaults]\nspeed = \"100M\"\n[[switch]]\nname = \"s1\"\nhosts = 2\n";

fn read(text: &str) -> Result<Network, ConfigError> {
    Network::from_toml("lab.toml", text, "lab", &Machine::default())
}

fn problems(text: &str) -> Vec<Problem> {
    match read(text) {
        Err(ConfigError::Invalid(invalid)) => invalid.problems().to_vec(),
        other => panic!("{other:?}"),
    }
}

fn only(text: &str) -> (usize, String) {
    let all = problems(text);
    assert_eq!(all.len(), 1, "{all:#?}");
    let problem = all.into_iter().next().unwrap();
    (problem.position.unwrap().0, format!("{problem}; {}", problem.help.clone().unwrap_or_default()))
}

fn assert_only(text: &str, line: usize, words: &[&str]) {
    let (at, message) = only(text);
    assert_eq!(at, line, "{message}");
    words.iter().for_each(|word| assert!(message.contains(word), "{word:?} is not in {message:?}"));
}

#[test]
fn five_line_lab_file_defines_two_hosts_and_a_switch() {
    let network = read(FIVE_LINES).unwrap();
    let names: Vec<&str> = network.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!((names, network.switches.len(), network.links.len()), (vec!["h1", "h2"], 1, 2));
    let [eth0] = &network.hosts[1].interfaces[..] else { panic!("one device") };
    assert_eq!((eth0.device.as_str(), eth0.ipv4), ("eth0", ("10.1.0.2".parse().unwrap(), 16)));
    assert_eq!(eth0.ipv6, ("fd78:6f66:6600:1::2".parse().unwrap(), 64));
    assert_eq!(eth0.mac, MacAddr([2, 0, 0, 0, 0, 2]));
    assert_eq!(network.hosts[1].nic, Some(NicSettings::default()));
    let config = &network.switches[0].config;
    assert_eq!((config.shell.name.as_str(), config.shell.ports[1].device.as_str()), ("s1", "h2"));
    assert_eq!(config.switch.ports[0].speed, BitRate::from_mbps(100));
    let [End::Host { host: 1, interface: 0 }, End::Port { switch: 0, port: 1 }] = network.links[1].ends
    else {
        panic!("{:?}", network.links[1]);
    };
}

#[test]
fn example_lab_file_is_valid_with_and_without_commented_keys() {
    let network = Network::start(&Machine::default()).unwrap();
    assert_eq!((network.name.as_str(), network.hosts.len(), network.switches.len()), ("lab", 2, 1));
    let is_suggestion = |line: &&str| line.starts_with('#') && !line.starts_with("# ");
    assert!(START.lines().filter(is_suggestion).count() > 10);
    let all: String = START
        .lines()
        .map(|line| line.strip_prefix('#').filter(|_| is_suggestion(&line)).unwrap_or(line).to_owned() + "\n")
        .collect();
    let network = read(&all).unwrap();
    assert_eq!((network.hosts.len(), network.switches.len(), network.links.len()), (4, 2, 5));
    assert!(network.warnings.is_empty(), "{:?}", network.warnings);
}

#[test]
fn lab_warns_if_two_switches_have_no_path_between_them() {
    let second = format!("{FIVE_LINES}[[switch]]\nname = \"s2\"\nhosts = 1\n");
    let network = read(&second).unwrap();
    let [warning] = &network.warnings[..] else { panic!("{:?}", network.warnings) };
    assert_eq!(warning.position, Some((6, 1)));
    assert!(warning.message.contains("no link connects switch \"s2\" to switch \"s1\""), "{warning}");
    for link in ["\"s1\", \"s2\"", "\"h1\", \"s2\""] {
        let connected = read(&format!("{second}[[link]]\nbetween = [{link}]\n")).unwrap();
        assert!(connected.warnings.is_empty(), "{:?}", connected.warnings);
    }
}

#[test] // proves: lab-links
fn reload_with_slower_lab_link_changes_port_rate_and_headroom() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lab.toml");
    let text = "[defaults]\nspeed = \"10G\"\n[[switch]]\nname = \"s1\"\nhosts = 1\n[[switch]]\nname = \"s2\"\nhosts = 1\n\
                [[link]]\nbetween = [\"s1\", \"s2\"]\n";
    fs::write(&path, text).unwrap();
    let start = Network::load(&path, &Machine::default()).unwrap();
    let first = [0, 1].map(|switch| start.switches[switch].config.clone());
    let reload = |switch: &Config| {
        let machine = Machine { running: Some(switch.clone().into()), ..Machine::default() };
        let network = Network::load_like(Some(&start), &path, &machine).unwrap();
        let of = usize::from(switch.shell.name == "s2");
        switch.changes(1, network.switches[of].config.clone())
    };
    let rates = |config: &Config| (config.switch.ports[1].speed, config.switch.ports[1].max_rate);
    let rate = BitRate::from_mbps;
    let full = start.rates.of(2, &start.links[2]);
    let slow = full.with(None, rate(100));
    start.rates.set(2, slow);
    let restarting = Network { rates: start.rates.at_full_speed(&start.links), ..start.clone() };
    let again = Network::load_like(Some(&restarting), &path, &Machine::default()).unwrap();
    let again = [0, 1].map(|switch| again.switches[switch].config.clone());
    assert_eq!(again.each_ref().map(rates), [(rate(10_000), Some(rate(100))); 2]);
    for (set, at_near, at_far) in [
        (full.between(slow), (rate(10_000), Some(rate(100))), (rate(10_000), Some(rate(100)))),
        (slow, (rate(100), None), (rate(100), None)),
        (slow.with(Some(0), rate(1_000)), (rate(1_000), None), (rate(1_000), Some(rate(100)))),
        (full, (rate(10_000), None), (rate(10_000), None)),
    ] {
        start.rates.set(2, set);
        for (before, expected) in first.iter().chain(&again).zip([at_near, at_far, at_near, at_far]) {
            let (config, of) = reload(before);
            assert_eq!((rates(&config), of.restart), (expected, vec![]), "{set:?}");
            let [new, old] = [&config, before].map(|config| &config.switch.ports[1]);
            assert!(new.refresh <= old.refresh && new.past_xoff <= old.past_xoff, "{set:?}");
            assert_eq!(new.past_xoff == old.past_xoff, set.speed == full.speed, "{set:?}");
        }
    }
}

#[test]
fn lab_file_reload_refuses_changed_hosts_and_links() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lab.toml");
    let load = |like: Option<&Network>, text: &str| {
        fs::write(&path, text).unwrap();
        Network::load_like(like, &path, &Machine::default())
    };
    let running = load(None, FIVE_LINES).unwrap();
    let changed = load(Some(&running), &format!("{FIVE_LINES}stall_budget = \"4ms\"\n")).unwrap();
    assert_eq!(changed.switches[0].config.shell.stall_budget.0, 4_000_000);
    let more_hosts = FIVE_LINES.replace("hosts = 2", "hosts = 3");
    let refused = |text: &str| load(Some(&running), text).unwrap_err().problems()[0].message.clone();
    assert_eq!(refused(&more_hosts), "a reload cannot change hosts, links");
    assert_eq!(refused(&FIVE_LINES.replace("100M", "50M")), "a reload cannot change links");
    assert_eq!(refused(&FIVE_LINES.replace("s1", "s2")), "a reload cannot change switches");
    let classes = format!("{FIVE_LINES}[switch.defaults]\nlossless = [4]\n");
    assert_eq!(
        refused(&classes),
        "a reload cannot change lossless classes, `trust`, default class and maps that agents or delay lines take from switch ports"
    );
}

#[test]
fn delay_of_lab_link_sets_cable_length_of_both_its_ports() {
    let network = read(
        "[defaults]\nspeed = \"1G\"\nloss = \"1%\"\n[[switch]]\nname = \"a\"\nhosts = [\"x\"]\n\
         [[switch]]\nname = \"b\"\nhosts = [\"y\"]\n[[switch.port]]\nname = \"y\"\ncable = \"7m\"\n\
         [[host]]\nname = \"x\"\ndelay = \"2ms\"\njitter = \"500us\"\nloss = \"0%\"\nmac_control = false\n\
         [[link]]\nbetween = [\"a\", \"b\"]\ndelay = \"500us\"\nfrom = \"b\"\n",
    )
    .unwrap();
    let cable = |switch: usize, port: usize| network.switches[switch].config.cables[port].0;
    // A cable's delay is half the sum of two delays: of the port's pauses, and of its peer's frames. At host x, pauses have no delay
    // (`mac_control = false`); in link a-b, nothing from a has one.
    assert_eq!((cable(0, 0), cable(0, 1), cable(1, 1)), (1_250_000, 250_000, 250_000));
    assert_eq!(cable(1, 0), 35, "the cable is not the one that the port's key gives");
    let line = |link: usize| network.links[link].line.unwrap();
    let spared =
        Impairment { delay_ns: 2_000_000, jitter_ns: 500_000, loss_per_billion: 0, spares_mac_control: true };
    assert_eq!(line(0), [spared; 2]);
    let one_way = Impairment { delay_ns: 500_000, loss_per_billion: 10_000_000, ..Impairment::default() };
    assert_eq!(line(2), [Impairment::default(), one_way]);
    let refresh = |port: usize| network.switches[0].config.switch.ports[port].refresh.0;
    assert_eq!(refresh(1), refresh(0), "pauses without jitter have a shorter refresh interval");
    let jitter = "[[switch]]\nname = \"s2\"\nhosts = [\"z\"]\n[[link]]\nbetween = [\"s1\", \"s2\"]\njitter = \"500us\"\nfrom = \"s2\"\n";
    let one_way = read(&format!("{FIVE_LINES}{jitter}")).unwrap();
    let refresh = |switch: usize, port: usize| one_way.switches[switch].config.switch.ports[port].refresh.0;
    assert_eq!(refresh(0, 0), refresh(0, 2), "pauses of s1 have no jitter, yet its refresh is shorter");
    assert_eq!(refresh(1, 0) - refresh(1, 1), 500_000, "jitter does not shorten the refresh interval");
    let needs = network.needs(&Machine::default());
    assert_eq!(needs.lines.0, 3);
    let settings = network.line_settings(2, true).unwrap();
    let pause_needs = BitRate::from_gbps(1).bytes_in(xoff_wire::units::Nanos::from_millis(10));
    assert!(settings.capacity > pause_needs && settings.lossless.contains(xoff_wire::units::Class::ALL[3]));
    let capacity = |stall: &str| {
        let text = format!(
            "[defaults]\nspeed = \"1G\"\ndelay = \"1ms\"\n[[switch]]\nname = \"a\"\nhosts = 2\n{stall}"
        );
        read(&text).unwrap().line_settings(0, true).unwrap().capacity
    };
    assert!(capacity("stall_budget = \"5ms\"\n") > capacity("stall_budget = \"1ms\"\n"));
    let without = read(FIVE_LINES).unwrap();
    assert!(without.links[0].line.is_none() && without.needs(&Machine::default()).lines == (0, Bytes::ZERO));
}

#[test]
fn errors_in_link_impairments_list_allowed_values() {
    let link = "[[switch]]\nname = \"s2\"\nhosts = [\"z\"]\n[[link]]\nbetween = [\"s1\", \"s2\"]\n";
    let with = |key: &str| format!("{FIVE_LINES}{link}{key}\n");
    assert_only(&with("delay = \"51ms\""), 11, &["\"50ms\""]);
    assert_only(&with("loss = \"101%\""), 11, &["\"0.1%\""]);
    for key in ["from = \"s1\"", "mac_control = false"] {
        let warnings = read(&with(key)).unwrap().warnings;
        assert!(warnings.iter().any(|it| it.message.contains("has no effect")), "{key}: {warnings:?}");
    }
    assert_only(&with("delay = \"1ms\"\nfrom = \"h1\""), 12, &["no end of this link", "\"s1\" or \"s2\""]);
}

#[test]
fn keys_of_one_lab_switch_override_defaults_of_all_switches() {
    let network = read(
        "[defaults.switch]\nstall_budget = \"5ms\"\n[defaults.switch.class.3]\nxoff = \"80KB\"\nxon = \"40KB\"\n\
         [[switch]]\nname = \"a\"\nhosts = [\"x\"]\nstall_budget = \"4ms\"\n\
         [switch.policy]\nall = \"ofc\"\nofc = { flows = 77 }\n\
         [switch.class.3]\nxoff = \"90KB\"\n[switch.defaults]\nlearning = false\n\
         [[switch.port]]\nname = \"to-b\"\nofc_peer = true\n[switch.port.class.3]\nxoff = \"70KB\"\n\
         [[switch]]\nname = \"b\"\nhosts = [\"y\"]\npolicy = { 3 = \"capfc-stop-max\" }\n\
         [[link]]\nbetween = [\"a:to-b\", \"b\"]\nspeed = \"2G\"\n",
    )
    .unwrap();
    let [a, b] = &network.switches[..] else { panic!("two switches") };
    let xoff = |node: &SwitchNode, port: usize| node.config.switch.ports[port].classes[3].xoff.0;
    assert_eq!((xoff(a, 0), xoff(a, 1), xoff(b, 0)), (90_000, 70_000, 80_000));
    assert_eq!((a.config.shell.stall_budget.0, b.config.shell.stall_budget.0), (4_000_000, 5_000_000));
    assert_eq!(a.config.switch.policies[3], PolicyKind::Ofc);
    assert_eq!(a.config.switch.policy.ofc.flows, 77);
    assert_eq!(b.config.switch.policies[3].name(), "capfc-stop-max");
    assert!(a.config.switch.ports[1].ofc_peer && !a.config.switch.ports[0].ofc_peer);
    assert!(!a.config.switch.ports[0].learning && b.config.switch.ports[0].learning);
    assert_eq!(a.config.switch.ports[1].speed, BitRate::from_gbps(2));
    assert_eq!(b.config.switch.ports[1].name, "a");
}

#[test]
fn error_in_switch_settings_shows_line_of_lab_file() {
    assert_only(
        &format!("{FIVE_LINES}stall_bugdet = \"1ms\"\n"),
        6,
        &["`stall_bugdet` is not a key in [switch]", "`stall_budget`"],
    );
    assert_only(&format!("{FIVE_LINES}[switch.class.3]\nxon = \"90KB\"\nxoff = \"80KB\"\n"), 7, &["xon"]);
    assert_only(
        &format!("{FIVE_LINES}[[switch.port]]\nname = \"h3\"\n"),
        6,
        &["no wire leads to port \"h3\"", "h1, h2"],
    );
    assert_only(
        &format!("{FIVE_LINES}[[switch.port]]\nname = \"h2\"\ndevice = \"x\"\n"),
        8,
        &["`device`", "the lab makes the devices"],
    );
    assert_only(&format!("{FIVE_LINES}[switch.defaults]\nspeed = \"1G\"\n"), 7, &["`speed`", "[[link]]"]);
    assert_only(
        &format!("{FIVE_LINES}[defaults.switch]\nhosts = 2\n"),
        7,
        &["`hosts` is not a key in [defaults.switch]"],
    );
}

#[test]
fn error_for_misplaced_switch_table_shows_correct_header() {
    let lines = "[memory]\nmodel = \"shared\"\n";
    assert_only(
        &format!("{FIVE_LINES}{lines}"),
        6,
        &["`memory` is not a key at the top level", "[switch.memory]"],
    );
    assert_only(&format!("{FIVE_LINES}[[vlan]]\nid = 2\n"), 6, &["begin the header with `switch.`"]);
    assert_only(&format!("{FIVE_LINES}[memroy]\n"), 6, &["`memroy` is not a key at the top level"]);
}

#[test]
fn lab_file_with_duplicate_name_or_unknown_link_end_is_refused() {
    assert_only(
        &format!("{FIVE_LINES}[[host]]\nname = \"s1\"\nswitch = \"s1\"\n"),
        7,
        &["two nodes have the name \"s1\""],
    );
    assert_only(
        &format!(
            "{FIVE_LINES}[[host]]\nname = \"H-1\"\nswitch = \"s1\"\n[[host]]\nname = \"h_1\"\nswitch = \"s1\"\n"
        ),
        10,
        &["two nodes"],
    );
    assert_only(
        &format!("{FIVE_LINES}[[link]]\nbetween = [\"h1\", \"s2\"]\n"),
        7,
        &["there is no node \"s2\"", "did you mean"],
    );
    assert_only(&format!("{FIVE_LINES}[[host]]\nname = \"lonely\"\n"), 7, &["\"lonely\" has no wire"]);
    assert_only("[[switch]]\nname = \"s1\"\n", 1, &["switch \"s1\" has no wire"]);
    assert_only(
        &format!("{FIVE_LINES}[[link]]\nbetween = [\"h1:a\", \"s1\"]\n"),
        7,
        &["h1 is a host; only switches have ports"],
    );
    let twice = "[[link]]\nbetween = [\"h1\", \"s1:a\"]\n[[link]]\nbetween = [\"h2\", \"s1:a\"]\n";
    assert_only(&format!("{FIVE_LINES}{twice}"), 9, &["two wires lead to port s1:a"]);
    assert_only("[[switch]]\nname = \"a-name-of-16-chr\"\nhosts = 2\n", 2, &["1 to 15 letters"]);
    assert_only("[[switch]]\nname = \"s\"\nhosts = [\"sixteen-letters-\"]\n", 3, &["1 to 15 letters"]);
}

#[test]
fn lab_file_with_loop_of_switches_is_refused() {
    let three = "[[switch]]\nname = \"a\"\n[[switch]]\nname = \"b\"\n[[switch]]\nname = \"c\"\n\
                 [[link]]\nbetween = [\"a\", \"b\"]\n[[link]]\nbetween = [\"b\", \"c\"]\n";
    read(three).unwrap();
    assert_only(
        &format!("{three}[[link]]\nbetween = [\"c\", \"a\"]\n"),
        12,
        &["between c and a closes a loop"],
    );
    assert_only(&format!("{three}[[link]]\nbetween = [\"a\", \"b\"]\n"), 12, &["loop"]);
    assert_only(&format!("{three}[[link]]\nbetween = [\"a\", \"a\"]\n"), 12, &["loop"]);
    read(&format!("{three}[[host]]\nname = \"h\"\nswitch = \"a\"\n[[link]]\nbetween = [\"h\", \"c\"]\n"))
        .unwrap();
}

fn joined(of_a: &str, of_b: &str) -> String {
    format!(
        "[[switch]]\nname = \"a\"\nhosts = 1\n{of_a}[[switch]]\nname = \"b\"\nhosts = 1\n{of_b}\
         [[link]]\nbetween = [\"a\", \"b\"]\n[[link]]\nbetween = [\"a\", \"b\"]\n"
    )
}

#[test] // proves: groups
fn parallel_lab_links_grouped_at_both_ends_are_accepted() {
    let group = |far: &str| format!("[[switch.group]]\nname = \"up\"\nports = [\"{far}\", \"{far}-2\"]\n");
    let network = read(&joined(&group("b"), &group("a"))).unwrap();
    assert_eq!((network.links.len(), network.switches[1].config.switch.groups[0].members.len()), (4, 2));
    assert_only(&joined("", ""), 10, &["between a and b closes a loop", "[[switch.group]]"]);
    assert_only(&joined(&group("b"), ""), 13, &["reach switch a twice", "at both ends"]);
    assert_only(&joined("", &group("a")), 13, &["reach switch b twice", "at both ends"]);
}

#[test] // proves: groups
fn leaf_spine_lab_with_grouped_uplinks_is_accepted() {
    let fabric = |of_leaf_2: &str| {
        let leaf = |name: &str, group: &str| format!("[[switch]]\nname = \"{name}\"\nhosts = 1\n{group}");
        let group = "[[switch.group]]\nname = \"up\"\nports = [\"s1\", \"s2\", \"s3\"]\n";
        let mut text = leaf("l1", group) + &leaf("l2", of_leaf_2) + &leaf("l3", group);
        for spine in ["s1", "s2", "s3"] {
            text += &format!("[[switch]]\nname = \"{spine}\"\n");
        }
        for (leaf, spine) in
            ["l1", "l2", "l3"].iter().flat_map(|leaf| ["s1", "s2", "s3"].map(|spine| (leaf, spine)))
        {
            text += &format!("[[link]]\nbetween = [\"{leaf}\", \"{spine}\"]\n");
        }
        text
    };
    assert_eq!(
        read(&fabric("[[switch.group]]\nname = \"up\"\nports = [\"s1\", \"s2\", \"s3\"]\n"))
            .unwrap()
            .links
            .len(),
        12
    );
    let two_groups = |uplinks: bool| {
        format!(
            "[[switch.group]]\nname = \"x\"\nports = [\"s1\", \"s2\"]\nuplinks = {uplinks}\n\
             [[switch.group]]\nname = \"y\"\nports = [\"s3\"]\nuplinks = {uplinks}\n"
        )
    };
    // Leaf 2 has two port groups to the spines. Without `uplinks`, it would forward leaf 1's frames from one group to
    // the other. With `uplinks`, it would send its host's broadcasts by both.
    assert!(!problems(&fabric(&two_groups(false))).is_empty());
    assert!(!problems(&fabric(&two_groups(true))).is_empty(), "leaf 2 broadcasts by both groups");
}

#[test]
fn lab_hosts_without_address_get_one_in_file_order() {
    let network = read(
        "[[switch]]\nname = \"s\"\nhosts = [\"a\", \"b\"]\n[[host]]\nname = \"b\"\nipv4 = \"192.0.2.9/24\"\nmac = \"02:00:00:00:00:99\"\n\
         [[host]]\nname = \"c\"\nswitch = \"s\"\n[[switch]]\nname = \"t\"\nhosts = [\"d\"]\n[[link]]\nbetween = [\"a\", \"t\"]\n",
    )
    .unwrap();
    let of: Vec<Vec<String>> = network
        .hosts
        .iter()
        .map(|host| host.interfaces.iter().map(|of| of.ipv4.0.to_string()).collect())
        .collect();
    assert_eq!(of, [vec!["10.1.0.1", "10.2.0.1"], vec!["192.0.2.9"], vec!["10.1.0.3"], vec!["10.2.0.2"]]);
    assert_eq!(network.hosts[0].interfaces[1].device, "eth1");
    let clash = "[[host]]\nname = \"x\"\nswitch = \"s1\"\nipv4 = \"10.1.0.1/16\"\n";
    assert_only(&format!("{FIVE_LINES}{clash}"), 9, &["h1 and x have the same address 10.1.0.1"]);
    assert_only(
        &format!("{FIVE_LINES}[[host]]\nname = \"h1\"\nipv6 = \"::1\"\n"),
        8,
        &["an address with the length of its prefix"],
    );
}

#[test] // proves: lab-account
fn lab_host_with_both_pid_and_tap_is_refused() {
    let places = |keys: &str| format!("{FIVE_LINES}[[host]]\nname = \"h1\"\n{keys}\n");
    let place = |keys: &str| read(&places(keys)).unwrap().hosts[0].clone();
    assert_eq!(place("netns = \"blue\"").place, Place::Netns("blue".into()));
    assert_eq!(place("pid = 77").interfaces[0].device, "xoff0");
    assert_eq!(place("container = \"web\"").place, Place::Container("web".into()));
    let guest = place("tap = \"tap3\"");
    assert_eq!((guest.interfaces[0].device.as_str(), guest.nic), ("tap3", None));
    assert_only(&places("pid = 77\ntap = \"tap3\""), 9, &["a host has two of the keys"]);
    assert_only(&places("netns = \"../x\""), 8, &["`ip netns`"]);
}

#[test]
fn host_agent_gets_settings_of_lab_file() {
    let network = read(
        "[defaults]\nnic = { lossless = [3, 4], trust = \"dscp\" }\n[[switch]]\nname = \"s\"\nhosts = 2\n\
         [[host]]\nname = \"h2\"\nnic = false\n",
    )
    .unwrap();
    let settings = NicSettings(vec![("lossless".into(), "3,4".into()), ("trust".into(), "dscp".into())]);
    assert_eq!((network.hosts[0].nic.clone(), network.hosts[1].nic.clone()), (Some(settings), None));
}

#[test]
fn all_errors_of_a_lab_file_are_reported_at_once() {
    let all = problems(
        "names = \"x\"\n[[switch]]\nname = \"s\"\nhosts = 0\n[[host]]\nname = \"h\"\nswich = \"s\"\n\
         [[link]]\nbetween = [\"h\"]\ndelya = \"1ms\"\n",
    );
    let lines: Vec<usize> = all.iter().filter_map(|problem| problem.position).map(|(line, _)| line).collect();
    assert_eq!(lines, [1, 4, 7, 9, 10], "{all:#?}");
    let error = read("x = 1 1").unwrap_err().to_string();
    assert!(error.starts_with("lab.toml: 1 error"), "{error}");
}

#[test]
fn malformed_lab_file_never_causes_a_panic() {
    for text in [
        "",
        "switch = 1",
        "[[switch]]",
        "[switch]",
        "[[switch]]\nname = \"s\"\nhosts = 2\nport = 3",
        "[defaults]\nswitch = 3",
        "host = [1]",
    ] {
        let _ = read(text);
        let _ = read(&format!("{FIVE_LINES}{text}"));
    }
}

fn rows(heading: &str) -> Vec<&'static str> {
    let (_, section) = include_str!("../../../docs/lab.md").split_once(&format!("\n{heading}\n")).unwrap();
    let lines = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    lines.take_while(|line| line.starts_with("| `")).map(|line| line.split('`').nth(1).unwrap()).collect()
}

#[test]
fn every_lab_key_is_documented() {
    for (heading, keys) in keys::documented() {
        let (mut documented, mut keys) = (rows(heading), keys.to_vec());
        documented.sort_unstable();
        keys.sort_unstable();
        assert_eq!(documented, keys, "{heading}");
    }
}

#[test]
fn path_to_agent_file_is_relative_to_lab_file() {
    for key in ["device", "speed", "http"] {
        let text = FIVE_LINES.replace("[defaults]", &format!("[defaults]\nnic = {{ {key} = \"x\" }}"));
        assert_only(&text, 2, &["which the lab sets itself"]);
    }
    let directory = std::env::temp_dir().join(format!("xoff-lab-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join("lab.toml");
    let text = FIVE_LINES.replace("[defaults]", "[defaults]\nnic = { file = \"nic.toml\", lossless = 4 }");
    fs::write(&path, text).unwrap();
    let network = Network::load(&path, &Machine::default()).unwrap();
    fs::remove_dir_all(&directory).unwrap();
    let settings = &network.hosts[0].nic.as_ref().unwrap().0;
    let file = directory.join("nic.toml").display().to_string();
    assert!(
        settings.contains(&("file".into(), file)) && settings.contains(&("lossless".into(), "4".into())),
        "{settings:?}"
    );
}

#[test]
fn reserved_lab_names_and_over_65534_hosts_are_refused() {
    for name in ["lo", "all", "default"] {
        assert_only(&FIVE_LINES.replace("\"s1\"", &format!("{name:?}")), 4, &["lo, all, default"]);
    }
    assert_only(&format!("{FIVE_LINES}[[link]]\nbetween = [\"s1:lo\", \"h1\"]\n"), 7, &["the two ends"]);
    let many: String = (0..263).map(|n| format!("[[switch]]\nname = \"s{n}\"\nhosts = 250\n")).collect();
    assert_only(&many, 789, &["more than 65534 hosts"]);
}

#[test] // proves: memory
fn lab_switches_use_small_receive_chunks_by_default() {
    let receive = |has_small_chunks: fn() -> bool, more: &str| {
        let machine = Machine { has_small_chunks, ..Machine::default() };
        let network =
            Network::from_toml("lab.toml", &format!("{FIVE_LINES}{more}"), "lab", &machine).unwrap();
        network.switches[0].config.shell.chunks.receive
    };
    assert_eq!(receive(|| true, ""), ReceiveChunks::Small);
    assert_eq!(receive(|| true, "[switch.memory]\nmodel = \"dedicated\"\n"), ReceiveChunks::Small);
    assert_eq!(receive(|| true, "[switch.memory]\nreceive_chunks = \"whole\"\n"), ReceiveChunks::Whole);
    assert_eq!(receive(|| true, "zero_copy = \"on\"\n"), ReceiveChunks::Whole, "the kernel shall not copy");
    assert_eq!(receive(|| false, ""), ReceiveChunks::Whole, "an older kernel");
}

#[test] // proves: lab-account
fn every_example_lab_fits_into_8_gib_without_warnings() {
    let machine = Machine { memory: Some(Bytes(8 << 30).into()), cores: vec![0, 1], ..Machine::default() };
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let files = fs::read_dir(examples).unwrap().map(|entry| entry.unwrap().path());
    let networks: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|end| end == "toml")).collect();
    assert_eq!(networks.len(), 8);
    for file in networks {
        let network = Network::load(&file, &machine).unwrap();
        assert!(network.warnings.is_empty(), "{}: {:?}", file.display(), network.warnings);
    }
}

#[test]
fn host_agent_gets_classes_of_switch_port_unless_host_sets_them() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("nic.toml");
    fs::write(&file, "[nic]\ntrust = \"dscp\"\ndscp_map = { 26 = 4 }\n").unwrap();
    let text = format!(
        "[[switch]]\nname = \"s\"\nhosts = 5\n[switch.defaults]\nlossless = [3, 4]\ndscp_map = {{ 0-1 = 1, 26 = 4 }}\n\
         [[switch.port]]\nname = \"h2\"\ntrust = \"pcp\"\nlossless = [3]\npcp_map = {{ 5 = 3 }}\n\
         [[switch.port]]\nname = \"h3\"\ntrust = \"port\"\ndefault_class = 3\nlossless = [3]\n\
         [[host]]\nname = \"h4\"\nnic = {{ lossless = 4, \"dscp-map\" = \"26=3\" }}\n\
         [[host]]\nname = \"h5\"\nnic = {{ file = {:?} }}\n",
        file.display().to_string()
    );
    let network = read(&text).unwrap();
    let of = |host: usize| {
        let arguments = network.agent_arguments(&network.hosts[host], 0);
        arguments.iter().map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>()
    };
    assert_eq!(of(0), ["lossless 3,4", "dscp-map 0=1,1=1,26=4"]);
    assert_eq!(of(1), ["trust pcp", "pcp-map 5=3", "dscp-map 0=1,1=1,26=4"]);
    assert_eq!(of(2)[0], "default-class 3");
    assert!(of(2)[1].starts_with("dscp-map 0=3,1=3,") && !of(2)[1].contains("24="), "{:?}", of(2));
    assert_eq!(of(3), ["dscp-map 26=3", "lossless 4"]);
    assert_eq!(of(4)[1..], ["lossless 3,4"]);
}
