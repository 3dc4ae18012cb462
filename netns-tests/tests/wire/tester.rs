use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use xoff_lab::{Device, Lab, Namespace, VethOptions};
use xoff_netns_tests::frames::pfc_time;
use xoff_netns_tests::{Config, Host, Switch, Tap, dies_with_us, unstalled, wait_for};
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

/// Connects the ports by a kernel bridge. Returns a capture of port 2.
pub(crate) fn bridged(device: &Namespace) -> Tap {
    let ip = |words: &str| {
        let ended = device.output(Command::new("ip").args(words.split(' '))).unwrap();
        assert!(ended.status.success(), "{words}: {}", String::from_utf8_lossy(&ended.stderr));
    };
    ip("link add br0 type bridge");
    ip("link set br0 up");
    (1..=PORTS).for_each(|port| ip(&format!("link set p{port} master br0")));
    Tap::on(&Device::find(device, "p2").unwrap())
}

fn describe(directory: &Path, speed: &str) -> PathBuf {
    let file = directory.join("dut.toml");
    let ports: String =
        (1..=PORTS).map(|port| format!("[[port]]\ndevice = \"t{port}\"\nspeed = \"{speed}\"\n")).collect();
    fs::write(&file, format!("{DEVICE}{ports}")).unwrap();
    file
}

/// Runs `xoff test`. Returns exit code, report (null if it failed to start) and messages.
pub(crate) fn examine(tester: &Namespace, speed: &str, arguments: &[&str]) -> (Option<i32>, Value, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = describe(directory.path(), speed);
    let output =
        tester.output(Command::new(BINARY).arg("test").arg(&file).arg("--json").args(arguments)).unwrap();
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), log)
}

#[test] // proves: conformance
fn xoff_switch_passes_receive_and_send_cases_of_tester() {
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
fn tester_without_switch_between_its_ports_fails_at_start() {
    let mut lab = Lab::new();
    let (tester, _device) = cabled(&mut lab);
    let (code, _, log) = examine(&tester, "100M", &[]);
    assert_eq!(code, Some(2), "{log}");
    assert!(log.contains("no frame from t1 reached t2"), "{log}");
}

#[test] // proves: conformance
fn tester_obeys_pause_that_outlasts_a_test_case() {
    let mut lab = Lab::new();
    let (tester, device) = cabled(&mut lab);
    unstalled(|| {
        let mut script = dies_with_us("/usr/bin/python3");
        script.args(["-c", include_str!("tester_pauses.py")]);
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
fn stopped_tester_leaves_no_class_paused() {
    let mut lab = Lab::new();
    let (tester, device) = cabled(&mut lab);
    let tap = bridged(&device);
    let directory = tempfile::tempdir().unwrap();
    let file = describe(directory.path(), "100M");
    for (signal, case, pauses) in [
        (Signal::SIGINT, "receive.refresh", 1),
        (Signal::SIGTERM, "send.before-loss", 2),
        (Signal::SIGINT, "headroom.size", 5),
        (Signal::SIGHUP, "receive.refresh", 8),
    ] {
        tap.clear();
        let mut command = dies_with_us(BINARY);
        command.arg("test").arg(&file);
        command.args(["--only", case, "--repeat", "100"]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = tester.spawn(command).unwrap();
        tap.wait(pauses, |bytes| pfc_time(bytes, 3).is_some_and(|time| time > 0));
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
        wait_for("the end of the tester", || child.try_wait().unwrap());
        for class in 0..8 {
            wait_for(&format!("XON of class {class} after {signal} in {case}"), || {
                let last = tap.all().iter().rev().find_map(|frame| pfc_time(&frame.bytes, class));
                (last == Some(0)).then_some(())
            });
        }
    }
}
