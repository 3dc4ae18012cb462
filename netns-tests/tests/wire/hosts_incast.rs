// Tests for SPECIFICATION.md: host-service

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use xoff_netns_tests::{note_switch, unstalled};

use crate::BINARY;

struct Outcome {
    programs: Value,
    account: Value,
    code: Option<i32>,
}

impl Outcome {
    fn of(&self, class: u8, key: &str) -> &Value {
        &self.programs[format!("class_{class}")][key]
    }

    fn sum(&self, class: u8, key: &str) -> u64 {
        self.of(class, key).as_array().unwrap().iter().map(|one| one.as_u64().unwrap()).sum()
    }
}

/// Runs an incast of five hosts at a switch with small buffers. Without agents, TCP with Reno overflows them within
/// seconds; TCP with BBR may not.
fn run(transport: &str, seconds: &str, agents: bool) -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("incast.toml");
    let network = format!(
        "[defaults]\nspeed = \"50M\"\nnic = {agents}\n[[switch]]\nname = \"s1\"\nhosts = 5\nstall_budget = \"5ms\"\n\
         [switch.defaults]\npeer_response = \"3ms\"\n[switch.class.0]\negress_max = \"60KB\"\n"
    );
    fs::write(&file, network).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/hosts_incast.py");
    let mut command = Command::new(BINARY);
    command.args(["lab", "run", "--json"]).arg(&file).args(["--", "/usr/bin/python3"]).arg(script);
    command.args(["--congestion", "reno"]);
    let output = command
        .args(["--xoff", BINARY, "--transport", transport, "--lossy", "--seconds", seconds])
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    let read =
        |text: &str| serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}\n{log}"));
    let account: Value = read(&String::from_utf8_lossy(&output.stdout));
    for switch in account["switches"].as_array().unwrap() {
        note_switch(&serde_json::from_value(switch.clone()).unwrap());
    }
    let programs = log.lines().find(|line| line.starts_with("{\"class_3\"")).unwrap_or_default();
    Outcome { programs: read(programs), account, code: output.status.code() }
}

#[test]
fn udp_incast_is_lossless_with_agents_at_the_hosts() {
    unstalled(|| {
        let outcome = run("udp", "2", true);
        assert_eq!(outcome.of(3, "received"), outcome.of(3, "sent"), "{}", outcome.programs);
        assert!(outcome.sum(0, "received") < outcome.sum(0, "sent"), "{}", outcome.programs);
        assert!(outcome.of(3, "jain").as_f64() >= Some(0.98), "{}", outcome.programs);
        assert_eq!(
            (outcome.code, &outcome.account["verdict"]["promise"]),
            (Some(0), &"kept".into()),
            "{}",
            outcome.account
        );
    });
}

#[test]
fn udp_incast_loses_frames_without_agents_at_the_hosts() {
    let outcome = run("udp", "2", false);
    assert!(outcome.sum(3, "received") < outcome.sum(3, "sent"), "{}", outcome.programs);
    assert_eq!(
        (outcome.code, &outcome.account["verdict"]["promise"]),
        (Some(1), &"not-kept".into()),
        "{}",
        outcome.account
    );
}

#[test]
fn tcp_incast_retransmits_nothing_with_agents_at_the_hosts() {
    unstalled(|| {
        let outcome = run("tcp", "5", true);
        assert_eq!(outcome.of(3, "sent_again"), 0, "{}", outcome.programs);
        assert!(outcome.of(0, "sent_again").as_u64() > Some(0), "{}", outcome.programs);
        assert_eq!(
            (outcome.code, &outcome.account["verdict"]["promise"]),
            (Some(0), &"kept".into()),
            "{}",
            outcome.account
        );
    });
}

#[test]
fn tcp_incast_retransmits_without_agents_at_the_hosts() {
    let outcome = run("tcp", "5", false);
    assert!(outcome.of(3, "sent_again").as_u64() > Some(0), "{}", outcome.programs);
    assert_eq!(outcome.code, Some(1), "{}", outcome.account);
}
