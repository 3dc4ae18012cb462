// Tests for SPECIFICATION.md: own-stack

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::sync::mpsc::{TryRecvError, channel};

use xoff_netns_tests::{Bed, Traffic, stream, wait_for};
use xoff_switch::Promise;
use xoff_switch::control::{Link, ProgramState};

use crate::{bed, frame};

fn ip(bed: &Bed, words: &str) {
    let output = bed.namespace().output(Command::new("ip").args(words.split(' '))).unwrap();
    assert!(output.status.success(), "ip {words}: {output:?}");
}

#[test] // proves: verdict
fn losslessness_is_not_proved_after_removal_of_a_device() {
    let bed = bed(3).build();
    let switch = bed.start(&bed.config("speed = \"1G\""));
    let (a, b) = (bed.host(1), bed.host(2));
    a.send(frame(a, b, 3, 1));
    b.tap().numbered(1);
    ip(&bed, "link del p3");
    wait_for("the device to be gone", || (switch.port(3).link == Link::Gone).then_some(()));
    let verdict = switch.status().verdict;
    assert_eq!((verdict.promise, verdict.lossless), (Promise::NotProved, false));
    assert_eq!((verdict.lossless_lost, verdict.unseen_lost), (0, 0));
    let exit = switch.stop();
    assert_eq!(exit.status.code(), Some(3), "{}", exit.stderr);
    assert!(exit.stderr.contains("a loss cannot be excluded: p3: the device p3 is gone"), "{}", exit.stderr);
}

#[test] // proves: devices
fn counters_of_renamed_device_are_still_read() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"1G\""));
    let (a, b) = (bed.host(1), bed.host(2));
    ip(&bed, "link set p2 down");
    ip(&bed, "link set p2 name other");
    ip(&bed, "link set other up");
    wait_for("the link", || (switch.port(2).link == Link::Up).then_some(()));
    let port = switch.port(2);
    assert_eq!((port.name.as_str(), port.device.as_str()), ("p2", "other"));
    b.send(frame(b, a, 3, 1));
    a.tap().numbered(1);
    // Lower the peer's MTU, so that the veth drops longer frames.
    b.run("ip", &["link", "set", "eth0", "mtu", "1000"]);
    a.send(a.to(b).tag(3, 0).numbered(2).build_len(1400));
    wait_for("the drop", || switch.port(2).device_drops.filter(|drops| drops.tx_dropped == 1));
    let verdict = switch.status().verdict; // counted by the socket and by the device
    assert_eq!((verdict.promise, verdict.unseen_lost, verdict.unproved), (Promise::NotKept, 1, vec![]));
    let exit = switch.stop();
    assert_eq!(exit.status.code(), Some(1), "{}", exit.stderr);
}

#[test]
fn frames_sent_by_kernel_stack_on_port_count_as_no_loss() {
    let bed = bed(2).build();
    bed.port(1).add_address(Ipv4Addr::new(10, 9, 9, 1).into(), 24).unwrap();
    let switch = bed.start(&bed.config("speed = \"1G\""));
    let send = || {
        bed.namespace().run(|| {
            let socket = UdpSocket::bind("10.9.9.1:0").unwrap();
            socket.set_broadcast(true).unwrap();
            let _ = socket.send_to(b"anybody?", "10.9.9.255:9"); // fails if no host replies
        });
    };
    send();
    bed.host(1).device().set_up(false).unwrap();
    wait_for("the link to go down", || (switch.port(1).link == Link::Down).then_some(()));
    send();
    assert_eq!(switch.port(1).xdp_statistics.unwrap().tx_held_back, 2);
    assert_eq!(switch.port(1).device_drops.unwrap().lost(), 0);
    bed.finish(switch);
    assert_eq!(filters(&bed), "", "filters that the switch left at the device");
}

/// This test checks nothing if by chance no frame arrives while the switch releases its devices.
#[test]
fn kernel_frames_while_switch_stops_count_as_no_loss() {
    let bed = bed(2).build();
    bed.port(1).add_address(Ipv4Addr::new(10, 9, 9, 1).into(), 24).unwrap();
    let switch = bed.start(&bed.config("speed = \"1G\""));
    let (running, ended) = channel::<()>();
    let sender = bed.namespace().spawn_thread(move || {
        let socket = UdpSocket::bind("10.9.9.1:0").unwrap();
        socket.set_broadcast(true).unwrap();
        while ended.try_recv() == Err(TryRecvError::Empty) {
            let _ = socket.send_to(b"anybody?", "10.9.9.255:9");
        }
    });
    wait_for("a frame", || (switch.port(1).xdp_statistics?.tx_held_back > 0).then_some(()));
    let exit = switch.stop();
    drop(running);
    sender.join().unwrap();
    assert_eq!(exit.status.code(), Some(0), "{}", exit.stderr);
}

fn filters(bed: &Bed) -> String {
    let mut tc = Command::new("tc");
    let qdiscs = bed.namespace().output(tc.args(["qdisc", "show", "dev", "p1", "clsact"])).unwrap();
    let mut tc = Command::new("tc");
    let filters = bed.namespace().output(tc.args(["filter", "show", "dev", "p1", "egress"])).unwrap();
    [qdiscs.stdout, filters.stdout].map(|text| String::from_utf8(text).unwrap()).concat()
}

#[test]
fn next_switch_can_use_device_of_killed_switch() {
    let bed = bed(1).build();
    bed.port(1).add_address(Ipv4Addr::new(10, 0, 0, 99).into(), 24).unwrap();
    let ping =
        || bed.namespace().output(Command::new("ping").args(["-c", "1", "-W", "5", "10.0.0.1"])).unwrap();
    bed.start(&bed.config("speed = \"1G\"")).kill();
    let output = ping();
    assert!(output.status.success(), "{output:?}");
    assert!(filters(&bed).contains("xoff_hold_back"));
    bed.start(&bed.config("speed = \"1G\"")).stop();
    assert_eq!(filters(&bed), "", "filters after the next switch has ended");
}

#[test] // proves: verdict, devices
fn switch_reattaches_its_detached_xdp_program() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"100M\"\nmode = \"generic\""));
    let (a, b) = (bed.host(1), bed.host(2));
    let traffic = Traffic::at_mbps(100).sink(b).source(a, &[stream(b, 0, "20M", 4_000)]).start();
    traffic.wait_received(100);
    for times in [1, 2] {
        ip(&bed, "link set dev p1 xdpgeneric off");
        wait_for("it to be noticed", || (switch.port(1).program_detached == times).then_some(()));
        let port = switch.port(1);
        assert_eq!(port.program, ProgramState::Attached);
        let received = traffic.received();
        traffic.wait_received(received + 100);
    }
    let _ = traffic.finish();
    assert_eq!(switch.health().0, 200);
    let line = "xoff_xdp_program_detached_total{switch=\"xoff\",port=\"p1\"} 2";
    assert!(switch.metrics().lines().any(|it| it == line), "{line}");
    let verdict = switch.status().verdict;
    let gap = "p1: the XDP program was removed 2 times; frames received meanwhile were not counted";
    assert_eq!(
        verdict.promise,
        Promise::NotProved,
        "the verdict is proved although frames may have bypassed the switch"
    );
    assert!(verdict.unproved.iter().any(|it| it == gap), "{verdict:?}");
    let exit = switch.stop();
    assert_eq!(exit.status.code(), Some(3), "{}", exit.stderr);
    assert!(exit.stderr.contains("is attached again"), "{}", exit.stderr);
    let mut show = Command::new("ip");
    let output = bed.namespace().output(show.args(["-o", "link"])).unwrap();
    assert!(!String::from_utf8(output.stdout).unwrap().contains("prog/xdp"));
}
