// Tests for SPECIFICATION.md: devices

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::process::Command;

use xoff_netns_tests::{Bed, Host, PATIENCE, Switch, frames, wait_for};
use xoff_switch::Promise;
use xoff_switch::control::Link;

use crate::{BINARY, bed, frame};

const FLOWS: u16 = 64;
const DATAGRAMS: u16 = 20;

/// Sends from many UDP ports, so that the kernel uses all queues. Returns each frame's source port and number.
fn many_flows(from: &Host, to: &Host) -> Vec<(u16, u16)> {
    let (source, destination) = (from.ipv4(), to.ipv4());
    let receiver = to.namespace().run(|| UdpSocket::bind((destination, 5_000))).unwrap();
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    let senders: Vec<UdpSocket> = from.namespace().run(|| {
        let open = |_| {
            let socket = UdpSocket::bind((source, 0)).unwrap();
            socket.connect((destination, 5_000)).unwrap();
            socket
        };
        (0..FLOWS).map(open).collect()
    });
    let mut arrived = Vec::new();
    for number in 0..DATAGRAMS {
        senders.iter().for_each(|sender| _ = sender.send(&number.to_be_bytes()).unwrap());
        for _ in 0..FLOWS {
            let mut bytes = [0; 2];
            let (_, source) = receiver.recv_from(&mut bytes).unwrap();
            arrived.push((source.port(), u16::from_be_bytes(bytes)));
        }
    }
    arrived
}

fn per_queue(port: &xoff_lab::Device) -> Vec<u64> {
    let mut ethtool = std::process::Command::new("ethtool");
    let output = port.namespace().output(ethtool.args(["-S", port.name()])).unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| {
        let (name, count) = line.trim().split_once(": ")?;
        (name.starts_with("rx_queue_") && name.ends_with("_xdp_packets")).then(|| count.parse().unwrap())
    };
    printed.lines().filter_map(line).collect()
}

#[test]
fn port_receives_frames_of_all_queues_of_its_device() {
    let bed = bed(2).queues(3).build();
    let switch = bed.start(&bed.config("speed = \"1G\""));
    let (a, b) = (bed.host(1), bed.host(2));
    assert_eq!([1, 2].map(|port| switch.port(port).queues), [3, 3]);
    for (from, to, port) in [(a, b, 1), (b, a, 2)] {
        let arrived = many_flows(from, to);
        assert_eq!(arrived.iter().collect::<BTreeSet<_>>().len(), usize::from(FLOWS * DATAGRAMS));
        let queues = per_queue(bed.port(port));
        assert!(queues.len() == 3 && queues.iter().all(|&packets| packets > 0), "{queues:?}");
    }
    let status = bed.finish(switch);
    assert!(status.ports[0].classes[0].rx_frames >= u64::from(FLOWS * DATAGRAMS));
}

#[test] // proves: verdict
fn frames_of_queue_without_socket_count_as_lost() {
    let bed = bed(2).queues(2).build();
    let switch = bed.start(&bed.config("speed = \"1G\"").port(1, "queues = [1]"));
    assert_eq!(
        [1, 2].map(|port| switch.port(port).queues),
        [1, 2],
        "number of queues with a socket at each port"
    );
    let a = bed.host(1);
    let source = a.ipv4();
    let sockets: Vec<UdpSocket> =
        a.namespace().run(|| (0..FLOWS).map(|_| UdpSocket::bind((source, 0)).unwrap()).collect());
    a.run("ip", &["neigh", "add", "10.0.0.2", "lladdr", "02:00:00:00:00:02", "dev", "eth0"]);
    sockets.iter().for_each(|socket| _ = socket.send_to(b"x", (bed.host(2).ipv4(), 9)).unwrap());
    let (lost, passed) = xoff_netns_tests::wait_for("all frames", || {
        let port = switch.port(1);
        let lost = port.xdp_statistics.unwrap().rx_unclaimed;
        let passed = port.classes[0].rx_frames;
        (lost + passed >= u64::from(FLOWS)).then_some((lost, passed))
    });
    assert!(lost > 0 && passed > 0, "{lost} lost, {passed} passed");
    let verdict = switch.status().verdict;
    assert_eq!(
        (verdict.unseen_lossy, verdict.unseen_lost),
        (lost, 0),
        "lost frames count in a class other than 0"
    );
    let exit = switch.stop();
    assert_eq!(exit.status.code(), Some(0), "{}", exit.stderr);
}

fn ethtool(bed: &Bed, words: &str) {
    let output = bed.namespace().output(Command::new("ethtool").args(words.split(' '))).unwrap();
    assert!(output.status.success(), "ethtool {words}: {output:?}");
}

fn set_mtu(bed: &Bed, mtu: u32) {
    let mtu = mtu.to_string();
    let output = bed.namespace().output(Command::new("ip").args(["link", "set", "p1", "mtu", &mtu])).unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn await_queues(switch: &Switch, times: u64, queues: u32) {
    wait_for("the port to follow its queues", || {
        let port = switch.port(1);
        let follows = port.unfollowed.is_none() && port.link == Link::Up;
        (follows && (port.requeued, port.queues) == (times, queues)).then_some(())
    });
}

const CHANGED: &str = "p1: the number of receive queues of the device changed";

#[test]
fn port_adapts_to_changed_number_of_device_queues() {
    let bed = bed(2).queues(2).build();
    let (a, b) = (bed.host(1), bed.host(2));
    a.run("ethtool", &["-L", "eth0", "tx", "1"]);
    ethtool(&bed, "-L p1 rx 1");
    let switch = bed.start(&bed.config("speed = \"1G\"").port(1, "queues = [0]"));
    ethtool(&bed, "-L p1 rx 2");
    await_queues(&switch, 1, 1);
    a.run("ethtool", &["-L", "eth0", "tx", "2"]);
    a.run("ip", &["neigh", "replace", "10.0.0.2", "lladdr", "02:00:00:00:00:02", "dev", "eth0"]);
    wait_for("the link", || (switch.port(1).link == Link::Up).then_some(()));
    let source = a.ipv4();
    let sockets: Vec<UdpSocket> =
        a.namespace().run(|| (0..FLOWS).map(|_| UdpSocket::bind((source, 0)).unwrap()).collect());
    sockets.iter().for_each(|socket| _ = socket.send_to(b"x", (b.ipv4(), 9)).unwrap());
    wait_for("all frames", || {
        let port = switch.port(1);
        let lost = port.xdp_statistics.unwrap().rx_unclaimed;
        (lost > 0 && lost + port.classes[0].rx_frames >= u64::from(FLOWS)).then_some(())
    });
    let port = switch.port(1);
    assert_eq!(port.device_drops.unwrap().rx_passed, 0);
    assert_eq!(switch.health().0, 200);
    let gap = format!("{CHANGED} once; frames of queues without a socket were not counted");
    let verdict = switch.status().verdict;
    assert_eq!((verdict.promise, verdict.unproved), (Promise::NotProved, vec![gap.clone()]));
    let output = bed.namespace().output(Command::new(BINARY).arg("acknowledge")).unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("acknowledged: {gap}\n"));
    assert_eq!(switch.status().verdict.promise, Promise::Kept, "{:?}", switch.status().verdict);
    let exit = switch.stop();
    assert_eq!(exit.status.code(), Some(0), "{}", exit.stderr);
}

/// While the device has a third queue, which no socket reads, frames may be lost there uncounted.
#[test]
fn brief_change_of_device_queues_leaves_losslessness_unproved() {
    let bed = bed(2).queues(3).build();
    bed.host(1).run("ethtool", &["-L", "eth0", "tx", "1"]);
    ethtool(&bed, "-L p1 rx 2");
    let switch = bed.start(&bed.config("speed = \"1G\""));
    ethtool(&bed, "-L p1 rx 3");
    ethtool(&bed, "-L p1 rx 2");
    wait_for("it to be noticed", || (switch.port(1).requeued > 0).then_some(()));
    wait_for("the port to be open again", || (switch.health().0 == 200).then_some(()));
    assert_eq!(switch.port(1).queues, 2);
    let exit = switch.stop();
    assert_eq!(exit.status.code(), Some(3), "{}", exit.stderr);
    assert!(exit.stderr.contains(CHANGED), "{}", exit.stderr);
}

/// The pause lasts longer than the maximum time that a removed port takes to drain.
#[test]
fn queued_frames_survive_change_of_device_queues() {
    let bed = bed(2).queues(2).build();
    let (a, b) = (bed.host(1), bed.host(2));
    [a, b].iter().for_each(|host| _ = host.run("ethtool", &["-L", "eth0", "tx", "1"]));
    ethtool(&bed, "-L p2 rx 1");
    let switch = bed.start(&bed.config("speed = \"1M\"").port(2, "queues = [0]"));
    b.send(frame(b, a, 0, 0));
    a.tap().numbered(0);
    b.send(frames::pfc(b.mac(), &[(3, u16::MAX)])); // 33 s at this speed
    wait_for("the pause", || switch.class(2, 3).pause_received.now.then_some(()));
    (1..=10).for_each(|number| a.send(frame(a, b, 3, number)));
    wait_for("all frames", || (switch.class(1, 3).rx_frames == 10).then_some(()));
    ethtool(&bed, "-L p2 rx 2");
    wait_for("the port to follow its queues", || {
        let port = switch.port(2);
        (port.unfollowed.is_none() && port.link == Link::Up && port.requeued == 1).then_some(())
    });
    let waiting = switch.class(2, 3);
    assert_eq!((waiting.tx_frames, waiting.drops["link_down"]), (0, 0));
    b.send(frames::pfc(b.mac(), &[(3, 0)]));
    b.tap().numbered(10);
    assert_eq!(b.tap().numbers(), (1..=10).collect::<Vec<_>>());
    let exit = switch.stop();
    assert_eq!(exit.status.code(), Some(3), "exit code is not 3 (not proved): {}", exit.stderr);
}

#[test]
fn port_reopens_to_use_added_queues() {
    let bed = bed(2).queues(2).build();
    ethtool(&bed, "-L p1 rx 1");
    let switch = bed.start(&bed.config("speed = \"1G\""));
    ethtool(&bed, "-L p1 rx 2");
    await_queues(&switch, 1, 2);
    let flows = many_flows(bed.host(1), bed.host(2));
    assert_eq!(flows.len(), usize::from(FLOWS * DATAGRAMS));
    assert_eq!(switch.health().0, 200);
    let exit = switch.stop();
    assert!(
        [Some(1), Some(3)].contains(&exit.status.code()),
        "exit code is neither 1 (not kept) nor 3 (not proved): {}",
        exit.stderr
    );
}

/// The device's MTU is too small to reopen the port, so the new queue's frames bypass the switch.
#[test]
fn device_queues_unusable_by_switch_leave_losslessness_unproved() {
    let bed = bed(2).queues(2).build();
    let (a, b) = (bed.host(1), bed.host(2));
    a.run("ethtool", &["-L", "eth0", "tx", "1"]);
    ethtool(&bed, "-L p1 rx 1");
    let switch = bed.start(&bed.config("speed = \"1G\""));
    set_mtu(&bed, 1_400);
    ethtool(&bed, "-L p1 rx 2");
    let (code, health) = wait_for("it to be noticed", || {
        Some(switch.health()).filter(|(_, health)| health.contains("has an MTU of 1500"))
    });
    let why = "port p1: not ready: the sockets do not match the receive queues of p1: port p1 has an MTU of 1500, but its \
               device p1 has an MTU of 1400";
    assert!(code == 503 && health.contains(why), "{health}");
    a.run("ethtool", &["-L", "eth0", "tx", "2"]);
    a.run("ip", &["neigh", "replace", "10.0.0.2", "lladdr", "02:00:00:00:00:02", "dev", "eth0"]);
    b.run("ip", &["neigh", "replace", "10.0.0.1", "lladdr", "02:00:00:00:00:01", "dev", "eth0"]);
    let source = a.ipv4();
    let sockets: Vec<UdpSocket> =
        a.namespace().run(|| (0..FLOWS).map(|_| UdpSocket::bind((source, 0)).unwrap()).collect());
    let passed = wait_for("frames to go by the switch, and by its other queue", || {
        sockets.iter().for_each(|socket| _ = socket.send_to(b"x", (b.ipv4(), 9)));
        let port = switch.port(1);
        let passed = port.device_drops.unwrap().rx_passed;
        (passed > 0 && port.classes[0].rx_frames > 0).then_some(passed)
    });
    let verdict = switch.status().verdict;
    assert_ne!(verdict.promise, Promise::Kept);
    assert!(verdict.unseen_total() >= passed, "{verdict:?}");
    assert!(verdict.unproved.iter().any(|gap| gap.contains("has an MTU of 1500")), "{verdict:?}");

    a.run("ethtool", &["-L", "eth0", "tx", "1"]);
    ethtool(&bed, "-L p1 rx 1");
    set_mtu(&bed, 1_500);
    await_queues(&switch, 1, 1);
    assert_eq!(switch.health().0, 200);
    assert_ne!(
        switch.status().verdict.promise,
        Promise::Kept,
        "frames that bypassed the switch count as lost"
    );
    let exit = switch.stop();
    assert!([Some(1), Some(3)].contains(&exit.status.code()), "{}", exit.stderr);
}
