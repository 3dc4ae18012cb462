//! Compares classification by a real kernel and by a switch: while all classes are stopped, each frame must join the queue of the class
//! that the switch gives it.

// Tests for SPECIFICATION.md: host-pauses

use std::process::Command;

use fastrand::Rng;
use xoff_config::{Config, Machine};
use xoff_flow_control::classify::Classifier;
use xoff_flow_control::settings::{PortSettings, Trust};
use xoff_netlink::Conversation;
use xoff_netlink::tc::{Filter, Handle, Place, Qdisc};
use xoff_nic::NicSettings;
use xoff_nic::egress::{Egress, EgressSettings};
use xoff_wire::header::Header;
use xoff_wire::units::Class;
use xoff_xdp::PacketSender;

use crate::bed::{Bed, DEVICE, install, nic, settings, wait_for};

const MAC_CONTROL: u16 = 0x8808;
const LLDP: u16 = 0x88cc;

struct Frame {
    tags: Vec<(u16, u16)>,
    ether_type: u16,
    payload: Vec<u8>,
}

impl Frame {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![2; 12];
        for &(tpid, word) in &self.tags {
            bytes.extend(tpid.to_be_bytes());
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(self.ether_type.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }
}

fn tags() -> Vec<Vec<(u16, u16)>> {
    let pcps =
        (0..8).map(|pcp: u16| vec![(0x8100, pcp << 13 | if pcp.is_multiple_of(2) { 0 } else { 0x1007 })]);
    let others = [
        vec![],
        vec![(0x88a8, 5 << 13 | 9)],
        vec![(0x8100, 5 << 13 | 9), (0x8100, 2 << 13 | 8)],
        vec![(0x88a8, 5 << 13 | 9), (0x8100, 2 << 13 | 8)],
        vec![(0x22e9, 77)],
        vec![(0x8100, 6 << 13), (0x22e9, 77)],
    ];
    pcps.chain(others).collect()
}

fn payloads() -> Vec<(u16, Vec<u8>)> {
    let v4 = |first: u8, dscp: u8, len: usize| {
        let mut bytes = vec![first, dscp << 2 | 1];
        bytes.resize(len, 0);
        (0x0800, bytes)
    };
    let v6 = |version: u8, dscp: u8, len: usize| {
        let mut bytes = vec![version << 4 | dscp >> 2, dscp << 6 | 0x1f];
        bytes.resize(len, 0);
        (0x86dd, bytes)
    };
    let every_dscp = (0..64).flat_map(|dscp| [v4(0x45, dscp, 46), v6(6, dscp, 46)]);
    let broken = [
        v4(0x45, 41, 19),
        v4(0x45, 41, 20),
        v4(0x44, 41, 46),
        v4(0x4f, 41, 60),
        v4(0x50, 41, 46),
        v6(6, 41, 39),
        v6(6, 41, 40),
        v6(5, 41, 46),
        (0x88b5, vec![0; 46]),
        (0x88b5, vec![0; 2]),
        (0x0806, vec![0; 28]),
    ];
    every_dscp.chain(broken).collect()
}

fn frames_of_hosts() -> impl Iterator<Item = Vec<u8>> {
    let table = xoff_explore::frames(include_str!("../../../wire/data/data-frames.txt"));
    table.map(|(_, frame)| frame).filter(|frame| frame.len() <= 1_514)
}

fn port() -> PortSettings {
    let text = "[[port]]\nname = \"a\"\ndevice = \"a\"\nspeed = \"1G\"\n[[port]]\nname = \"b\"\ndevice = \"b\"\nspeed = \"1G\"\n";
    Config::from_toml("a file", text, Machine::default()).unwrap().switch.ports[0].clone()
}

struct Road {
    how: &'static str,
    index: i32,
    /// Sockets that sent frames; the send buffers of all but the last are full.
    senders: Vec<PacketSender>,
}

impl Road {
    fn sent(egress: &Egress) -> Road {
        Road { how: "sent", index: egress.ifindex(), senders: Vec::new() }
    }

    fn forwarded(egress: &Egress) -> Road {
        let ip = |words: &str| assert!(Command::new("ip").args(words.split(' ')).status().unwrap().success());
        ip("link add nic1 type veth peer name nic2");
        ip("link set nic1 up");
        ip("link set nic2 up");
        let index = |device| i32::try_from(nic(device)).unwrap();
        let mut tc = Conversation::open().unwrap();
        let place = |parent, handle| Place { ifindex: index("nic1"), parent, handle };
        tc.send(&mut Qdisc::Clsact.add(place(Handle::CLSACT, Handle::NONE))).unwrap();
        let on = Filter::redirect(1, egress.ifindex());
        tc.send(&mut on.put(place(Handle::INGRESS, Handle::NONE))).unwrap();
        assert!(
            tc.filters(index("nic1"), Handle::INGRESS).unwrap().iter().any(|filter| filter.kind == "bpf")
        );
        Road { how: "forwarded", index: index("nic2"), senders: Vec::new() }
    }

    fn send(&mut self, frame: &[u8]) {
        if self.senders.last().is_none_or(|sender| sender.send(frame).is_err()) {
            self.senders.push(PacketSender::open(self.index).unwrap());
            self.senders.last().unwrap().send(frame).unwrap();
        }
    }
}

fn waiting(egress: &mut Egress) -> [u64; 8] {
    egress.counts().unwrap().map(|counts| counts.waiting_frames)
}

fn compare(settings: &EgressSettings, port: &PortSettings) {
    let bed = Bed::new();
    // Keep the kernel from sending IPv6 multicast reports, which would be counted.
    bed.namespace().sysctl(&format!("ipv6/conf/{DEVICE}/disable_ipv6"), "1").unwrap();
    bed.namespace().run(|| {
        let classifier = Classifier::new(port);
        let mut egress = install(settings).unwrap();
        Class::ALL.into_iter().for_each(|class| egress.stop(class).unwrap());
        let mut roads = [Road::sent(&egress), Road::forwarded(&egress)];
        let all = tags().into_iter().flat_map(|tags| {
            let frame =
                move |(ether_type, payload)| Frame { tags: tags.clone(), ether_type, payload }.bytes();
            payloads().into_iter().map(frame)
        });
        for bytes in all.chain(frames_of_hosts()) {
            let expected = classifier.classify(&Header::parse(&bytes).unwrap());
            let head = &bytes[..bytes.len().min(60)];
            for road in &mut roads {
                let how = road.how;
                let before = waiting(&mut egress);
                road.send(&bytes);
                let after = wait_for(&format!("{head:x?}, {how}, to wait"), || {
                    let after = waiting(&mut egress);
                    (after != before).then_some(after)
                });
                let mut right = before;
                right[expected.index()] += 1;
                let trust = settings.nic.trust;
                assert_eq!(after, right, "{head:x?}, {how}, by {trust:?}: class {expected}");
            }
        }
    });
}

fn compare_all(trust: Trust) {
    for seed in xoff_explore::seeds([8021]) {
        let mut rng = Rng::with_seed(seed);
        let mut class = || Class::ALL[rng.usize(..8)];
        let mut settings = settings();
        let (default_class, pcp_to_class, dscp_to_class) =
            (class(), std::array::from_fn(|_| class()), std::array::from_fn(|_| class()));
        settings.nic = NicSettings { trust, default_class, pcp_to_class, dscp_to_class, ..settings.nic };
        compare(&settings, &PortSettings { trust, default_class, pcp_to_class, dscp_to_class, ..port() });
    }
}

#[test]
fn kernel_classifies_frames_by_dscp_as_the_switch_does() {
    compare_all(Trust::Dscp);
}

#[test]
fn kernel_classifies_frames_by_pcp_as_the_switch_does() {
    compare_all(Trust::Pcp);
}

#[test]
fn mac_control_and_lldp_frames_leave_while_classes_are_stopped() {
    let bed = Bed::new();
    bed.run("sysctl", "-qw net.ipv6.conf.nic0.disable_ipv6=1"); // keeps the kernel from sending multicast reports
    let mut egress = bed.install(&settings());
    let sender = bed.namespace().run(|| PacketSender::open(egress.ifindex()).unwrap());
    Class::ALL.into_iter().for_each(|class| egress.stop(class).unwrap());
    let before = bed.peer.counters().unwrap().rx_packets;
    let [control, lldp] =
        [MAC_CONTROL, LLDP].map(|ether_type| Frame { tags: vec![], ether_type, payload: vec![0; 46] });
    for frame in [&control, &lldp].repeat(5) {
        sender.send(&frame.bytes()).unwrap();
    }
    wait_for("the arrival of MAC control and LLDP", || {
        (bed.peer.counters().unwrap().rx_packets == before + 10).then_some(())
    });
    Class::ALL.into_iter().for_each(|class| egress.start(class).unwrap()); // each start sends a wake frame
    sender.send(&control.bytes()).unwrap();
    wait_for("the arrival of one more frame", || {
        (bed.peer.counters().unwrap().rx_packets > before + 10).then_some(())
    });
    assert_eq!(bed.peer.counters().unwrap().rx_packets, before + 11);
    assert_eq!(egress.counts().unwrap().map(|counts| counts.frames), [0; 8]);
}
