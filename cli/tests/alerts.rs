use std::path::{Path, PathBuf};
use std::process::Command;

fn dashboards() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboards")
}

fn promtool(args: &[&str]) {
    let output = Command::new("promtool").args(args).current_dir(dashboards()).output();
    let output = output.expect("promtool cannot be run: install it with scripts/install-deps.sh --tests");
    let texts = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "promtool {}:\n{}", args.join(" "), texts.join("\n"));
}

#[test] // proves: dcbx, monitoring
fn alert_rules_are_valid_and_pass_their_tests() {
    promtool(&["check", "rules", "alerts.yml"]);
    promtool(&["test", "rules", "alerts.test.yml"]);
}

#[test] // proves: monitoring
fn every_alert_is_tested_to_fire_and_to_ignore_congestion() {
    let read = |name| std::fs::read_to_string(dashboards().join(name)).expect("the file cannot be read");
    let (rules, tests) = (read("alerts.yml"), read("alerts.test.yml"));
    let alerts: Vec<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 20, "{alerts:?}");
    let (tests, ordinary) =
        tests.split_once("ordinary congestion").expect("there is no test of ordinary congestion");
    assert!(!ordinary.contains("\n  - name:"));
    for alert in alerts {
        let named = format!("alertname: {alert}\n");
        let fires = tests.split(&named).skip(1).any(|rest| rest.trim_start().starts_with("exp_alerts:\n"));
        assert!(fires, "no test expects {alert} to fire");
        let is_silent =
            ordinary.split(&named).nth(1).is_some_and(|rest| rest.trim_start().starts_with("exp_alerts: []"));
        assert!(is_silent, "the test of ordinary congestion does not cover {alert}");
    }
}
