//! P-PFC by the evaluation of OFC: "a dynamic egress threshold (average buffer occupancy of all egress ports)".

use xoff_wire::units::ClassSet;

use super::*;
use crate::cause::Trigger;
use crate::policy::bench::{Bench, C3, xoff, xon};
use crate::settings::{FlowControl, PolicyKind, PolicySettings};

fn bench() -> Bench {
    Bench::new(PolicyKind::PPfc, PolicySettings::default())
}

fn by(egress: u8) -> Trigger {
    Trigger::Egress(PortId(egress))
}

// proves: p-pfc
#[test]
fn feeders_paused_above_the_floor() {
    let mut bench = bench();
    assert_eq!(bench.enqueue(0, 4, 9_000), [], "above the mean of 1,800, but not above the floor");
    assert_eq!(bench.enqueue(1, 4, 1_000), [], "at the floor");
    assert_eq!(bench.enqueue(1, 4, 1), [xoff(0, by(4)), xoff(1, by(4))], "2 and 3 feed nothing");
    assert_eq!(bench.enqueue(1, 4, 1), []);
    assert_eq!(bench.enqueue(2, 4, 1), [xoff(2, by(4))], "now it does");
    assert_eq!(bench.enqueue(4, 4, 1), [], "not its own port");
}

/// Fills the first `queues` egress queues with 30,000 bytes each, without events.
fn fill(bench: &mut Bench, queues: u8) {
    for egress in 0..queues {
        bench.buffer.enter_egress(PortId(0), PortId(egress), C3, Bytes(30_000));
    }
}

// proves: p-pfc
#[test]
fn mean_decides_above_the_floor() {
    let mut bench = bench();
    fill(&mut bench, 3);
    // With q at port 4 the mean of the five is (90,000 + q) / 5.
    assert_eq!(bench.enqueue(0, 4, 22_500), [], "at the mean, well above the floor");
    assert_eq!(bench.enqueue(1, 4, 2), [xoff(0, by(4)), xoff(1, by(4))]);
}

#[test]
fn congestion_ends_by_gap_below_threshold() {
    let mut bench = bench();
    bench.enqueue(0, 4, 10_001);
    assert_eq!(bench.dequeue(0, 4, 2_000), [], "one byte above XON");
    assert_eq!(bench.enqueue(1, 4, 1_999), [], "at the floor nobody joins those who are held");
    assert_eq!(bench.dequeue(0, 4, 2_000), [xon(0)], "at XON");
    assert_eq!(bench.dequeue(0, 4, 1), []);
}

// proves: p-pfc
#[test]
fn congestion_end_follows_mean() {
    let mut bench = bench();
    bench.enqueue(0, 4, 40_000);
    fill(&mut bench, 4);
    // q = (120,000 + q) / 5 - 2,000 where q is 27,500.
    assert_eq!(bench.dequeue(0, 4, 12_498), [], "at 27,502");
    assert_eq!(bench.dequeue(0, 4, 2), [xon(0)]);
}

#[test]
fn port_held_until_last_queue_drains() {
    let mut bench = bench();
    assert_eq!(bench.receive(0, 20_000), [xoff(0, Trigger::Ingress)]);
    assert_eq!(bench.enqueue(0, 3, 10_001), [], "held already");
    assert_eq!(bench.enqueue(0, 4, 10_001), []);
    assert_eq!(bench.release(0, 10_001), [], "below XON, but two queues are congested");
    assert_eq!(bench.dequeue(0, 3, 10_001), []);
    assert_eq!(bench.dequeue(0, 4, 10_001), [xon(0)]);
}

#[test]
fn port_without_xoff_is_never_paused() {
    let silent = |settings: &mut SwitchSettings| settings.ports[0].flow_control = FlowControl::Ignore;
    let lossless = ClassSet(0b1000);
    let mut bench = Bench::of_class(PolicyKind::PPfc, PolicySettings::default(), C3, lossless, silent);
    bench.enqueue(0, 4, 9_000);
    assert_eq!(bench.enqueue(1, 4, 9_000), [xoff(1, by(4))]);
}

#[test]
fn adoption_pauses_feeders_of_congested_queues() {
    let mut bench = bench();
    bench.buffer.enter_egress(PortId(2), PortId(4), C3, Bytes(10_001));
    bench.buffer.enter_egress(PortId(2), PortId(3), C3, Bytes(10_000));
    assert_eq!(bench.adopt(), [xoff(2, by(4))]);
}
