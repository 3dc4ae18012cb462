//! Devices with several hardware queues.

use std::collections::BTreeSet;
use std::net::UdpSocket;

use xoff_netns_tests::{Host, PATIENCE};

use crate::bed_beside_others;

const FLOWS: u16 = 64;
const DATAGRAMS: u16 = 20;

/// Sends datagrams from many source ports, so that the kernel spreads them over its queues; returns
/// what arrived, as (source port, number), in order.
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

/// Packets that the XDP program saw on each queue of the switch's port.
fn per_queue(port: &xoff::lab::Device) -> Vec<u64> {
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
fn all_queues_of_a_device_are_one_port() {
    let bed = bed_beside_others(2).queues(3).build();
    let switch = bed.start(&bed.config("speed = \"1G\""));
    let (a, b) = (bed.host(1), bed.host(2));
    assert_eq!([1, 2].map(|port| switch.port(port).queues), [3, 3]);
    for (from, to, port) in [(a, b, 1), (b, a, 2)] {
        let arrived = many_flows(from, to);
        assert_eq!(arrived.iter().collect::<BTreeSet<_>>().len(), usize::from(FLOWS * DATAGRAMS));
        let queues = per_queue(bed.port(port));
        assert!(queues.len() == 3 && queues.iter().all(|&packets| packets > 0), "{queues:?}");
    }
    let said = bed.finish(switch);
    assert!(said.ports[0].classes[0].rx_frames >= u64::from(FLOWS * DATAGRAMS));
}

#[test]
fn frames_of_a_queue_without_a_socket_are_counted_as_lost() {
    let bed = bed_beside_others(2).queues(2).build();
    let switch = bed.start(&bed.config("speed = \"1G\"").port(1, "queues = [1]"));
    assert_eq!([1, 2].map(|port| switch.port(port).queues), [1, 2], "those with a socket");
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
    let exit = switch.stop();
    assert_eq!(exit.status.code(), Some(1), "{}", exit.stderr);
}
