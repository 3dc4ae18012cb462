use xoff_wire::units::ClassSet;

use super::*;
use crate::policy::bench::{Bench, C3, xoff, xon};
use crate::settings::{PPfcSettings, PolicyKind, PolicySettings, SwitchSettings};

fn bench() -> Bench {
    Bench::new(PolicyKind::PPfc, settings())
}

fn settings() -> PolicySettings {
    let p_pfc = PPfcSettings { prediction: Some(Nanos(1_000)) };
    PolicySettings { p_pfc, ..PolicySettings::default() }
}

#[test] // proves: p-pfc
fn queue_is_paused_when_predicted_to_reach_xoff() {
    for (second, intents) in [(5_999, vec![]), (6_000, vec![xoff(0, Trigger::Predicted)])] {
        let mut bench = bench();
        assert_eq!(bench.at(10_000).receive(0, 8_000), [], "first sample pauses the queue");
        // The queue has 14,000 bytes, 6,000 more than 1,000 ns ago, so 20,000 are predicted in 1,000 ns.
        assert_eq!(bench.at(11_000).receive(0, second), intents);
    }
}

#[test]
fn p_pfc_prediction_extrapolates_growth_by_one_interval() {
    let mut bench = bench();
    bench.at(10_000).receive(0, 4_000);
    assert_eq!(
        bench.at(12_000).receive(0, 10_000),
        [],
        "queue paused at 14,000 bytes, growing by 5,000 per interval"
    );
    assert_eq!(bench.at(12_900).receive(0, 3_000), [], "queue paused before the next sample");
    assert_eq!(
        bench.at(14_000).receive(0, 666),
        [],
        "queue paused at 17,666 bytes, growing by 1,833 per interval"
    );
}

#[test]
fn queue_is_not_paused_by_prediction_between_samples() {
    let mut bench = bench();
    bench.at(10_000).receive(0, 8_000);
    assert_eq!(bench.at(10_999).receive(0, 11_999), [], "queue paused before an interval has passed");
    assert_eq!(
        bench.at(11_000).receive(0, 1),
        [xoff(0, Trigger::Ingress)],
        "pause at XOFF is not caused by the ingress queue"
    );
}

#[test] // proves: p-pfc
fn queue_below_xon_is_not_paused_by_prediction() {
    for (held, intents) in [(14_999, vec![]), (15_000, vec![xoff(0, Trigger::Predicted)])] {
        let xon = |settings: &mut SwitchSettings| settings.ports[0].classes[3].xon = Bytes(15_000);
        let mut bench = Bench::of_class(PolicyKind::PPfc, settings(), C3, ClassSet(0b1000), xon);
        assert_eq!(
            bench.at(1_000).receive(0, held),
            intents,
            "wrong intents although the prediction is above XOFF"
        );
    }
}

#[test]
fn predicted_pause_ends_below_half_xon() {
    let mut bench = bench();
    bench.at(10_000).receive(0, 8_000);
    assert_eq!(bench.at(11_000).receive(0, 6_000), [xoff(0, Trigger::Predicted)]);
    assert_eq!(bench.release(0, 9_000), [], "predicted pause ended at half of XON, not below");
    assert_eq!(bench.release(0, 1), [xon(0)]);
    assert_eq!(bench.at(11_500).receive(0, 15_001), [xoff(0, Trigger::Ingress)]);
    assert_eq!(bench.release(0, 10_000), [], "pause ended at XON, not below");
    assert_eq!(bench.release(0, 1), [xon(0)]);
}

#[test]
fn predicted_and_actual_xoff_are_one_pause() {
    let mut bench = bench();
    bench.at(10_000).receive(0, 8_000);
    assert_eq!(bench.at(11_000).receive(0, 6_000).len(), 1);
    assert_eq!(bench.at(11_100).receive(0, 6_000), [], "paused queue is paused again");
    assert_eq!(bench.release(0, 10_001), [], "predicted pause ended above half of XON");
    assert_eq!(bench.release(0, 5_000), [xon(0)]);
}

#[test]
fn falling_queue_is_not_paused_by_prediction() {
    let mut bench = bench();
    bench.at(10_000).receive(0, 19_000);
    bench.release(0, 1_000);
    assert_eq!(bench.at(11_000).receive(0, 500), []);
}

#[test]
fn bytes_queued_before_change_to_p_pfc_are_not_growth() {
    let mut bench = bench();
    bench.buffer.enter_ingress(PortId(0), C3, Bytes(12_000)).expect("the ingress queue is full");
    assert_eq!(bench.adopt(), []);
    assert_eq!(bench.at(1_000).receive(0, 1_000), [], "adopted bytes count as growth");
}
