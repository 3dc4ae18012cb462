use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::{fs, io};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use serde_json::Value;
use xoff_netns_tests::{note_lab, unstalled, wait_for};

const KEYS: [&str; 24] = [
    "/lossless/sent",
    "/lossless/received",
    "/lossless/lost",
    "/lossless/duplicated",
    "/lossless/reordered",
    "/lossy/sent",
    "/lossy/received",
    "/lossy/lost",
    "/lossy/duplicated",
    "/lossy/reordered",
    "/lossy/dropped_by_switch",
    "/victim/offered_mbps",
    "/victim/received_mbps",
    "/goodput_ratio",
    "/fairness",
    "/pfc/xoff_sent",
    "/pfc/xon_sent",
    "/pfc/paused_ms",
    "/headroom/least_free_bytes",
    "/xdp_drops",
    "/longest_stall_ms",
    "/longest_host_gap_ms",
    "/line_mbps",
    "/seconds",
];

#[test] // proves: experiments
fn demo_loses_nothing_and_accounts_for_every_frame() {
    unstalled(|| {
        let demo = Command::new(super::BINARY).args(["demo", "--json", "--duration", "3s"]).output().unwrap();
        let report: Value =
            serde_json::from_slice(&demo.stdout).expect("the output is not a single JSON object");
        note_lab(&report);
        assert!(demo.status.success(), "{report}\n{}", String::from_utf8_lossy(&demo.stderr));
        for key in KEYS {
            assert!(report.pointer(key).is_some_and(Value::is_number), "{key} in {report}");
        }
        assert_eq!(report["ledger_balanced"], true);
        let count = |key: &str| report.pointer(key).and_then(Value::as_u64).unwrap();
        assert_eq!(count("/lossless/sent"), count("/lossless/received"));
        assert!(count("/lossless/received") > 0 && count("/pfc/xoff_sent") > 0, "the port was not congested");
        assert_eq!(count("/pfc/xoff_sent"), count("/pfc/xon_sent"), "a pause did not end");
        assert_eq!(count("/xdp_drops"), 0);
        assert_eq!(
            count("/lossy/lost"),
            count("/lossy/dropped_by_switch"),
            "the switch's losses differ from the hosts'"
        );
    });
}

fn namespaces_in_use() -> Vec<u64> {
    let of = |task: io::Result<fs::DirEntry>| {
        fs::metadata(task.ok()?.path().join("ns/net")).ok().map(|it| it.ino())
    };
    let tasks = |process: fs::DirEntry| fs::read_dir(process.path().join("task")).ok();
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter_map(tasks);
    processes.flatten().filter_map(of).collect()
}

#[test] // proves: experiments
fn signal_ends_demo_and_removes_its_namespaces() {
    for (command, signal) in [
        (&["demo"][..], Signal::SIGHUP),
        (&["demo"], Signal::SIGTERM),
        (&["experiment", "incast"], Signal::SIGHUP),
    ] {
        let before = namespaces_in_use();
        let mut child = Command::new(super::BINARY)
            .args(command)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(child.id().try_into().unwrap());
        let mine = wait_for("a thread in a namespace of its own", || {
            let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
            let inodes = tasks.filter_map(|task| fs::metadata(task.ok()?.path().join("ns/net")).ok());
            inodes.map(|it| it.ino()).find(|inode| !before.contains(inode))
        });
        kill(pid, signal).unwrap();
        let mut line = String::new();
        let status = child.wait().unwrap();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(status.signal(), Some(signal as i32), "{command:?}: {line}");
        wait_for("its namespaces to be left", || (!namespaces_in_use().contains(&mine)).then_some(()));
    }
}
