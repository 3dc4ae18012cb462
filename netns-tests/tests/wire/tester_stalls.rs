use std::fs;
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use xoff_lab::{Lab, Namespace};
use xoff_netns_tests::{dies_with_us, unstalled, wait_for};

use crate::BINARY;
use crate::tester::cabled;

const REFERENCE: &str = env!("CARGO_BIN_EXE_xoff-reference-under-test");
/// At 20 Mb/s the pauses of the case `receive.expiry` last 1.7 s and 0.6 s.
const DUT: &str = "[device]\nlossless = [3]\nresponse_allowance = \"20ms\"\n\
                   [[port]]\ndevice = \"t1\"\nspeed = \"20M\"\n[[port]]\ndevice = \"t2\"\nspeed = \"20M\"\n";
/// Time for which the tester's process is stopped, longer than each pause.
const STOP: Duration = Duration::from_millis(1_750);

fn spawn(namespace: &Namespace, program: &str, arguments: &[&str], output: &Path) -> Child {
    let mut command = dies_with_us(program);
    command.args(arguments).stdout(fs::File::create(output).unwrap());
    namespace.spawn(command).unwrap()
}

fn xoffs_received(counters: &Path) -> Option<u64> {
    let text = fs::read_to_string(counters).ok()?;
    text.lines().find_map(|line| line.strip_prefix("p2 class3_xoff_received ")?.parse().ok())
}

/// Runs the test case `receive.expiry` on the reference switch. Stops the tester for most of each pause, until after
/// the pause's end.
fn examine_with_stops(options: &[&str]) -> Value {
    let mut lab = Lab::new();
    let (tester, device) = cabled(&mut lab);
    let directory = tempfile::tempdir().unwrap();
    let [file, report, log, counters] =
        ["dut.toml", "report", "log", "counters"].map(|name| directory.path().join(name));
    fs::write(&file, DUT).unwrap();
    let ports = ["--port", "p1", "--port", "p2", "--speed", "20M", "--lossless", "3", "--counters"];
    let of_switch = [&ports[..], &[counters.to_str().unwrap()], options].concat();
    let mut switch = spawn(&device, REFERENCE, &of_switch, &log);
    let mut stopped_at = wait_for("the reference switch", || xoffs_received(&counters));
    let of_test = ["test", file.to_str().unwrap(), "--only", "receive.expiry", "--json"];
    let mut test = spawn(&tester, BINARY, &of_test, &report);
    let process = Pid::from_raw(i32::try_from(test.id()).unwrap());
    while test.try_wait().unwrap().is_none() {
        // Read again while the counters file is empty: the reference switch is just writing the file.
        if let Some(xoffs) = xoffs_received(&counters).filter(|&xoffs| xoffs > stopped_at) {
            stopped_at = xoffs;
            kill(process, Signal::SIGSTOP).unwrap();
            thread::sleep(STOP);
            kill(process, Signal::SIGCONT).unwrap();
        }
        thread::sleep(Duration::from_millis(5));
    }
    switch.kill().unwrap();
    switch.wait().unwrap();
    serde_json::from_slice(&fs::read(&report).unwrap()).unwrap_or_default()
}

#[test] // proves: conformance
fn tester_stopped_during_test_case_keeps_frame_arrival_times() {
    for (options, verdict) in [(&[][..], "pass"), (&["--defect", "quantum-half"], "fail")] {
        unstalled(|| {
            let report = examine_with_stops(options);
            assert_eq!(report["accuracy"]["clock"], "kernel (XDP)", "{report}");
            assert_eq!(
                report["cases"][0]["verdict"], verdict,
                "{options:?}: {}",
                report["cases"][0]["reason"]
            );
        });
    }
}
