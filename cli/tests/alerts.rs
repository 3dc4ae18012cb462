//! Tests of the alert rules with Prometheus' `promtool` (Debian package prometheus).

use std::path::{Path, PathBuf};
use std::process::Command;

fn dashboards() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboards")
}

fn promtool(args: &[&str]) {
    let output = Command::new("promtool").args(args).current_dir(dashboards()).output();
    let output = output.expect("promtool runs: scripts/install-deps.sh --tests installs it");
    let texts = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "promtool {}:\n{}", args.join(" "), texts.join("\n"));
}

// proves: dcbx, monitoring
#[test]
fn the_rules_are_valid_and_do_what_their_tests_say() {
    promtool(&["check", "rules", "alerts.yml"]);
    promtool(&["test", "rules", "alerts.test.yml"]);
}

// proves: monitoring
#[test]
fn alerts_fire_but_not_under_ordinary_congestion() {
    let read = |name| std::fs::read_to_string(dashboards().join(name)).expect("it is there");
    let (rules, tests) = (read("alerts.yml"), read("alerts.test.yml"));
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 20, "{alerts:?}");
    let (tests, ordinary) = tests.split_once("ordinary congestion").expect("it is tested last");
    assert!(!ordinary.contains("\n  - name:"));
    for alert in alerts {
        let named = format!("alertname: {alert}\n");
        let fires = tests.split(&named).skip(1).any(|rest| rest.trim_start().starts_with("exp_alerts:\n"));
        assert!(fires, "no test sees {alert} fire");
        let is_silent =
            ordinary.split(&named).nth(1).is_some_and(|rest| rest.trim_start().starts_with("exp_alerts: []"));
        assert!(is_silent, "no test says that ordinary congestion does not fire {alert}");
    }
}
