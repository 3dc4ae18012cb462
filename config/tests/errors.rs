#![allow(clippy::unwrap_used)]

use miette::{GraphicalReportHandler, GraphicalTheme};
use xoff_config::{Config, ConfigError, Machine, Problem};

const PORTS: &str = r#"
[[port]]
name = "a"
device = "eth1"
speed = "1G"
[[port]]
name = "b"
device = "eth2"
speed = "1G"
"#;

fn read(text: &str) -> Result<Config, ConfigError> {
    Config::from_toml("test.toml", text, Machine::default())
}

fn errors(text: &str) -> Vec<Problem> {
    match read(text) {
        Ok(_) => Vec::new(),
        Err(ConfigError::Invalid(invalid)) => invalid.problems().to_vec(),
        Err(error) => panic!("{error}"),
    }
}

fn only(text: &str) -> ((usize, usize), String, String) {
    let found = errors(text);
    assert_eq!(found.len(), 1, "{text}: {found:?}");
    let Problem { position, message, help, .. } = found[0].clone();
    (position.unwrap_or_default(), message, help.unwrap_or_default())
}

fn only_with_ports(text: &str) -> ((usize, usize), String, String) {
    only(&format!("{text}{PORTS}"))
}

#[track_caller]
fn assert_only(text: &str, place: (usize, usize), words: &[&str]) {
    let (position, message, help) = only_with_ports(text);
    assert_eq!(position, place, "{message}");
    for word in words {
        assert!(
            message.contains(word) || help.contains(word),
            "{word:?} is missing in {message:?}, {help:?}"
        );
    }
}

fn warnings(text: &str) -> Vec<String> {
    let warnings = read(&format!("{text}{PORTS}")).unwrap().warnings;
    warnings
        .into_iter()
        .map(|warning| warning.message)
        .filter(|text| !text.contains("peer_response"))
        .collect()
}

#[test] // proves: configuration
fn errors_are_all_reported_in_order_of_file() {
    let text = "[switch]\nstall_budgett = \"25ms\"\npoll = 3\n[class.3]\nxon = \"5KB\"\nxoff = \"2KB\"\n[[port]]\nname = \"a\"\ndevice = \"x\"\nspeed = \"1X\"\n[[port]]\nname = \"a\"\n";
    let found: Vec<_> =
        errors(text).into_iter().map(|problem| (problem.position.unwrap().0, problem.message)).collect();
    let lines: Vec<usize> = found.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [2, 3, 5, 10, 11, 11, 12], "{found:?}");
}

#[test]
fn error_for_unknown_key_suggests_closest_key() {
    assert_only("[switch]\nwokers = 1\n", (2, 1), &["`wokers`", "[switch]", "did you mean `workers`?"]);
    assert_only("[swich]\n", (1, 2), &["at the top level", "did you mean `switch`?"]);
    assert_only("[fdb]\nzzzzzz = 1\n", (2, 1), &["keys here: capacity, ageing, static"]);
    assert_only("[class.8]\nxoff = 1\n", (1, 8), &["`8` is not a key in [class]", "keys here: 0, 1"]);
    assert_only("[class.3]\nxof = 1\n", (2, 1), &["`xof` is not a key in [class.3]", "mean `xoff`?"]);
    assert_only("[defaults]\nname = \"x\"\n", (2, 1), &["`name` is not a key in [defaults]"]);
}

#[test]
fn error_for_wrong_value_names_given_and_allowed_values() {
    assert_only("[defaults]\nmtu = 255\n", (2, 7), &["`mtu` is 255", "from 256 to 9216"]);
    assert_only("[defaults]\nmtu = 9217\n", (2, 7), &["`mtu` is 9217"]);
    assert_only("[defaults]\nmtu = true\n", (2, 7), &["`mtu` is true"]);
    assert_only(
        "[switch]\npoll = \"bussy\"\n",
        (2, 9),
        &["\"bussy\"", "one of \"adaptive\", \"busy\"", "did you mean \"busy\"?"],
    );
    assert_only("[switch]\nstall_budget = \"11s\"\n", (2, 17), &["\"11s\"", "to \"10s\""]);
    assert_only("[switch]\nhttp = \"localhost\"\n", (2, 9), &["127.0.0.1:9464", "\"off\""]);
    assert_only("[defaults]\nlossless = [8]\n", (2, 12), &["`lossless` is [8]", "classes from 0 to 7"]);
    assert_only("[defaults]\ntagged = [4095]\n", (2, 10), &["VLANs from 1 to 4094"]);
    assert_only("[defaults]\ntagged = [\"20-10\"]\n", (2, 10), &["VLANs from 1 to 4094"]);
    assert_only("[defaults]\ndscp_map = { 64 = 1 }\n", (2, 12), &["is { 64 = 1 }", "DSCPs) from 0 to 63"]);
    assert_only("[defaults]\npcp_map = { 3 = 8 }\n", (2, 11), &["is { 3 = 8 }", "classes from 0 to 7"]);
    assert_only("[defaults]\npcp_map = { 3-4 = 1, 4 = 2 }\n", (2, 11), &["for different keys"]);
    let long = format!("[defaults]\nlossless = [{}8]\n", "3, ".repeat(99));
    assert_only(&long, (2, 12), &[&format!("is [{}..., but", "3, ".repeat(20).trim_end())]);
    assert_only("[defaults]\nrewrite_pcp = [1, 2]\n", (2, 15), &["list of 8 numbers from 0 to 7"]);
    assert_only("[defaults]\ncable = \"3\"\n", (2, 10), &["\"3m\""]);
    assert_only("[class.3]\nweight = 0\n", (2, 10), &["`weight` is 0", "strict", "from 1 to 100000"]);
    assert_only("[class.3]\nxoff = \"many\"\n", (2, 9), &["\"100KB\""]);
    assert_only("[[fdb.static]]\nmac = \"02:00:00:00:00:01\"\n", (1, 1), &["`port` is", "port = \"a\""]);
    assert_only(
        "[class.3]\nwatchdog = \"kill\"\n",
        (2, 13),
        &["\"drop\", \"forward\", \"alert\"", "\"off\""],
    );
    assert_only("[class.3]\nwatchdog_detect = \"61s\"\n", (2, 20), &["\"61s\"", "to \"60s\""]);
    assert_only("class = 3\n", (1, 9), &["`class` is 3", "a table"]);
    assert_only("[switch]\nworkers = 0\n", (2, 11), &["\"auto\", a number from 1 to 64"]);
}

#[test]
fn allowed_ranges_of_keys_include_their_bounds() {
    for text in [
        "[defaults]\nmtu = 256\n",
        "[defaults]\nmtu = 9216\n",
        "[defaults]\ntagged = [2, 4094]\n",
        "[class.3]\nweight = 100000\n",
        "[switch]\nstall_budget = \"0ms\"\n",
    ] {
        assert!(read(&format!("{text}{PORTS}")).is_ok(), "{text}");
    }
}

#[test]
fn missing_incomplete_or_duplicate_ports_are_refused() {
    let (place, message, help) = only("[[port]]\nname = \"a\"\ndevice = \"x\"\n");
    assert_eq!((place, message.as_str()), ((1, 1), "`speed` is missing in [[port]]"));
    assert!(help.contains("speed = \"1G\""));
    assert_eq!(errors("[[port]]\n").len(), 3);
    assert!(only("port = []\n").1.contains("no ports"));
    assert!(only("").1.contains("no ports"));
    assert!(only("[port]\nname = \"a\"\n").2.contains("[[port]] with two brackets"));
    let twice = format!("{PORTS}[[port]]\nname = \"c\"\ndevice = \"eth1\"\nspeed = \"1G\"\n");
    let ((line, _), message, _) = only(&twice);
    assert_eq!((line, message.as_str()), (12, "two ports have the device \"eth1\""));
}

#[test]
fn switch_has_at_most_256_ports() {
    let ports = |count: usize| -> String {
        (0..count)
            .map(|n| format!("[[port]]\nname = \"p{n}\"\ndevice = \"d{n}\"\nspeed = \"10M\"\n"))
            .collect()
    };
    assert!(read(&ports(256)).is_ok());
    let (place, message, _) = only(&ports(257));
    assert_eq!(place, (256 * 4 + 1, 1));
    assert!(message.contains("257 ports") && message.contains("256"), "{message}");
}

#[test]
fn xon_may_equal_xoff_but_not_exceed_it() {
    assert!(read(&format!("[class.3]\nxoff = 5000\nxon = 5000\n{PORTS}")).is_ok());
    assert_only(
        "[class.3]\nxoff = 5000\nxon = 5001\n",
        (3, 7),
        &["XON of class 3", "above XOFF", "xon <= xoff"],
    );
    assert_only("[class.3]\nxon = 0\n", (2, 7), &["`xon`", "never resume"]);
    assert_eq!(errors(&format!("[class.3]\nxoff = 0\nxon = 0\n{PORTS}")).len(), 2);
}

#[test]
fn buffer_limits_below_one_frame_are_refused() {
    // `egress_max` must exceed the longest frame: 1526 bytes (1514, two tags and the FCS).
    assert!(read(&format!("[class.0]\negress_max = 1527\n{PORTS}")).is_ok());
    assert_only("[class.0]\negress_max = 1526\n", (2, 14), &["too little for one frame", "1527"]);
    // `commit` counts bytes on the line: 1526 of the longest frame, and 20 for preamble and gap.
    assert!(read(&format!("[defaults]\ncommit = 1546\n{PORTS}")).is_ok());
    assert_only("[defaults]\ncommit = 1545\n", (2, 10), &["less than one frame", "1546"]);
}

#[test]
fn max_rate_above_port_speed_and_late_refresh_are_refused() {
    assert!(read(&format!("[class.0]\nmax_rate = \"1G\"\n{PORTS}")).is_ok());
    assert_only("[class.0]\nmax_rate = \"1001M\"\n", (2, 13), &["more than the port's speed", "1Gb/s"]);
    assert!(read(&format!("[defaults]\nmax_rate = \"1G\"\n{PORTS}")).is_ok());
    assert_only("[defaults]\nmax_rate = \"1001M\"\n", (2, 13), &["more than its speed", "1Gb/s"]);
    // The pause time is 33.55 ms: 65535 quanta of 512 bits at 1 Gb/s.
    assert_only("[defaults]\nrefresh = \"34ms\"\n", (2, 12), &["not less than the pause time", "33553 us"]);
}

#[test]
fn error_names_invalid_part_of_storm_limit() {
    let of = |limit: &str| only(&format!("[defaults]\nstorm_limit = {limit}\n{PORTS}")).1;
    assert!(read(&format!("[defaults]\nstorm_limit = {{ unknown = \"1M\" }}\n{PORTS}")).is_ok());
    let message = of(r#"{ broadcast = "10M", unknown = "999K" }"#);
    assert!(message.ends_with(r#"each from "1M" to "1.6T" (`unknown` is "999K"), or "none""#), "{message}");
    let message = of("{ broadcast = 10 }");
    assert!(message.contains("(`broadcast` is 10)"), "{message}");
    let message = of(r#"{ brodcast = "10M" }"#);
    assert!(message.contains("(there is no `brodcast`; did you mean `broadcast`?)"), "{message}");
    assert!(of("{}").contains("such as { broadcast ="), "a storm limit without limits is accepted");
}

#[test]
fn contradictory_vlan_keys_of_a_port_are_refused() {
    assert_only("[defaults]\npvid = 10\nuntagged = [20]\n", (2, 8), &["VLAN 10", "no member"]);
    assert_only("[defaults]\ntagged = [10]\nuntagged = [1, 10]\n", (3, 12), &["both tagged and untagged"]);
    assert!(read(&format!("[defaults]\npvid = 10\ntagged = [10]\n{PORTS}")).is_ok());
    assert_eq!(warnings("[defaults]\ntagged = [10]\n"), [""; 0]);
}

#[test]
fn static_address_needs_existing_port() {
    let entry = |lines: &str| format!("{PORTS}[[fdb.static]]\n{lines}");
    assert!(read(&entry("mac = \"02:00:00:00:00:01\"\nport = \"a\"\n")).is_ok());
    assert!(only(&entry("mac = \"02:00:00:00:00:01\"\nport = \"c\"\n")).1.contains("no port \"c\""));
    assert!(only(&entry("mac = \"01:00:00:00:00:01\"\nport = \"a\"\n")).1.contains("one station"));
    assert!(
        only(&entry("mac = \"02:00:00:00:00:01\"\nport = \"a\"\nvlan = 7\n"))
            .1
            .contains("no member of VLAN 7")
    );
    assert_eq!(only(&entry("port = \"a\"\n")).1, "`mac` is missing in [[fdb.static]]");
    let twice = entry(
        "mac = \"02:00:00:00:00:01\"\nport = \"a\"\n[[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"b\"\n",
    );
    assert!(only(&twice).1.contains("given twice"));
}

#[test]
fn worker_lists_must_name_each_port_once() {
    let workers = |list: &str| format!("[switch]\nworkers = {list}\n");
    assert!(read(&format!("{}{PORTS}", workers("[{ core = 0, ports = [\"a\", \"b\"] }]"))).is_ok());
    assert_only(&workers("[{ ports = [\"a\"] }]"), (2, 11), &["port b has no worker"]);
    assert_only(
        &workers("[{ ports = [\"a\", \"b\"] }, { ports = [\"a\"] }]"),
        (2, 48),
        &["port a has two workers"],
    );
    assert_only(
        &workers("[{ ports = [\"a\", \"b\", \"bb\"] }]"),
        (2, 34),
        &["no port \"bb\"", "did you mean \"b\"?"],
    );
    assert_only(
        &workers("[{ cores = 1, ports = [\"a\", \"b\"] }]"),
        (2, 11),
        &["[{ cores = 1, ports = [\"a\", \"b\"] }]"],
    );
}

#[test]
fn key_when_full_set_to_stop_is_refused_with_two_workers() {
    let stop = |workers: &str| format!("[switch]\nwhen_full = \"stop\"\nworkers = {workers}\n");
    assert_only(&stop("2"), (3, 11), &["`when_full = \"stop\"` needs one worker"]);
    let config = read(&format!("{}{PORTS}", stop("\"auto\""))).unwrap();
    assert_eq!(config.workers(&Vec::from_iter(0..64)).len(), 1);
}

#[test] // proves: pipeline
fn note_names_classes_by_which_peer_can_halt_pipeline() {
    let notes = |text: &str| {
        let config = read(text).unwrap();
        let notes = config.notes.iter().map(|note| (note.position, note.message.clone()));
        notes.collect::<Vec<_>>()
    };
    let text = |keys: &str| format!("[switch]\n{keys}\n[defaults]\nlossless = [3, 4]\n{PORTS}");
    let [(place, message)] = &notes(&text("when_full = \"stop\""))[..] else { panic!("one note") };
    assert_eq!(*place, Some((2, 14)));
    assert!(message.ends_with("every port and class of the switch: a (3-4), b (3-4)"), "{message}");
    let watched = |action: &str, classes: &[u8]| {
        let class = |class: &u8| format!("[class.{class}]\nwatchdog = \"{action}\"\n");
        let classes: String = classes.iter().map(class).collect();
        notes(&format!("{classes}{}", text("when_full = \"stop\"")))
    };
    assert_eq!(watched("drop", &[3, 4]), []);
    assert_eq!(watched("forward", &[3, 4]), []);
    assert!(watched("drop", &[3])[0].1.ends_with(": a (4), b (4)"));
    assert!(
        watched("alert", &[3, 4])[0].1.ends_with(": a (3-4), b (3-4)"),
        "a watchdog that only alerts ends the halt"
    );
    assert_eq!(notes(&text("when_full = \"drop\"")), []);
}

#[test]
fn pipeline_rate_with_two_workers_is_refused() {
    let text = |keys: &str| format!("[pipeline]\n{keys}\n");
    let two = "[switch]\nworkers = 2\n";
    let rate = format!("{two}{}", text("rate = \"1Mpps\""));
    assert_only(&rate, (2, 11), &["`rate` in `[pipeline]` needs one worker"]);
    assert!(read(&format!("{two}{}{PORTS}", text("delay = \"25us\"\ningress = \"fifo\""))).is_ok());
    assert_only(&text("rate = \"fast\""), (2, 9), &["frames a second"]);
}

#[test]
fn error_for_removed_value_stop_class_lists_allowed_values() {
    let words = [
        "is \"stop-class\"",
        "\"stop\" (halts every port and class, needs workers = 1)",
        "or \"drop\"",
        "was removed",
    ];
    assert_only("[switch]\nwhen_full = \"stop-class\"\n", (2, 14), &words);
    assert_only("[switch]\nwhen_full = \"wait\"\n", (2, 14), &["one of \"drop\", \"stop\""]);
}

#[test]
fn shared_memory_with_two_workers_is_refused() {
    let shared = |workers: &str| format!("[memory]\nmodel = \"shared\"\n[switch]\nworkers = {workers}\n");
    assert_only(&shared("2"), (4, 11), &["needs one worker"]);
    assert_only(&shared("[{ ports = [\"a\"] }, { ports = [\"b\"] }]"), (4, 11), &["needs one worker"]);
    assert!(errors(&format!("{}{PORTS}", shared("1"))).is_empty());
}

#[test]
fn shared_memory_limit_below_one_frame_is_refused() {
    for key in ["pool", "ingress_limit", "egress_limit", "port_limit", "egress_port_limit"] {
        let text = |bytes| format!("[memory]\nmodel = \"shared\"\n{key} = {bytes}\n");
        assert_only(&text(1_525), (3, key.len() + 4), &[key, "1526 bytes"]);
        assert!(errors(&format!("{}{PORTS}", text(1_526))).is_empty());
    }
}

#[test]
fn shared_memory_keys_under_dedicated_memory_are_refused() {
    assert_only("[memory]\npool = \"1MB\"\n", (2, 9), &["`pool` is for shared memory"]);
    assert_only("[memory]\nheadroom = \"pool\"\n", (2, 13), &["`headroom` is for shared memory"]);
    assert!(read(&format!("[memory]\nmodel = \"shared\"\npool = \"1MB\"\n{PORTS}")).is_ok());
}

#[test]
fn error_for_too_long_stall_suggests_only_sufficient_changes() {
    for (smallest_frame, suffices) in [(256, true), (64, false)] {
        let (_, message, help) = only(&format!(
            "[memory]\nreceive_chunks = \"small\"\n[switch]\nstall_budget = \"170ms\"\nsmallest_frame = {smallest_frame}\n\
             [[port]]\nname = \"a\"\ndevice = \"x\"\nspeed = \"10G\"\n"
        ));
        assert!(message.contains("more than a ring can hold (1048576)") && help.contains("stall_budget"));
        assert_eq!(help.contains("receive_chunks = \"whole\""), suffices, "{help}");
    }
}

#[test]
fn problem_in_setting_for_all_ports_is_reported_once() {
    assert_eq!(errors(&format!("[class.3]\nxoff = 10\nxon = 20\n{PORTS}")).len(), 1);
}

#[test]
fn doubtful_settings_cause_warnings_not_errors() {
    for (text, words) in [
        ("[class.3]\nheadroom = 1000\n", "headroom of class 3"),
        ("[class.0]\nxoff = 1000\n", "`xoff` has no effect"),
        ("[class.3]\ningress_max = 5000\n", "`ingress_max` has no effect"),
        ("[class.3]\negress_max = 5000\n", "may be dropped at egress"),
        ("[class.3]\negress_max_frames = 200000\n", "may be dropped at egress"),
        ("[defaults]\npause = \"ignore\"\n", "sends no pause frames"),
        ("[switch]\nstall_budget = \"40ms\"\n", "can delay a refresh"),
        ("[defaults]\nrefresh = \"30ms\"\n", "can delay a refresh"),
        (
            "[switch]\npoll = \"busy\"\nworkers = [{ core = 1, ports = [\"a\"] }, { core = 1, ports = [\"b\"] }]\n",
            "two workers poll without sleep on core 1",
        ),
        (
            "[[port]]\nname = \"c\"\ndevice = \"x\"\nspeed = \"1G\"\ntagged = [5, \"7-9\", 4094]\n",
            "VLAN 5, 7-9, 4094 has",
        ),
        ("[switch]\naccounting = \"until-forwarded\"\n", "XOFF at ingress does not protect"),
        ("[class.3]\ningress_reserve = 1\n", "`ingress_reserve` has no effect"),
        ("[class.0]\negress_reserve = 1\n", "`egress_reserve` has no effect"),
        ("[class.3]\necn_max = 5000\n", "`ecn_max` has no effect on class 3 of port"),
        ("[class.3]\nwred = true\necn_min = 5000\n", "`wred` has no effect on class 3 of port"),
        ("[class.5]\nwatchdog = \"drop\"\n", "`watchdog` has no effect on class 5 of port"),
        ("[class.3]\nwatchdog_share = 95\n", "`watchdog_share` has no effect on class 3 of port"),
        (
            "[class.3]\nwatchdog = \"alert\"\nwatchdog_detect = \"33ms\"\n",
            "a single pause frame whose XON is lost pauses class 3 of port",
        ),
    ] {
        let found = warnings(text);
        assert!(
            !found.is_empty() && found.iter().all(|warning| warning.contains(words)),
            "{text}: {found:?}"
        );
    }
    assert_eq!(warnings(""), [""; 0]);
    assert_eq!(
        warnings("[switch]\nwhen_full = \"stop\"\n[class.3]\negress_max = 5000\n"),
        [""; 0],
        "they wait"
    );
    assert_eq!(warnings("[class.3]\nwatchdog = \"drop\"\nwatchdog_detect = \"34ms\"\n"), [""; 0]);
    assert_eq!(warnings("[switch]\nstall_budget = \"5ms\"\n[class.5]\nmax_rate = \"10M\"\n"), [""; 0]);
}

#[test]
fn class_lossless_at_only_one_port_causes_warning() {
    let text = PORTS.replacen("speed = \"1G\"", "speed = \"1G\"\nlossless = [3, 4]", 1);
    let found: Vec<String> =
        read(&text).unwrap().warnings.into_iter().map(|warning| warning.message).collect();
    assert!(
        found.iter().any(|warning| warning == "class 4 is lossless on some ports, but lossy on b"),
        "{found:?}"
    );
    let wred = "[port.class.4]\nwred = true\necn_min = 5000\n"; // of b, where the class is lossy
    let found = read(&format!("{text}{wred}")).unwrap().warnings;
    assert!(found.iter().any(|w| w.message.starts_with("`wred` has no effect on class 4 of port b")));
}

#[test]
fn error_names_missing_prerequisites_of_ofc() {
    let with = |before: &str, class: &str| format!("[switch]\npolicy = \"ofc\"\n{before}{PORTS}{class}");
    let message = |text: String| {
        let (place, message, _) = only(&text);
        (place, message)
    };
    let voq = message(with("", "[port.class.3]\nqueue = \"voq\"\n"));
    assert_eq!(voq.0, (2, 11));
    assert!(voq.1.contains("needs `queue = \"fifo\"` in class 3 of port b"), "{}", voq.1);
    let forwarded = message(with("accounting = \"until-forwarded\"\n", ""));
    assert!(forwarded.1.contains("until-transmitted"), "{}", forwarded.1);
    assert!(message(with("workers = 2\n", "")).1.contains("needs one worker"));
    let thresholds = "[class.3]\nxoff = 20000\nxon = 10000\n[policy.ofc]\nalpha = ";
    assert!(errors(&with(&format!("{thresholds}0.51\n"), "")).is_empty());
    let found = errors(&with(&format!("{thresholds}0.5\n"), ""));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].position, Some((7, 9)));
    let ignored = with("", "").replacen("speed", "pause = \"ignore\"\nofc_peer = true\nspeed", 1);
    assert!(message(ignored).1.contains("`ofc_peer` of port a needs PFC"));
}

#[test]
fn invalid_toml_is_one_error_with_position() {
    let (place, message, _) = only("[switch]\nname = xoff\n");
    assert_eq!(place, (2, 8));
    assert!(message.starts_with("not TOML: "), "{message}");
}

#[test]
fn missing_file_is_named_in_the_error() {
    let error = Config::load("/nowhere/x.toml".as_ref(), Machine::default()).unwrap_err();
    assert!(error.to_string().starts_with("cannot read the configuration /nowhere/x.toml: "));
}

#[test]
fn error_report_shows_line_and_help() {
    let error = read(&format!("[switch]\npoll = \"bussy\"\nlogg = \"info\"\n{PORTS}")).unwrap_err();
    let mut text = String::new();
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::none());
    handler.render_report(&mut text, &error).unwrap();
    for part in [
        "test.toml: 2 errors in the configuration, nothing was started",
        "[test.toml:2:9]",
        "poll = \"bussy\"",
        "[test.toml:3:1]",
        "did you mean `log`?",
    ] {
        assert!(text.contains(part), "the report lacks {part:?}:\n{text}");
    }
}

#[test]
fn invalid_qcn_keys_are_refused() {
    assert!(read(&format!("[qcn]\ningress = [3]\negress = [4]\nset_point = \"20KB\"\n{PORTS}")).is_ok());
    assert_only("[qcn]\ningress = [3]\negress = [2, 3]\n", (3, 10), &["class 3", "ingress and at egress"]);
    assert_only(
        "[switch]\naccounting = \"until-forwarded\"\n[qcn]\ningress = [3]\n",
        (4, 11),
        &["until-transmitted"],
    );
    assert_only("[switch]\nworkers = 2\n[qcn]\negress = [3]\n", (2, 11), &["`[qcn]` needs one worker"]);
    assert_only("[qcn]\nset_point = 0\n", (2, 13), &["`set_point` is 0 bytes"]);
    assert_only("[qcn]\nculprit = \"arivals\"\n", (2, 12), &["did you mean \"arrival\""]);
}

#[test] // proves: configuration
fn size_error_names_units_and_maximum() {
    let most = 1_u64 << 50;
    assert!(read(&format!("[qcn]\nsample_every = {most}\n{PORTS}")).is_ok());
    assert!(read(&format!("[qcn]\nsample_every = \"1048576GiB\"\n{PORTS}")).is_ok());
    for (size, column) in
        [((most + 1).to_string(), 16), (i64::MAX.to_string(), 16), ("\"1TB\"".to_owned(), 17)]
    {
        let text = format!("[qcn]\nsample_every = {size}\n");
        let allowed = "a size up to \"1048576GiB\" in B, KB, kB, MB, GB, KiB, MiB or GiB";
        assert_only(&text, (2, column), &[allowed]);
    }
}

#[test]
fn error_for_commit_beyond_ring_size_names_largest_commit() {
    let file =
        |commit: &str| format!("[[port]]\nname = \"a\"\ndevice = \"x\"\nspeed = \"1G\"\ncommit = {commit}\n");
    let (place, message, help) = only(&file("\"10GB\""));
    assert_eq!(place, (5, 11), "{message}");
    assert!(message.contains("36231949 transmit chunks for its `commit`"), "{message}");
    let most = help.strip_prefix("write commit = ").and_then(|rest| rest.strip_suffix(" or less"));
    let most: u64 = most.unwrap().parse().unwrap();
    assert_eq!(most, (1_048_576 - 64) * 276);
    assert!(read(&file(&most.to_string())).is_ok());
    assert!(only(&file(&(most + 1).to_string())).1.contains("`commit`"));
}

#[test]
fn error_for_burst_beyond_ring_size_names_largest_burst() {
    let file =
        |burst: &str| format!("[[port]]\nname = \"a\"\ndevice = \"x\"\nspeed = \"1G\"\nburst = {burst}\n");
    let (place, message, help) = only(&file("\"10GB\""));
    assert_eq!(place, (5, 10), "{message}");
    assert!(message.contains("for a stall of 25ms and its `burst`"), "{message}");
    let most = help.strip_prefix("write burst = ").and_then(|rest| rest.strip_suffix(" or less"));
    let most: u64 = most.unwrap().parse().unwrap();
    assert_eq!(most, (1_048_576 - 31) * 276 - 3_150_000);
    assert!(read(&file(&most.to_string())).is_ok());
    assert!(only(&file(&(most + 1).to_string())).1.contains("`burst`"));
}

#[test]
fn error_for_too_long_stall_points_at_key_stall_budget() {
    let (place, message, _) = only_with_ports(
        "[switch]\nstall_budget = \"10s\"\nsmallest_frame = 64\n[defaults]\nlossless = []\nspeed = \"1G\"\n",
    );
    assert_eq!(place, (2, 17), "{message}");
    assert!(message.contains("more than a ring can hold"), "{message}");
}

#[test]
fn qcn_seed_below_0_is_refused() {
    assert!(read(&format!("[qcn]\nseed = 9223372036854775807\n{PORTS}")).is_ok());
    assert_only("[qcn]\nseed = -1\n", (2, 8), &["`seed` is -1", "from 0 to 9223372036854775807"]);
}

#[test] // proves: configuration
fn error_report_makes_control_characters_visible() {
    let text = "[switch]\n\"\\u001b[31m\" = 1\nname = \"\u{1b}]0;owned\u{7}\" # \u{9b}2J\n";
    for text in [text, &format!("[switch]\n\"\\u001b[31m\" = 1\n{PORTS}")] {
        let error = read(text).unwrap_err();
        let mut report = String::new();
        let handler = GraphicalReportHandler::new_themed(GraphicalTheme::none());
        handler.render_report(&mut report, &error).unwrap();
        let obeyed: Vec<char> = report.chars().filter(|&c| c.is_control() && c != '\n').collect();
        assert_eq!(obeyed, [], "{report}");
        assert!(report.contains('␛'), "{report}");
    }
    // A sign that replaces a control character has more bytes, but labels of an error must still point at the right places.
    let error = read("[switch]\nname = \"\u{1b}\u{1b}\u{1b}\u{1b}\"\n").unwrap_err();
    let mut report = String::new();
    GraphicalReportHandler::new_themed(GraphicalTheme::none()).render_report(&mut report, &error).unwrap();
    assert!(report.contains("␛␛␛␛"), "{report}");
}
