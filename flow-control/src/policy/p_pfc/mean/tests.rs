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

#[test] // proves: p-pfc
fn p_pfc_pauses_ports_feeding_queue_above_minimum_threshold() {
    let mut bench = bench();
    assert_eq!(bench.enqueue(0, 4, 9_000), [], "port paused below the minimum threshold");
    assert_eq!(bench.enqueue(1, 4, 1_000), [], "port paused at the minimum threshold");
    assert_eq!(
        bench.enqueue(1, 4, 1),
        [xoff(0, by(4)), xoff(1, by(4))],
        "not exactly the feeding ports 0 and 1 are paused"
    );
    assert_eq!(bench.enqueue(1, 4, 1), []);
    assert_eq!(bench.enqueue(2, 4, 1), [xoff(2, by(4))], "port 2 not paused although it feeds the queue now");
    assert_eq!(bench.enqueue(4, 4, 1), [], "egress port paused for its own queue");
}

fn fill(bench: &mut Bench, queues: u8) {
    for egress in 0..queues {
        bench.buffer.enter_egress(PortId(0), PortId(egress), C3, Bytes(30_000));
    }
}

#[test] // proves: p-pfc
fn p_pfc_threshold_is_mean_queue_length_if_above_minimum() {
    let mut bench = bench();
    fill(&mut bench, 3);
    // With 90,000 bytes in three other queues and 22,500 in port 4's, the mean of the five queues is 22,500 bytes.
    assert_eq!(bench.enqueue(0, 4, 22_500), [], "port paused at the mean, not above");
    assert_eq!(bench.enqueue(1, 4, 2), [xoff(0, by(4)), xoff(1, by(4))]);
}

#[test]
fn p_pfc_congestion_ends_at_threshold_minus_hysteresis() {
    let mut bench = bench();
    bench.enqueue(0, 4, 10_001);
    assert_eq!(bench.dequeue(0, 4, 2_000), [], "congestion ended above XON");
    assert_eq!(bench.enqueue(1, 4, 1_999), [], "port paused although the queue is at the minimum threshold");
    assert_eq!(bench.dequeue(0, 4, 2_000), [xon(0)], "congestion did not end at XON");
    assert_eq!(bench.dequeue(0, 4, 1), []);
}

#[test] // proves: p-pfc
fn p_pfc_congestion_ends_at_current_mean_minus_hysteresis() {
    let mut bench = bench();
    bench.enqueue(0, 4, 40_000);
    fill(&mut bench, 4);
    // With 120,000 bytes in the other queues and 27,500 in port 4's, the mean of the five queues is 29,500 bytes, 2,000
    // above port 4's.
    assert_eq!(bench.dequeue(0, 4, 12_498), [], "congestion ended at 27,502 bytes");
    assert_eq!(bench.dequeue(0, 4, 2), [xon(0)]);
}

#[test]
fn p_pfc_pauses_port_until_its_last_queue_drains() {
    let mut bench = bench();
    assert_eq!(bench.receive(0, 20_000), [xoff(0, Trigger::Ingress)]);
    assert_eq!(bench.enqueue(0, 3, 10_001), [], "paused port is paused again");
    assert_eq!(bench.enqueue(0, 4, 10_001), []);
    assert_eq!(bench.release(0, 10_001), [], "port resumed although two egress queues are congested");
    assert_eq!(bench.dequeue(0, 3, 10_001), []);
    assert_eq!(bench.dequeue(0, 4, 10_001), [xon(0)]);
}

#[test]
fn p_pfc_never_pauses_port_that_may_not_send_xoff() {
    let silent = |settings: &mut SwitchSettings| settings.ports[0].flow_control = FlowControl::Ignore;
    let lossless = ClassSet(0b1000);
    let mut bench = Bench::of_class(PolicyKind::PPfc, PolicySettings::default(), C3, lossless, silent);
    bench.enqueue(0, 4, 9_000);
    assert_eq!(bench.enqueue(1, 4, 9_000), [xoff(1, by(4))]);
}

#[test]
fn change_to_p_pfc_pauses_ports_feeding_congested_queues() {
    let mut bench = bench();
    bench.buffer.enter_egress(PortId(2), PortId(4), C3, Bytes(10_001));
    bench.buffer.enter_egress(PortId(2), PortId(3), C3, Bytes(10_000));
    assert_eq!(bench.adopt(), [xoff(2, by(4))]);
}
