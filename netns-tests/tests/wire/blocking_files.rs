// Tests for SPECIFICATION.md: recording

use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tempfile::TempDir;
use xoff_netns_tests::{Bed, Config, Exit, LaunchOptions, wait_for};
use xoff_switch::control::Link;

use crate::reload::reload;
use crate::{BINARY, bed, frame};

fn config(bed: &Bed) -> Config {
    bed.config("speed = \"100M\"")
}

fn replace_by_pipe(file: &Path) {
    fs::remove_file(file).unwrap();
    mkfifo(file, Mode::S_IRWXU).unwrap();
}

/// Starts a reload that hangs at its file; waits until the switch refuses further reloads.
fn waiting_reload(bed: &Bed) -> Child {
    let start = || {
        let mut command = Command::new(BINARY);
        command.arg("reload").stdout(Stdio::null()).stderr(Stdio::piped());
        bed.namespace().spawn(command).unwrap()
    };
    let mut waiting = start();
    wait_for("the refusal of another reload", || {
        let (done, text) = reload(bed, &[]);
        assert!(!done, "{text}");
        if waiting.try_wait().unwrap().is_some() {
            waiting = start(); // it was the second, or has timed out
        }
        text.contains("an earlier reload still waits for").then_some(())
    });
    waiting
}

#[test] // proves: reload
fn reload_from_blocking_file_delays_no_other_request() {
    let bed = bed(2).build();
    let switch = bed.start(&config(&bed));
    let file = switch.config_file();
    replace_by_pipe(&file);
    let mut first = waiting_reload(&bed);
    bed.host(2).device().set_up(false).unwrap();
    wait_for("the link to be down", || (switch.port(2).link == Link::Down).then_some(()));
    assert_eq!(switch.put("/policy", "{\"policy\": \"capfc-stop-max\", \"class\": 3}").unwrap().0, 200);
    let mut text = String::new();
    first.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(2), "{text}");
    assert!(text.contains("has not answered for 5 s") || text.contains("still waits"), "{text}");
    fs::remove_file(&file).unwrap();
    switch.write(&config(&bed));
    wait_for("a reload of the file", || {
        let (done, text) = reload(&bed, &["--dry-run"]);
        assert!(done || text.contains("still waits"), "{text}");
        done.then_some(())
    });
    replace_by_pipe(&file);
    let mut last = waiting_reload(&bed);
    let Exit { status, stderr, .. } = switch.stop();
    assert_eq!(status.code(), Some(0), "{stderr}");
    last.wait().unwrap();
}

fn recorded_into(file: PathBuf) -> Exit {
    let bed = bed(2).build();
    let arguments = ["--record".into(), file.into()].into();
    let switch =
        bed.launch_with(LaunchOptions { arguments, ..LaunchOptions::default() }, &config(&bed)).ready();
    let [one, two] = [1, 2].map(|host| bed.host(host));
    for number in 0..1_000 {
        one.send(frame(one, two, 0, number));
    }
    two.tap().numbered(999);
    let exit = switch.stop();
    for port in ["p1", "p2"] {
        let output = bed.namespace().output(Command::new("ip").args(["link", "show", port])).unwrap();
        assert!(!String::from_utf8_lossy(&output.stdout).contains("xdp"), "{output:?}");
    }
    exit
}

fn assert_cut(exit: &Exit, why: &str) {
    assert_eq!(exit.status.code(), Some(0), "{}", exit.stderr);
    let line = exit.stderr.lines().find(|line| line.contains("the recording is cut off"));
    let line = line.unwrap_or_else(|| panic!("{}", exit.stderr));
    assert!(line.contains(why) && line.contains("records=") && line.contains("missing="), "{line}");
}

#[test]
fn stopped_switch_reports_that_nobody_read_its_recording() {
    let directory = TempDir::new().unwrap();
    let pipe = directory.path().join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let _unread: File = OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    let exit = recorded_into(pipe);
    assert_cut(&exit, "the reader of the file or pipe has read nothing for");
    assert!(!exit.stderr.contains("missing=0"), "{}", exit.stderr);
}

#[test]
fn switch_reports_failure_of_recording_into_full_device() {
    assert_cut(&recorded_into("/dev/full".into()), "No space left on device");
}

#[test]
fn switch_reports_failure_of_recording_into_closed_pipe() {
    let directory = TempDir::new().unwrap();
    let pipe = directory.path().join("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let path = pipe.clone();
    let reader = std::thread::spawn(move || drop(File::open(path).unwrap()));
    let exit = recorded_into(pipe);
    reader.join().unwrap();
    assert_cut(&exit, "Broken pipe");
}
