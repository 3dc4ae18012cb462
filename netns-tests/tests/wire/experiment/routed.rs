//! `xoff experiment cascade --routed`: switches that are routers, with FRR beside each.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use xoff_netns_tests::{one_bed_at_a_time, unstalled, wait_for};

use super::{SLOW, assert_left, compare, experiment, namespaces, number, threads};
use crate::BINARY;

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

#[test]
fn an_experiment_over_routers_that_is_killed_leaves_no_routing_daemon() {
    let _alone = one_bed_at_a_time(BINARY);
    let mut command = experiment(&["cascade", "--routed"]);
    let mut run = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let inside = wait_for("a routing daemon beside each of four switches", || {
        let inside = namespaces(run.id());
        let routers = inside.iter().filter(|namespace| has_daemon(namespace)).count();
        (routers == 4).then_some(inside)
    });
    run.kill().unwrap();
    run.wait().unwrap();
    assert_left(&inside);
}

/// Whether BGP is spoken there.
fn has_daemon(namespace: &Path) -> bool {
    let is_daemon =
        |process: &Path| fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim() == "bgpd");
    let mut processes = fs::read_dir("/proc").unwrap().flatten().map(|process| process.path());
    processes.any(|process| is_daemon(&process) && threads(&process).any(|at| at == namespace))
}
