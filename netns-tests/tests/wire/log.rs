// Tests for SPECIFICATION.md: log

use std::fs::File;
use std::io::{self, PipeReader, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::Signal;
use xoff_netns_tests::{Bed, LaunchOptions, Switch, wait_for};
use xoff_switch::control::Link;

use crate::bed;

fn send_garbage(bed: &Bed) {
    let send = || {
        let mut stream = TcpStream::connect("127.0.0.1:9464").unwrap();
        let _ = stream.write_all(b"x\r\n\r\n"); // fails if the connection was refused
    };
    bed.namespace().run(|| (0..100).for_each(|_| send()));
}

fn lines_dropped(switch: &Switch) -> Option<u64> {
    let metrics = switch.get("/metrics").ok()?; // fails while the server handles the garbage
    let mut counts = metrics.lines().filter(|line| line.starts_with("xoff_log_lines_dropped_total{"));
    counts.next().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

fn assert_works_with_log(stderr: impl Into<Stdio>) {
    let bed = bed(2).build();
    let config = bed.config("speed = \"1G\"").switch("log = \"debug\"");
    let options = LaunchOptions { stderr: Some(stderr.into()), ..LaunchOptions::default() };
    let switch = bed.launch_with(options, &config).ready();
    wait_for("lines to be dropped", || {
        send_garbage(&bed);
        lines_dropped(&switch).filter(|&lines| lines > 0)
    });
    wait_for("the garbage to be dealt with", || switch.get("/healthz").ok());
    let (code, policies) = switch.put("/policy", r#"{"policy": "capfc-stop-max", "class": 3}"#).unwrap();
    assert_eq!((code, policies), (200, switch.get("/policy").unwrap()));
    assert_eq!(switch.status().policies[3], "capfc-stop-max");
    for (up, link) in [(false, Link::Down), (true, Link::Up)] {
        bed.host(1).device().set_up(up).unwrap();
        wait_for("the link to change", || (switch.port(1).link == link).then_some(()));
    }
    assert!(switch.get("/healthz").unwrap().starts_with("ok\n"));
    switch.signal(Signal::SIGINT);
    assert_eq!(switch.wait().status.code(), Some(0));
}

fn small_pipe() -> (PipeReader, Stdio) {
    let (reader, writer) = io::pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    (reader, writer.into())
}

/// More lines than the pipe holds are logged, and none is read.
#[test]
fn log_page_is_complete_although_nobody_reads_the_log() {
    let bed = bed(2).build();
    let (reader, writer) = small_pipe();
    let options = LaunchOptions { stderr: Some(writer), ..LaunchOptions::default() };
    let switch = bed.launch_with(options, &bed.config("speed = \"1G\"")).ready();
    for _ in 0..40 {
        for policy in ["capfc-stop-max", "pfc"] {
            let body = format!(r#"{{"policy": "{policy}", "class": 3}}"#);
            assert_eq!(switch.put("/policy", &body).unwrap().0, 200);
        }
    }
    assert_eq!(switch.put("/policy", r#"{"policy": "ofc", "class": 3}"#).unwrap().0, 200);
    wait_for("the last line", || switch.get("/log").unwrap().lines().last()?.contains("ofc").then_some(()));
    switch.signal(Signal::SIGINT);
    assert_eq!(switch.wait().status.code(), Some(0));
    drop(reader);
}

#[test]
fn log_to_full_disk_does_not_block_the_switch() {
    assert_works_with_log(File::options().write(true).open("/dev/full").unwrap());
}

#[test]
fn log_to_closed_pipe_does_not_block_the_switch() {
    let (reader, writer) = small_pipe();
    drop(reader);
    assert_works_with_log(writer);
}

#[test]
fn log_to_unread_pipe_does_not_block_the_switch() {
    let (reader, writer) = small_pipe();
    assert_works_with_log(writer);
    drop(reader);
}
