//! Test of the dashboard with a recorded incident in a real Prometheus: values of all lines were calculated by hand.

use std::process::Command;

use xoff_lab::Lab;

const LOOK: &str = include_str!("dashboard.py");
const DASHBOARDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dashboards");
const REFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference.md");

// proves: monitoring
#[test]
fn every_line_of_a_recorded_incident_has_its_value_unit_and_switch() {
    let directory = tempfile::tempdir().unwrap();
    let look = Lab::new().namespace("look").unwrap();
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", LOOK, DASHBOARDS, REFERENCE]).arg(directory.path());
    let said = look.output(&mut command).unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}
