//! Runs `xoff test` in one namespace against a switch in another.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;
use xoff_lab::{Lab, Namespace, VethOptions};
use xoff_netns_tests::{Config, Host, Switch, one_bed_at_a_time, unstalled, wait_for};
use xoff_wire::units::MacAddr;

use crate::BINARY;

const PORTS: u8 = 3;
const DEVICE: &str = "[device]\nlossless = [3, 5]\nresponse_allowance = \"5ms\"\n";

pub(crate) fn cabled(lab: &mut Lab) -> (Namespace, Namespace) {
    let namespace = |name| lab.namespace(name).unwrap_or_else(|error| panic!("{error}"));
    let (tester, device) = (namespace("tester"), namespace("device"));
    for port in 1..=PORTS {
        let (ours, theirs) = (format!("t{port}"), format!("p{port}"));
        let ours = tester.end(&ours).mac(Host::mac_of(port));
        let theirs = device.end(&theirs).mac(MacAddr([2, 0, 0, 0, 1, port]));
        lab.veth(ours, theirs, &VethOptions::default()).unwrap_or_else(|error| panic!("{error}"));
    }
    (tester, device)
}

/// Runs `xoff test`. Returns exit code, report (null if it failed to start) and messages.
fn examine(tester: &Namespace, speed: &str, arguments: &[&str]) -> (Option<i32>, Value, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("dut.toml");
    let ports: String =
        (1..=PORTS).map(|port| format!("[[port]]\ndevice = \"t{port}\"\nspeed = \"{speed}\"\n")).collect();
    fs::write(&file, format!("{DEVICE}{ports}")).unwrap();
    let output =
        tester.output(Command::new(BINARY).arg("test").arg(&file).arg("--json").args(arguments)).unwrap();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), log)
}

#[test] // proves: conformance
fn xoff_passes_receive_and_send_cases() {
    let _alone = one_bed_at_a_time(BINARY);
    let mut lab = Lab::new();
    let (tester, device) = cabled(&mut lab);
    let config = Config::new(PORTS, "speed = \"100M\"\nlossless = [3, 5]").switch("stall_budget = \"100ms\"");
    let switch = Switch::start(BINARY.as_ref(), &device, &config.to_string());
    unstalled(|| {
        let (code, report, log) = examine(&tester, "100M", &["--only", "receive.*", "--only", "send.*"]);
        let cases = report["cases"].as_array().unwrap_or_else(|| panic!("no report: {log}"));
        let count = |verdict: &str| cases.iter().filter(|case| case["verdict"] == verdict).count();
        assert_eq!((count("fail"), count("not-run")), (0, 0), "{log}");
        assert!(count("pass") > count("cannot-tell"), "{log}");
        assert_eq!(code, Some(if count("cannot-tell") == 0 { 0 } else { 3 }), "{log}");
    });
    drop(switch);
}

#[test] // proves: conformance
fn missing_device_is_an_error_of_the_start() {
    let _alone = one_bed_at_a_time(BINARY);
    let mut lab = Lab::new();
    let (tester, _device) = cabled(&mut lab);
    let (code, _, log) = examine(&tester, "100M", &[]);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("no frame from t1 reached t2"), "{log}");
}

#[test] // proves: conformance
fn tester_obeys_pause_that_outlasts_a_case() {
    let _alone = one_bed_at_a_time(BINARY);
    let mut lab = Lab::new();
    let (tester, device) = cabled(&mut lab);
    unstalled(|| {
        let mut script = Command::new("setpriv");
        script.args(["--pdeathsig", "KILL", "/usr/bin/python3", "-c", include_str!("tester_pauses.py")]);
        script.stdout(Stdio::piped());
        let mut script = device.spawn(script).unwrap();
        let mut lines = BufReader::new(script.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(lines.next().as_deref(), Some("ready"));
        let (_, _, log) = examine(&tester, "10M", &["--only", "receive.xon"]);
        script.kill().unwrap(); // if the tester sent no pause
        script.wait().unwrap();
        assert_eq!(lines.next().as_deref(), Some("0"), "frames of port 1 in its pause; {log}");
    });
}

#[test] // proves: conformance
fn nic_fails_without_agent_and_passes_with_it() {
    let _alone = one_bed_at_a_time(BINARY);
    let mut lab = Lab::new();
    let host = lab.namespace("host").unwrap();
    let (nic, peer) = (host.end("eth0").mac(Host::mac_of(1)), host.end("eth1").mac(Host::mac_of(2)));
    lab.veth(nic, peer, &VethOptions::default()).unwrap();
    let verdict = || {
        let mut command = Command::new(BINARY);
        command.args([
            "test",
            "nic",
            "eth0",
            "--peer",
            "eth1",
            "--speed",
            "100M",
            "--response-allowance",
            "20ms",
        ]);
        let output = host.output(command.args(["--only", "receive.expiry", "--json"])).unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        report["cases"][0]["verdict"].as_str().unwrap_or_default().to_owned()
    };
    // A stall of the machine leaves a run without verdict: repeat it.
    let first = (0..5).map(|_| verdict()).find(|verdict| verdict != "cannot-tell");
    assert_eq!(first.as_deref(), Some("fail"));
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let mut agent = Command::new("setpriv");
    agent.args(["--pdeathsig", "KILL", BINARY, "nic", "--device", "eth0", "--speed", "100M"]);
    agent.stderr(fs::File::create(&log).unwrap());
    let mut agent = host.spawn(agent).unwrap();
    wait_for("the agent", || fs::read_to_string(&log).unwrap().contains("obeying").then_some(()));
    unstalled(|| assert_eq!(verdict(), "pass"));
    agent.kill().unwrap();
    agent.wait().unwrap();
}
