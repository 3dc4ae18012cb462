// Tests for SPECIFICATION.md: host-guard

use std::fs;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use xoff_netns_tests::nic::{Agent, Wire};
use xoff_netns_tests::{frames, wait_for};

use crate::BINARY;

const LOSSLESS: u16 = 5_003;
const CLASS_3: u8 = 24;
const SLOW: &str = "--speed 1M";
/// Times of the kill in milliseconds after the agent's start: before, during and after its changes.
const MOMENTS: [u64; 8] = [0, 3, 5, 6, 7, 9, 14, 40];

fn state(wire: &Wire) -> String {
    let files = ["ipv4", "ipv6"].map(|family| format!("/proc/sys/net/{family}/neigh/eth0/unres_qlen_bytes"));
    let class = wire.run("tc", "class show dev eth0").0 + &wire.run("tc", "filter show dev eth0").0;
    let link = wire.run("ip", "-details link show dev eth0").0;
    wire.state() + &class + &link + &wire.run("cat", &files.join(" ")).0
}

fn is_halted(process: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = status.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_none_or(|state| "TZX".contains(state))
}

fn kill_both(agent: Agent) {
    let id = agent.id();
    agent.signal(Signal::SIGSTOP); // a stopped agent starts no other guard
    wait_for("the agent to stop", || is_halted(&id.to_string()).then_some(()));
    let guards = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    for guard in guards.split_whitespace() {
        let _ = kill(Pid::from_raw(guard.parse().unwrap()), Signal::SIGKILL); // fails if the guard has ended
        wait_for("the guard to end", || is_halted(guard).then_some(()));
    }
    agent.end(Signal::SIGKILL);
}

fn restore(wire: &Wire) -> String {
    let (text, ended) = wire.run(BINARY, "nic restore --device eth0");
    assert!(ended.success(), "{text}");
    text
}

/// For each of `MOMENTS`, starts an agent and kills it after that time. `check` compares the device's state with that
/// before the agent.
fn kill_at_each_moment(kill: impl Fn(Agent), check: impl Fn(&Wire, &str, u64)) {
    let wire = Wire::build(BINARY);
    assert!(wire.run("tc", "qdisc replace dev eth0 root handle 9: pfifo limit 55").1.success());
    let before = state(&wire);
    for moment in MOMENTS {
        let agent = wire.launch(SLOW);
        thread::sleep(Duration::from_millis(moment));
        kill(agent);
        check(&wire, &before, moment);
    }
}

#[test]
fn guard_restores_device_at_whatever_moment_agent_is_killed() {
    let kill = |agent: Agent| drop(agent.end(Signal::SIGKILL));
    kill_at_each_moment(kill, |wire, before, moment| {
        wait_for(&format!("the guard, after {moment} ms"), || (state(wire) == before).then_some(()));
        wait_for("the guard's end", || restore(wire).contains("nothing to restore").then_some(()));
        assert_eq!(state(wire), before);
    });
}

#[test]
fn nic_restore_undoes_changes_after_agent_and_guard_are_killed() {
    kill_at_each_moment(kill_both, |wire, before, moment| {
        restore(wire);
        assert_eq!(state(wire), before, "killed after {moment} ms");
        assert!(restore(wire).contains("nothing to restore"));
    });
}

#[test]
fn next_agent_restores_device_of_killed_agent_and_guard() {
    let wire = Wire::build(BINARY);
    let before = state(&wire);
    for moment in MOMENTS {
        let agent = wire.launch(SLOW);
        thread::sleep(Duration::from_millis(moment));
        kill_both(agent);
        let (status, log) = wire.start(SLOW).end(Signal::SIGTERM);
        assert_eq!(status.code(), Some(0), "{log}");
        assert_eq!(state(&wire), before, "killed after {moment} ms");
    }
}

#[test]
fn nic_restore_resumes_class_and_keeps_changes_made_after_kill() {
    let wire = Wire::build(BINARY);
    let _sink = wire.listen(LOSSLESS);
    let agent = wire.start(SLOW);
    wire.peer().send(frames::pfc(wire.peer().mac(), &[(3, 65_535)]));
    agent.await_pause(3, true);
    wire.send(LOSSLESS, CLASS_3, 3).finish();
    let (text, ended) = wire.run(BINARY, "nic restore --device eth0");
    assert!(!ended.success() && text.contains("another xoff"), "{text}");
    kill_both(agent);
    assert!(wire.arrived(LOSSLESS).is_empty(), "the class is no longer paused");
    assert!(wire.run("ethtool", "-K eth0 gso on").1.success());
    let theirs = "net.ipv4.neigh.eth0.unres_qlen_bytes=77777";
    assert!(wire.run("sysctl", &format!("-w {theirs}")).1.success());
    let address = "02:00:00:00:00:77";
    assert!(wire.run("ip", &format!("link set eth0 address {address}")).1.success());
    restore(&wire);
    assert_eq!(wire.await_arrival(LOSSLESS, 3), [0, 1, 2]);
    let after = state(&wire);
    assert!(after.contains("\n77777\n") && after.contains("generic-segmentation-offload: on"), "{after}");
    assert!(!after.contains("786e:"), "{after}");
    // The agent's journal must find the device although the device's address has changed.
    assert!(after.contains(address) && !after.contains("gso_max_segs 1 "), "{after}");
}
