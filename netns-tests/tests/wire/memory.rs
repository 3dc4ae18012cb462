// Tests for SPECIFICATION.md: memory

use std::process::Command;

use serde_json::Value;
use xoff_netns_tests::{Bed, Config};

use crate::bed;

/// Bytes of a release build's code, which `xoff check` counts in its process memory; the real size depends on the
/// build.
const CODE: u64 = 15 << 20;

fn printed_bytes(bed: &Bed, config: &Config) -> u64 {
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("switch.toml");
    std::fs::write(&file, config.to_string()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_xoff-under-test"));
    let output = bed.namespace().output(command.args(["check", "--json"]).arg(&file)).unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["memory_total_bytes"].as_u64().unwrap()
}

#[track_caller]
fn assert_printed_matches_used(ports: u8, queues: u32, change: impl Fn(Config) -> Config) {
    let bed = bed(ports).mtu(3_000).queues(queues).build();
    let config = change(bed.config("speed = \"1G\""));
    let switch = bed.start(&config);
    let (printed, taken) = (printed_bytes(&bed, &config), switch.anonymous_bytes() + CODE);
    let tenth = printed / 10;
    assert!((printed - tenth..=printed + tenth).contains(&taken), "{printed} printed, {taken} taken");
    bed.finish(switch);
}

#[test]
fn xoff_check_predicts_memory_of_default_switch() {
    assert_printed_matches_used(3, 1, |config| config);
}

#[test]
fn xoff_check_predicts_memory_of_small_switch() {
    assert_printed_matches_used(2, 1, |config| {
        config.switch("stall_budget = \"1ms\"\nsmallest_frame = 1024")
    });
}

#[test]
fn xoff_check_predicts_memory_with_small_receive_chunks() {
    assert_printed_matches_used(3, 1, |config| config.more("[memory]\nreceive_chunks = \"small\"\n"));
}

#[test]
fn xoff_check_predicts_memory_with_several_device_queues() {
    assert_printed_matches_used(2, 4, |config| config.switch("stall_budget = \"5ms\""));
}

#[test]
fn xoff_check_predicts_memory_of_two_workers_with_jumbo_frames() {
    assert_printed_matches_used(2, 1, |config| {
        config.switch("workers = 2\nstall_budget = \"5ms\"").port(1, "mtu = 3000\nlossless = [3, 4]")
    });
}
