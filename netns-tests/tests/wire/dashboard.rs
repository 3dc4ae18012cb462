//! Feeds a recorded incident to a real Prometheus, whose results must equal those calculated by hand.

use std::process::Command;

use xoff_lab::Lab;

const SCRIPT: &str = include_str!("dashboard.py");
const DASHBOARDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dashboards");
const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference.md");

#[test] // proves: monitoring
fn dashboard_queries_return_the_recorded_incident() {
    let directory = tempfile::tempdir().unwrap();
    let namespace = Lab::new().namespace("look").unwrap();
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", SCRIPT, DASHBOARDS, REFERENCE]).arg(directory.path());
    let output = namespace.output(&mut command).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
