// Tests for SPECIFICATION.md: host-service

use std::net::UdpSocket;

use nix::sys::signal::Signal;
use xoff_netns_tests::nic::{Agent, Wire};
use xoff_netns_tests::{frames, wait_for};
use xoff_wire::cnm::{CongestionPointId, Envelope, Msdu};
use xoff_wire::units::{Class, MacAddr, Quanta, RateStep};
use xoff_wire::{Cnm, Rates};

use crate::BINARY;

const C3: Class = Class::ALL[3];

fn cnm(wire: &Wire, feedback: u8) -> Vec<u8> {
    cnm_to(wire.mac(), wire, feedback)
}

fn cnm_to(dst: MacAddr, wire: &Wire, feedback: u8) -> Vec<u8> {
    let peer = wire.peer().mac();
    let cnm = Cnm {
        feedback,
        congestion_point: CongestionPointId::new(peer, C3),
        q_offset: 0,
        q_delta: 0,
        priority: C3,
        destination: peer,
        msdu: Msdu::of(&[]),
    };
    cnm.encode(&Envelope { dst, src: peer, tag: None, cn_tag: None }).as_bytes().to_vec()
}

fn rate(agent: &Agent) -> Option<u64> {
    agent.class(3).rate_obeyed_bits_per_second
}

fn kernel_rate(wire: &Wire) -> String {
    let (classes, _) = wire.run("tc", "class show dev eth0");
    classes.lines().find(|line| line.contains(":13 ")).unwrap_or_default().to_owned()
}

fn assert_clean_exit(agent: Agent) {
    let (status, log) = agent.end(Signal::SIGTERM);
    assert_eq!(status.code(), Some(0), "{log}");
}

const SLOWLY: &str = "--speed 1G --qcn=time=600s";

#[test]
fn cnm_slows_the_class_of_its_flow_at_the_host() {
    let wire = Wire::build(BINARY);
    let agent = wire.start(SLOWLY);
    let before = kernel_rate(&wire);
    wire.peer().send(cnm(&wire, 63));
    assert_eq!(wait_for("a rate", || rate(&agent)), 1_000_000_000 * (128 - 63) / 128);
    wait_for("the rate in the kernel", || (kernel_rate(&wire) != before).then_some(()));
    assert_eq!(agent.class(3).cnms_received, 1);
    assert_eq!(agent.class(4).rate_obeyed_bits_per_second, None);
    assert_clean_exit(agent);
}

#[test]
fn class_slowed_by_a_cnm_recovers_at_the_host() {
    let wire = Wire::build(BINARY);
    let agent = wire.start("--speed 1G --qcn=ai=1M,hai=2M");
    let before = kernel_rate(&wire);
    wire.peer().send(cnm(&wire, 63));
    wait_for("the CNM", || (agent.class(3).cnms_received == 1).then_some(()));
    wait_for("the line's rate", || rate(&agent).is_none().then_some(()));
    wait_for("the line's rate in the kernel", || (kernel_rate(&wire) == before).then_some(()));
    assert_clean_exit(agent);
}

#[test]
fn agent_without_qcn_only_counts_cnms() {
    let wire = Wire::build(BINARY);
    let agent = wire.start("--speed 1G");
    wire.peer().send(&cnm(&wire, 63)[..30]);
    wire.peer().send(cnm(&wire, 63));
    let status = wait_for("the CNM", || Some(agent.status()).filter(|status| status.cnms_received == 1));
    assert_eq!(status.malformed_cnms["truncated"], 1);
    assert_eq!(status.classes[3].rate_obeyed_bits_per_second, None);
    assert_clean_exit(agent);
}

#[test]
fn agent_obeys_cnm_to_changed_address_of_device() {
    let wire = Wire::build(BINARY);
    let agent = wire.start(SLOWLY);
    let address = MacAddr([2, 0, 0, 0, 0, 0x77]);
    assert!(wire.run("ip", &format!("link set eth0 address {address}")).1.success());
    wait_for("the new address", || (agent.status().mac == address.to_string()).then_some(()));
    wire.peer().send(cnm(&wire, 63));
    wire.peer().send(cnm_to(address, &wire, 63));
    wait_for("a rate", || rate(&agent));
    assert_eq!(agent.class(3).cnms_received, 1);
    assert_clean_exit(agent);
}

#[test]
fn host_obeys_rate_requested_by_switch_until_it_expires() {
    let wire = Wire::build(BINARY);
    let agent = wire.start("--speed 2M --obey-rates");
    let before = kernel_rate(&wire);
    let quarter = |time| {
        let rates = Rates { time: Quanta(time), ..Rates::default() };
        rates.with(C3, RateStep::new(2).unwrap()).encode(wire.peer().mac())
    };
    wire.peer().send(quarter(65_535)); // 16.8 s
    assert_eq!(wait_for("a rate", || rate(&agent)), 500_000);
    wait_for("the rate in the kernel", || (kernel_rate(&wire) != before).then_some(()));
    wire.peer().send(quarter(100)); // 26 ms
    wait_for("its end", || rate(&agent).is_none().then_some(()));
    wait_for("its end in the kernel", || (kernel_rate(&wire) == before).then_some(()));
    assert_eq!(agent.status().rate_frames_received, 2);
    assert_clean_exit(agent);
}

#[test]
fn host_with_full_socket_buffer_pauses_its_switch() {
    let wire = Wire::build(BINARY);
    let agent = wire.start("--speed 100M --pause-above 20KB");
    let slow = wire.namespace().run(|| UdpSocket::bind("10.0.0.1:6000").unwrap());
    let fast = wire.peer().namespace().run(|| UdpSocket::bind("10.0.0.2:6000").unwrap());
    let await_pfc = |time: fn(u16) -> bool| {
        wire.peer().tap().wait(1, |frame| frames::pfc_time(frame, 3).is_some_and(time));
    };
    for _ in 0..40 {
        fast.send_to(&[0; 1_000], "10.0.0.1:6000").unwrap();
    }
    await_pfc(|time| time == 65_535);
    assert!(agent.class(3).pause_sent.now && !agent.class(4).pause_sent.now);
    for _ in 0..40 {
        slow.recv(&mut [0; 1_000]).unwrap();
    }
    await_pfc(|time| time == 0);
    wait_for("the end of the pause", || (!agent.class(3).pause_sent.now).then_some(()));
    let sent = agent.class(3).pause_sent;
    assert_eq!((sent.xoff, sent.xon), (1, 1));
    assert_clean_exit(agent);
}
