#![allow(clippy::unwrap_used)]

#[path = "../../fuzz/src/config.rs"]
mod config;

use proptest::prelude::*;
use xoff_explore::explore;

const EXAMPLES: [&str; 4] = [
    include_str!("../examples/minimal.toml"),
    include_str!("../examples/roce-leaf.toml"),
    include_str!("../examples/two-nics.toml"),
    include_str!("../examples/two-switches-1.toml"),
];

const KEYS: [&str; 24] = [
    "name",
    "device",
    "speed",
    "mtu",
    "lossless",
    "pause_time",
    "refresh",
    "cable",
    "burst",
    "commit",
    "pcp_map",
    "tagged",
    "pvid",
    "stall_budget",
    "smallest_frame",
    "workers",
    "http",
    "xoff",
    "xon",
    "headroom",
    "egress_max",
    "max_rate",
    "weight",
    "pool",
];

const VALUES: [&str; 24] = [
    "0",
    "1",
    "-1",
    "64",
    "9216",
    "65535",
    "4294967295",
    "9223372036854775807",
    "1.5",
    "nan",
    "true",
    "\"\"",
    "\"a\"",
    "\"1G\"",
    "\"1.6T\"",
    "\"1M\"",
    "\"10s\"",
    "\"1PB\"",
    "\"1048576GiB\"",
    "[]",
    "[3]",
    "[[1]]",
    "{}",
    "{ 3-5 = 3 }",
];

const TABLES: [&str; 9] = [
    "[switch]",
    "[defaults]",
    "[memory]",
    "[fdb]",
    "[[fdb.static]]",
    "[[port]]",
    "[port.class.3]",
    "[class.3]",
    "[class.9]",
];

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        1 => prop::sample::select(&TABLES[..]).prop_map(str::to_owned),
        4 => (prop::sample::select(&KEYS[..]), prop::sample::select(&VALUES[..])).prop_map(|(key, value)| format!("{key} = {value}")),
    ]
}

explore! {
    #[test] // proves: configuration
    fn configuration_parser_does_not_panic_on_arbitrary_text(text in "\\PC{0,200}") {
        config::check(text.as_bytes());
    }

    #[test]
    fn configuration_parser_does_not_panic_on_random_lines(lines in prop::collection::vec(line(), 0..30)) {
        config::check(lines.join("\n").as_bytes());
    }

    #[test]
    fn configuration_parser_does_not_panic_on_random_values(
        key in prop::sample::select(&KEYS[..]),
        value in prop::sample::select(&VALUES[..]),
        class in any::<bool>(),
    ) {
        let (port, of_class) = ("[[port]]\nname = \"p\"\ndevice = \"d\"\nspeed = \"1G\"\n", "[port.class.3]\n");
        config::check(format!("{port}{}{key} = {value}\n", if class { of_class } else { "" }).as_bytes());
    }

    #[test]
    fn configuration_parser_does_not_panic_on_garbled_example(
        which in 0..EXAMPLES.len(),
        at in any::<prop::sample::Index>(),
        patch in "\\PC{0,5}",
        rest in any::<bool>(),
    ) {
        let text = EXAMPLES[which];
        let at = (0..=at.index(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap();
        config::check(format!("{}{patch}{}", &text[..at], if rest { &text[at..] } else { "" }).as_bytes());
    }
}

#[test]
fn configuration_parser_does_not_panic_on_fuzz_seeds() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/config");
    let seeds: Vec<_> = std::fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(seeds.len() >= 4);
    for seed in seeds {
        config::check(&std::fs::read(seed).unwrap());
    }
}
