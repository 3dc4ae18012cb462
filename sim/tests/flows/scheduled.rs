// Tests for SPECIFICATION.md: sim-scheduled

use std::sync::Arc;

use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::{Culprit, QcnSettings, SwitchSettings};
use xoff_sim::flows::{FlowFabric, FlowPlan, FlowRecord, HostSettings, SlowReceiver};
use xoff_sim::ideal::Ideal;
use xoff_sim::scheduled::{AnySwitch, Scheduled};
use xoff_sim::topology::Build;
use xoff_sim::{Line, Pace, Picos, Seed};
use xoff_wire::units::{BitRate, Bytes, ClassSet, PortId};

use super::{LOSSLESS, LOSSY, flow, line};

const PAPER: Scheduled =
    Scheduled { leaves: 2, spines: 32, hosts: 1, cell: 256, credits: 586, spine_buffer: 16 };
const ONE_CELL: u32 = 188;
const FRAME: u32 = 250;

fn host_line() -> Line {
    line(100, 100)
}

fn uplink() -> Line {
    line(25, 100)
}

fn fabric(shape: Scheduled, uplink: Line, payload_max: u32) -> FlowFabric<AnySwitch> {
    let plan = shape.plan(host_line(), uplink, &Build::ideal());
    FlowFabric::of_any(&plan, Seed(1), HostSettings { payload_max, ..HostSettings::default() }, Some(shape))
}

fn check(fabric: &FlowFabric<AnySwitch>) {
    let drops = |switch: &AnySwitch| -> u64 {
        DropReason::ALL.iter().map(|reason| switch.counters().dropped(*reason)).sum()
    };
    assert_eq!(fabric.fabric().switches().iter().map(drops).sum::<u64>(), 0);
    assert_eq!(fabric.fabric().missing(), 0);
    assert_eq!(fabric.records().map(|record| record.out_of_order).sum::<u32>(), 0);
}

fn time(line: Line, bytes: u64) -> u64 {
    Pace::of(line.rate).time_of(Bytes(bytes)).0 + line.delay.0
}

#[test]
fn frame_in_scheduled_fabric_waits_for_request_and_grant() {
    let mut fabric = fabric(PAPER, uplink(), ONE_CELL);
    fabric.add(FlowPlan { start: Picos::ZERO, ..flow(0, 1, ONE_CELL.into()) });
    assert!(fabric.run_to_end(Picos::from_micros(100)));
    let messages = 4 * time(uplink(), 10);
    let cell = 2 * time(uplink(), u64::from(FRAME) + 10);
    let lines = 2 * time(host_line(), u64::from(FRAME) + 20);
    assert_eq!(fabric.record(0).finish, Some(Picos(lines + messages + cell)));
    check(&fabric);
}

fn fabric_with(
    shape: Scheduled,
    modify: impl Fn(&mut SwitchSettings),
    payload_max: u32,
) -> FlowFabric<AnySwitch> {
    let build = Build::new(|lines, _| {
        let mut kind = Ideal::of(lines, ClassSet::NONE);
        modify(&mut kind.settings);
        Arc::new(kind)
    });
    let plan = shape.plan(host_line(), uplink(), &build);
    FlowFabric::of_any(&plan, Seed(1), HostSettings { payload_max, ..HostSettings::default() }, Some(shape))
}

fn small() -> Scheduled {
    Scheduled { spines: 8, hosts: 2, ..PAPER }
}

#[test]
fn lossy_overload_drops_no_lossless_frames() {
    const LOSSY_MOST: Bytes = Bytes(256_000);
    let sampling = QcnSettings {
        ingress: ClassSet(1 << LOSSY.get()),
        egress: ClassSet(1 << LOSSLESS.get()),
        culprit: Culprit::OccupancyRandom,
        ..QcnSettings::PAPER
    };
    for qcn in [QcnSettings::PAPER, sampling] {
        let limit = |settings: &mut SwitchSettings| {
            settings.qcn = qcn;
            settings.ports.iter_mut().for_each(|port| port.classes[LOSSY.index()].egress_max = LOSSY_MOST);
        };
        let mut fabric = fabric_with(small(), limit, 2);
        for from in [0, 1] {
            fabric.add(FlowPlan { class: LOSSY, ..flow(from, 2, 60_000) });
            fabric.add(flow(from, 3, 20_000));
        }
        fabric.run_until(Picos::from_micros(3_000));
        let counters = fabric.fabric().switches()[0].counters();
        for port in [PortId(0), PortId(1)] {
            let lossy = counters.class(port, LOSSY);
            assert!(lossy.drops[DropReason::IngressFull.index()].get() > 0);
            let most = lossy.ingress_watermark.get();
            assert!((LOSSY_MOST.0 - 100..=LOSSY_MOST.0).contains(&most), "{most} bytes");
        }
        let all = DropReason::ALL.iter().map(|reason| counters.dropped(*reason)).sum::<u64>();
        assert_eq!(all, counters.dropped(DropReason::IngressFull), "a frame of a lossless class was dropped");
        let ended = |record: FlowRecord| record.finish.is_some();
        assert!(fabric.records().filter(|record| record.class == LOSSLESS).all(ended));
        assert_eq!(fabric.fabric().missing(), 0);
    }
}

/// CNMs to other leaves are dropped if the input buffer of the default class is full.
#[test]
fn dropped_cnms_are_not_counted_as_sent() {
    let sent = |room: u64| {
        let modify = |settings: &mut SwitchSettings| {
            settings.qcn = QcnSettings { egress: ClassSet(1 << LOSSLESS.get()), ..QcnSettings::PAPER };
            settings.ports.iter_mut().for_each(|port| port.classes[LOSSY.index()].ingress_max = Bytes(room));
        };
        let mut fabric = fabric_with(small(), modify, 1_456);
        [0, 1].into_iter().for_each(|from| _ = fabric.add(flow(from, 2, 4_000_000)));
        fabric.run_until(Picos::from_micros(1_000));
        let counters = fabric.fabric().switches()[1].counters().class(PortId(0), LOSSLESS);
        [counters.cnms_sent.get() > 0, counters.cnms_not_sent.get() > 0]
    };
    assert_eq!((sent(1_000_000), sent(0)), ([true, false], [false, true]));
}

fn sent(credits: u32) -> u64 {
    let mut fabric = fabric(Scheduled { credits, ..PAPER }, uplink(), ONE_CELL);
    fabric.add(flow(0, 1, 1 << 30));
    fabric.run_until(Picos::from_micros(20));
    let before = fabric.received(0);
    fabric.run_until(Picos::from_micros(120));
    check(&fabric);
    u64::from(fabric.received(0) - before)
}

/// A frame of one cell uses its credit for the time of two messages, two cells and the frame. Throughput is credits /
/// this time, at most line rate.
#[test]
fn throughput_of_scheduled_fabric_equals_credit_limit() {
    let window = Picos::from_micros(100).0;
    let frame = Pace::of(host_line().rate).time_of(Bytes::on_line(FRAME - 4)).0;
    let round_trip = 2 * time(uplink(), 10) + 2 * time(uplink(), u64::from(FRAME) + 10) + frame;
    let enough = u32::try_from(round_trip.div_ceil(frame)).unwrap_or(u32::MAX);
    for credits in [1, 2, 7, enough - 1] {
        let used = (sent(credits) * round_trip) as f64 / window as f64;
        assert!(
            (used - f64::from(credits)).abs() < 0.5,
            "{credits} credits carry as many frames as {used} should"
        );
    }
    for credits in [enough + 1, PAPER.credits] {
        assert!(sent(credits).abs_diff(window / frame) <= 1, "{credits} credits do not fill the line");
    }
}

#[test]
fn overloaded_spines_neither_lose_nor_reorder_frames() {
    for spine_buffer in [1, 8] {
        let tight = Scheduled { leaves: 4, spines: 3, hosts: 3, credits: 400, spine_buffer, cell: 64 };
        let digests = [true, false].map(|by_place| {
            let mut fabric = fabric(tight, uplink(), 1_456);
            fabric.slow_down(
                1,
                SlowReceiver {
                    rate: BitRate::from_gbps(5),
                    buffer: Bytes(1_000_000),
                    xoff: Bytes(20_000),
                    xon: Bytes(10_000),
                    begin: Picos::ZERO,
                    end: Picos::NEVER,
                },
            );
            for (one, other) in (0..3).flat_map(|one| (3..12).map(move |other| (one, other))) {
                fabric.add(flow(other, one, 100_000));
                fabric.add(flow(one, other, 100_000));
            }
            if by_place {
                assert!(fabric.run_to_end(Picos::from_micros(10_000)));
            } else {
                while fabric.open() > 0 && fabric.fabric_mut().step(Picos::from_micros(10_000)).is_some() {}
            }
            fabric.run_until(Picos::from_micros(10_000));
            check(&fabric);
            assert!(fabric.records().all(|record| record.finish.is_some()));
            let spine = fabric.fabric().switches()[4].counters().class(PortId(0), LOSSLESS);
            let places = u64::from(spine_buffer);
            let cells = spine.egress_watermark.get() / (64 + 10);
            assert!(
                cells > places && cells <= 4 * places,
                "{cells} cells, but the output and three inputs have places for {places} each"
            );
            fabric.fabric().digest()
        });
        assert_eq!(digests[0], digests[1], "events differ between processing by node and by time");
    }
}
