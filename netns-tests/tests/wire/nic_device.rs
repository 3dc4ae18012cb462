//! Tests of an agent whose device or limits other programs change: name, address, offloads, XDP program, open files.

use std::fs;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use xoff_netns_tests::nic::{Agent, Wire};
use xoff_netns_tests::{frames, wait_for};
use xoff_wire::lldp::Lldpdu;
use xoff_wire::units::MacAddr;

use crate::BINARY;
use crate::lldp::is_lldp;

const SPEED: &str = "--speed 100M";
const PASS: &str = "__attribute__((section(\"xdp\"), used)) int pass(void *frame) { return 2; }";

fn run(wire: &Wire, program: &str, args: &str) -> String {
    let (output, ended) = wire.run(program, args);
    assert!(ended.success(), "{program} {args}: {output}");
    output
}

fn pause(wire: &Wire, agent: &Agent) {
    wait_for("the pause", || {
        wire.peer().send(frames::pfc(wire.peer().mac(), &[(3, 65_535)]));
        agent.class(3).pause_received.now.then_some(())
    });
}

#[test] // proves: host-service
fn xdp_program_at_host_is_a_fault_until_agent_gets_a_pause() {
    let wire = Wire::build(BINARY);
    let agent = wire.start(SPEED);
    let directory = tempfile::tempdir().unwrap();
    let (source, object) = (directory.path().join("pass.c"), directory.path().join("pass.o"));
    fs::write(&source, PASS).unwrap();
    run(&wire, "clang", &format!("-O2 -target bpf -c {} -o {}", source.display(), object.display()));
    run(&wire, "ip", &format!("link set dev eth0 xdpgeneric obj {} sec xdp", object.display()));
    wait_for("503", || agent.get("/healthz").is_none().then_some(()));
    let status = agent.status();
    assert!(status.xdp_attached && status.faults[0].contains("may consume pauses"), "{status:?}");
    let text = run(&wire, BINARY, "nic check --device eth0 --speed 100M");
    for part in ["MAC control    unknown", "warning: the XDP program"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    pause(&wire, &agent);
    let status = agent.status();
    assert!(status.xdp_attached && status.faults.is_empty(), "{status:?}");
    run(&wire, "ip", "link set dev eth0 xdpgeneric off");
    wait_for("the removal", || (!agent.status().xdp_attached).then_some(()));
    let (status, log) = agent.end(Signal::SIGTERM);
    assert_eq!((status.code(), log.matches("the XDP program").count()), (Some(0), 2), "{log}");
}

#[test] // proves: host-guard
fn agent_turns_off_offloads_that_other_programs_turn_on() {
    let wire = Wire::build(BINARY);
    let offloads = || run(&wire, "ethtool", "-k eth0");
    let agent = wire.start(SPEED);
    let of_agent = offloads();
    for (repairs, (program, change)) in
        (1..).zip([("ethtool", "-K eth0 tx on"), ("ip", "link set dev eth0 gso_max_segs 65535")])
    {
        run(&wire, program, change);
        wait_for("the repair", || (agent.status().offload_repairs == repairs).then_some(()));
        assert_eq!(offloads(), of_agent);
        assert!(!run(&wire, "ip", "-d link show dev eth0").contains("gso_max_segs 65535"));
    }
    let (status, log) = agent.end(Signal::SIGTERM);
    assert_eq!(status.code(), Some(0), "{log}");
    for part in
        ["another program changed offloads (TX checksums)", "another program changed offloads (gso_max_segs)"]
    {
        assert!(log.contains(part), "{part} is not in {log}");
    }
    assert!(
        offloads().contains("tx-checksumming: on"),
        "the end does not restore the other program's setting"
    );
}

#[test] // proves: host-guard
fn agent_continues_after_its_device_is_renamed() {
    let wire = Wire::build(BINARY);
    let agent = wire.start(SPEED);
    for words in ["link set dev eth0 down", "link set dev eth0 name eth9", "link set dev eth9 up"] {
        run(&wire, "ip", words);
    }
    wait_for("the new name", || (agent.status().device == "eth9").then_some(()));
    pause(&wire, &agent);
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", agent.id())).unwrap();
    let guard = children.split_whitespace().next().unwrap().parse().unwrap();
    kill(Pid::from_raw(guard), Signal::SIGKILL).unwrap();
    wait_for("another guard", || (agent.status().guards_lost == 1).then_some(()));
    thread::sleep(Duration::from_secs(2)); // a guard that did not find the device would be replaced again
    assert_eq!(agent.status().guards_lost, 1);
    let (status, log) = agent.end(Signal::SIGTERM);
    assert_eq!((status.code(), log.matches("the device was renamed").count()), (Some(0), 1), "{log}");
    assert!(!run(&wire, "tc", "qdisc show dev eth9").contains("htb"), "the renamed device is not restored");
}

#[test] // proves: host-dcbx
fn agent_with_new_mac_address_sends_shutdown_lldpdu_for_old_one() {
    let wire = Wire::build(BINARY);
    let agent = wire.start(&format!("{SPEED} --dcbx compare"));
    let announced = |address: MacAddr, frame: &[u8]| {
        let is_of_address = is_lldp(frame) && frame[6..12] == address.0;
        Lldpdu::parse(frame.get(14..)?).ok().filter(|_| is_of_address).map(|list| list.ttl)
    };
    let (old, new) = (wire.mac(), MacAddr([2, 0xbb, 0xbb, 0xbb, 0xbb, 2]));
    wire.peer().tap().wait(1, |frame| announced(old, frame).is_some_and(|ttl| ttl > 0));
    run(&wire, "ip", &format!("link set dev eth0 address {new}"));
    wire.peer().tap().wait(1, |frame| announced(new, frame).is_some_and(|ttl| ttl > 0));
    let later = wire.peer().tap().matching(|frame| announced(old, frame) == Some(0));
    assert_eq!(later.len(), 1, "shutdown LLDPDUs of the old address");
    let (status, log) = agent.end(Signal::SIGTERM);
    assert_eq!(status.code(), Some(0), "{log}");
}

#[test] // proves: host-service
fn agent_at_limit_of_open_files_keeps_its_device() {
    let wire = Wire::build(BINARY);
    let (text, ended) = wire.run("prlimit", &format!("--nofile=64 {BINARY} nic --device eth0 {SPEED}"));
    assert_eq!(ended.code(), Some(2), "{text}");
    assert!(text.contains("may open 64: raise the limit (`ulimit -Hn "), "{text}");

    let agent = wire.start(SPEED);
    run(&wire, "prlimit", &format!("--pid {} --nofile=8:", agent.id()));
    run(&wire, "ethtool", "-K eth0 tx on");
    run(&wire, "ip", "link set dev eth0 mtu 1400");
    let client = wire.namespace().run(|| TcpStream::connect("127.0.0.1:9465").unwrap());
    wait_for("the refused client", || {
        agent.stderr().contains("cannot accept an HTTP connection").then_some(())
    });
    thread::sleep(Duration::from_secs(2)); // in which the agent checks its device
    drop(client);
    run(&wire, "prlimit", &format!("--pid {} --nofile=1024:", agent.id()));
    wait_for("the repair", || {
        (agent.get("/healthz").is_some() && agent.status().offload_repairs == 1).then_some(())
    });
    pause(&wire, &agent);
    let (_, log) = agent.end(Signal::SIGKILL);
    wait_for("the guard, by the journal written at the limit", || {
        run(&wire, "ethtool", "-k eth0").contains("tx-checksumming: on").then_some(())
    });
    assert!(log.contains("raise the limit of open files (`ulimit -n`, now 8"), "{log}");
    assert!(!log.contains("was removed"), "{log}");
}
