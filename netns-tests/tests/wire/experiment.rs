//! `xoff experiment`: every policy under the same load, the keys that scripts rely on, and nothing left.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use xoff_netns_tests::wait_for;

const KEYS: [&str; 16] = [
    "/lossless/sent",
    "/lossless/received",
    "/lossless/lost",
    "/lossless/duplicated",
    "/lossless/reordered",
    "/held",
    "/pfc/xoff_sent",
    "/pfc/xon_sent",
    "/pfc/paused_ms",
    "/xdp_drops",
    "/least_headroom_bytes",
    "/longest_stall_ms",
    "/sweep/2/goodput_mbps/p50",
    "/sweep/2/completion_ms/max",
    "/sweep/2/queue_bytes/peak",
    "/sweep/2/xoff_per_gb",
];

fn experiment(args: &[&str]) -> Command {
    let mut command = Command::new(super::BINARY);
    command.arg("experiment").args(args);
    command
}

#[test]
fn an_incast_loses_nothing_under_any_lossless_policy_and_says_the_same_of_each() {
    let directory = tempfile::tempdir().unwrap();
    let plot = directory.path().join("incast.svg");
    let policies = ["pfc", "capfc-stop-max"];
    let args = ["incast", "--json", "--rate", "50M", "--policy", &policies.join(","), "--plot"];
    let run = experiment(&args).arg(&plot).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let inside = wait_for("the experiment to run", || some(namespaces(run.id())));
    let run = run.wait_with_output().unwrap();
    let progress = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{}\n{progress}", String::from_utf8_lossy(&run.stdout));
    let report: Value = serde_json::from_slice(&run.stdout).expect("one JSON object and nothing else");
    assert_eq!(report["name"], "incast");
    for policy in policies {
        let of = &report["policies"][policy];
        for key in KEYS {
            assert!(of.pointer(key).is_some_and(Value::is_number), "{key} of {policy} in {report}");
        }
        let count = |key: &str| of.pointer(key).and_then(Value::as_u64).unwrap();
        assert_eq!(of["ledger_balanced"], true);
        assert_eq!(count("/lossless/sent"), count("/lossless/received"));
        assert_eq!((count("/lossless/duplicated"), count("/lossless/reordered")), (0, 0));
        assert!(count("/pfc/xoff_sent") > 0, "the port was congested");
        assert_eq!(count("/pfc/xoff_sent"), count("/pfc/xon_sent"), "every pause ended");
    }
    assert!(fs::read_to_string(plot).unwrap().starts_with("<svg"));
    assert_left(&inside);
}

#[test]
fn an_interrupted_experiment_leaves_nothing() {
    let mut run = experiment(&["incast"]).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let inside = wait_for("hosts and switch to run", || {
        Some(namespaces(run.id())).filter(|inside| inside.len() == 4) // two senders, receiver, switch
    });
    kill(Pid::from_raw(i32::try_from(run.id()).unwrap()), Signal::SIGINT).unwrap();
    assert!(!run.wait().unwrap().success());
    assert_left(&inside);
}

#[test]
fn a_bad_name_gets_one_message_with_those_that_there_are() {
    let run = experiment(&["incats"]).output().unwrap();
    assert_eq!(run.status.code(), Some(2));
    let message = String::from_utf8_lossy(&run.stderr);
    assert!(message.contains("incats") && message.contains("incast"), "{message}");
}

/// Network namespaces that threads of this process live in, but for our own.
fn namespaces(process: u32) -> BTreeSet<PathBuf> {
    let own = fs::read_link("/proc/self/ns/net").unwrap();
    threads(&Path::new("/proc").join(process.to_string())).filter(|namespace| *namespace != own).collect()
}

/// The namespace of each thread of a process.
fn threads(process: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let tasks = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| fs::read_link(task.path().join("ns/net")).ok())
}

/// Nobody lives in these namespaces any more.
fn assert_left(namespaces: &BTreeSet<PathBuf>) {
    wait_for("the namespaces to vanish", || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let used = processes.flat_map(|process| threads(&process.path())).any(|at| namespaces.contains(&at));
        (!used).then_some(())
    });
}

fn some(namespaces: BTreeSet<PathBuf>) -> Option<BTreeSet<PathBuf>> {
    (!namespaces.is_empty()).then_some(namespaces)
}
