//! Threshold k is at Bmax - (Bmax - B1)/2^(k-1), with the rate C/2^k.

use xoff_wire::units::ClassSet;

use super::*;
use crate::cause::Trigger;
use crate::policy::bench::{Bench, C3, xoff, xon};
use crate::settings::{PolicyKind, PolicySettings, SwitchSettings};

/// Returns a bench with B1 = 10,000 bytes. Steps begin at 10,000, 15,000, 17,500, 18,750, 19,375 and 19,688, and
/// end below 5,000, 12,500, 16,250, 18,125, 19,063 and 19,532.
fn bench() -> Bench {
    let obedient = |settings: &mut SwitchSettings| {
        settings.ports[..4].iter_mut().for_each(|port| port.gfc_peer = true);
    };
    Bench::of_class(PolicyKind::Gfc, PolicySettings::default(), C3, ClassSet(0b1000), obedient)
}

fn rate(port: u8, k: u8) -> Intent {
    Intent::Rate { port: PortId(port), class: C3, step: RateStep::new(k).expect("a step") }
}

// proves: gfc
#[test]
fn rate_step_begins_at_threshold() {
    let mut bench = bench();
    let mut held = 0;
    for (k, threshold) in [(1, 10_000), (2, 15_000), (3, 17_500), (4, 18_750), (5, 19_375), (6, 19_688)] {
        assert_eq!(bench.receive(1, threshold - 1 - held), [], "a byte below T({k})");
        assert_eq!(bench.receive(1, 1), [rate(1, k)]);
        held = threshold;
    }
    assert_eq!(bench.receive(1, 20_000 - held - 1), [], "there is no seventh step");
    assert_eq!(bench.receive(1, 1), [xoff(1, Trigger::Ingress)], "PFC is the safety net");
}

#[test]
fn gfc_thresholds_match_formula() {
    let thresholds: Vec<u64> = GfcSettings::default().thresholds(Bytes(20_000)).map(|t| t.0).collect();
    assert_eq!(thresholds, [10_000, 15_000, 17_500, 18_750, 19_375, 19_688]);
}

#[test]
fn burst_requests_last_step_only() {
    let mut bench = bench();
    assert_eq!(bench.receive(0, 17_600), [rate(0, 3)]);
    assert_eq!(bench.release(0, 17_600), [rate(0, 0)]);
}

#[test]
fn rate_step_ends_half_way_down() {
    let mut bench = bench();
    bench.receive(0, 15_000);
    assert_eq!(bench.release(0, 2_500), [], "at 12,500");
    assert_eq!(bench.release(0, 1), [rate(0, 1)]);
    assert_eq!(bench.release(0, 7_499), [], "at 5,000");
    assert_eq!(bench.release(0, 1), [rate(0, 0)]);
    assert_eq!(bench.release(0, 1), []);
}

#[test]
fn pfc_resumes_below_xon_at_any_rate() {
    let mut bench = bench();
    assert_eq!(bench.receive(0, 20_000), [rate(0, 6), xoff(0, Trigger::Ingress)]);
    assert_eq!(bench.release(0, 10_000), [rate(0, 1)], "at XON");
    assert_eq!(bench.release(0, 1), [xon(0)]);
}

// proves: gfc
#[test]
fn peer_without_gfc_gets_plain_pfc() {
    let mut bench = bench();
    assert_eq!(bench.receive(4, 19_999), []);
    assert_eq!(bench.receive(4, 1), [xoff(4, Trigger::Ingress)]);
}

#[test]
fn adoption_requests_current_step() {
    let mut bench = bench();
    bench.buffer.enter_ingress(PortId(2), C3, Bytes(15_000)).expect("there is room");
    assert_eq!(bench.adopt(), [rate(2, 2)]);
}
