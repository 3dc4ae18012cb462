use xoff_wire::units::Class;

use super::*;
use crate::policy::bench::{Bench, xoff_of};
use crate::settings::{GPfcSettings, PolicyKind, PolicySettings};

const C1: Class = Class::ALL[1];
const C2: Class = Class::ALL[2];
const C4: Class = Class::ALL[4];
const LOSSLESS: ClassSet = ClassSet(0b1_0110);

fn bench(class: Class) -> Bench {
    Bench::of_class(PolicyKind::GPfc, PolicySettings::default(), class, LOSSLESS, |_| {})
}

fn higher(class: Class, port: u8, by: Class) -> Intent {
    xoff_of(class, port, Trigger::Higher(by))
}

fn xon(class: Class, port: u8) -> Intent {
    Intent::Xon { port: PortId(port), class }
}

#[test] // proves: g-pfc
fn g_pfc_pauses_lower_lossless_classes_at_threshold() {
    let mut bench = bench(C4);
    assert_eq!(bench.receive(2, 9_999), []);
    assert_eq!(
        bench.receive(2, 1),
        [higher(C1, 2, C4), higher(C2, 2, C4)],
        "not exactly classes 1 and 2 are paused"
    );
    assert_eq!(bench.receive(2, 1), [], "paused classes are paused again");
    assert_eq!(bench.receive(0, 9_999), [], "bytes queued by another port count for this one");
}

#[test] // proves: g-pfc
fn g_pfc_pauses_own_class_at_xoff() {
    let mut bench = bench(C4);
    bench.receive(0, 19_999);
    assert_eq!(bench.receive(0, 1), [xoff_of(C4, 0, Trigger::Ingress)]);
    assert_eq!(bench.release(0, 10_000), [], "own class resumed at XON, not below");
    assert_eq!(bench.release(0, 1), [xon(C4, 0)]);
}

#[test]
fn g_pfc_resumes_lower_classes_below_threshold() {
    let mut bench = bench(C4);
    bench.receive(0, 10_000);
    assert_eq!(bench.release(0, 5_000), [], "lower classes resumed at the threshold, not below");
    assert_eq!(bench.release(0, 1), [xon(C1, 0), xon(C2, 0)]);
    assert_eq!(bench.release(0, 1), []);
    assert_eq!(bench.receive(0, 5_002).len(), 2, "lower classes are not paused again");
}

#[test]
fn g_pfc_gives_lowest_lossless_class_plain_pfc() {
    let mut bench = bench(C1);
    assert_eq!(bench.receive(0, 19_999), []);
    assert_eq!(bench.receive(0, 1), [xoff_of(C1, 0, Trigger::Ingress)]);
}

#[test]
fn g_pfc_resumes_lower_classes_when_queue_is_empty() {
    let g_pfc = GPfcSettings { pause_lower: 0.000_01, resume_lower: 0.000_01 };
    let settings = PolicySettings { g_pfc, ..PolicySettings::default() };
    let mut bench = Bench::of_class(PolicyKind::GPfc, settings, C2, LOSSLESS, |_| {});
    assert_eq!(bench.receive(0, 1), [higher(C1, 0, C2)]);
    assert_eq!(bench.release(0, 1), [xon(C1, 0)]);
}

#[test]
fn change_to_g_pfc_pauses_lower_classes_above_threshold() {
    let mut bench = bench(C2);
    bench.buffer.enter_ingress(PortId(3), C2, Bytes(20_000)).expect("the ingress queue is full");
    assert_eq!(bench.adopt(), [higher(C1, 3, C2), xoff_of(C2, 3, Trigger::Ingress)]);
}

#[test] // proves: g-pfc
fn lossy_class_under_g_pfc_pauses_no_other_class() {
    let mut bench = Bench::of_class(
        PolicyKind::GPfc,
        PolicySettings::default(),
        C4,
        ClassSet(LOSSLESS.0 & !(1 << 4)),
        |_| {},
    );
    assert_eq!(bench.receive(0, 30_000), []);
    assert_eq!(bench.adopt(), []);
}
