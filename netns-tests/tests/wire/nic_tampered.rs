// Tests for SPECIFICATION.md: host-guard

use std::process::Command;

use nix::sys::signal::Signal;
use xoff_netns_tests::nic::{Agent, Wire};
use xoff_netns_tests::{frames, wait_for};

use crate::BINARY;

const LOSSLESS: u16 = 5_003;
const CLASS_3: u8 = 24;
const SLOW: &str = "--speed 1M";

fn tc(wire: &Wire, words: &str) {
    let (output, ended) = wire.run("tc", words);
    assert!(ended.success(), "tc {words}: {output}");
}

fn await_repairs(agent: &Agent, times: u64) {
    wait_for("the repair", || (agent.status().queue_repairs == times).then_some(()));
}

#[test]
fn agent_reports_fault_if_queues_change_during_a_pause() {
    let wire = Wire::build(BINARY);
    let _sink = wire.listen(LOSSLESS);
    let before = wire.state();
    let agent = wire.start(SLOW);
    wire.peer().send(frames::pfc(wire.peer().mac(), &[(3, 65_535)]));
    agent.await_pause(3, true);
    let tampers = [
        "filter del dev eth0",
        "qdisc replace dev eth0 parent 786e:13 handle 99: pfifo",
        "qdisc del dev eth0 root",
    ];
    for (times, words) in (1..).zip(tampers) {
        tc(&wire, words);
        await_repairs(&agent, times);
        wire.send(LOSSLESS, CLASS_3, 3).finish();
        wait_for("queued frames", || (agent.class(3).waiting_frames >= 3).then_some(()));
        assert!(wire.arrived(LOSSLESS).is_empty(), "a frame left after {words:?}");
    }
    let status = agent.status();
    assert!(status.classes[3].disobeyed_nanos > 0, "{status:?}");
    let others: u64 =
        status.classes.iter().filter(|class| class.class != 3).map(|class| class.disobeyed_nanos).sum();
    assert_eq!((others, status.changes_refused), (0, 0), "faults of a class other than 3");
    assert!(status.faults[0].contains("pauses were not enforced: class 3 for up to"), "{:?}", status.faults);
    assert_eq!(agent.get("/healthz"), None, "503");
    let metrics = agent.get("/metrics").unwrap();
    assert!(metrics.contains("xoff_nic_queue_repairs_total{switch=\"eth0\",port=\"eth0\"} 3"), "{metrics}");
    assert!(metrics.contains("xoff_nic_queues_broken{switch=\"eth0\",port=\"eth0\"} 0"), "{metrics}");
    let (status, log) = agent.end(Signal::SIGTERM);
    assert_eq!(status.code(), Some(1), "{log}");
    for part in [
        "another program changed the device's queues (the filter that",
        "class 3: pause not enforced for up to ",
        " ms because ",
    ] {
        assert!(log.contains(part), "{part} is not in {log}");
    }
    assert_eq!(wire.state(), before);
}

#[test]
fn agent_reports_no_fault_if_queues_change_outside_pauses() {
    let wire = Wire::build(BINARY);
    let agent = wire.start(SLOW);
    for (times, words) in (1..).zip(["filter del dev eth0", "class del dev eth0 classid 786e:10"]) {
        tc(&wire, words); // the second command deletes the queue of a lossy class
        await_repairs(&agent, times);
    }
    wire.peer().send(frames::pfc(wire.peer().mac(), &[(3, 65_535)]));
    agent.await_pause(3, true);
    wire.peer().send(frames::pfc(wire.peer().mac(), &[(3, 0)]));
    agent.await_pause(3, false);
    let status = agent.status();
    assert!(status.faults.is_empty() && agent.get("/healthz").is_some(), "{status:?}");
    assert_eq!(status.queue_repairs, 2, "the agent's own changes count as tampering");
    let (status, log) = agent.end(Signal::SIGTERM);
    assert_eq!(status.code(), Some(0), "{log}");
}

#[test]
fn agent_reports_fault_if_lossless_queue_was_deleted() {
    let wire = Wire::build(BINARY);
    let agent = wire.start(SLOW);
    tc(&wire, "class del dev eth0 classid 786e:13");
    await_repairs(&agent, 1);
    let fault = "another program deleted the queue of class 3; its frames are lost and were not counted";
    assert_eq!(agent.status().faults, [fault]);
    assert_eq!(agent.get("/healthz"), None, "503");
    let (status, log) = agent.end(Signal::SIGTERM);
    assert!(status.code() == Some(1) && log.contains(fault), "{log}");
}

#[test]
fn agent_exits_with_1_after_many_foreign_queue_changes() {
    let wire = Wire::build(BINARY);
    let agent = wire.start(SLOW);
    wire.peer().send(frames::pfc(wire.peer().mac(), &[(3, 65_535)]));
    agent.await_pause(3, true);
    let mut tampering = Command::new("sh");
    tampering.args(["-c", "while :; do tc filter del dev eth0; done 2>/dev/null"]);
    let mut tampering = wire.namespace().spawn(tampering).unwrap();
    wait_for("many repairs", || (agent.status().queue_repairs >= 20).then_some(()));
    tampering.kill().unwrap();
    tampering.wait().unwrap();
    wait_for("the last repair", || {
        agent.status().faults.iter().all(|it| !it.contains("cannot be repaired")).then_some(())
    });
    let (status, log) = agent.end(Signal::SIGTERM);
    assert_eq!(status.code(), Some(1), "{log}");
}
