// Tests for SPECIFICATION.md: configuration

#[path = "../../fuzz/src/cnm.rs"]
mod cnm;
#[path = "../../fuzz/src/gfc.rs"]
mod gfc;
#[path = "../../fuzz/src/header.rs"]
mod header;
#[path = "../../fuzz/src/lacp.rs"]
mod lacp;
#[path = "../../fuzz/src/lldp.rs"]
mod lldp;
#[path = "../../fuzz/src/mac_control.rs"]
mod mac_control;
#[path = "../../fuzz/src/multicast.rs"]
mod multicast;
#[path = "../../fuzz/src/ofc.rs"]
mod ofc;
#[path = "../../fuzz/src/switch/mod.rs"]
mod switch;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn run(target: &str, mut body: impl FnMut(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let seeds = fs::read_dir(&folder).expect("the corpus is missing");
    let mut count = 0;
    for seed in seeds {
        let path = seed.expect("the corpus cannot be listed").path();
        println!("{}", path.display());
        body(&fs::read(path).expect("a seed cannot be read"));
        count += 1;
    }
    assert!(count > 0, "the folder {} has no seed", folder.display());
}

#[test]
fn fuzz_corpus_of_frame_headers_passes_parser_checks() {
    run("header", header::check);
}

#[test]
fn fuzz_corpus_of_mac_control_frames_passes_parser_checks() {
    run("mac_control", mac_control::check);
}

#[test]
fn fuzz_corpus_of_cnms_passes_parser_checks() {
    run("cnm", cnm::check);
}

#[test] // proves: lldp
fn fuzz_corpus_of_lldp_frames_passes_parser_checks() {
    run("lldp", lldp::check);
}

#[test] // proves: lacp
fn fuzz_corpus_of_lacp_frames_passes_parser_checks() {
    run("lacp", lacp::check);
}

#[test]
fn fuzz_corpus_of_multicast_frames_passes_parser_checks() {
    run("multicast", multicast::check);
}

#[test] // proves: ofc-flows
fn fuzz_corpus_of_flow_lists_passes_parser_checks() {
    run("ofc", ofc::check);
}

#[test] // proves: gfc
fn fuzz_corpus_of_class_rates_passes_parser_checks() {
    run("gfc", gfc::check);
}

#[test]
fn fuzz_corpus_of_switch_scripts_reaches_every_outcome() {
    let mut reached: BTreeMap<&str, u64> = BTreeMap::new();
    run("switch", |bytes| {
        for (what, count) in switch::check(bytes) {
            *reached.entry(what).or_default() += count;
        }
    });
    let missing: Vec<_> = reached.iter().filter(|(_, count)| **count == 0).collect();
    assert!(missing.is_empty(), "the corpus never reaches {missing:?}");
}
