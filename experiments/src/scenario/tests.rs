#![allow(clippy::unwrap_used)]

// Tests for SPECIFICATION.md: scenarios

mod faults;

use xoff_explore::explore;
use xoff_flow_control::congestion::ReactionSettings;
use xoff_sim::{At, Picos};
use xoff_wire::units::{BitRate, Class};

use super::topology::{DELAY, RATE};
use super::*;

const FINE: &str = "[scenario]\nname = \"x\"\n[topology]\nkind = \"single\"\nhosts = 3\n[[load]]\nkind = \"permutation\"\nsize = 1000\n";

fn read(text: &str) -> Result<Source, ConfigError> {
    Source::from_toml("test", text, &[])
}

fn problem(text: &str) -> (Option<usize>, String, String) {
    let Err(ConfigError::Invalid(invalid)) = read(text) else { panic!("nothing is wrong with\n{text}") };
    let [problem] = invalid.problems() else { panic!("{:#?}", invalid.problems()) };
    let line = problem.position.map(|(line, _)| line);
    (line, problem.message.clone(), problem.help.clone().unwrap_or_default())
}

#[test]
fn missing_scenario_keys_have_documented_defaults() {
    let scenario = read(FINE).unwrap().point(0).unwrap();
    assert_eq!((scenario.duration, scenario.limit, scenario.seed), (None, Nanos::from_secs(1), 1));
    assert_eq!((scenario.topology.host.rate, scenario.topology.host.delay), (RATE, DELAY));
    assert_eq!((scenario.loads[0].class, scenario.loads[0].name.as_str()), (Class::ALL[3], "permutation-0"));
    assert!(scenario.output.pauses && scenario.output.sample.is_none());
}

#[test]
fn error_for_unknown_scenario_key_suggests_similar_key() {
    let (line, message, help) = problem(&FINE.replace("hosts = 3", "host = 3\nhosts = 3"));
    assert_eq!((line, message.as_str()), (Some(5), "`host` is not a key in [topology]"));
    assert!(help.contains("`hosts`"), "{help}");
    let (line, message, help) = problem(&FINE.replace("hosts = 3", "hosts = 3\nleaves = 3"));
    assert_eq!((line, message.as_str()), (Some(6), "`leaves` is not a key of [topology] of kind \"single\""));
    assert!(help.contains("hosts"), "{help}");
    let (_, message, help) = problem(&FINE.replace("hosts = 3", ""));
    assert_eq!(message, "`hosts` is missing in [topology] of kind \"single\"");
    assert_eq!(help, "");
    let (line, message, _) = problem(&format!("{FINE}load = 0.5\n"));
    assert_eq!(
        (line, message.as_str()),
        (Some(9), "`load` is not a key of [[load]] of kind \"permutation\"")
    );
}

#[test] // proves: sim-fabrics
fn key_routed_applies_to_all_switches() {
    let lines = [PortLine { rate: RATE, delay: DELAY, ofc: false, gfc: false }; 3];
    for (key, routed) in [("", false), ("\nrouted = false", false), ("\nrouted = true", true)] {
        let source = read(&FINE.replace("hosts = 3", &format!("hosts = 3{key}"))).unwrap();
        assert_eq!(source.point(0).unwrap().topology.routed, routed);
        let config = source.switch(0, "switch", &lines).unwrap();
        assert!(config.switch.ports.iter().all(|port| port.routed == routed), "{key}");
        assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    }
    let (line, message, help) = problem(&format!("[switch.all.defaults]\nrouted = true\n{FINE}"));
    assert_eq!((line, message.as_str()), (Some(2), "`routed` cannot be set for switches of a scenario"));
    assert!(help.contains("set routed = true in [topology]"), "{help}");
    let (line, message, _) = problem(&FINE.replace("hosts = 3", "hosts = 3\nrouted = \"yes\""));
    assert_eq!(line, Some(6));
    assert!(message.contains("`routed` is \"yes\"") && message.contains("true or false"), "{message}");
}

#[test]
fn scenario_values_out_of_range_are_refused() {
    for (key, good, bad) in [("hosts", "1", "0"), ("hosts", "65536", "65537")] {
        assert!(read(&FINE.replace("hosts = 3", &format!("{key} = {good}"))).is_ok(), "{good}");
        let (line, message, _) = problem(&FINE.replace("hosts = 3", &format!("{key} = {bad}")));
        assert_eq!(line, Some(5));
        assert!(message.contains(bad) && message.contains("a whole number from 1 to 65536"), "{message}");
    }
    let (_, message, _) = problem(&FINE.replace("size = 1000", "size = \"web-serch\""));
    assert!(message.contains("data-mining, edu1, edu2, hadoop, web-search"), "{message}");
    let (_, message, _) = problem(&FINE.replace("size = 1000", "size = \"hadoop\""));
    assert_eq!(message, "`size` of a load of kind \"permutation\" has to be a single size");
}

#[test]
fn load_size_is_number_range_table_or_path() {
    let of = |size: &str| {
        let on_off = "kind = \"on-off\"\npairs = [[0, 1]]\ngap = \"1us\"\nend = \"1ms\"";
        let text = FINE.replace("kind = \"permutation\"", on_off);
        text.replace("size = 1000", &format!("size = \"{size}\""))
    };
    let size = |text: &str| read(&of(text)).unwrap().point(0).unwrap().loads[0].size.clone();
    assert_eq!(size("1KB..150KB"), Size::Uniform(1_000, 150_000));
    assert_eq!(size("web-search"), Size::Table("web-search"));
    for path in ["../sizes.txt", "./64KB", "sizes.txt"] {
        assert_eq!(size(path), Size::File(path.into()));
    }
    for wrong in ["2KB..2KB", "2KB..1KB", "1KB..", "1KB..much"] {
        let (_, message, help) = problem(&of(wrong));
        assert!(format!("{message} {help}").contains("1KB..150KB"), "{wrong}: {message} {help}");
    }
    let (_, message, _) = problem(&FINE.replace("size = 1000", "size = \"1KB..2KB\""));
    assert_eq!(message, "`size` of a load of kind \"permutation\" has to be a single size");
}

#[test]
fn load_without_end_requires_a_run_duration() {
    let poisson = |more: &str| {
        FINE.replace("kind = \"permutation\"", &format!("kind = \"poisson\"\nload = 0.5\n{more}"))
    };
    let (_, message, help) = problem(&poisson(""));
    assert!(
        message.contains("has no end") && help.contains("`end`") && help.contains("`duration`"),
        "{message} {help}"
    );
    assert!(read(&poisson("end = \"1ms\"")).is_ok());
    assert!(read(&poisson("").replace("name = \"x\"", "name = \"x\"\nduration = \"1ms\"")).is_ok());
}

#[test]
fn scenario_configures_all_switches_or_those_of_a_kind() {
    let lines = [PortLine { rate: RATE, delay: DELAY, ofc: false, gfc: false }; 3];
    let of = |more: &str| read(&format!("{more}{FINE}")).unwrap().switch(0, "switch", &lines).unwrap();
    let plain = of("");
    assert_eq!(plain.switch.ports.len(), 3);
    let configured = of(
        "[switch.all]\npolicy = \"gfc\"\n[switch.all.class.3]\nxoff = \"300KB\"\n[switch.switch.class.3]\nxon = \"100KB\"\n",
    );
    assert_eq!(configured.switch.ports[2].classes[3].xoff, Bytes(300_000));
    assert_eq!(configured.switch.ports[2].classes[3].xon, Bytes(100_000));
    assert_ne!(configured.switch.policies, plain.switch.policies);
    let wrong = |more: &str| problem(&format!("{more}{FINE}"));
    let (line, message, _) = wrong("[switch.all.class.3]\nxoff = \"much\"\n");
    assert_eq!(line, Some(2));
    assert!(message.contains("`xoff` is \"much\""), "{message}");
    let (_, message, help) = wrong("[switch.leaf]\npolicy = \"pfc\"\n");
    assert_eq!(message, "there are no switches of kind `leaf` in this topology");
    assert!(help.contains("switch"), "{help}");
    let (_, message, help) = wrong("[switch.all]\nhttp = false\n");
    assert!(
        message.contains("`http` cannot be set for switches of a scenario") && help.contains("[topology]"),
        "{message} {help}"
    );
}

#[test]
fn scheduled_fabric_refuses_settings_without_effect() {
    let of = |topology: &str, more: &str| {
        let shape = format!("kind = \"scheduled\"\nleaves = 4\nspines = 2\nhosts = 3{topology}");
        format!("{more}{}", FINE.replace("kind = \"single\"\nhosts = 3", &shape))
    };
    let fine = "[switch.leaf.class.3]\nxoff = \"110KB\"\nxon = \"44KB\"\n[switch.all.qcn]\ningress = [3]\n";
    let topology = read(&of("", fine)).unwrap().point(0).unwrap().topology.scheduled().unwrap();
    assert_eq!((topology.cell, topology.credits, topology.spine_buffer), (256, 586, 16));
    // The longest frame has 1,518 bytes, so it needs six cells of 256 bytes, or twelve of 128.
    assert!(read(&of("\ncredits = 6", "")).is_ok());
    assert!(read(&of("\ncredits = 12\ncell = 128", "")).is_ok());
    let jumbo = "[switch.all.defaults]\nmtu = 9000\n[hosts]\npayload = 8000\n";
    assert!(read(&of("", jumbo)).is_ok());
    let cases = [
        (
            of("\ncredits = 5", ""),
            "an output has 5 credits, but the longest frame needs 6, one for each cell",
        ),
        (
            of("\ncredits = 11\ncell = 128", ""),
            "an output has 11 credits, but the longest frame needs 12, one for each cell",
        ),
        (of("\nrouted = false", ""), "`routed` is not a key of [topology] of kind \"scheduled\""),
        (of("", "[switch.all]\npolicy = \"pfc\"\n"), "`policy` has no effect in a scheduled fabric"),
        (of("", "[switch.leaf.class.3]\nqueue = \"voq\"\n"), "`queue` has no effect in a scheduled fabric"),
        (of("", "[switch.spine.qcn]\ningress = [3]\n"), "spines of a scheduled fabric have no settings"),
        (
            of("", "[hosts]\nofc = true\n"),
            "`ofc` has no effect, because leaves of a scheduled fabric pause whole classes",
        ),
        (
            of("", "[hosts]\ntransport = \"roce\"\ncontrol = \"dcqcn\"\n"),
            "`dcqcn` has no effect, because leaves of a scheduled fabric do not mark ECN",
        ),
        (
            of("", "[hosts]\ntransport = \"tcp\"\n[hosts.tcp]\ncontrol = \"dctcp\"\n"),
            "`dctcp` has no effect, because leaves of a scheduled fabric do not mark ECN",
        ),
        (
            of("", "[hosts]\ntransport = \"tcp\"\n[hosts.tcp]\necn = true\n"),
            "`ecn` has no effect, because leaves of a scheduled fabric do not mark ECN",
        ),
        (
            of("", "[switch.all.defaults]\nlearning = false\n"),
            "`learning` has no effect in a scheduled fabric",
        ),
        (of("", "[[fault]]\nat = \"h0\"\nlost = 0.1\n"), "a scheduled fabric cannot have a [[fault]]"),
        (
            of("", "[[change]]\nat = \"1us\"\nclass.3.xoff = \"1MB\"\n"),
            "a scheduled fabric cannot have a [[change]]",
        ),
    ];
    for (text, expected) in cases {
        let (line, message, help) = problem(&text);
        assert_eq!(message, expected);
        assert!(line.is_some() && !help.is_empty(), "{message}: {line:?} {help}");
    }
}

#[test]
fn last_sweep_key_varies_fastest() {
    let source = read(&format!(
        "{FINE}[[sweep]]\npolicy = [\"pfc\", \"gfc\"]\n[[sweep]]\nload.0.size = [1000, 2000, 3000]\n"
    ))
    .unwrap();
    assert_eq!(source.points(), 6);
    let at = |point| source.point(point).unwrap();
    let label = |point: usize| {
        at(point).point.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>()
    };
    assert_eq!(label(0), ["policy=pfc", "load.0.size=1000"]);
    assert_eq!(label(4), ["policy=gfc", "load.0.size=2000"]);
    assert_eq!(at(4).loads[0].size, Size::Fixed(2_000));
    let (_, message, _) = problem(&format!("{FINE}[[sweep]]\npolicy = \"pfc\"\n"));
    assert!(message.contains("a sweep is a list of values"), "{message}");
    let (_, message, _) = problem(&format!("{FINE}[[sweep]]\npolicy = [\"pfc\"]\ntopology.hosts = [2]\n"));
    assert_eq!(message, "a [[sweep]] has 2 keys, but has to vary one key");
    let (_, message, _) = problem(&format!("{FINE}[[sweep]]\ntopology.hosts = [2, 2]\n"));
    assert!(message.contains("is 2 twice"), "{message}");
    let (_, message, help) = problem(&format!("{FINE}[[sweep]]\nscenario.seed = [1, 2]\n"));
    assert_eq!(message, "`scenario.seed` cannot be varied by a sweep");
    assert!(help.contains("--seeds 1..10"), "{help}");
    let (_, message, help) = problem(&format!("{FINE}[[sweep]]\nfault.0.lost = [0, 0.1]\n"));
    assert_eq!(message, "`fault.0.lost`: the file has no [[fault]]");
    assert!(help.contains("add a [[fault]] to the file first"), "{help}");
}

#[test]
fn command_line_overrides_the_scenario_file() {
    let source = |text: &str, set: &[&str]| {
        let set: Vec<_> = set.iter().map(|text| given(text).unwrap()).collect();
        Source::from_toml("test", text, &set)
    };
    let set = source(FINE, &["topology.hosts=5", "load.0.size=64KB", "policy=ofc"]).unwrap();
    let scenario = set.point(0).unwrap();
    assert_eq!((scenario.topology.hosts, scenario.loads[0].size.clone()), (5, Size::Fixed(64_000)));
    let swept = format!("{FINE}[[sweep]]\ntopology.hosts = [2, 3]\n");
    assert_eq!(
        source(&swept, &["topology.hosts=9"]).unwrap().points(),
        1,
        "a key of the command line is still varied"
    );
    let refused = |set: &[&str]| {
        let Err(ConfigError::Invalid(invalid)) = source(FINE, set) else { panic!("no error") };
        invalid.problems()[0].message.clone()
    };
    assert!(refused(&["topology.hosts=0"]).contains("from 1 to 65536"));
    assert!(refused(&["load.1.size=1"]).contains("entry 1 does not exist; the list has 1 entries"));
    assert_eq!(refused(&["fault.0.lost=1"]), "`fault.0.lost`: the file has no [[fault]]");
    assert!(source(FINE, &["topology.hosts=4", "switch.all={}"]).is_ok());
    for again in ["load.0.size=1", "load.0={size=1, class=3}"] {
        let twice = ["load.0.size=1", "topology.hosts=4", again];
        assert_eq!(refused(&twice), "--set gives `load.0.size` twice");
    }
    for bad in ["x", "=1", "topology=", "hosts=1", "a..b=1", "sweep.0.policy=[\"ofc\"]"] {
        assert!(given(bad).is_err(), "{bad}");
    }
}

#[test] // proves: sim-hosts, scenarios
fn invalid_keys_of_slow_receivers_are_refused() {
    let text = |keys: &str| format!("{FINE}[[receiver]]\nhosts = [1, \"2-3\"]\nrate = \"20G\"\n{keys}\n");
    let receiver = |keys: &str| read(&text(keys)).unwrap().point(0).unwrap().receivers.remove(0);
    let plain = receiver("");
    assert_eq!((plain.hosts.as_slice(), plain.slow.end), (&[1, 2, 3][..], Picos::NEVER));
    assert_eq!(
        [plain.slow.buffer, plain.slow.xoff, plain.slow.xon].map(|of| of.0),
        [1_000_000, 500_000, 250_000]
    );
    assert_eq!(receiver("xoff = 100").slow.xon.0, 50);
    let message = |keys: &str| problem(&text(keys)).1;
    assert_eq!(
        message("xoff = 100\nxon = 101"),
        "`xon` is 101B, but has to be at most `xoff`, which is 100B"
    );
    assert_eq!([message("xoff = 1"), message("xon = 0")], ["`xon` of a [[receiver]] is 0"; 2]);
    assert_eq!(receiver("xoff = 2").slow.xon.0, 1);
    assert_eq!(message("begin = \"2us\"\nend = \"2us\""), "`end` is not after `begin`");
    let late = message("begin = \"1s\"");
    assert_eq!(late, "`begin` of a [[receiver]] is 1s, but the run ends at 1s at the latest");
    let (_, none, _) = problem(&text("").replace("[1, \"2-3\"]", "[]"));
    assert!(none.starts_with("`hosts` is [], but has to be a list of at least one host by number"), "{none}");
    assert_eq!(message("[[receiver]]\nhosts = [0, 3]\nrate = \"1G\""), "two [[receiver]] tables name host 3");
    let (_, message, _) = problem(&format!("{FINE}[[receiver]]\nrate = \"1G\"\n"));
    assert!(message.contains("`hosts`"), "{message}");
}

#[test] // proves: sim-results
fn receiver_buffer_must_hold_one_frame_above_xoff() {
    let text = |keys: &str| format!("{FINE}[[receiver]]\nhosts = [1]\nrate = \"20G\"\n{keys}\n");
    for fits in ["xoff = 100\nbuffer = 1618", "buffer = 3035"] {
        assert!(read(&text(fits)).is_ok(), "{fits}");
    }
    let (line, message, help) = problem(&text("xoff = 100\nbuffer = 1617"));
    assert_eq!(line, Some(12));
    assert_eq!(
        message,
        "`buffer` is 1617B, but has to be at least `xoff` (100B) plus one frame (up to 1518B)"
    );
    assert!(help.starts_with("set `buffer` to at least 1618B"), "{help}");
    for few in ["100B", "3034B"] {
        let (line, message, help) = problem(&text(&format!("buffer = \"{few}\"")));
        assert_eq!(line, Some(12));
        assert!(
            message.contains(few) && help.starts_with("set `buffer` to at least 3035B"),
            "{message} {help}"
        );
    }
    let short = |buffer: u64| format!("[hosts]\npayload = 64\n{}", text(&format!("buffer = {buffer}")));
    assert_eq!([250, 251].map(|buffer| read(&short(buffer)).is_ok()), [false, true]);
}

#[test]
fn scenario_refuses_change_that_needs_a_switch_restart() {
    let change = |keys: &str| format!("{FINE}[[change]]\nat = \"2ms\"\n{keys}\n");
    let source = read(&change("policy = \"ofc\"\nclass.3.xoff = \"300KB\"")).unwrap();
    let scenario = source.point(0).unwrap();
    assert_eq!(scenario.changes, [Change { at: Nanos::from_millis(2), of: ChangeTarget::All }]);
    let lines = [PortLine { rate: RATE, delay: DELAY, ofc: false, gfc: false }; 3];
    let [before, after] =
        [source.switch(0, "switch", &lines).unwrap(), source.changed(0, "switch", &lines, &[0]).unwrap()];
    assert_eq!(after.switch.ports[0].classes[3].xoff, Bytes(300_000));
    assert_ne!((after.switch.policies, before.switch.ports), (before.switch.policies, after.switch.ports));
    let parameters = "[switch.all.policy]\nall = \"pfc\"\n[switch.all.policy.ofc]\nalpha = 0.8\n";
    let source = read(&format!("{parameters}{}", change("policy = \"ofc\""))).unwrap();
    let [before, after] =
        [source.switch(0, "switch", &lines), source.changed(0, "switch", &lines, &[0])].map(Result::unwrap);
    assert_eq!(before.switch.policy, after.switch.policy);
    assert_ne!(before.switch.policies, after.switch.policies);
    for (of, expected) in
        [("3", ChangeTarget::Switch(3)), ("\"switch\"", ChangeTarget::Kind("switch".into()))]
    {
        let scenario = read(&change(&format!("switch = {of}\npolicy = \"ofc\""))).unwrap().point(0).unwrap();
        assert_eq!(scenario.changes[0].of, expected);
    }
    let (line, message, help) = problem(&change("memory.model = \"shared\""));
    assert_eq!(line, Some(9));
    assert!(
        message.starts_with("a running switch cannot change memory") && help.contains("xoff reload"),
        "{message}"
    );
    let (_, message, _) = problem(&change("switch = \"leaf\"\npolicy = \"ofc\""));
    assert_eq!(message, "there are no switches of kind `leaf` in this topology");
    let something = change("policy = \"ofc\"");
    let (_, message, _) = problem(&something.replace("2ms", "1s"));
    assert_eq!(message, "`at` of a change is 1s, but the run ends at 1s at the latest");
    for nothing in ["", "switch = \"switch\""] {
        let (line, message, help) = problem(&change(nothing));
        assert_eq!(line, Some(9));
        assert_eq!(message, "a [[change]] has no new settings");
        assert!(help.contains("policy = \"ofc\""), "{help}");
    }
    let (_, message, _) = problem(&change("http = false"));
    assert!(message.contains("`http` cannot be set for switches of a scenario"), "{message}");
    let (_, message, _) = problem(&something.replace("at = \"2ms\"", ""));
    assert!(message.contains("`at`"), "{message}");
}

#[test] // proves: sim-fabrics, scenarios
fn failure_of_line_missing_in_topology_is_refused() {
    let of = |failed: &str| {
        let fabric = format!("kind = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts = 1\nfailed = {failed}");
        FINE.replace("kind = \"single\"\nhosts = 3", &fabric)
    };
    let failed = read(&of("[[2, 1], [3, 0]]")).unwrap().point(0).unwrap().topology.failed;
    assert_eq!(failed, [(2, 1), (3, 0)]);
    let (_, message, _) = problem(&of("[[2, 1], [1, 2]]"));
    assert_eq!(message, "there is no line from leaf 1 to spine 2");
    assert!(read(&of("[[0, 1], [1, 1], [2, 1], [2, 1]]")).is_ok());
    let (_, message, _) = problem(&of("[[0, 1], [1, 1], [2, 1], [3, 1]]"));
    assert_eq!(message, "all lines of spine 1 have failed");
    let (_, message, _) = problem(&of("[2, 1]"));
    assert!(message.contains("a list of lines by leaf and spine"), "{message}");
}

#[test] // proves: sim-hosts
fn qcn_is_allowed_with_any_transport() {
    let of = |hosts: &str| format!("[hosts]\n{hosts}\n{FINE}");
    let hosts = |text: &str| read(&of(text)).unwrap().point(0).unwrap().hosts;
    let configured = hosts("control = \"qcn\"\n[hosts.qcn]\ndecrease = 64\ndelay = \"2400ns\"");
    let standard = ReactionSettings::STANDARD;
    assert_eq!(configured.qcn, Some(ReactionSettings { decrease_divisor: 64, ..standard }));
    assert_eq!(configured.qcn_delay, Picos::from_nanos(2_400));
    assert_eq!(hosts("transport = \"roce\"\ncontrol = \"qcn\"").qcn, Some(standard));
    let (_, message, _) = problem(&of("control = \"dcqcn\""));
    assert_eq!(
        message,
        "`control` has no effect: hosts with transport = \"line-rate\" get no feedback from receivers"
    );
    let (_, message, _) = problem(&of("[hosts.qcn]\ntimer = \"1ms\""));
    assert_eq!(message, "[hosts.qcn] has no effect: `control` selects another congestion control");
}

#[test] // proves: sim-fabrics
fn load_kind_draw_needs_key_flows_and_accepts_key_rate() {
    let draw =
        FINE.replace("kind = \"permutation\"", "kind = \"draw\"\nflows = 9\npairs = [[0, 1]]\nrate = \"3G\"");
    let load = read(&draw).unwrap().point(0).unwrap().loads[0].clone();
    assert_eq!((load.kind, load.flows, load.rate), (LoadKind::Draw, 9, Some(BitRate::from_gbps(3))));
    let (_, message, _) = problem(&draw.replace("flows = 9\n", ""));
    assert!(message.contains("`flows`"), "{message}");
}

#[test]
fn payload_above_the_mtu_is_refused() {
    let of = |payload: u32, mtu: &str| {
        let mtu =
            if mtu.is_empty() { String::new() } else { format!("[switch.all.defaults]\nmtu = {mtu}\n") };
        format!("[hosts]\npayload = {payload}\n{mtu}{FINE}")
    };
    for (payload, mtu) in [(1_456, ""), (4_096, "4140"), (1_458, "1504"), (64, "256")] {
        assert!(read(&of(payload, mtu)).is_ok(), "{payload} {mtu}");
    }
    let (line, message, help) = problem(&of(1_457, ""));
    assert_eq!(line, Some(2));
    assert!(message.starts_with("`payload` is 1457, which with headers needs an MTU of 1504"), "{message}");
    assert!(message.ends_with("but switches of kind `switch` have an MTU of 1500"), "{message}");
    assert!(help.contains("at most 1456") && help.contains("at least 1504"), "{help}");
    assert!(problem(&of(4_096, "4139")).1.contains("MTU of 4140"));
    let (line, message, _) = problem(&format!("[switch.all.defaults]\nmtu = 1000\n{FINE}"));
    assert!(line.is_some() && message.starts_with("`payload` is 1456"), "{message}");
}

#[test]
fn every_load_kind_accepts_key_begin() {
    for (kind, keys) in [
        ("poisson", "load = 0.5\nend = \"1ms\""),
        ("incast", "fan_in = 1"),
        ("permutation", ""),
        ("ring", ""),
        ("on-off", "pairs = [[0, 1]]\ngap = \"1us\"\nend = \"1ms\""),
        ("draw", "pairs = [[0, 1]]\nflows = 1"),
    ] {
        let text = format!("{}begin = \"20us\"\n{keys}\n", FINE.replace("permutation", kind));
        let load = read(&text).unwrap().point(0).unwrap().loads.remove(0);
        assert_eq!(load.begin, Nanos::from_micros(20), "{kind}");
        assert_eq!(load.end == Some(Nanos(20_001)), kind == "incast", "{kind}");
    }
}

#[test]
fn load_that_begins_after_end_of_run_is_refused() {
    let begin = |time: &str| format!("{FINE}begin = \"{time}\"\n");
    assert!(read(&begin("999ms")).is_ok());
    let (line, message, help) = problem(&begin("1s"));
    assert_eq!(line, Some(9));
    assert_eq!(message, "`begin` of a [[load]] is 1s, but the run ends at 1s at the latest");
    assert!(help.contains("`limit`"), "{help}");
    assert!(read(&begin("1s").replace("name = \"x\"", "name = \"x\"\nlimit = \"2s\"")).is_ok());
}

explore! {
    #[test]
    fn garbage_scenario_is_refused_without_panic(line in "\\PC{0,40}", at in 0_usize..8) {
        let mut lines: Vec<&str> = FINE.lines().collect();
        lines.insert(at, &line);
        let _ = read(&lines.join("\n"));
    }
}
