//! Tests of `xoff experiment cascade --routed`: switches that are routers, with FRR beside each.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use xoff_netns_tests::{one_bed_at_a_time, unstalled, wait_for};

use super::{SLOW, assert_left, compare, namespaces, number, threads};
use crate::BINARY;

// proves: cascade
#[test]
fn a_cascade_over_routers_tells_every_step_by_a_way_for_each_sender() {
    let numbers = ["/other_class_sent", "/timeline/0/at_ms", "/runs_in_order", "/runs_judged"];
    unstalled(|| {
        let three_runs = [&SLOW[..], &["--runs", "3"]].concat();
        let report = compare("cascade --routed", &["pfc"], &three_runs, &numbers);
        let of = &report["policies"]["pfc"];
        let unseen: Vec<&Value> =
            of["steps"].as_array().unwrap().iter().filter(|step| !step["at_ms"].is_number()).collect();
        assert!(unseen.is_empty(), "{unseen:?}");
        let flows = of["flows"].as_array().unwrap().iter();
        let ways: Vec<_> = flows.map(|flow| (flow["from"].as_str(), flow["by"].as_str())).collect();
        let expected = [("gpu-1", "to-spine-1"), ("gpu-2", "to-spine-2")];
        assert_eq!(ways, expected.map(|(from, by)| (Some(from), Some(by))));
        let class_0 = ["/other_class_sent", "/other_class_received"].map(|key| number(of, key));
        assert!(class_0[0] > 0 && class_0[0] == class_0[1], "class 0 was not paused: {class_0:?}");
        assert_eq!(report["unmet"].as_array().unwrap().len(), 0, "{}", of["deviations"]);
    });
}

/// Routers have a private directory where the program is, and the caller has a group that no daemon needs.
// proves: cascade
#[test]
fn routing_daemons_have_no_groups_of_the_caller_and_none_is_left_by_an_experiment_that_is_killed() {
    let _alone = one_bed_at_a_time(BINARY);
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
    assert_left(&inside);
}

fn daemons_in(namespaces: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let is_daemon =
        |process: &Path| fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim() == "bgpd");
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|process| process.path());
    let here = |process: &Path| threads(process).any(|at| namespaces.contains(&at));
    processes.filter(|process| is_daemon(process) && here(process)).collect()
}
