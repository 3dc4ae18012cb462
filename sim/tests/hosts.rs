#![allow(clippy::unwrap_used)]

// Tests for SPECIFICATION.md: sim-hosts

use std::sync::Arc;

use xoff_flow_control::congestion::ReactionSettings;
use xoff_host::{Progress, Stream, settle};
use xoff_sim::{
    Fabric, Habits, Line, Pace, Picos, Seed, Stalls, SwitchNode, TrafficHost, TrafficSettings, address,
    topology,
};
use xoff_wire::cnm::{CongestionPointId, Envelope, Msdu};
use xoff_wire::units::{BitRate, Bytes, Class, MacAddr, Nanos};
use xoff_wire::{CnTag, Cnm};

const BEGIN: Picos = Picos::from_micros(1);

fn line(gbps: u64) -> Line {
    Line { rate: BitRate::from_gbps(gbps), delay: Picos::from_nanos(50) }
}

fn fabric(line: Line, streams: &[Vec<Stream>]) -> Fabric<SwitchNode, TrafficHost> {
    fabric_of(line, streams, |settings| settings)
}

fn fabric_of(
    line: Line,
    streams: &[Vec<Stream>],
    modify: impl Fn(TrafficSettings) -> TrafficSettings,
) -> Fabric<SwitchNode, TrafficHost> {
    let hosts = u8::try_from(streams.len()).unwrap();
    let switch = |at, settings, slots| SwitchNode::new(at, &settings, slots);
    let mut fabric = Fabric::of(&topology::single(hosts, line), Seed(1), switch, TrafficHost::new);
    fabric.run_until(BEGIN);
    for (number, streams) in (0..).zip(streams) {
        let settings = TrafficSettings {
            address: address(number),
            id: u16::try_from(number).unwrap(),
            catch_up: Nanos::ZERO,
            qcn: None,
            streams: streams.clone(),
            progress: Arc::new(Progress::default()),
            rate: line.rate,
            habits: Habits::IDEAL,
            stalls: None,
        };
        fabric.at_host(number, |host, net| host.begin(modify(settings), net));
    }
    fabric
}

fn lossless(to: MacAddr, count: u64) -> Stream {
    Stream { class: Class::ALL[3], dscp: 24, dst: to, count: Some(count), ..Stream::default() }
}

#[test]
fn traffic_host_sends_frames_back_to_back() {
    for gbps in [1, 10, 100, 400] {
        let line = line(gbps);
        let count = 1_000;
        let mut fabric = fabric(line, &[vec![lossless(address(1), count)], Vec::new()]);
        fabric.run_until(Picos::from_micros(20_000));
        let frame = Pace::of(line.rate).time_of(Bytes::on_line(Stream::default().frame_len()));
        let report = fabric.hosts()[1].report(fabric.now());
        assert_eq!(report.elapsed_ns, fabric.now().floor().since(BEGIN.floor()).0);
        let got = &report.received[0];
        let took = (count + 1) * frame.0 + 2 * line.delay.0;
        let expected = Picos(BEGIN.0 + took).floor().0;
        assert_eq!(got.frames, count, "{gbps}G");
        assert!((expected..expected + 3).contains(&got.last_ns), "{gbps}G: {} and {expected}", got.last_ns);
        assert_eq!(fabric.missing(), 0);
    }
}

#[test]
fn traffic_hosts_into_one_port_are_paused_without_loss() {
    let to = address(2);
    let streams = [vec![lossless(to, 3_000)], vec![lossless(to, 3_000)], Vec::new()];
    let mut fabric = fabric(line(100), &streams);
    fabric.run_until(Picos::from_micros(5_000));
    let mut reports: Vec<_> = fabric.hosts().iter().map(|host| host.report(fabric.now())).collect();
    settle(&mut reports);
    for of in &reports[2].received {
        assert_eq!((of.sent, of.frames, of.lost, of.reordered), (3_000, 3_000, 0, 0));
    }
    assert!(reports[..2].iter().all(|host| host.pauses.classes[3].paused_ns > 0), "{reports:?}");
    assert_eq!(fabric.switches()[0].switch().ledger().missing(), 0);
    assert_eq!(fabric.missing(), 0);
}

#[test]
fn stream_with_rate_sends_exactly_at_rate() {
    let rate = BitRate::from_gbps(40);
    let stream = Stream { rate: Some(rate), ..lossless(address(1), 1_000) };
    let mut fabric = fabric(line(100), &[vec![stream], Vec::new()]);
    fabric.run_until(Picos::from_micros(1_000));
    let got = &fabric.hosts()[1].report(fabric.now()).received[0];
    let bits = 999 * 8 * Bytes::on_line(Stream::default().frame_len()).0;
    let expected =
        u64::try_from(u128::from(bits) * 1_000_000_000 / u128::from(rate.bits_per_second())).unwrap();
    assert!(
        (got.last_ns - got.first_ns).abs_diff(expected) <= 2,
        "{} and {expected}",
        got.last_ns - got.first_ns
    );
}

#[test]
fn host_with_rate_below_line_sends_exactly_at_rate() {
    let rate = BitRate::from_mbps(100);
    let streams = [vec![lossless(address(1), 100)], Vec::new()];
    let mut fabric = fabric_of(line(10), &streams, |settings| TrafficSettings { rate, ..settings });
    fabric.run_until(Picos::from_micros(20_000));
    let got = &fabric.hosts()[1].report(fabric.now()).received[0];
    let frame = rate.time_of(Bytes::on_line(Stream::default().frame_len()));
    assert_eq!((got.frames, got.last_ns - got.first_ns), (100, 99 * frame.0));
}

#[test]
fn host_hands_frames_to_driver_up_to_commit_limit() {
    let frame = Bytes::on_line(Stream::default().frame_len());
    let run = |commit: Bytes| {
        let streams = [vec![lossless(address(1), 100)], Vec::new()];
        let mut fabric = fabric_of(line(10), &streams, |settings| TrafficSettings {
            rate: BitRate::from_gbps(100),
            habits: Habits { commit, ..Habits::IDEAL },
            ..settings
        });
        let leaves = Pace::of(BitRate::from_gbps(10)).time_of(frame);
        let sent = [Picos(leaves.0 - 1), leaves, Picos(2 * leaves.0)].map(|time| {
            fabric.run_until(BEGIN.after(time));
            assert_eq!(fabric.missing(), 0);
            fabric.hosts()[0].report(fabric.now()).sent[0].frames
        });
        fabric.run_until(Picos::from_micros(1_000));
        let got = &fabric.hosts()[1].report(fabric.now()).received[0];
        assert_eq!((got.frames, got.reordered), (100, 0));
        let took = (101 * leaves.0 + 2 * line(10).delay.0) / 1_000;
        assert!((BEGIN.floor().0 + took).abs_diff(got.last_ns) <= 2, "{took} and {}", got.last_ns);
        sent
    };
    assert_eq!(run(Bytes(3 * frame.0)), [3, 4, 5]);
    assert_eq!(run(Bytes(3 * frame.0 + 1)), [4, 5, 6]);
}

/// A frame takes 1,230 ns; a nap begins at its end.
#[test]
fn napping_host_sends_when_its_nap_ends() {
    let nap = Nanos::from_micros(50);
    let stream = Stream { rate: Some(BitRate::from_gbps(1)), ..lossless(address(1), 100) };
    let streams = [vec![stream], Vec::new()];
    let mut fabric = fabric_of(line(10), &streams, |settings| TrafficSettings {
        habits: Habits { nap: if settings.id == 0 { nap } else { Nanos::ZERO }, ..Habits::IDEAL },
        ..settings
    });
    fabric.run_until(Picos::from_micros(20_000));
    let got = &fabric.hosts()[1].report(fabric.now()).received[0];
    assert_eq!((got.frames, got.last_ns - got.first_ns), (100, 99 * (nap.0 + 1_230)));
}

#[test]
fn stall_that_ends_during_a_nap_does_not_shorten_the_nap() {
    let nap = Nanos::from_micros(50);
    let length = Nanos::from_micros(1);
    let stream = Stream { rate: Some(BitRate::from_gbps(1)), ..lossless(address(1), 1_000) };
    let stalls = Stalls { gap: Nanos::from_micros(5), length: length..=length, until: Nanos::NEVER };
    let longest = |stalls: Option<Stalls>| {
        let streams = [vec![stream.clone()], Vec::new()];
        let mut fabric = fabric_of(line(10), &streams, |settings| match settings.id {
            0 => settings,
            _ => TrafficSettings {
                habits: Habits { nap, ..Habits::IDEAL },
                stalls: stalls.clone().map(|stalls| (stalls, Seed(1))),
                ..settings
            },
        });
        fabric.run_until(Picos::from_micros(20_000));
        let got = &fabric.hosts()[1].report(fabric.now()).received[0];
        assert_eq!(got.frames, 1_000);
        got.latency_ns.max
    };
    let [alone, stalling] = [None, Some(stalls)].map(longest);
    assert!((alone..=alone + length.0).contains(&stalling), "{alone} and {stalling}");
}

#[test]
fn host_reports_its_longest_stall() {
    let length = Nanos::from_millis(1)..=Nanos::from_millis(3);
    let stalls = Stalls { gap: Nanos::from_micros(100), length, until: Nanos::NEVER };
    let streams = [vec![lossless(address(1), 1_000_000)], Vec::new()];
    let mut fabric = fabric_of(line(10), &streams, |settings| TrafficSettings {
        stalls: Some((stalls.clone(), Seed(1))),
        ..settings
    });
    let longest: Vec<u64> = (1..40)
        .map(|part| {
            fabric.run_until(Picos::from_micros(part * 2_000));
            fabric.hosts()[0].report(fabric.now()).longest_gap_ns
        })
        .collect();
    assert!(longest.is_sorted(), "{longest:?}");
    assert!((2_000_000..=3_000_000).contains(&longest[38]), "{longest:?}");
}

#[test]
fn napping_host_receives_after_its_nap() {
    let nap = Nanos::from_micros(50);
    let longest = |nap: Nanos| {
        let streams = [vec![lossless(address(1), 100)], Vec::new()];
        let mut fabric = fabric_of(line(10), &streams, |settings| TrafficSettings {
            habits: Habits { nap, ..Habits::IDEAL },
            catch_up: Nanos::from_millis(2),
            ..settings
        });
        fabric.run_until(Picos::from_micros(20_000));
        let got = &fabric.hosts()[1].report(fabric.now()).received[0];
        assert_eq!((got.frames, got.reordered, fabric.missing()), (100, 0, 0));
        got.latency_ns.max
    };
    let [at_once, napping] = [Nanos::ZERO, nap].map(longest);
    assert!((nap.0 / 2..nap.0 + at_once).contains(&(napping - at_once)), "{at_once} and {napping}");
}

#[test]
fn wakeup_delay_postpones_each_frame_of_a_slow_stream() {
    let (rate, wake) = (BitRate::from_mbps(100), Nanos::from_micros(30));
    let streams = [vec![Stream { rate: Some(rate), ..lossless(address(1), 100) }], Vec::new()];
    let mut fabric = fabric_of(line(10), &streams, |settings| TrafficSettings {
        habits: Habits { wake: if settings.id == 0 { wake } else { Nanos::ZERO }, ..Habits::IDEAL },
        ..settings
    });
    fabric.run_until(Picos::from_micros(20_000));
    let got = &fabric.hosts()[1].report(fabric.now()).received[0];
    let frame = rate.time_of(Bytes::on_line(Stream::default().frame_len()));
    assert_eq!((got.frames, got.last_ns - got.first_ns), (100, 99 * (frame.0 + wake.0)));
    assert_eq!(fabric.hosts()[0].report(fabric.now()).usual_gap_ns, wake.0);
}

/// Each of two hosts receives a frame every 12,304 ns. One polls at once; the other after its wakeup delay of 30 us,
/// then every 80 us (a nap of 50 us and the delay).
#[test]
fn receiving_host_polls_after_wakeup_delay_and_naps() {
    let [wake, nap] = [30, 50].map(Nanos::from_micros);
    let stream = Stream { rate: Some(BitRate::from_gbps(1)), ..lossless(address(1), 1_000) };
    let received = |habits: Habits| {
        let mut fabric = fabric_of(line(10), &[vec![stream.clone()], Vec::new()], |settings| {
            let habits = if settings.id == 1 { habits } else { Habits::IDEAL };
            TrafficSettings { habits, ..settings }
        });
        move |time: Picos| {
            fabric.run_until(time);
            fabric.hosts()[1].report(time).received.first().map_or(0, |stream| stream.frames)
        }
    };
    let (mut at_once, mut later) = (received(Habits::IDEAL), received(Habits { wake, nap, ..Habits::IDEAL }));
    let first =
        (0..).map(|nanos| BEGIN.after(Picos::from_nanos(nanos))).find(|time| at_once(*time) == 1).unwrap();
    let first = Picos::from(Picos(first.0 - 1_000).floor());
    let mut expected = 0;
    for time in [30, 110, 190].map(|micros| first.after(Picos::from_micros(micros))) {
        assert_eq!(later(Picos(time.0 - 1_000)), expected);
        expected = at_once(time);
        assert_eq!(later(time), expected);
    }
}

#[test]
fn stalled_host_catches_up_within_limit_without_loss() {
    let rate = BitRate::from_mbps(100);
    let frame = rate.time_of(Bytes::on_line(Stream::default().frame_len()));
    let stall = Nanos::from_millis(2);
    let took = |catch_up: Nanos, seed: u64| {
        let streams = [vec![lossless(address(1), 1_000)], Vec::new()];
        let stalls = Stalls { gap: Nanos::from_millis(10), length: stall..=stall, until: Nanos::NEVER };
        let mut fabric = fabric_of(line(10), &streams, |settings| TrafficSettings {
            rate,
            catch_up,
            stalls: Some((stalls.clone(), Seed(seed))),
            ..settings
        });
        fabric.run_until(Picos::from_micros(400_000));
        let [sender, sink] = [0, 1].map(|host| fabric.hosts()[host].report(fabric.now()));
        let got = &sink.received[0];
        assert_eq!((got.frames, got.reordered, fabric.missing()), (1_000, 0, 0));
        assert!((1..=stall.0).contains(&sender.longest_gap_ns), "{}", sender.longest_gap_ns);
        got.last_ns - BEGIN.floor().0
    };
    let alone = 1_000 * frame.0;
    let [made_up, not] = [stall, Nanos::ZERO].map(|catch_up| took(catch_up, 1));
    assert!((alone - frame.0..alone + 3 * stall.0).contains(&made_up), "{made_up} and {alone}");
    assert!(
        not > alone + 8 * stall.0,
        "the run took {not} ns, which is not about twelve stalls more than {alone} ns"
    );
    assert_eq!(not, took(Nanos::ZERO, 1), "runs with the same seed differ");
    assert_ne!(not, took(Nanos::ZERO, 2));
}

#[test]
fn cnm_for_no_stream_counts_as_unknown() {
    let mut fabric = fabric_of(line(10), &[Vec::new(), Vec::new()], |settings| TrafficSettings {
        qcn: Some(ReactionSettings::STANDARD),
        ..settings
    });
    let cnm = Cnm {
        feedback: 17,
        congestion_point: CongestionPointId([0; 8]),
        q_offset: 0,
        q_delta: 0,
        priority: Class::ALL[3],
        destination: address(1),
        msdu: Msdu::of(&[]),
    };
    let envelope = Envelope { dst: address(0), src: address(1), tag: None, cn_tag: Some(CnTag(5)) };
    fabric.at_host(1, |host, net| host.emit(cnm.encode(&envelope).as_bytes(), net));
    fabric.run_until(Picos::from_micros(100));
    let counts = [0, 1].map(|host| fabric.hosts()[host].report(fabric.now()).cnms);
    assert_eq!(counts.map(|cnms| (cnms.received, cnms.unknown)), [(1, 1), (0, 0)]);
}
