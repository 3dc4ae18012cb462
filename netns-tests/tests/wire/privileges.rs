// Tests for SPECIFICATION.md: privileges

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use xoff_netns_tests::{Bed, Switch, wait_for};

use crate::bed;

/// Capability mask of CAP_NET_ADMIN (12).
const OWNER: &str = "0000000000001000";
/// Capability mask of CAP_NET_ADMIN (12), CAP_NET_RAW (13), CAP_IPC_LOCK (14) and CAP_BPF (39).
const OPENER: &str = "0000008000007000";
const NONE: &str = "0000000000000000";

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Privileges {
    uid: String,
    permitted: String,
    effective: String,
    inheritable: String,
    ambient: String,
    no_new_privileges: String,
    seccomp: String,
}

/// Returns the privileges of threads by thread name. The main and the signal thread have the program's name.
fn privileges(switch: &Switch) -> BTreeMap<String, Privileges> {
    let process = format!("/proc/{}", switch.pid());
    let program = fs::read_to_string(format!("{process}/comm")).unwrap();
    let tasks = fs::read_dir(format!("{process}/task")).unwrap();
    let read = |task: std::path::PathBuf| {
        let text = fs::read_to_string(task.join("status")).unwrap();
        let field =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        let privileges = Privileges {
            uid: field("Uid:").split('\t').next().unwrap().to_owned(),
            permitted: field("CapPrm:"),
            effective: field("CapEff:"),
            inheritable: field("CapInh:"),
            ambient: field("CapAmb:"),
            no_new_privileges: field("NoNewPrivs:"),
            seccomp: field("Seccomp:"),
        };
        let name = field("Name:");
        (if name == program.trim() { "main".to_owned() } else { name }, privileges)
    };
    tasks.map(|task| read(task.unwrap().path())).collect()
}

fn expected(uid: &str) -> BTreeMap<String, Privileges> {
    let with = |capabilities: &str| Privileges {
        uid: uid.to_owned(),
        permitted: capabilities.to_owned(),
        effective: capabilities.to_owned(),
        inheritable: NONE.to_owned(),
        ambient: NONE.to_owned(),
        no_new_privileges: "1".to_owned(),
        seccomp: "2".to_owned(),
    };
    let opens = ["main", "xoff-control"].map(|name| (name.to_owned(), with(OWNER)));
    let opens_nothing =
        ["xoff-host-path", "xoff-http", "xoff-log", "xoff-worker"].map(|name| (name.to_owned(), with(NONE)));
    let opener = ("xoff-opener".to_owned(), with(OPENER));
    opens.into_iter().chain(opens_nothing).chain([opener]).collect()
}

fn devices(bed: &Bed) -> String {
    let output = bed.namespace().output(Command::new("ip").args(["-details", "link", "show"])).unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn ping(bed: &Bed) {
    let there = bed.host(2).ipv4().to_string();
    bed.host(1).run("ping", &["-c", "3", "-i", "0.05", "-W", "5", &there]);
}

fn assert_works(bed: &Bed, switch_lines: &str, uid: &str) {
    let before = devices(bed);
    // Make the HTTP port privileged: the switch needs a privilege to bind the port, but none to serve it.
    bed.namespace().sysctl("ipv4/ip_unprivileged_port_start", "10000").unwrap();
    let switch = bed.start(&bed.config("speed = \"1G\"\nmode = \"generic\"").switch(switch_lines));
    assert_ne!(devices(bed), before, "the XDP program is missing");
    assert_eq!(privileges(&switch), expected(uid));
    ping(bed);
    let mut off = Command::new("ip");
    let off = bed.namespace().output(off.args(["link", "set", "p1", "xdpgeneric", "off"])).unwrap();
    assert!(off.status.success());
    wait_for("the program to be back", || switch.stderr().contains("is attached again").then_some(()));
    ping(bed);
    for answer in ["/metrics", "/status", "/addresses", "/healthz", "/policy"] {
        switch.get(answer).unwrap();
    }
    // The switch must read files and a BPF map for its metrics.
    let metrics = switch.metrics();
    for name in ["process_start_time_seconds", "process_open_fds", "process_cpu_seconds_total"] {
        assert!(metrics.lines().any(|line| line.starts_with(name)), "no {name} in {metrics}");
    }
    let statistics = switch.port(1).xdp_statistics;
    assert!(statistics.is_some(), "statistics of sockets or XDP program cannot be read");
    let exit = switch.stop();
    assert_eq!(
        exit.status.code(),
        Some(3),
        "frames that bypassed the detached XDP program are not counted: {}",
        exit.stderr
    );
    assert_eq!(devices(bed), before);
}

#[test]
fn each_switch_thread_keeps_only_privileges_that_it_needs() {
    assert_works(&bed(2).build(), "", "0");
}

#[test]
fn switch_process_runs_as_the_configured_user() {
    assert_works(&bed(2).build(), "user = \"nobody\"", "65534");
}

#[test]
fn configuration_with_unknown_user_is_refused() {
    let bed = bed(2).build();
    let exit = bed.launch(&bed.config("speed = \"1G\"").switch("user = \"no.such.user\"")).wait();
    assert_eq!(exit.status.code(), Some(2));
    assert!(exit.stderr.contains("there is no such user on this machine"), "{}", exit.stderr);
    bed.assert_no_drops();
}
