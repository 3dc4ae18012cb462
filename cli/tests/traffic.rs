#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use xoff_host::control::{Distortion, build, parse_control};
use xoff_host::{HostReport, Obedience, Progress, parse_streams, settle};
use xoff_lab::{Device, Lab, VethOptions};
use xoff_traffic::emit::{Link, Timing, emit};
use xoff_traffic::{Host, HostOptions};
use xoff_wire::units::{BitRate, Bytes, ClassSet, MacAddr, Nanos};

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const TO_A: &str = "dst=02:00:00:00:00:01";
const TO_B: &str = "dst=02:00:00:00:00:02";

struct Pair {
    _lab: Lab,
    a: Device,
    b: Device,
}

fn pair(mtu: u32) -> Pair {
    pair_with(&VethOptions { mtu, ..VethOptions::default() })
}

fn pair_with(options: &VethOptions) -> Pair {
    let mut lab = Lab::new();
    let (a, b) = (lab.namespace("a").unwrap(), lab.namespace("b").unwrap());
    let (a, b) = lab.veth(a.end("eth0").mac(A), b.end("eth0").mac(B), options).unwrap();
    Pair { _lab: lab, a, b }
}

fn options(line_mbps: u64) -> HostOptions {
    HostOptions { line: BitRate::from_mbps(line_mbps), ..HostOptions::new("eth0") }
}

fn listening(line_mbps: u64) -> HostOptions {
    HostOptions { linger: Some(Nanos::from_millis(800)), ..options(line_mbps) }
}

fn run(pair: &Pair, a: (HostOptions, &[String]), b: (HostOptions, &[String])) -> [HostReport; 2] {
    let both_open = Barrier::new(2);
    let host = |device: &Device, (options, streams): (HostOptions, &[String])| {
        device.namespace().run(|| {
            let host = Host::open(options).unwrap();
            both_open.wait();
            let stop = AtomicBool::new(false);
            host.run(&parse_streams(streams).unwrap(), &stop, &Arc::new(Progress::default())).unwrap()
        })
    };
    let mut reports = thread::scope(|scope| {
        let a = scope.spawn(|| host(&pair.a, a));
        let b = scope.spawn(|| host(&pair.b, b));
        [a.join().unwrap(), b.join().unwrap()]
    });
    settle(&mut reports);
    reports
}

fn send_pause(device: &Device, what: &str) {
    device.namespace().run(|| {
        let link = Link::open(device.name()).unwrap();
        let frame = build(&parse_control(what).unwrap(), link.address(), &Distortion::default());
        let once = Timing { every: Nanos::ZERO, count: Some(1), duration: None };
        assert_eq!(emit(&link, &[frame], &once, &AtomicBool::new(false)).unwrap(), 1);
    });
}

#[test]
fn two_hosts_that_send_at_line_rate_lose_no_frame() {
    const CATCH_UP: u64 = 2_000_000;
    let pair = pair(1500);
    let there =
        [format!("class=3,{TO_B},count=30000"), format!("class=0,{TO_B},size=64,rate=20M,count=10000")];
    let back = [format!("class=4,{TO_A},size=512,count=30000")];
    let reports = run(&pair, (options(400), &there), (options(400), &back));
    for report in &reports {
        assert_eq!(report.violations(ClassSet::ALL), Vec::<String>::new());
        let frames = report.sent.iter().map(|stream| stream.frames * (u64::from(stream.size) + 20));
        let first = report.sent.iter().map(|stream| stream.first_ns).min().unwrap();
        let last = report.sent.iter().map(|stream| stream.last_ns).max().unwrap();
        // Allow also the last frame, which begins at `last`, and the bytes that a delayed host sends at once
        // (`CATCH_UP`).
        let allowed = BitRate::from_mbps(400).bytes_in(Nanos(last - first + CATCH_UP)) + Bytes(1538);
        let sent = Bytes(frames.sum());
        assert!(sent <= allowed, "{sent:?} in the time of {allowed:?}");
    }
    let frames: Vec<u64> = reports[1].received.iter().map(|stream| stream.frames).collect();
    assert_eq!((frames.iter().sum::<u64>(), reports[0].received[0].frames), (40_000, 30_000));
}

#[test]
fn configured_header_fields_of_stream_arrive_unchanged() {
    let streams = [
        format!("class=5,pcp=2,vlan=7,{TO_B},count=10,size=68"),
        "dst=broadcast,dscp=46,count=10,size=64".to_owned(),
        "dst=02:00:00:00:00:99,count=10".to_owned(),
    ];
    let pair = pair(1500);
    let [_, b] = run(&pair, (options(100), &streams), (listening(100), &[]));
    let received: Vec<_> =
        b.received.iter().map(|s| (s.class, s.pcp.clone(), s.dscp.clone(), s.bytes)).collect();
    let only = |name: &str| [(name.to_owned(), 10)].into();
    assert!(received.contains(&(5, only("2"), only("40"), 680)), "{received:?}");
    assert!(received.contains(&(0, only("untagged"), only("46"), 640)), "{received:?}");
    assert_eq!(
        (received.len(), b.unsorted.foreign),
        (2, 13),
        "ten frames and three end markers for another host"
    );
}

#[test]
fn jumbo_frames_arrive_at_traffic_host() {
    let pair = pair(9000);
    let streams = [format!("{TO_B},size=9018,count=2000"), format!("{TO_B},size=3900,count=2000")];
    let [_, b] = run(&pair, (options(400), &streams), (listening(400), &[]));
    assert_eq!(b.violations(ClassSet::ALL), Vec::<String>::new());
    assert_eq!(b.received.iter().map(|stream| stream.bytes).sum::<u64>(), 2000 * (9018 + 3900));
}

#[test] // proves: traffic
fn traffic_hosts_use_devices_with_four_queues() {
    let pair = pair_with(&VethOptions { queues: 4, ..VethOptions::default() });
    let [there, back] = [TO_B, TO_A].map(|to| [format!("{to},count=10000")]);
    let patient = HostOptions { duration: Some(Nanos::from_secs(5)), ..options(400) };
    for report in run(&pair, (patient.clone(), &there), (patient, &back)) {
        assert_eq!(report.violations(ClassSet::ALL), Vec::<String>::new());
        assert_eq!(report.received[0].frames, 10_000);
    }
}

#[test] // proves: traffic
fn longest_frames_with_two_tags_arrive_at_every_mtu() {
    for mtu in [1_769, 1_770, 1_771, 1_774, 1_775, 3_817, 3_818, 3_819, 3_822, 3_823] {
        let pair = pair(mtu);
        // Raise the MTU by two tags (8 bytes). A NIC accepts two tags beyond its MTU, but a veth device only one, and
        // a packet socket no 802.1ad tag.
        let report = receive_ten(&pair, mtu + 8);
        assert_eq!((report.unsorted.other, report.drops.total), (10, 0), "MTU {mtu}: {:?}", report.drops);
    }
}

#[test]
fn frames_longer_than_a_chunk_are_counted_as_too_long() {
    let report = receive_ten(&pair(1500), 1792);
    let counted = [("rx_too_long".to_owned(), 10)].into();
    assert_eq!((report.unsorted.other, report.drops.counters, report.drops.total), (0, counted, 0));
}

fn receive_ten(pair: &Pair, mtu: u32) -> HostReport {
    pair.b.namespace().run(|| {
        let host =
            Host::open(HostOptions { duration: Some(Nanos::from_millis(50)), ..options(100) }).unwrap();
        for device in [&pair.a, &pair.b] {
            let mut ip = Command::new("ip");
            ip.args(["link", "set", device.name(), "mtu", &mtu.to_string()]);
            assert!(device.namespace().spawn(ip).unwrap().wait().unwrap().success());
        }
        let mut frame = [B.0, A.0].concat();
        frame.extend([0x88, 0xa8, 0, 7, 0x81, 0, 0, 7, 0x88, 0xb5]);
        frame.resize(mtu as usize + 14, 0);
        let once = Timing { every: Nanos::ZERO, count: Some(10), duration: None };
        let send = || emit(&Link::open("eth0").unwrap(), &[frame], &once, &AtomicBool::new(false));
        pair.a.namespace().run(|| assert_eq!(send().unwrap(), 10));
        host.run(&[], &AtomicBool::new(false), &Arc::new(Progress::default())).unwrap()
    })
}

#[test]
fn flows_with_given_size_run_to_completion() {
    let pair = pair(1500);
    let sizes = tempfile::NamedTempFile::new().unwrap();
    fs::write(&sizes, "100 50\n9999 90\n200000 100\n").unwrap();
    let streams = [format!("{TO_B},flows={},rate=50M,count=40", sizes.path().display())];
    let [_, b] = run(&pair, (options(400), &streams), (listening(400), &[]));
    assert_eq!(b.violations(ClassSet::ALL), Vec::<String>::new());
    let flows = b.received[0].flows.as_ref().unwrap();
    assert_eq!((flows.completed, flows.incomplete, flows.completion_ns.count), (40, 0, 40));
    assert!(flows.by_size[0].completion_ns.count > flows.by_size[1].completion_ns.count, "{flows:?}");
}

/// Sends classes 3 and 4 after a pause of class 3; returns the number of sent frames of each. At 10 Mb/s the longest
/// pause lasts 3.3 s, longer than any stall of the machine.
fn run_paused(obedience: Obedience, duration: Nanos, then: Option<&str>) -> [u64; 2] {
    let pair = pair(1500);
    let options = HostOptions { obedience, duration: Some(duration), ..options(10) };
    let streams = parse_streams(&[
        format!("class=3,{TO_B},size=64,rate=1M"),
        format!("class=4,{TO_B},size=64,rate=1M"),
    ])
    .unwrap();
    let report = pair.a.namespace().run(|| {
        let host = Host::open(options).unwrap();
        send_pause(&pair.b, "3=65535");
        if let Some(then) = then {
            send_pause(&pair.b, then);
        }
        host.run(&streams, &AtomicBool::new(false), &Arc::new(Progress::default())).unwrap()
    });
    assert_eq!(report.pauses.classes[3].xoff, 1);
    [report.sent[0].frames, report.sent[1].frames]
}

#[test]
fn pause_frame_stops_its_class_and_no_other() {
    let [paused, other] = run_paused(Obedience::Obey, Nanos::from_millis(300), None);
    assert_eq!(paused, 0);
    assert!(other > 0);
}

#[test]
fn xon_resumes_paused_class_at_once() {
    for resume in ["3=0", "all=0"] {
        let [resumed, _] = run_paused(Obedience::Obey, Nanos::from_millis(300), Some(resume));
        assert!(resumed > 0, "{resume}");
    }
    let [paused, _] = run_paused(Obedience::Obey, Nanos::from_millis(300), Some("4=0"));
    assert_eq!(paused, 0);
}

#[test]
fn host_that_ignores_or_delays_pauses_keeps_sending() {
    for obedience in [Obedience::Ignore, Obedience::Late(Nanos::from_secs(3))] {
        let [paused, _] = run_paused(obedience, Nanos::from_millis(300), None);
        assert!(paused > 0, "{obedience:?}");
    }
}

fn report_after_pauses(
    obeying: HostOptions,
    streams: [&str; 2],
    pauses: &[&[&str]],
) -> (HostReport, [u64; 2]) {
    let pair = pair(1500);
    let streams = streams.map(|stream| format!("{stream},{TO_B},size=64,rate=4M"));
    let options = HostOptions { duration: Some(Nanos::from_millis(300)), ..obeying };
    let report = pair.a.namespace().run(|| {
        let host = Host::open(options).unwrap();
        for pause in pauses {
            let (code, output) = finish(xoff(&pair.b, &[&["pause", "--device", "eth0"], *pause].concat()));
            assert_eq!(code, Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        }
        let streams = parse_streams(&streams).unwrap();
        host.run(&streams, &AtomicBool::new(false), &Arc::new(Progress::default())).unwrap()
    });
    let sent = [report.sent[0].frames, report.sent[1].frames];
    (report, sent)
}

#[test] // proves: traffic
fn host_obeys_flow_lists_but_ignores_malformed_ones() {
    let report_after = |pauses: &[&[&str]]| {
        let obeying = HostOptions { obey_flows: true, ..options(10) };
        report_after_pauses(obeying, ["class=3,sport=1000,dport=9", "class=3,sport=2000,dport=9"], pauses)
    };
    let pause = ["--pause", "ofc:3=udp/10.0.0.1:1000/10.0.0.2:9@65535"];
    let (report, [paused, other]) = report_after(&[&pause]);
    assert_eq!((paused, report.pauses.flow_frames), (0, 1));
    assert!(other > 0);
    let (_, [resumed, _]) = report_after(&[&pause, &["--pause", "ofc:3=udp/10.0.0.1:1000/10.0.0.2:9@0"]]);
    assert!(resumed > 0);
    let (report, [unharmed, _]) = report_after(&[&[&pause[..], &["--overwrite", "41=03"]].concat()]);
    assert!(unharmed > 0);
    assert_eq!((report.pauses.flow_frames, report.pauses.refused.values().sum::<u64>()), (0, 1));
}

#[test] // proves: traffic
fn host_obeys_rate_frames_but_ignores_malformed_ones() {
    let report_after = |pauses: &[&[&str]]| {
        let obeying = HostOptions { obey_rates: true, ..options(10) };
        report_after_pauses(obeying, ["class=3", "class=4"], pauses)
    };
    let slow = ["--pause", "gfc:3=4@65535"]; // 625 kb/s
    let (report, [slowed, other]) = report_after(&[&slow]);
    assert!(slowed > 0 && slowed * 3 < other, "{slowed} and {other}");
    assert_eq!(report.pauses.rate_frames, 1);
    let (_, [ended, other]) = report_after(&[&slow, &["--pause", "gfc:3=0@65535"]]);
    assert!(ended * 3 > other, "{ended} and {other}");
    let (report, [unharmed, other]) = report_after(&[&[&slow[..], &["--overwrite", "43=11"]].concat()]);
    assert!(unharmed * 3 > other, "{unharmed} and {other}");
    assert_eq!((report.pauses.rate_frames, report.pauses.refused.values().sum::<u64>()), (0, 1));
}

fn xoff(device: &Device, args: &[&str]) -> Child {
    xoff_telling(Stdio::piped(), device, args)
}

fn xoff_telling(stderr: impl Into<Stdio>, device: &Device, args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xoff"));
    command.arg("traffic").args(args).stdout(Stdio::piped()).stderr(stderr);
    device.namespace().spawn(command).unwrap()
}

fn wait_until_ready(child: &mut Child) {
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut output = String::new();
    while !output.contains("ready on eth0") {
        assert!(stderr.read_line(&mut output).unwrap() > 0, "the host ended before it was ready: {output}");
    }
    child.stderr = Some(stderr.into_inner());
}

fn finish(child: Child) -> (Option<i32>, Output) {
    let output = child.wait_with_output().unwrap();
    (output.status.code(), output)
}

#[test]
fn later_signal_ends_command_blocked_on_unread_report() {
    let pair = pair(1500);
    let (_unread, mut full) = std::io::pipe().unwrap();
    full.write_all(&[b' '; 64 << 10]).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_xoff"));
    command.args(["traffic", "pause", "--device", "eth0", "--pause", "3=1", "--count", "1"]).stdout(full);
    let mut child = pair.a.namespace().spawn(command).unwrap();
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(begin.elapsed() < Duration::from_secs(60), "signals do not end the host");
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn option_expect_lossless_sets_exit_code_of_traffic_host() {
    let pair = pair(1500);
    let mut sink = xoff(&pair.b, &["--device", "eth0", "--linger", "1s", "--json", "--expect-lossless=3"]);
    wait_until_ready(&mut sink);
    let stream = format!("class=3,{TO_B},count=500");
    let sender =
        xoff(&pair.a, &["--device", "eth0", "--speed", "100M", "--stream", &stream, "--expect-lossless"]);
    let (code, output) = finish(sender);
    assert_eq!(
        code,
        Some(1),
        "a sender that received nothing exits with 0: {}",
        String::from_utf8_lossy(&output.stdout)
    );
    let (code, output) = finish(sink);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(code, Some(0), "{json}");
    assert_eq!((&json["received"][0]["frames"], &json["received"][0]["lost"]), (&500.into(), &0.into()));
}

#[test] // proves: traffic
fn frames_before_start_of_receiver_do_not_count_as_lost() {
    let pair = pair(1500);
    let stream = format!("class=3,{TO_B},rate=1M");
    let mut sender = xoff(&pair.a, &["--device", "eth0", "--speed", "100M", "--stream", &stream]);
    wait_until_ready(&mut sender);
    let frames = || pair.b.counters().unwrap().rx_packets;
    while frames() < 20 {
        thread::sleep(Duration::from_millis(1));
    }
    let mut sink = xoff(&pair.b, &["--device", "eth0", "--linger", "1s", "--json", "--expect-lossless"]);
    wait_until_ready(&mut sink);
    let ready = frames();
    while frames() < ready + 20 {
        thread::sleep(Duration::from_millis(1));
    }
    kill(Pid::from_raw(sender.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    finish(sender);
    let (code, output) = finish(sink);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |key: &str| json["received"][0][key].as_u64().unwrap();
    assert!(of("missed_at_start") >= 20 && of("lost") == 0, "{json}");
    assert_eq!(of("sent"), of("missed_at_start") + of("frames"));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        code == Some(1) && message.contains("sent before this host was ready"),
        "nothing is proved of those: {message}"
    );
}

#[test] // proves: traffic
fn deleted_interface_ends_host_with_report() {
    let stream = format!("class=3,{TO_B},rate=1M");
    for rest in [&["--stream", &stream][..], &[]] {
        let pair = pair(1500);
        let mut host = xoff(&pair.a, &[&["--device", "eth0", "--json"], rest].concat());
        wait_until_ready(&mut host);
        let mut delete = Command::new("ip");
        delete.args(["link", "delete", "eth0"]);
        assert!(pair.b.namespace().spawn(delete).unwrap().wait().unwrap().success());
        let (code, output) = finish(host);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(code, Some(2), "{message}");
        assert!(message.contains("eth0 is gone") && !message.contains("panicked"), "{message}");
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["device_gone"], true, "{json}");
    }
}

#[test]
fn interrupted_sender_reports_all_frames_it_sent() {
    let pair = pair(1500);
    let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(Progress::default()));
    let sink = pair.b.namespace().run(|| Host::open(options(100)).unwrap());
    let sink = pair.b.namespace().spawn_thread({
        let (stop, progress) = (Arc::clone(&stop), Arc::clone(&progress));
        move || sink.run(&[], &stop, &progress).unwrap()
    });
    let mut sender = xoff(&pair.a, &["--device", "eth0", "--speed", "100M", "--stream", TO_B, "--json"]);
    wait_until_ready(&mut sender);
    while progress.received[0].frames.get() == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    kill(Pid::from_raw(sender.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    let (code, output) = finish(sender);
    stop.store(true, Ordering::Relaxed);
    let sink = sink.join().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((code, sink.violations(ClassSet::ALL)), (Some(0), Vec::<String>::new()));
    assert_eq!(json["sent"][0]["frames"], sink.received[0].frames);
}

#[test] // proves: traffic
fn interrupted_receiver_counts_frames_already_received() {
    let pair = pair(1500);
    let stop = AtomicBool::new(true);
    let sink = pair.b.namespace().run(|| Host::open(options(400)).unwrap());
    let streams = parse_streams(&[format!("{TO_B},count=2000")]).unwrap();
    pair.a.namespace().run(|| {
        let sender = Host::open(options(400)).unwrap();
        sender.run(&streams, &AtomicBool::new(false), &Arc::default()).unwrap()
    });
    let report = pair.b.namespace().run(|| sink.run(&[], &stop, &Arc::default()).unwrap());
    assert_eq!((report.received[0].frames, report.received[0].lost), (2000, 0));
}

#[test] // proves: traffic
fn traffic_host_runs_though_nobody_reads_its_messages() {
    let pair = pair(1500);
    for (device, expected) in [("eth0", 1), ("none", 2)] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let args = ["--device", device, "--duration", "1200ms", "--progress", "--expect-lossless"];
        assert_eq!(finish(xoff_telling(writer, &pair.a, &args)).0, Some(expected), "{device}");
    }
}

#[test] // proves: traffic
fn traffic_command_with_bad_usage_exits_with_2() {
    let pair = pair(1500);
    for (args, expected) in [
        (
            &["--device", "eth0", "--stream", "class=9,sise=1"][..],
            &["class=`9`", "`sise`", "dst=broadcast"][..],
        ),
        (&["--device", "none"], &["none"]),
        (
            &["--device", "eth0", "--stream", "dst=broadcast", "--stream", "dst=broadcast,size=9018"],
            &["stream 1: size=9018", "MTU of 1500 carries size=1518", "ip link set eth0 mtu 9000"],
        ),
        (
            &["--device", "eth0", "--stream", "dst=broadcast,size=1523,pcp=3"],
            &["stream 0: size=1523", "carries size=1522", "ip link set eth0 mtu 1501"],
        ),
        (&["pause", "--device", "none", "--pause", "3=1"], &["none"]),
        (
            &["pause", "--device", "eth0", "--pause", "ofc:3=x@1"],
            &["ofc:3=udp/10.0.0.1:1000/10.0.0.2:4791@65535"],
        ),
        (&["pause", "--device", "eth0", "--pause", "gfc:3=17@1"], &["steps are 0 to 16"]),
        (&["pause", "--device", "eth0", "--pause", "3=1", "--overwrite", "41"], &["41=03"]),
        (&["--device", "eth0", "--speed", "fast"], &["200M"]),
        (&[], &["--device"]),
    ] {
        let (code, output) = finish(xoff(&pair.a, args));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(code, Some(2), "{args:?}: {text}");
        expected.iter().for_each(|part| assert!(text.contains(part), "{part} in {text}"));
    }
}
