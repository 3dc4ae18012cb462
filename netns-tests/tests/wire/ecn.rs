// Tests for SPECIFICATION.md: ecn

use std::fs;

use xoff_netns_tests::{Host, Traffic, frames, stream, unstalled, wait_for};

use crate::{PATIENT, bed};

fn counter(host: &Host, name: &str) -> u64 {
    let text = host.run("nstat", &["--zeros", "--nooutput", name]) + &host.run("nstat", &["-az", name]);
    let line = text.lines().rev().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.split_whitespace().nth(1)).unwrap_or_else(|| panic!("{text}"));
    value.parse().unwrap()
}

fn marks_and_wrong_checksums(host: &Host, capture: &str) -> (usize, usize) {
    let text = host.run("tcpdump", &["-nvr", capture, "ip"]);
    let marks = text.lines().filter(|line| line.contains("tos 0x3,CE")).count();
    (marks, text.lines().filter(|line| line.contains("bad cksum")).count())
}

#[test]
fn kernel_tcp_receives_every_ecn_mark() {
    let bed = bed(2).build();
    // A single TCP stream into a slow port fills the queue until all frames are marked.
    let class = "[class.0]\necn_min = 30000\necn_max = 60000\n";
    let switch = bed.start(&bed.config("speed = \"1G\"").port(2, "speed = \"100M\"").more(class));
    let (a, b) = (bed.host(1), bed.host(2));
    for host in [a, b] {
        host.run("sysctl", &["-qw", "net.ipv4.tcp_ecn=1"]);
    }
    let directory = tempfile::TempDir::new().unwrap();
    let capture = directory.path().join("capture.pcap").to_string_lossy().into_owned();
    let mut tap =
        b.start("tcpdump", &["-i", b.device().name(), "-s", "100", "-c", "3000", "-w", &capture, "ip"]);
    wait_for("the capture", || fs::exists(&capture).unwrap_or(false).then_some(()));
    let before = counter(b, "IpExtInCEPkts");
    let mut server = b.start("iperf3", &["--server", "--one-off", "--forceflush"]);
    wait_for("a server", || b.run("ss", &["-Hltn", "sport = :5201"]).contains("LISTEN").then_some(()));
    a.run("iperf3", &["--client", &b.ipv4().to_string(), "--time", "2", "--congestion", "reno"]);
    server.wait().unwrap();
    let received_marks = counter(b, "IpExtInCEPkts") - before;
    tap.kill().ok();
    tap.wait().unwrap();
    let (marks, wrong) = marks_and_wrong_checksums(b, &capture);
    let status = bed.finish(switch);
    let out = &status.ports[1].classes[0];
    assert!(received_marks > 0, "TCP received no mark, although the switch made {}", out.ecn_marked_frames);
    assert_eq!(out.ecn_marked_frames, received_marks, "marks made by the switch and received by TCP");
    assert!(marks > 0 && wrong == 0, "the capture has {marks} marks and {wrong} wrong checksums");
    assert_eq!(out.drops["egress_full"] + out.drops["early_drop"], 0, "frames were dropped despite marks");
}

#[test]
fn frames_not_capable_of_ecn_are_never_marked() {
    let bed = bed(2).build();
    let switch = bed.start(&bed.config("speed = \"10M\"").more("[class.3]\necn_min = 1\necn_max = 1\n"));
    let (a, b) = (bed.host(1), bed.host(2));
    for number in 0..50 {
        a.send(crate::frame(a, b, 3, number));
    }
    b.tap().numbered(49);
    assert_eq!(b.tap().count(|frame| frames::sequence(frame).is_some()), 50);
    assert_eq!(bed.finish(switch).ports[1].classes[3].ecn_marked_frames, 0);
}

#[test]
fn switch_marks_lossless_class_without_losing_frames() {
    unstalled(|| {
        let bed = bed(3).build();
        let class = "[class.3]\necn_min = \"auto\"\n";
        let switch = bed.start(&bed.config("speed = \"100M\"").switch(PATIENT).more(class));
        let (a, b, c) = (bed.host(1), bed.host(2), bed.host(3));
        let to_c = |ecn| [stream(c, 3, "90M", 2_000) + ecn];
        let traffic = Traffic::at_mbps(100).sink(c).source(a, &to_c(",ecn=2")).source(b, &to_c(""));
        let reports = traffic.run();
        reports.assert_lossless(&[3]);
        let marked = switch.class(3, 3).ecn_marked_frames;
        assert!(marked > 0, "two senders did not fill the queue");
        let counted = reports.received(a, 0, c).congested;
        assert_eq!(counted, marked);
        assert_eq!(reports.received(b, 0, c).congested, 0, "a frame that is not ECN-capable was marked");
        bed.finish(switch);
    });
}
