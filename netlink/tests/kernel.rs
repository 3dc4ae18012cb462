//! Tests against a real kernel, each in a new network namespace.

#![allow(clippy::unwrap_used)]

// Tests for SPECIFICATION.md: host-service

use std::process::Command;
use std::thread;

use nix::sched::{CloneFlags, unshare};
use xoff_netlink::tc::{Answer, BpfInstruction, Bucket, Filter, Handle, HtbClass, Place, Qdisc, Rate};
use xoff_netlink::{
    Conversation, Group, Notification, Notifications, QueueEvent, QueueMonitor, link_at, link_named,
};

const DEVICE: i32 = 10;
const PEER: i32 = 11;

fn with_device(test: impl FnOnce(Conversation) + Send + 'static) {
    let test = thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        run("ip link add v0 index 10 numrxqueues 3 numtxqueues 3 type veth peer name v1 index 11");
        test(Conversation::open().unwrap());
    });
    test.join().unwrap();
}

fn run(words: &str) -> String {
    let mut words = words.split(' ');
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn at(parent: Handle, handle: Handle) -> Place {
    Place { ifindex: DEVICE, parent, handle }
}

#[test]
fn tc_tool_shows_created_qdiscs_classes_and_filters() {
    with_device(|mut tc| {
        let (root, class, leaf) = (Handle::new(1, 0), Handle::new(1, 0x10), Handle::new(0x20, 0));
        let megabyte = Rate { bytes_per_second: 1_000_000, overhead: 24, least: 84 };
        tc.send(&mut Qdisc::Htb.add(at(Handle::ROOT, root))).unwrap();
        let htb = HtbClass {
            rate: megabyte,
            ceil: megabyte,
            burst: 5000,
            ceil_burst: 5000,
            priority: 2,
            quantum: 1600,
        };
        tc.send(&mut htb.put(at(root, class))).unwrap();
        let bucket = Bucket::Open { rate: megabyte, burst: 3000 };
        let open = Qdisc::Tbf { bucket, limit: 7000 };
        tc.send(&mut open.add(at(class, leaf))).unwrap();
        let program = vec![BpfInstruction { code: 0x06, jt: 0, jf: 0, k: class.0 }];
        let filter = Filter { priority: 7, program: program.clone(), answer: Answer::Class };
        tc.send(&mut filter.put(at(root, Handle(1)))).unwrap();
        tc.send(&mut Filter::redirect(8, PEER).put(at(root, Handle(1)))).unwrap();
        let described =
            run("tc -d qdisc show dev v0") + &run("tc -d class show dev v0") + &run("tc filter show dev v0");
        for expected in [
            "qdisc htb 1: root ",
            "qdisc tbf 20: parent 1:10 rate 8Mbit ",
            "class htb 1:10 root leaf 20: prio 2 quantum 1600 rate 8Mbit ",
            " overhead 24 ",
            " mpu 84b ",
            "filter parent 1: protocol all pref 7 bpf",
            "bytecode '1,6 0 0 65552'",
            "mirred (Egress Redirect to device v1) stolen",
        ] {
            assert!(described.contains(expected), "no {expected:?} in {described}");
        }
        let kinds = |tc: &mut Conversation| {
            tc.qdiscs(DEVICE).unwrap().into_iter().map(|node| node.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(&mut tc), ["htb", "tbf"]);
        let kept = tc.filters(DEVICE, root).unwrap();
        let kept: Vec<_> = kept.iter().filter(|filter| !filter.options.is_empty()).collect();
        assert_eq!([kept[0].priority(), kept[1].priority()], [7, 8]);
        assert_eq!(kept[0].program(), program);
        let others = [
            Filter { priority: 8, ..filter.clone() },
            Filter { answer: Answer::Verdict, ..filter.clone() },
            Filter { program: [&program[..], &program].concat(), ..filter.clone() },
        ];
        assert!(filter.agrees_with(kept[0]) && Filter::redirect(8, PEER).agrees_with(kept[1]));
        assert!(others.iter().all(|other| !other.agrees_with(kept[0])), "{others:?}");
        let actual = tc.classes(DEVICE).unwrap();
        let actual = actual.iter().find(|node| node.handle == class).unwrap();
        let other = Rate { bytes_per_second: 1_000_001, ..megabyte };
        let others = [
            HtbClass { rate: other, ..htb },
            HtbClass { ceil: other, ..htb },
            HtbClass { burst: 6000, ..htb },
            HtbClass { ceil_burst: 6000, ..htb },
            HtbClass { priority: 3, ..htb },
        ];
        assert!(
            htb.agrees_with(actual) && others.iter().all(|other| !other.agrees_with(actual)),
            "{actual:?}"
        );
        let actual_leaf = |tc: &mut Conversation| {
            tc.qdiscs(DEVICE).unwrap().into_iter().find(|node| node.handle == leaf).unwrap()
        };
        let shut = Qdisc::Tbf { bucket: Bucket::Shut { burst: 3000 }, limit: 7000 };
        let longer = Qdisc::Tbf { bucket, limit: 7001 };
        let actual = actual_leaf(&mut tc);
        assert_eq!([&open, &shut, &longer].map(|it| it.agrees_with(&actual)), [true, false, false]);
        tc.send(&mut shut.change(at(class, leaf))).unwrap();
        let actual = actual_leaf(&mut tc);
        assert_eq!([&open, &shut, &Qdisc::Htb].map(|it| it.agrees_with(&actual)), [false, true, false]);
        tc.send(&mut Filter::delete(DEVICE, kept[1])).unwrap();
        assert!(!tc.filters(DEVICE, root).unwrap().iter().any(|filter| filter.priority() == 8));
        tc.send(&mut Qdisc::delete(at(Handle::ROOT, root))).unwrap();
        assert_eq!(kinds(&mut tc), [""; 0]);
    });
}

#[test]
fn kernel_returns_tbf_rate_beyond_32_bits_unchanged() {
    with_device(|mut tc| {
        let rate = Rate { bytes_per_second: 25_000_000_000, overhead: 0, least: 0 };
        let bucket = Bucket::Open { rate, burst: 9000 };
        tc.send(&mut Qdisc::Tbf { bucket, limit: 1 << 20 }.add(at(Handle::ROOT, Handle::new(1, 0)))).unwrap();
        assert!(run("tc qdisc show dev v0").contains("rate 200Gbit"));
        let other = Rate { bytes_per_second: 25_000_000_001, ..rate };
        let actual = &tc.qdiscs(DEVICE).unwrap()[0];
        let is_listed = [rate, other].map(|rate| {
            let bucket = Bucket::Open { rate, burst: 9000 };
            Qdisc::Tbf { bucket, limit: 1 << 20 }.agrees_with(actual)
        });
        assert_eq!(is_listed, [true, false]);
    });
}

#[test]
fn qdisc_statistics_count_queued_and_dropped_frames() {
    with_device(|mut tc| {
        run("ip addr add 10.0.0.1/24 dev v0");
        run("ip link set v1 up");
        let bucket = Bucket::Shut { burst: 1600 };
        let place = at(Handle::ROOT, Handle::new(1, 0));
        tc.send(&mut Qdisc::Tbf { bucket, limit: 250 }.add(place)).unwrap();
        run("sysctl -qw net.ipv6.conf.v0.disable_ipv6=1");
        run("ip link set v0 up");
        run("ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev v0");
        let socket = std::net::UdpSocket::bind("10.0.0.1:0").unwrap();
        for _ in 0..5 {
            let _ = socket.send_to(&[0; 58], "10.0.0.2:9");
        }
        let statistics = tc.qdiscs(DEVICE).unwrap()[0].statistics;
        let counted =
            (statistics.qlen, statistics.backlog, statistics.drops, statistics.frames, statistics.bytes);
        assert_eq!(counted, (2, 200, 3, 0, 0));
        let rate = Rate { bytes_per_second: 1_000_000_000, overhead: 0, least: 0 };
        let open = Bucket::Open { rate, burst: 1600 };
        tc.send(&mut Qdisc::Tbf { bucket: open, limit: 250 }.change(place)).unwrap();
        let _ = socket.send_to(&[0; 58], "10.0.0.2:9"); // fails, but makes the kernel poll the full queue again
        let statistics = tc.qdiscs(DEVICE).unwrap()[0].statistics;
        assert_eq!((statistics.qlen, statistics.frames, statistics.bytes), (0, 2, 200));
    });
}

#[test]
fn error_names_refused_request_and_quotes_kernel() {
    with_device(|mut tc| {
        let unknown = Qdisc::Other { kind: "nosuch".to_owned(), options: vec![] };
        let refused = tc.send(&mut unknown.add(at(Handle::ROOT, Handle::new(0x21, 0)))).unwrap_err();
        assert!(refused.is_not_found());
        assert_eq!(
            refused.to_string(),
            "cannot add nosuch 21: below root at device 10: Specified qdisc kind is unknown (No such file or directory (os error 2))"
        );
        let nowhere = Place { ifindex: 99, parent: Handle::ROOT, handle: Handle::NONE };
        let refused = tc.send(&mut Qdisc::Clsact.add(nowhere)).unwrap_err();
        assert!(refused.to_string().starts_with("cannot add clsact below root at device 99: "), "{refused}");
        assert_eq!(tc.qdiscs(DEVICE).unwrap().len(), 0, "reply does not belong to the last request");
    });
}

#[test] // proves: devices
fn queue_monitor_reports_changed_number_of_queues() {
    with_device(|_| {
        let mut monitor = QueueMonitor::open().unwrap().unwrap();
        assert_eq!(monitor.take().unwrap(), []);
        for change in ["rx 2", "rx 3", "tx 2"] {
            run(&format!("ethtool -L v0 {change}"));
        }
        run("ip link set v0 name other");
        let changed = |rx_queues| QueueEvent::Changed { ifindex: 10, rx_queues };
        assert_eq!(monitor.take().unwrap(), [changed(2), changed(3), changed(3)]);
    });
}

#[test]
fn request_for_missing_device_returns_none() {
    with_device(|mut kernel| {
        assert_eq!(kernel.link(link_named("v0")).unwrap().unwrap().header.index, 10);
        assert_eq!(kernel.link(link_named("nosuch")).unwrap(), None);
        assert_eq!(kernel.link(link_at(99)).unwrap(), None);
        assert!(kernel.set_link(link_at(99)).is_err());
    });
}

#[test]
fn notifications_that_overflow_the_buffer_count_as_lost() {
    with_device(|_| {
        let mut notifications = Notifications::open(&[Group::Link], 1).unwrap();
        let mut losses_after = |changes: u32| {
            (0..changes).for_each(|change| drop(run(&format!("ip link set v0 mtu {}", 1400 + change))));
            let (mut messages, mut losses) = (0, 0);
            let count = |notification| match notification {
                Notification::Lost => losses += 1,
                _ => messages += 1,
            };
            notifications.read(count).unwrap();
            assert_ne!(messages, 0);
            losses
        };
        assert_eq!((losses_after(1), losses_after(20), losses_after(1)), (0, 1, 0));
    });
}
