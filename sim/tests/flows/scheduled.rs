//! Scheduled fabrics: latency, the law of the credit loop, and no loss or disorder of frames or cells.

// proves: sim-scheduled

use xoff_flow_control::drop_reason::DropReason;
use xoff_sim::flows::{FlowFabric, FlowPlan, HostSettings, SlowReceiver};
use xoff_sim::scheduled::{AnySwitch, Scheduled};
use xoff_sim::topology::Build;
use xoff_sim::{Line, Pace, Picos, Seed};
use xoff_wire::units::{BitRate, Bytes, PortId};

use super::{LOSSLESS, flow, line};

const PAPER: Scheduled =
    Scheduled { leaves: 2, spines: 32, hosts: 1, cell: 256, credits: 586, spine_buffer: 16 };
/// Payload of a frame of 250 bytes, which is one cell.
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
fn lone_frame_takes_request_grant_and_cell() {
    let mut fabric = fabric(PAPER, uplink(), ONE_CELL);
    fabric.add(FlowPlan { start: Picos::ZERO, ..flow(0, 1, ONE_CELL.into()) });
    assert!(fabric.run_to_end(Picos::from_micros(100)));
    let messages = 4 * time(uplink(), 10);
    let cell = 2 * time(uplink(), u64::from(FRAME) + 10);
    let lines = 2 * time(host_line(), u64::from(FRAME) + 20);
    assert_eq!(fabric.record(0).finish, Some(Picos(lines + messages + cell)));
    check(&fabric);
}

/// Returns how many frames a saturated output with these credits sends in 100 us.
fn sent(credits: u32) -> u64 {
    let mut fabric = fabric(Scheduled { credits, ..PAPER }, uplink(), ONE_CELL);
    fabric.add(flow(0, 1, 1 << 30));
    fabric.run_until(Picos::from_micros(20));
    let before = fabric.received(0);
    fabric.run_until(Picos::from_micros(120));
    check(&fabric);
    u64::from(fabric.received(0) - before)
}

/// Throughput is min(1, credits / (round trip x rate)), where the round trip of a credit is that of grant, cell and
/// frame.
#[test]
fn credits_bound_throughput_to_the_cell() {
    let window = Picos::from_micros(100).0;
    let frame = Pace::of(host_line().rate).time_of(Bytes::on_line(FRAME - 4)).0;
    let round_trip = 2 * time(uplink(), 10) + 2 * time(uplink(), u64::from(FRAME) + 10) + frame;
    let enough = u32::try_from(round_trip.div_ceil(frame)).unwrap_or(u32::MAX);
    for credits in [1, 2, 7, enough - 1] {
        let used = (sent(credits) * round_trip) as f64 / window as f64;
        assert!((used - f64::from(credits)).abs() < 0.5, "{credits} credits carry as {used}");
    }
    for credits in [enough + 1, PAPER.credits] {
        assert!(sent(credits).abs_diff(window / frame) <= 1, "{credits} credits do not fill the line");
    }
}

#[test]
fn overloaded_spines_lose_and_reorder_nothing() {
    // Servers of three leaves send to those of leaf 0, whose downlinks have a quarter of their rate. Leaf 0 answers.
    let tight = Scheduled { leaves: 4, spines: 3, hosts: 3, credits: 400, spine_buffer: 8, cell: 64 };
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
        let cells = spine.egress_watermark.get() / (64 + 10);
        assert!(
            cells > 8 && cells <= 4 * 8,
            "{cells} cells, but the output and three inputs have places for 8 each"
        );
        fabric.fabric().digest()
    });
    assert_eq!(digests[0], digests[1], "order of events by node and by time");
}
