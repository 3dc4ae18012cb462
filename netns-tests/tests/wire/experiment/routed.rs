use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use xoff_netns_tests::{unstalled, wait_for};

use super::{SLOW, await_namespaces_unused, compare, namespaces, number, threads};
use crate::BINARY;

#[test] // proves: cascade
fn report_of_routed_cascade_experiment_contains_every_step() {
    let numbers = ["/other_class_sent", "/timeline/0/at_ms", "/runs_in_order", "/runs_judged"];
    unstalled(|| {
        let three_runs = [&SLOW[..], &["--runs", "3"]].concat();
        let report = compare("cascade --routed", &["pfc"], &three_runs, &numbers);
        let result = &report["policies"]["pfc"];
        let missing: Vec<&Value> =
            result["steps"].as_array().unwrap().iter().filter(|step| !step["at_ms"].is_number()).collect();
        assert!(missing.is_empty(), "{missing:?}");
        let flows = result["flows"].as_array().unwrap().iter();
        let paths: Vec<_> = flows.map(|flow| (flow["from"].as_str(), flow["by"].as_str())).collect();
        let expected = [("gpu-1", "to-spine-1"), ("gpu-2", "to-spine-2")];
        assert_eq!(paths, expected.map(|(from, by)| (Some(from), Some(by))));
        let class_0 = ["/other_class_sent", "/other_class_received"].map(|key| number(result, key));
        assert!(class_0[0] > 0 && class_0[0] == class_0[1], "class 0 was not paused: {class_0:?}");
        assert_eq!(report["unmet"].as_array().unwrap().len(), 0, "{}", result["deviations"]);
    });
}

/// The copy of `xoff` is in a directory that other users cannot enter. The caller has a group that the routing daemons must not get.
#[test] // proves: cascade
fn killed_routed_experiment_leaves_no_routing_daemon() {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let program = place.path().join("xoff");
    fs::copy(BINARY, &program).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--groups", "4242"]).arg(program).args(["experiment", "cascade", "--routed"]);
    let mut run = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let (inside, daemons) = wait_for("a routing daemon beside each of four switches", || {
        let inside = namespaces(run.id());
        let daemons = daemons_in(&inside);
        (daemons.len() == 4).then_some((inside, daemons))
    });
    for daemon in daemons {
        let status = fs::read_to_string(daemon.join("status")).unwrap();
        let groups = status.lines().find_map(|line| line.strip_prefix("Groups:"));
        assert_eq!(groups.map(str::trim), Some(""), "{status}");
    }
    run.kill().unwrap();
    run.wait().unwrap();
    await_namespaces_unused(&inside);
}

fn daemons_in(namespaces: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let is_daemon =
        |process: &Path| fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim() == "bgpd");
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|process| process.path());
    let here = |process: &Path| threads(process).any(|at| namespaces.contains(&at));
    processes.filter(|process| is_daemon(process) && here(process)).collect()
}
