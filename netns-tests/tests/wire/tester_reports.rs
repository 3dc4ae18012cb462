use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use xoff_lab::{Lab, Namespace};
use xoff_netns_tests::{dies_with_us, unstalled, wait_for};

use crate::BINARY;
use crate::tester::cabled;

const REFERENCE: &str = env!("CARGO_BIN_EXE_xoff-reference-under-test");
const PORTS: &str =
    "[[port]]\ndevice = \"t1\"\nspeed = \"100M\"\n[[port]]\ndevice = \"t2\"\nspeed = \"100M\"\n";

struct Bed {
    _lab: Lab,
    tester: Namespace,
    switch: Child,
    directory: TempDir,
}

impl Bed {
    fn start(device: &str, options: &[&str]) -> Bed {
        let mut lab = Lab::new();
        let (tester, namespace) = cabled(&mut lab);
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("dut.toml"), format!("[device]\n{device}\n{PORTS}")).unwrap();
        let counters = directory.path().join("counters");
        let mut switch = dies_with_us(REFERENCE);
        switch.args(["--port", "p1", "--port", "p2", "--speed", "100M", "--counters"]).arg(&counters);
        switch.args(options).stdout(Stdio::null());
        let switch = namespace.spawn(switch).unwrap();
        let bed = Bed { _lab: lab, tester, switch, directory };
        wait_for("the reference switch", || bed.xoffs_received());
        bed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn xoffs_received(&self) -> Option<u64> {
        let text = fs::read_to_string(self.path("counters")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("p2 class3_xoff_received ")?.parse().ok())
    }

    fn test(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(BINARY);
        command.arg("test").arg(self.path("dut.toml")).args(arguments);
        let output = self.tester.output(&mut command).unwrap();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), stdout, stderr)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = self.switch.kill(); // fails if the switch has ended
        let _ = self.switch.wait();
    }
}

fn report(directory: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(directory.join("report.json")).unwrap()).unwrap()
}

fn compare(first: &Path, second: &Path) -> (Option<i32>, String) {
    let output = Command::new(BINARY).args(["test", "compare"]).args([first, second]).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test] // proves: conformance
fn repeated_test_reports_of_a_defect_compare_as_worse() {
    const RUNS: [&str; 5] = ["--only", "receive.not-relayed", "--repeat", "2", "--report"];
    let examine = |options: &[&str], into: &Path, expected: i32| {
        let bed = Bed::start("lossless = [3]", &[&["--lossless", "3"][..], options].concat());
        unstalled(|| {
            let (code, text, log) = bed.test(&[&RUNS[..], &[into.to_str().unwrap()]].concat());
            assert_eq!(code, Some(expected), "{text}\n{log}");
        });
    };
    let directory = tempfile::tempdir().unwrap();
    let [good, bad] = ["good", "bad"].map(|name| directory.path().join(name));
    examine(&[], &good, 0);
    examine(&["--defect", "relays-pfc"], &bad, 1);
    let cases = report(&bad)["cases"].as_array().unwrap().clone();
    assert_eq!(cases.len(), 2, "{cases:?}");
    assert!(cases.iter().all(|case| case["verdict"] == "fail"), "{cases:?}");
    for name in ["report.txt", "report.html"] {
        let text = fs::read_to_string(bad.join(name)).unwrap();
        assert!(text.contains("in 2 of 2 runs"), "{name}: {text}");
    }
    let (code, text) = compare(&good, &bad);
    assert!(code == Some(1) && text.contains("receive.not-relayed"), "{code:?} {text}");
    let (code, text) = compare(&bad, &good);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn classes_from_dcbx_and_list_agree_with_report() {
    const CASES: [&str; 6] =
        ["--only", "receive.not-relayed", "--only", "receive.expiry", "--only", "isolation.floods"];
    let bed = Bed::start("dcbx = true\npause_max = \"300ms\"", &["--lossless", "2,5"]);
    let (code, list, log) = bed.test(&["--list"]);
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("the lossless classes come from DCBX"), "{log}");
    let (_, json, log) = bed.test(&[&CASES[..], &["--json"]].concat());
    assert!(log.contains("waiting up to 32 s for an LLDP frame of the device at t1"), "{log}");
    let report: Value = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {log}"));
    let settings = report["device"]["settings"].to_string();
    assert!(settings.contains("[\"lossless\",\"{2, 5} (from DCBX)\"]"), "{settings}");
    let case = |id: &str| report["cases"].as_array().unwrap().iter().find(|case| case["id"] == id).unwrap();
    assert_ne!(case("receive.not-relayed")["verdict"], "not-run");
    assert!(list.lines().any(|line| line.starts_with("run      receive.not-relayed ")), "{list}");
    let reason = |id: &str| {
        assert_eq!(case(id)["verdict"], "not-run", "{id}");
        case(id)["reason"].as_str().unwrap().to_owned()
    };
    // An XOFF of 65,535 quanta pauses for 336 ms.
    assert_eq!(
        reason("receive.expiry"),
        "the case needs a pause longer than 300ms; limits are `pause_max` and 90 % of `watchdog`"
    );
    let floods = reason("isolation.floods");
    let is_listed = |line: &str| line.starts_with("not run  isolation.floods ") && line.ends_with(&floods);
    assert!(list.lines().any(is_listed), "{list}");
}

#[test] // proves: conformance
fn interrupted_soak_is_in_report_of_tester() {
    let bed = Bed::start("lossless = [3]\nresponse_allowance = \"20ms\"", &["--lossless", "3"]);
    let (log, out) = (bed.path("log"), bed.path("out"));
    let mut command = dies_with_us(BINARY);
    command.arg("test").arg(bed.path("dut.toml")).args(["--only", "receive.zero-time", "--soak", "1h"]);
    command.args(["--only", "losslessness.soak", "--report"]).arg(&out);
    command.stdout(Stdio::null()).stderr(File::create(&log).unwrap());
    let mut test = bed.tester.spawn(command).unwrap();
    let ended = || fs::read_to_string(&log).unwrap().contains("receive.zero-time").then_some(());
    wait_for("the first case", ended);
    let before = wait_for("the counters", || bed.xoffs_received());
    wait_for("the soak", || bed.xoffs_received().filter(|xoffs| *xoffs > before + 5));
    kill(Pid::from_raw(i32::try_from(test.id()).unwrap()), Signal::SIGINT).unwrap();
    let status = wait_for("the end of the tester", || test.try_wait().unwrap());
    assert_eq!(status.code(), Some(2));
    let report = report(&out);
    assert_eq!(report["ended_early"], "interrupted, after losslessness.soak");
    let cases = report["cases"].as_array().unwrap();
    assert_eq!((cases.len(), &cases[1]["id"]), (2, &Value::from("losslessness.soak")));
    let (verdict, reason) = (&cases[1]["verdict"], cases[1]["reason"].as_str().unwrap());
    assert!(
        verdict == "fail" || verdict == "cannot-tell" && reason.contains("interrupted after"),
        "{reason}"
    );
    let text = fs::read_to_string(out.join("report.txt")).unwrap();
    assert!(text.contains("ended early: interrupted, after losslessness.soak"), "{text}");
}
