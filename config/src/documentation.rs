//! docs/configuration.md has every key of a switch, docs/hosts.md every key of a host's agent, in the section of its
//! table, with its default.

#![allow(clippy::unwrap_used)]

use xoff_dataplane::congestion::ReactionSettings;
use xoff_dataplane::units::{BitRate, Class};

use crate::keys::{
    CaPfcKeys, ClassKeys, FdbKeys, GPfcKeys, GfcKeys, GroupKeys, MemoryKeys, OfcKeys, PPfcKeys, PipelineKeys,
    PortIdentityKeys, PortKeys, PuntKeys, QcnKeys, RouterKeys, StaticKeys, SwitchKeys, VlanKeys,
};
use crate::nic::{NicKeys, ReactionKeys};
use crate::{defaults, quantity};

const DOCUMENT: &str =
    concat!(include_str!("../../docs/configuration.md"), include_str!("../../docs/hosts.md"));

/// What the documentation calls a table, the name that [`defaults::stated`] has for it, and its keys.
fn tables() -> Vec<(&'static str, &'static str, Vec<&'static str>)> {
    let port = [PortIdentityKeys::KEYS, PortKeys::KEYS].concat();
    vec![
        ("\n## `[switch]`", "switch", SwitchKeys::KEYS.to_vec()),
        ("\n## `[[port]]`", "port", port),
        ("\n## `[class.N]`", "class", ClassKeys::KEYS.to_vec()),
        ("\n## `[policy.capfc]`", "capfc", CaPfcKeys::KEYS.to_vec()),
        ("\n## `[policy.ofc]`", "ofc", OfcKeys::KEYS.to_vec()),
        ("\n## `[qcn]`", "qcn", QcnKeys::KEYS.to_vec()),
        ("\n## `[policy.p-pfc]`", "p-pfc", PPfcKeys::KEYS.to_vec()),
        ("\n## `[policy.gfc]`", "gfc", GfcKeys::KEYS.to_vec()),
        ("\n## `[policy.g-pfc]`", "g-pfc", GPfcKeys::KEYS.to_vec()),
        ("\n## `[pipeline]`", "pipeline", PipelineKeys::KEYS.to_vec()),
        ("\n## `[memory]`", "memory", MemoryKeys::KEYS.to_vec()),
        ("\n## `[fdb]`", "fdb", FdbKeys::KEYS.to_vec()),
        ("\n`[[fdb.static]]`", "static", StaticKeys::KEYS.to_vec()),
        ("\n## `[[group]]`", "group", GroupKeys::KEYS.to_vec()),
        ("\n## `[router]`", "router", RouterKeys::KEYS.to_vec()),
        ("\n`[punt]`", "punt", PuntKeys::KEYS.to_vec()),
        ("\n`[[vlan]]`", "vlan", VlanKeys::KEYS.to_vec()),
        ("\n## `[nic]`", "nic", NicKeys::KEYS.to_vec()),
        ("\n### `[qcn]` of a host", "reaction", ReactionKeys::KEYS.to_vec()),
    ]
}

/// The same of a host's agent.
fn stated_of_hosts() -> Vec<(&'static str, &'static str, String)> {
    let standard = ReactionSettings::STANDARD;
    let classes: Vec<u8> = defaults::LOSSLESS.iter().map(Class::get).collect();
    vec![
        ("nic", "lossless", format!("{classes:?}")),
        ("nic", "trust", "\"dscp\"".into()),
        ("nic", "default_class", defaults::DEFAULT_CLASS.to_string()),
        ("nic", "pcp_map", "PCP".into()),
        ("nic", "dscp_map", "DSCP / 8".into()),
        ("nic", "obey_rates", "false".into()),
        ("nic", "pause_above", "\"off\"".into()),
        ("nic", "pause_time", defaults::PAUSE_TIME.0.to_string()),
        ("nic", "peer_response", "\"auto\"".into()),
        ("nic", "real_time", "true".into()),
        ("nic", "http", format!("\"{}\"", defaults::NIC_HTTP)),
        ("nic", "http_hosts", "[]".into()),
        ("nic", "log", format!("{:?}", defaults::LOG)),
        ("nic", "log_format", "\"text\"".into()),
        ("reaction", "gd", standard.decrease_divisor.to_string()),
        ("reaction", "recovery", standard.recovery_cycles.to_string()),
        ("reaction", "bytes", format!("\"{}\"", quantity::bytes(standard.cycle_bytes))),
        ("reaction", "time", format!("\"{}\"", quantity::time(standard.cycle_time))),
        ("reaction", "ai", rate(standard.active_step)),
        ("reaction", "hai", rate(standard.hyper_step)),
        ("reaction", "min", rate(standard.rate_min)),
        ("reaction", "jitter", standard.jitter_percent.to_string()),
        ("reaction", "seed", standard.seed.to_string()),
    ]
}

fn rate(rate: BitRate) -> String {
    format!("\"{}\"", quantity::rate(rate))
}

/// The rows of a section: key and default.
fn rows(heading: &str) -> Vec<(&'static str, &'static str)> {
    let (_, section) = DOCUMENT.split_once(heading).unwrap_or_else(|| panic!("no section {heading}"));
    let lines = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 4, "{line}");
        (cells[0].trim_matches('`'), cells[2])
    };
    lines.take_while(|line| line.starts_with('|')).map(row).collect()
}

#[test]
fn every_key_is_documented_and_nothing_else() {
    for (heading, _, keys) in tables() {
        let mut documented: Vec<&str> = rows(heading).into_iter().map(|(key, _)| key).collect();
        let mut keys = keys;
        documented.sort_unstable();
        keys.sort_unstable();
        assert_eq!(documented, keys, "{heading}");
    }
}

#[test]
fn every_default_is_documented() {
    let stated = [defaults::stated(), stated_of_hosts()].concat();
    for (heading, table, _) in tables() {
        for (key, documented) in rows(heading) {
            let default = stated.iter().find(|(of, name, _)| (*of, *name) == (table, key));
            match default {
                Some((_, _, text)) => assert!(
                    documented.contains(text.as_str()),
                    "{table}.{key}: {text} is not in {documented}"
                ),
                None => assert!(
                    ["required", "half", "`pool`", "the switch's"]
                        .iter()
                        .any(|word| documented.starts_with(word)),
                    "{table}.{key}"
                ),
            }
        }
    }
    for (table, key, _) in stated {
        assert!(
            tables().iter().any(|(_, of, keys)| *of == table && keys.contains(&key)),
            "{table}.{key} is no key"
        );
    }
}

#[test]
fn every_headroom_term_is_documented() {
    for (term, _) in xoff_dataplane::headroom::Headroom::default().terms() {
        assert!(DOCUMENT.contains(&format!("| {term} |")), "{term}");
    }
}

/// A file that states every default says the same as one that states none.
#[test]
fn stated_defaults_are_the_defaults() {
    let ports = "[[port]]\nname = \"a\"\ndevice = \"x\"\nspeed = \"1G\"\n[[port]]\nname = \"b\"\ndevice = \"y\"\nspeed = \"1G\"\n";
    let mut spelled_out = String::new();
    for (table, heading) in [
        ("switch", "switch"),
        ("pipeline", "pipeline"),
        ("fdb", "fdb"),
        ("port", "defaults"),
        ("class", "class.5"),
    ] {
        spelled_out += &format!("[{heading}]\n");
        for (_, key, text) in defaults::stated().iter().filter(|(of, _, _)| *of == table) {
            let line = format!("{key} = {text}\n");
            if toml_span::parse(&line).is_ok() {
                spelled_out += &line;
            }
        }
    }
    assert!(spelled_out.lines().count() > 35, "{spelled_out}");
    let read = |text: &str| crate::Config::from_toml("test", text, crate::Machine::default()).unwrap();
    let (silent, explicit) = (read(ports), read(&format!("{spelled_out}{ports}")));
    assert_eq!(explicit.switch, silent.switch);
    assert_eq!(explicit.shell, silent.shell);
}
