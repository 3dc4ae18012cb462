use xoff_wire::units::ClassSet;

use super::*;
use crate::cause::Trigger;
use crate::policy::bench::{Bench, C3, xoff, xon};
use crate::settings::{PolicyKind, PolicySettings, SwitchSettings};

fn bench() -> Bench {
    let obedient = |settings: &mut SwitchSettings| {
        settings.ports[..4].iter_mut().for_each(|port| port.gfc_peer = true);
    };
    Bench::of_class(PolicyKind::Gfc, PolicySettings::default(), C3, ClassSet(0b1000), obedient)
}

fn rate(port: u8, k: u8) -> Intent {
    Intent::Rate { port: PortId(port), class: C3, step: RateStep::new(k).expect("rate step above 16") }
}

#[test] // proves: gfc
fn gfc_rate_step_begins_at_its_threshold() {
    let mut bench = bench();
    let mut held = 0;
    for (k, threshold) in [(1, 10_000), (2, 15_000), (3, 17_500), (4, 18_750), (5, 19_375), (6, 19_688)] {
        assert_eq!(bench.receive(1, threshold - 1 - held), [], "rate changed one byte below T({k})");
        assert_eq!(bench.receive(1, 1), [rate(1, k)]);
        held = threshold;
    }
    assert_eq!(bench.receive(1, 20_000 - held - 1), [], "rate changed above the last threshold");
    assert_eq!(bench.receive(1, 1), [xoff(1, Trigger::Ingress)], "no XOFF at the XOFF threshold");
}

#[test]
fn gfc_thresholds_match_formula() {
    let thresholds: Vec<u64> = GfcSettings::default().thresholds(Bytes(20_000)).map(|t| t.0).collect();
    assert_eq!(thresholds, [10_000, 15_000, 17_500, 18_750, 19_375, 19_688]);
}

#[test]
fn gfc_burst_over_several_thresholds_requests_last_step() {
    let mut bench = bench();
    assert_eq!(bench.receive(0, 17_600), [rate(0, 3)]);
    assert_eq!(bench.release(0, 17_600), [rate(0, 0)]);
}

#[test]
fn gfc_rate_step_ends_half_way_to_the_lower_threshold() {
    let mut bench = bench();
    bench.receive(0, 15_000);
    assert_eq!(bench.release(0, 2_500), [], "step 2 ended at 12,500 bytes, not below");
    assert_eq!(bench.release(0, 1), [rate(0, 1)]);
    assert_eq!(bench.release(0, 7_499), [], "step 1 ended at 5,000 bytes, not below");
    assert_eq!(bench.release(0, 1), [rate(0, 0)]);
    assert_eq!(bench.release(0, 1), []);
}

#[test]
fn gfc_pause_ends_below_xon_at_any_rate_step() {
    let mut bench = bench();
    assert_eq!(bench.receive(0, 20_000), [rate(0, 6), xoff(0, Trigger::Ingress)]);
    assert_eq!(bench.release(0, 10_000), [rate(0, 1)], "wrong pause or rate when the queue is at XON");
    assert_eq!(bench.release(0, 1), [xon(0)]);
}

#[test] // proves: gfc
fn peer_without_gfc_gets_plain_pfc() {
    let mut bench = bench();
    assert_eq!(bench.receive(4, 19_999), []);
    assert_eq!(bench.receive(4, 1), [xoff(4, Trigger::Ingress)]);
}

#[test]
fn change_to_gfc_requests_rate_for_current_occupancy() {
    let mut bench = bench();
    bench.buffer.enter_ingress(PortId(2), C3, Bytes(15_000)).expect("the ingress queue is full");
    assert_eq!(bench.adopt(), [rate(2, 2)]);
}
