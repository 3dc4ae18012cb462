//! Hosts of `xoff traffic` in the simulator: what they send and when, to the nanosecond.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use xoff_dataplane::units::{BitRate, Bytes, Class, MacAddr, Nanos};
use xoff_hosts::{Progress, Stream, settle};
use xoff_sim::{
    Fabric, Line, Pace, Picos, Seed, SwitchNode, TrafficHost, TrafficSettings, address, topology,
};

const BEGIN: Picos = Picos::from_micros(1);

fn line(gbps: u64) -> Line {
    Line { rate: BitRate::from_gbps(gbps), delay: Picos::from_nanos(50) }
}

/// Hosts at one switch; they have begun with these streams to the last of them.
fn fabric(line: Line, streams: &[Vec<Stream>]) -> Fabric<SwitchNode, TrafficHost> {
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
        };
        fabric.at_host(number, |host, net| host.begin(settings, net));
    }
    fabric
}

fn lossless(to: MacAddr, count: u64) -> Stream {
    Stream { class: Class::ALL[3], dscp: 24, dst: to, count: Some(count), ..Stream::default() }
}

#[test]
fn frames_leave_one_behind_the_other_and_arrive_when_the_lines_have_carried_them() {
    for gbps in [1, 10, 100, 400] {
        let line = line(gbps);
        let count = 1_000;
        let mut fabric = fabric(line, &[vec![lossless(address(1), count)], Vec::new()]);
        fabric.run_until(Picos::from_micros(20_000));
        let frame = Pace::of(line.rate).time_of(Bytes::on_line(Stream::default().frame_len()));
        let got = &fabric.hosts()[1].report(fabric.now()).received[0];
        let took = (count + 1) * frame.0 + 2 * line.delay.0;
        let expected = Picos(BEGIN.0 + took).floor().0;
        assert_eq!(got.frames, count, "{gbps}G");
        assert!((expected..expected + 3).contains(&got.last_ns), "{gbps}G: {} and {expected}", got.last_ns);
        assert_eq!(fabric.missing(), 0);
    }
}

#[test]
fn senders_into_one_port_are_paused_and_lose_nothing() {
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
fn a_stream_with_a_rate_keeps_it() {
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
