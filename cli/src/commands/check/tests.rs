//! Tests that the JSON of `xoff check` contains every key that docs/configuration.md documents.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use serde_json::Value;
use xoff_config::{Config, Machine};

use super::view::view;

const DOCUMENT: &str = include_str!("../../../../docs/configuration.md");

/// Documented tables of keys: heading, TOML text before the keys, and the keys with values
/// other than their defaults.
const KEYS: &[(&str, &str, &str)] = &[
    (
        "[switch]",
        "[switch]",
        r#"name = "leaf"
        profile = "roce"
        stall_budget = "5ms"
        smallest_frame = 512
        poll = "busy"
        idle_after = "50us"
        workers = 2
        zero_copy = "off"
        policy = "g-pfc"
        shadow = ["gfc"]
        http = false
        http_netns = "red"
        http_hosts = ["leaf1.example"]
        user = "nobody"
        log = "warn"
        log_format = "json"
        spare_ports = 2
        sighup = "reload"
        hash = ["inner"]"#,
    ),
    ("[switch]", "[switch]\nworkers = 1", "accounting = \"until-forwarded\"\nwhen_full = \"stop\""),
    (
        "[[port]]",
        "[defaults]",
        r#"mtu = 9000
        queues = [0, 1]
        mode = "generic"
        lossless = []
        pause = "asymmetric"
        lldp = false
        dcbx = "off"
        ofc_peer = true
        gfc_peer = "auto"
        pause_time = 60000
        refresh = "1ms"
        peer_response = "standard"
        cable = "1km"
        burst = "1MB"
        commit = "1MB"
        max_rate = "100M"
        trust = "port"
        default_class = 1
        pcp_map = { 1 = 2 }
        dscp_map = { 1 = 2 }
        rewrite_pcp = "class"
        rewrite_dscp = "class"
        pvid = 2
        tagged = [10]
        untagged = [1, 20]
        learning = false
        learn_limit = 5
        storm_limit = { broadcast = "10M" }
        loop_detection = "block"
        flood_unknown = false
        flood_group = false
        isolated = true
        routed = true"#,
    ),
    (
        "[class.N]",
        "[class.3]",
        r#"xoff = "900KB"
        xon = "60KB"
        headroom = "9MB"
        xoff_frames = 77
        egress_max = "90MB"
        egress_max_frames = 77
        egress_warn = "30KB"
        egress_xoff = "90KB"
        egress_xon = "30KB"
        queue = "voq"
        weight = 5
        max_rate = "100M"
        ecn_min = "auto"
        watchdog = "drop""#,
    ),
    ("[class.N]", "[class.1]", "ingress_max = \"200KB\""),
    (
        "[class.N]",
        "[memory]\nmodel = \"shared\"\n[class.3]",
        "ingress_reserve = \"8KB\"\negress_reserve = \"8KB\"",
    ),
    ("[class.N]", "[class.3]\necn_min = \"10KB\"", "ecn_max = \"99KB\"\necn_probability = 0.5"),
    ("[class.N]", "[class.1]\necn_min = \"10KB\"", "wred = true"),
    (
        "[class.N]",
        "[class.3]\nwatchdog = \"drop\"",
        "watchdog_detect = \"1s\"\nwatchdog_restore = \"1s\"\nwatchdog_share = 95",
    ),
    ("[policy.capfc]", "[policy.capfc]", "cut = 0.5\ncount = \"bytes\"\nscale = \"speed\""),
    ("[policy.ofc]", "[policy.ofc]", "alpha = 0.8\nflows = 99\ncongested_flows = 99\npaused_flows = 99"),
    ("[policy.p-pfc]", "[policy.p-pfc]", "prediction = \"99us\""),
    ("[policy.gfc]", "[policy.gfc]", "first = 0.25\nsteps = 3"),
    ("[policy.g-pfc]", "[policy.g-pfc]", "pause_lower = 0.75\nresume_lower = 0.1"),
    ("[qcn]", "[qcn]", "ingress = [1]\negress = [1]"),
    (
        "[qcn]",
        "[qcn]\negress = [1]",
        "set_point = \"50KB\"\nweight = 3\nsample_every = \"99KB\"\njitter = 5\nframes_per_cnm = 9\nseed = 5\n\
         culprit = \"occupancy-random\"",
    ),
    ("[qcn]", "[qcn]\negress = [1]\nculprit = \"occupancy-deterministic\"", "flows = 99"),
    (
        "[pipeline]",
        "[switch]\nworkers = 1\n[pipeline]",
        "rate = \"1Mpps\"\ndelay = \"1ms\"\ningress = \"fifo\"",
    ),
    (
        "[memory]",
        "[memory]",
        "model = \"shared\"\nbudget = \"10GiB\"\nreceive_chunks = \"small\"\nlossy_pool = \"4MiB\"",
    ),
    (
        "[memory]",
        "[memory]\nmodel = \"shared\"",
        "pool = \"9MB\"\ningress_limit = \"1MB\"\negress_limit = \"1MB\"\nport_limit = \"1MB\"\negress_port_limit = \"1MB\"\n\
         egress_limits = \"all\"\nalpha_log2 = \"none\"",
    ),
    ("[memory]", "[class.3]\ningress_reserve = \"8KB\"\n[memory]\nmodel = \"shared\"", "headroom = \"pool\""),
    ("[fdb]", "[fdb]", "capacity = 99\nageing = \"never\""),
    (
        "[[fdb.static]]",
        "[defaults]\ntagged = [2]\n[[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"a\"",
        "vlan = 2",
    ),
    (
        "[[group]]",
        "[[group]]\nname = \"g\"\nports = [\"a\", \"b\"]",
        "spread = \"frame\"\nuplinks = true\nlacp = \"passive\"",
    ),
    (
        "[[group]]",
        "[[group]]\nname = \"g\"\nports = [\"a\", \"b\"]\nlacp = \"active\"",
        "lacp_timeout = \"short\"",
    ),
    (
        "[[group]]",
        "[[group]]\nname = \"g\"\nports = [\"a\", \"b\"]\nspread = \"frame\"",
        "turns = \"random\"",
    ),
    (
        "[[group]]",
        "[[group]]\nname = \"g\"\nports = [\"a\", \"b\"]\nspread = \"adaptive\"",
        "low = \"1KB\"\nhigh = \"64KB\"",
    ),
    ("[router]", "[defaults]\nrouted = true\n[router]", "netns = \"red\"\nspread = \"frame\""),
    (
        "[router]",
        "[defaults]\nrouted = true\n[router]\nspread = \"adaptive\"",
        "low = \"1KB\"\nhigh = \"64KB\"",
    ),
    ("[punt]", "[punt]", "rate = 9\nburst = 9"),
    ("[multicast]", "[multicast]", "snooping = true\nunknown = \"routers\"\nquerier = true\ngroups = 9"),
    ("[[port]]", "[defaults]", "fast_leave = true\nmulticast_router = true"),
    ("[[vlan]]", "[[vlan]]\nvid = 1", "router = true\nsnooping = true"),
    ("[[vlan]]", "[[vlan]]\nvid = 1\nrouter = true", "name = \"core\""),
];

fn view_of(settings: &str) -> Value {
    let port = |name: &str| format!("[[port]]\nname = \"{name}\"\ndevice = \"{name}0\"\nspeed = \"2G\"\n");
    let text = format!("{settings}\n{}", ["a", "b", "c"].map(port).concat());
    let machine = Machine::default();
    let config = Config::from_toml("test", &text, machine.clone())
        .unwrap_or_else(|error| panic!("{settings}: {:?}", error.problems()));
    let mut view = view("test", &config, &machine);
    view["warnings"] = Value::Null;
    view["notes"] = Value::Null;
    view
}

fn documented() -> BTreeSet<(&'static str, &'static str)> {
    let mut heading = "";
    let mut keys = BTreeSet::new();
    for line in DOCUMENT.lines() {
        let named = line.trim_start_matches("## ").strip_prefix('`').filter(|text| text.starts_with('['));
        if let Some((name, _)) = named.and_then(|text| text.split_once('`')) {
            heading = name;
        }
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if let [key, _, default, _] = cells[..]
            && let Some(key) = key.strip_prefix('`').and_then(|key| key.strip_suffix('`'))
            && !default.starts_with("required")
        {
            keys.insert((heading, key));
        }
    }
    keys
}

#[test] // proves: check
fn every_documented_key_changes_json_of_xoff_check() {
    let mut shown = BTreeSet::new();
    for &(heading, before, lines) in KEYS {
        let without = view_of(before);
        for line in lines.lines().map(str::trim) {
            let (key, _) = line.split_once(" = ").unwrap();
            assert_ne!(
                view_of(&format!("{before}\n{line}\n")),
                without,
                "{heading} {line} does not change the JSON"
            );
            shown.insert((heading, key));
        }
    }
    assert_eq!(documented(), shown);
}
