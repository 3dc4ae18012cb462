use xoff_wire::units::ClassSet;

use super::*;
use crate::policy::bench::{Bench, C3, xoff, xon};
use crate::settings::{PPfcSettings, PolicyKind, PolicySettings, SwitchSettings};

/// Samples every 1,000 ns.
fn bench() -> Bench {
    Bench::new(PolicyKind::PPfc, settings())
}

fn settings() -> PolicySettings {
    let p_pfc = PPfcSettings { prediction: Some(Nanos(1_000)) };
    PolicySettings { p_pfc, ..PolicySettings::default() }
}

// proves: p-pfc
#[test]
fn queue_predicted_at_xoff_is_paused() {
    for (second, intents) in [(5_999, vec![]), (6_000, vec![xoff(0, Trigger::Predicted)])] {
        let mut bench = bench();
        assert_eq!(bench.at(10_000).receive(0, 8_000), [], "a sample");
        // 14,000 bytes now, 6,000 more than 1,000 ns ago, so 20,000 in 1,000 ns.
        assert_eq!(bench.at(11_000).receive(0, second), intents);
    }
}

#[test]
fn slope_is_per_time() {
    let mut bench = bench();
    bench.at(10_000).receive(0, 4_000);
    assert_eq!(bench.at(12_000).receive(0, 10_000), [], "14,000, growing by 5,000 in an interval");
    assert_eq!(bench.at(12_900).receive(0, 3_000), [], "too early for a sample");
    assert_eq!(bench.at(14_000).receive(0, 666), [], "17,666, growing by 1,833");
}

#[test]
fn no_prediction_between_samples() {
    let mut bench = bench();
    bench.at(10_000).receive(0, 8_000);
    assert_eq!(bench.at(10_999).receive(0, 11_999), [], "an interval has not passed");
    assert_eq!(bench.at(11_000).receive(0, 1), [xoff(0, Trigger::Ingress)], "XOFF itself is PFC's");
}

// proves: p-pfc
#[test]
fn no_prediction_below_xon() {
    for (held, intents) in [(14_999, vec![]), (15_000, vec![xoff(0, Trigger::Predicted)])] {
        let xon = |settings: &mut SwitchSettings| settings.ports[0].classes[3].xon = Bytes(15_000);
        let mut bench = Bench::of_class(PolicyKind::PPfc, settings(), C3, ClassSet(0b1000), xon);
        assert_eq!(bench.at(1_000).receive(0, held), intents, "twice as much is predicted");
    }
}

#[test]
fn predicted_pause_ends_below_half_xon() {
    let mut bench = bench();
    bench.at(10_000).receive(0, 8_000);
    assert_eq!(bench.at(11_000).receive(0, 6_000), [xoff(0, Trigger::Predicted)]);
    assert_eq!(bench.release(0, 9_000), [], "at half of XON");
    assert_eq!(bench.release(0, 1), [xon(0)]);
    assert_eq!(bench.at(11_500).receive(0, 15_001), [xoff(0, Trigger::Ingress)]);
    assert_eq!(bench.release(0, 10_000), [], "at XON");
    assert_eq!(bench.release(0, 1), [xon(0)]);
}

#[test]
fn predicted_and_actual_xoff_is_one_pause() {
    let mut bench = bench();
    bench.at(10_000).receive(0, 8_000);
    assert_eq!(bench.at(11_000).receive(0, 6_000).len(), 1);
    assert_eq!(bench.at(11_100).receive(0, 6_000), [], "it is held");
    assert_eq!(bench.release(0, 10_001), [], "below XON, but above half of it");
    assert_eq!(bench.release(0, 5_000), [xon(0)]);
}

#[test]
fn falling_queue_is_not_paused() {
    let mut bench = bench();
    bench.at(10_000).receive(0, 19_000);
    bench.release(0, 1_000);
    assert_eq!(bench.at(11_000).receive(0, 500), []);
}

#[test]
fn adopted_bytes_are_no_slope() {
    let mut bench = bench();
    bench.buffer.enter_ingress(PortId(0), C3, Bytes(12_000)).expect("there is room");
    assert_eq!(bench.adopt(), []);
    assert_eq!(bench.at(1_000).receive(0, 1_000), [], "13,000 + 1,000, not 13,000 + 13,000");
}
