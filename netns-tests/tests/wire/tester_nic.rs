use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tempfile::TempDir;
use xoff_lab::{Lab, Namespace, VethOptions};
use xoff_netns_tests::{Host, dies_with_us, unstalled, wait_for};
use xoff_traffic::emit::{Link, Timing, emit};
use xoff_wire::units::{MacAddr, Nanos};

use crate::BINARY;

const REFERENCE: &str = env!("CARGO_BIN_EXE_xoff-reference-under-test");

fn cabled(lab: &mut Lab) -> Namespace {
    let host = lab.namespace("host").unwrap();
    let (nic, peer) = (host.end("eth0").mac(Host::mac_of(1)), host.end("eth1").mac(Host::mac_of(2)));
    lab.veth(nic, peer, &VethOptions::default()).unwrap();
    host
}

fn examine(host: &Namespace, only: &str) -> Vec<(String, String)> {
    let mut command = Command::new(BINARY);
    command.args(["test", "nic", "eth0", "--peer", "eth1", "--speed", "100M"]);
    let output =
        host.output(command.args(["--response-allowance", "20ms", "--only", only, "--json"])).unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let cases =
        report["cases"].as_array().unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let text = |case: &Value, key: &str| case[key].as_str().unwrap_or_default().to_owned();
    cases.iter().map(|case| (text(case, "verdict"), text(case, "reason"))).collect()
}

#[test]
fn tester_reads_line_speed_of_nic() {
    let mut lab = Lab::new();
    let host = cabled(&mut lab);
    let run = |nic: &str| {
        let mut command = Command::new(BINARY);
        command.args(["test", "nic", nic, "--peer", "eth1", "--only", "send.spurious", "--json"]);
        let output = host.output(&mut command).unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code(), report, String::from_utf8(output.stderr).unwrap())
    };
    let (_, report, log) = run("eth0"); // veth reports 10 Gb/s
    assert!(report["device"]["settings"].to_string().contains("\"eth0, 10G"), "{report} {log}");
    for (nic, cause) in [("lo", "its driver reports none"), ("absent", "No such device")] {
        let (code, _, log) = run(nic);
        assert_eq!(code, Some(2), "{log}");
        assert!(log.contains(&format!("the speed of {nic} is unknown: {cause}")), "{log}");
        assert!(log.contains("give --speed, such as --speed 10G"), "{log}");
    }
}

/// Returns verdict and reason of one test case; repeats runs in which stalls of the machine prevented a verdict.
fn verdict(host: &Namespace, case: &str) -> (String, String) {
    let mut runs = (0..5).map(|_| examine(host, case).swap_remove(0));
    runs.find(|(verdict, _)| verdict != "cannot-tell").unwrap_or_default()
}

struct Agent {
    child: Child,
    _directory: TempDir,
}

impl Agent {
    fn start(host: &Namespace, more: &[&str]) -> Agent {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        let mut agent = dies_with_us(BINARY);
        agent.args(["nic", "--device", "eth0", "--speed", "100M"]).args(more);
        agent.stderr(fs::File::create(&log).unwrap());
        let child = host.spawn(agent).unwrap();
        wait_for("the agent", || fs::read_to_string(&log).unwrap().contains("obeying").then_some(()));
        Agent { child, _directory: directory }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill(); // fails if the agent has ended
        let _ = self.child.wait();
    }
}

#[test] // proves: conformance
fn nic_fails_tester_without_agent_and_passes_with_agent() {
    let mut lab = Lab::new();
    let host = cabled(&mut lab);
    assert_eq!(verdict(&host, "receive.expiry").0, "fail");
    let _agent = Agent::start(&host, &[]);
    unstalled(|| assert_eq!(verdict(&host, "receive.expiry").0, "pass"));
}

#[test] // proves: conformance
fn nic_without_pfc_passes_tester_unless_it_drops_frames() {
    let mut lab = Lab::new();
    let host = cabled(&mut lab);
    let (found, reason) = verdict(&host, "send.before-loss");
    assert_eq!(found, "pass", "{reason}");
    assert!(reason.contains("of class 3 frames of 1518 bytes without a pause"), "{reason}");
    assert_eq!(verdict(&host, "send.format").0, "not-run");
    assert_eq!(verdict(&host, "send.spurious").0, "pass");
    // Send frames of a type that no program receives: the interface counts them as dropped.
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let noise = host.spawn_thread(move || {
        let mut frame = vec![0; 60];
        frame[..12].copy_from_slice(&[Host::mac_of(1).0, Host::mac_of(2).0].concat());
        frame[12..14].copy_from_slice(&[0x88, 0xb5]);
        let timing = Timing { every: Nanos::from_millis(2), count: None, duration: None };
        emit(&Link::open("eth1").unwrap(), &[frame], &timing, &stopped).unwrap()
    });
    let (found, reason) = examine(&host, "send.before-loss").swap_remove(0);
    stop.store(true, Ordering::Relaxed);
    noise.join().unwrap();
    // The flood can occupy both cores of a small machine: then each run counts as disturbed.
    assert!(["fail", "cannot-tell"].contains(&found.as_str()), "{found}: {reason}");
    assert!(found != "fail" || reason.contains("by its counters and sent no XOFF"), "{reason}");
}

#[test] // proves: conformance
fn agent_that_pauses_for_slow_program_passes_tester() {
    let mut lab = Lab::new();
    let host = cabled(&mut lab);
    let _agent = Agent::start(&host, &["--pause-above", "100KB"]);
    unstalled(|| {
        for (found, reason) in examine(&host, "send.*") {
            assert!(["pass", "cannot-tell"].contains(&found.as_str()), "{reason}");
        }
        let (found, reason) = verdict(&host, "send.before-loss");
        assert_eq!(found, "pass", "{reason}");
        assert!(reason.contains("the NIC paused class 3 frames of 1518 bytes"), "{reason}");
        assert_eq!(verdict(&host, "send.refresh").0, "pass");
    });
}

/// The reference switch stands between eth0 and its peer, so the tester sees its PFC as that of the NIC.
#[test] // proves: conformance
fn nic_that_sends_wrong_pfc_frames_fails_tester() {
    for (defect, case) in [("other-opcode", "send.format"), ("source-zero", "send.source")] {
        let mut lab = Lab::new();
        let (host, inside) = (lab.namespace("host").unwrap(), lab.namespace("inside").unwrap());
        for (port, name) in [(1, "eth0"), (2, "eth1")] {
            let far = format!("p{port}");
            let (near, far) = (
                host.end(name).mac(Host::mac_of(port)),
                inside.end(&far).mac(MacAddr([2, 0, 0, 0, 1, port])),
            );
            lab.veth(near, far, &VethOptions::default()).unwrap();
        }
        let mut reference = dies_with_us(REFERENCE);
        reference.args(["--port", "p1", "--port", "p2", "--speed", "100M"]);
        reference.args(["--lossless", "3", "--defect", defect]).stdout(Stdio::null());
        let mut reference = inside.spawn(reference).unwrap();
        let agent = Agent::start(&host, &["--pause-above", "100KB"]);
        let (found, reason) = verdict(&host, case);
        drop(agent);
        reference.kill().unwrap();
        reference.wait().unwrap();
        assert_eq!(found, "fail", "{defect}: {reason}");
    }
}
