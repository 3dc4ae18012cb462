#![allow(clippy::unwrap_used)]

use crate::keys::{
    CaPfcKeys, ClassKeys, FdbKeys, GPfcKeys, GfcKeys, GroupKeys, MemoryKeys, MulticastKeys, OfcKeys,
    PPfcKeys, PipelineKeys, PortIdentityKeys, PortKeys, PuntKeys, QcnKeys, RouterKeys, StaticKeys,
    SwitchKeys, VlanKeys,
};
use crate::{Config, Machine, defaults, quantity};

const DOCUMENT: &str = include_str!("../../docs/configuration.md");

const PORTS: &str = r#"
[[port]]
name = "a"
device = "a0"
speed = "1G"
[[port]]
name = "b"
device = "b0"
speed = "1G"
[[port]]
name = "c"
device = "c0"
speed = "1G"
"#;

type Documented = (&'static str, &'static str, &'static [&'static str]);

const TABLES: [Documented; 18] = [
    ("\n## `[switch]`", "[switch]\n", SwitchKeys::KEYS),
    ("\n## `[[port]]`", "[defaults]\n", PortKeys::KEYS),
    ("\n## `[class.N]`", "[class.5]\n", ClassKeys::KEYS),
    ("\n## `[policy.capfc]`", "[policy.capfc]\n", CaPfcKeys::KEYS),
    ("\n## `[policy.ofc]`", "[policy.ofc]\n", OfcKeys::KEYS),
    ("\n## `[qcn]`", "[qcn]\n", QcnKeys::KEYS),
    ("\n## `[policy.p-pfc]`", "[policy.p-pfc]\n", PPfcKeys::KEYS),
    ("\n## `[policy.gfc]`", "[policy.gfc]\n", GfcKeys::KEYS),
    ("\n## `[policy.g-pfc]`", "[policy.g-pfc]\n", GPfcKeys::KEYS),
    ("\n## `[pipeline]`", "[pipeline]\n", PipelineKeys::KEYS),
    ("\n## `[memory]`", "[memory]\n", MemoryKeys::KEYS),
    ("\n## `[fdb]`", "[fdb]\n", FdbKeys::KEYS),
    ("\n`[[fdb.static]]`", "[[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"a\"\n", StaticKeys::KEYS),
    ("\n## `[multicast]`", "[multicast]\n", MulticastKeys::KEYS),
    ("\n## `[[group]]`", "[[group]]\nname = \"g\"\nports = [\"b\", \"c\"]\n", GroupKeys::KEYS),
    ("\n## `[router]`", "[router]\n", RouterKeys::KEYS),
    ("\n`[punt]`", "[punt]\n", PuntKeys::KEYS),
    ("\n`[[vlan]]`", "[[vlan]]\nvid = 1\n", VlanKeys::KEYS),
];

fn rows(heading: &str) -> Vec<(&'static str, &'static str)> {
    let (_, section) = DOCUMENT
        .split_once(heading)
        .unwrap_or_else(|| panic!("docs/configuration.md must have section {heading}"));
    let lines = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 4, "{line}");
        (cells[0].trim_matches('`'), cells[2])
    };
    lines.take_while(|line| line.starts_with('|')).map(row).collect()
}

#[test] // proves: configuration
fn documentation_lists_exactly_the_keys_of_the_parser() {
    for (heading, _, keys) in TABLES {
        let mut documented: Vec<&str> = rows(heading).into_iter().map(|(key, _)| key).collect();
        let mut keys = keys.to_vec();
        if heading.contains("port") {
            keys.extend(PortIdentityKeys::KEYS);
        }
        documented.sort_unstable();
        keys.sort_unstable();
        assert_eq!(documented, keys, "{heading}");
    }
}

fn values(heading: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let value = |(key, default): (&'static str, &'static str)| {
        let value = default.strip_prefix('`')?.strip_suffix('`')?;
        toml_span::parse(&format!("{key} = {value}")).is_ok().then_some((key, value))
    };
    rows(heading).into_iter().filter_map(value)
}

#[test] // proves: configuration
fn documented_default_of_each_key_equals_parser_default() {
    let read = |text: &str| {
        let config = Config::from_toml("test", &format!("{text}{PORTS}"), Machine::default()).unwrap();
        (config.switch, config.shell)
    };
    let mut count = 0;
    for (heading, head, _) in TABLES {
        for (key, value) in values(heading) {
            let needed = match key {
                "turns" => "spread = \"frame\"",
                "low" | "high" => "spread = \"adaptive\"",
                "lacp_timeout" => "lacp = \"active\"",
                "egress_limits" | "headroom" | "alpha_log2" => "model = \"shared\"",
                _ => "",
            };
            let silent = format!("{head}{needed}\n");
            assert_eq!(read(&format!("{silent}{key} = {value}\n")), read(&silent), "{head}{key}");
            count += 1;
        }
    }
    assert!(count > 85, "{count}");
}

#[test] // proves: configuration
fn documentation_quotes_constants_of_computed_defaults() {
    let (bytes, time) = (quantity::bytes, quantity::time);
    let range = |least, most| format!("{} to {}", bytes(least), bytes(most));
    let defaults = [
        ("stall_budget", format!("`\"{}\"`, or", time(defaults::STALL_MAX))),
        ("burst", format!("a fifth of `stall_budget`, {} at least", time(defaults::TURN))),
        ("commit", time(defaults::COMMIT_TIME)),
        ("xon", format!("{} to {}, and the cable", time(defaults::TURN), time(defaults::GAP_MAX))),
        ("ingress_max", range(defaults::LOSSY_INGRESS_LEAST, defaults::LOSSY_INGRESS_MOST)),
        ("egress_max", range(defaults::LOSSY_EGRESS_LEAST, defaults::LOSSY_EGRESS_MOST)),
        ("egress_max_frames", format!("`egress_max` / {}", defaults::LOSSY_FRAME)),
        ("egress_xoff", format!("{} + `commit`", bytes(defaults::EGRESS_XOFF))),
        ("egress_xon", format!("{} + `commit`", bytes(defaults::EGRESS_XON))),
    ];
    for (key, text) in defaults {
        let documented =
            TABLES[..3].iter().flat_map(|(heading, ..)| rows(heading)).find(|(of, _)| *of == key);
        assert!(
            documented.is_some_and(|(_, default)| default.contains(&text)),
            "{key}: {text}: {documented:?}"
        );
    }
}

#[test]
fn documentation_names_every_headroom_term() {
    for (term, _) in xoff_flow_control::headroom::Headroom::default().terms() {
        assert!(DOCUMENT.contains(&format!("| {term} |")), "{term}");
    }
}
