// Tests for SPECIFICATION.md: host-pauses

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use xoff_netns_tests::nic::{Agent, Wire};
use xoff_netns_tests::{frames, wait_for};

use crate::BINARY;

const LOSSLESS: u16 = 5_003;
const LOSSY: u16 = 5_000;
const CLASS_3: u8 = 24;
const SLOW: &str = "--speed 2M";
const FAST: &str = "--speed 100M";
const LONGEST_PAUSE_NANOS: u64 = 65_535 * 5_120;

fn wire() -> Wire {
    Wire::build(BINARY)
}

fn pause_class(wire: &Wire, agent: &Agent, class: u8) {
    wire.peer().send(frames::pfc(wire.peer().mac(), &[(class, 65_535)]));
    agent.await_pause(class.into(), true);
}

fn assert_clean_exit(agent: Agent) {
    let (status, log) = agent.end(Signal::SIGTERM);
    assert_eq!(status.code(), Some(0), "{log}");
}

#[test]
fn agent_stops_paused_class_while_other_classes_send() {
    let wire = wire();
    let _sinks = [wire.listen(LOSSLESS), wire.listen(LOSSY)];
    let agent = wire.start(SLOW);
    pause_class(&wire, &agent, 3);
    let stopped = wire.send(LOSSLESS, CLASS_3, 100);
    wait_for("queued frames", || (agent.class(3).waiting_frames > 0).then_some(()));
    wire.send(LOSSY, 0, 40).finish();
    assert_eq!(wire.await_arrival(LOSSY, 40), (0..40).collect::<Vec<_>>());
    assert!(wire.arrived(LOSSLESS).is_empty(), "a frame of the paused class was sent");
    assert!(stopped.sent() < 100, "the paused class did not block the sender");

    wire.peer().send(frames::pfc(wire.peer().mac(), &[(3, 0)]));
    assert_eq!(wire.await_arrival(LOSSLESS, 100), (0..100).collect::<Vec<_>>());
    stopped.finish();
    let class = agent.class(3);
    assert_eq!((class.pause_received.xoff, class.pause_received.xon, class.lost), (1, 1, 0), "{class:?}");
    assert_eq!(agent.status().pause_peer, Some(wire.peer().mac().to_string()));
    wire.assert_nothing_dropped();
    assert_clean_exit(agent);
}

#[test]
fn agent_ends_received_pause_after_its_quanta() {
    let wire = wire();
    let _sink = wire.listen(LOSSLESS);
    let agent = wire.start(FAST);
    wire.peer().send(frames::pfc(wire.peer().mac(), &[(3, 65_535)]));
    wait_for("the pause", || (agent.class(3).pause_received.xoff == 1).then_some(()));
    wire.send(LOSSLESS, CLASS_3, 20).finish();
    assert_eq!(wire.await_arrival(LOSSLESS, 20), (0..20).collect::<Vec<_>>());
    agent.await_pause(3, false);
    let pause = agent.class(3).pause_received;
    assert_eq!((pause.xon, pause.nanos), (0, LONGEST_PAUSE_NANOS));
    assert_clean_exit(agent);
}

/// The pause would last 33 s if the link stayed up.
#[test] // proves: host-service
fn agent_ends_pauses_at_link_loss() {
    let wire = wire();
    let _sink = wire.listen(LOSSLESS);
    let agent = wire.start("--speed 1M");
    pause_class(&wire, &agent, 3);
    for words in ["link set eth0 down", "link set eth0 up"] {
        assert!(wire.run("ip", words).1.success(), "{words}");
    }
    agent.await_pause(3, false);
    let pause = agent.class(3).pause_received;
    assert!((pause.xoff, pause.xon) == (1, 0) && pause.nanos < 65_535 * 512_000, "{pause:?}");
    wire.send(LOSSLESS, CLASS_3, 20).finish();
    assert_eq!(wire.await_arrival(LOSSLESS, 20), (0..20).collect::<Vec<_>>());
    pause_class(&wire, &agent, 3);
    wire.peer().send(frames::pfc(wire.peer().mac(), &[(3, 0)]));
    agent.await_pause(3, false);
    assert_clean_exit(agent);
}

#[test]
fn flood_of_control_frames_delays_no_expiry_of_a_pause() {
    let wire = wire();
    let agent = wire.start(FAST);
    wire.peer().send(frames::pfc(wire.peer().mac(), &[(3, 65_535)]));
    let flood = frames::pfc(wire.peer().mac(), &[(5, 65_535)]);
    wait_for("the pause to end under a flood", || {
        (0..2_000).for_each(|_| wire.peer().send(&flood));
        let pause = agent.class(3).pause_received;
        (pause.xoff == 1 && !pause.now).then_some(())
    });
    let status = agent.status();
    assert_eq!(status.classes[3].pause_received.nanos, LONGEST_PAUSE_NANOS, "{status:?}");
    assert!(status.pause_frames_ignored >= 64, "{status:?}");
    assert_clean_exit(agent);
}

#[test]
fn refreshed_pause_of_host_counts_as_one_pause() {
    let wire = wire();
    let agent = wire.start(SLOW);
    pause_class(&wire, &agent, 3);
    wire.peer().send(frames::pfc(wire.peer().mac(), &[(3, 65_535)]));
    wait_for("the refresh", || (agent.class(3).pause_received.xoff == 2).then_some(()));
    wire.peer().send(frames::pfc(wire.peer().mac(), &[(3, 1)]));
    agent.await_pause(3, false);
    let status = agent.status();
    let pause = status.classes[3].pause_received;
    assert_eq!((pause.xoff, pause.durations.count, status.obey_reaction.count), (3, 1, 1), "{status:?}");
    assert_clean_exit(agent);
}

#[test]
fn pause_frame_that_agent_reads_after_expiry_pauses_no_class() {
    let wire = wire();
    let agent = wire.start(SLOW);
    agent.signal(Signal::SIGSTOP);
    wire.peer().send(frames::pfc(wire.peer().mac(), &[(3, 200)])); // 51.2 ms
    let over = Instant::now() + Duration::from_millis(52);
    wait_for("the pause to be over", || (Instant::now() > over).then_some(()));
    agent.signal(Signal::SIGCONT);
    let status = wait_for("the pause to be read", || {
        Some(agent.status()).filter(|status| status.obey_reaction.count > 0)
    });
    let pause = status.classes[3].pause_received;
    assert_eq!((pause.xoff, pause.now, pause.durations.count), (1, false, 0), "{status:?}");
    assert!(status.obey_reaction_max_nanos > 51_200_000, "{status:?}");
    assert_clean_exit(agent);
}

#[test] // proves: host-service
fn agent_measures_reaction_to_xoff_that_xon_soon_revokes() {
    let wire = wire();
    let agent = wire.start(SLOW);
    agent.signal(Signal::SIGSTOP);
    for time in [65_535, 0] {
        wire.peer().send(frames::pfc(wire.peer().mac(), &[(3, time)]));
    }
    agent.signal(Signal::SIGCONT);
    let pause = wait_for("both", || Some(agent.class(3).pause_received).filter(|pause| pause.xon == 1));
    assert_eq!((pause.xoff, pause.now), (1, false));
    assert_eq!(
        wait_for("its delay", || Some(agent.status().obey_reaction.count).filter(|count| *count > 0)),
        1
    );
    assert_clean_exit(agent);
}

#[test]
fn malformed_mac_control_pauses_nothing_at_host() {
    let wire = wire();
    let agent = wire.start(SLOW);
    let good = frames::pfc(wire.peer().mac(), &[(3, 65_535)]);
    let mut wrong_destination = good.clone();
    wrong_destination[..6].copy_from_slice(&wire.mac().0);
    let mut opcode = good.clone();
    opcode[15] = 2;
    let tagged = [&good[..12], &[0x81, 0, 0xe0, 0], &good[12..]].concat();
    for frame in [&wrong_destination, &opcode, &tagged, &good[..33].to_vec()] {
        wire.peer().send(frame);
    }
    wire.peer().send(frames::pause(wire.peer().mac(), 65_535));
    wire.peer().send(frames::pfc(wire.peer().mac(), &[(5, 65_535)])); // of a lossy class
    let status = wait_for("all of them", || {
        let status = agent.status();
        let malformed: u64 = status.malformed_control.values().sum();
        (malformed == 4 && status.pause_frames_ignored == 2).then_some(status)
    });
    for reason in ["wrong_destination", "unknown_opcode", "tagged", "truncated"] {
        assert_eq!(status.malformed_control[reason], 1, "{reason}: {:?}", status.malformed_control);
    }
    assert_eq!((status.pfc_frames_received, status.pause_frames_received), (1, 1));
    assert!(status.classes.iter().all(|class| class.pause_received.xoff == 0 && !class.pause_received.now));
    assert_clean_exit(agent);
}

#[test] // proves: host-guard
fn stopped_agent_releases_frames_and_device() {
    let wire = wire();
    let _sink = wire.listen(LOSSLESS);
    let before = wire.state();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        wire.peer().tap().clear();
        let agent = wire.start(SLOW);
        assert_ne!(wire.state(), before);
        pause_class(&wire, &agent, 3);
        wire.send(LOSSLESS, CLASS_3, 3).finish();
        let (status, log) = agent.end(signal);
        assert_eq!(status.code(), Some(0), "{signal}: {log}");
        assert_eq!(wire.await_arrival(LOSSLESS, 3), [0, 1, 2]);
        assert_eq!(wire.state(), before, "{signal}");
    }
    wire.assert_nothing_dropped();
}

#[test] // proves: host-guard
fn host_sends_again_after_its_agent_is_killed() {
    let wire = wire();
    let _sink = wire.listen(LOSSLESS);
    let before = wire.state();
    let agent = wire.start(SLOW);
    pause_class(&wire, &agent, 3);
    let sender = wire.send(LOSSLESS, CLASS_3, 100);
    wait_for("queued frames", || (agent.class(3).waiting_frames > 0).then_some(()));
    assert!(wire.arrived(LOSSLESS).is_empty());
    agent.end(Signal::SIGKILL);
    // Ignore losses: the kernel drops queued frames when it removes the agent's queues.
    sender.finish();
    wait_for("the device to be as it was", || (wire.state() == before).then_some(()));
    wire.peer().tap().clear();
    wire.send(LOSSLESS, CLASS_3, 10).finish();
    assert_eq!(wire.await_arrival(LOSSLESS, 10), (0..10).collect::<Vec<_>>());
}

#[test] // proves: host-service
fn second_agent_of_a_device_is_refused() {
    let wire = wire();
    let agent = wire.start(SLOW);
    let (status, log) = wire.launch(&format!("{SLOW} --http off")).wait();
    assert_eq!(status.code(), Some(2), "{log}");
    assert!(log.contains(&format!("another xoff (process {}) runs on eth0", agent.id())), "{log}");
    let (status, log) = wire.launch(SLOW).wait();
    assert_eq!(status.code(), Some(2), "{log}");
    assert!(log.contains("--http 127.0.0.1:9466"), "{log}");
    pause_class(&wire, &agent, 3);
    assert_clean_exit(agent);
}

#[test] // proves: host-service
fn agent_serves_metrics_and_status() {
    let wire = wire();
    let agent = wire.start(SLOW);
    pause_class(&wire, &agent, 3);
    let metrics = agent.get("/metrics").unwrap();
    for line in [
        "xoff_pfc_xoff_received_total{switch=\"eth0\",port=\"eth0\",class=\"3\"} 1",
        "xoff_pfc_paused{switch=\"eth0\",port=\"eth0\",class=\"3\",direction=\"received\"} 1",
        "xoff_received_pfc_frames_total{switch=\"eth0\",port=\"eth0\"} 1",
        "xoff_class_lossless{switch=\"eth0\",port=\"eth0\",class=\"4\"} 0",
        "xoff_nic_control_missed_total{switch=\"eth0\",port=\"eth0\"} 0",
        "xoff_pfc_obey_reaction_seconds_count{switch=\"eth0\",port=\"eth0\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    let (text, ended) = wire.run(BINARY, "nic status");
    assert!(ended.success() && text.contains("eth0 (02:00:00:00:00:01)") && text.contains("NOW"), "{text}");
    let (json, ended) = wire.run(BINARY, "nic status --json");
    assert!(ended.success() && json.contains("\"device\":\"eth0\""), "{json}");
    assert_clean_exit(agent);
    let (text, ended) = wire.run(BINARY, "nic status");
    assert_eq!(ended.code(), Some(2));
    assert!(text.contains("no agent answers at http://127.0.0.1:9465"), "{text}");
}

#[test] // proves: host-service
fn nic_check_describes_device_without_changes() {
    let wire = wire();
    let before = wire.state();
    let (text, ended) = wire.run(BINARY, "nic check --device eth0 --speed 1G");
    assert_eq!(ended.code(), Some(0), "{text}");
    for part in
        ["driver         veth", "stopped by     ", "MAC control    reaches this host", "peer_response  "]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let (text, ended) = wire.run(BINARY, "nic check --device eth9 --speed 1G");
    assert_eq!(ended.code(), Some(2), "{text}");
    assert!(
        text.contains("no interface `eth9` with an Ethernet address") && !text.contains("driver"),
        "{text}"
    );
    assert_eq!(wire.state(), before);
}

#[test] // proves: host-guard
fn agent_ends_when_its_device_is_deleted() {
    let wire = wire();
    let mut agent = wire.start(SLOW);
    assert!(wire.run("ip", "link del eth0").1.success());
    let (status, log) = agent.wait();
    assert_eq!(status.code(), Some(2), "{log}");
    assert!(log.contains("the interface eth0 was removed; start the agent again"), "{log}");
}

#[test] // proves: host-guard
fn agent_reinstalls_replaced_root_qdisc_and_reports_its_loss() {
    let wire = wire();
    let offloads = || wire.run("ethtool", "-k eth0").0;
    let before = offloads();
    let agent = wire.start(SLOW);
    assert_ne!(offloads(), before);
    assert!(wire.run("tc", "qdisc replace dev eth0 root handle 9: pfifo limit 55").1.success());
    wait_for("the foreign root", || agent.get("/healthz").is_none().then_some(()));
    wait_for("the repair", || (agent.status().queue_repairs == 1).then_some(()));
    pause_class(&wire, &agent, 3);
    let status = agent.status();
    assert_eq!((status.queues_broken, status.classes[3].queues_deleted), (false, 1));
    let (status, log) = agent.end(Signal::SIGTERM);
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("replaced the root queueing discipline of eth0 by pfifo 9:"), "{log}");
    assert_eq!(offloads(), before);
    assert!(wire.state().contains("pfifo 9: root"), "{}", wire.state());
}

#[test] // proves: host-guard
fn waiting_agent_starts_when_its_device_returns() {
    let wire = wire();
    let agent = wire.start(&format!("{SLOW} --wait"));
    let mut holder = wire.peer().start("sleep", &["1000"]);
    let away = format!("link set dev eth0 name eth9 netns {}", holder.id());
    assert!(wire.run("ip", &away).1.success());
    wait_for("the end of the HTTP server", || agent.get("/healthz").is_none().then_some(()));
    let back = format!("link set dev eth9 name eth0 netns {}", agent.id());
    wire.peer().run("ip", &back.split(' ').collect::<Vec<_>>());
    holder.kill().and_then(|()| holder.wait()).unwrap();
    assert!(wire.run("ip", "link set eth0 up").1.success());
    wait_for("the agent", || agent.get("/healthz"));
    pause_class(&wire, &agent, 3);
    let (status, log) = agent.end(Signal::SIGTERM);
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("no interface eth0 with an Ethernet address yet; waiting for it"), "{log}");
}

#[test] // proves: host-guard
fn agent_that_drops_queued_frames_at_its_end_exits_with_1() {
    let wire = wire();
    let agent = wire.start("--speed 100K");
    pause_class(&wire, &agent, 3);
    let sender = wire.send(LOSSLESS, CLASS_3, 30);
    wait_for("queued frames", || (agent.class(3).waiting_frames >= 8).then_some(()));
    let (status, log) = agent.end(Signal::SIGTERM);
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("removing the agent's queues dropped queued frames"), "{log}");
    sender.finish();
}
