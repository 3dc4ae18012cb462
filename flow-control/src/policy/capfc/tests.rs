// Tests for SPECIFICATION.md: capfc

use xoff_wire::units::ClassSet;

use super::*;
use crate::cause::Trigger;
use crate::policy::Policy;
use crate::policy::bench::{Bench, C3, xoff, xon};
use crate::settings::{FlowControl, PolicyKind, PolicySettings};

const OUT: u8 = 4;
const BLAMED: Trigger = Trigger::Egress(PortId(OUT));

fn stop_max() -> Bench {
    Bench::new(PolicyKind::CaPfcStopMax, PolicySettings::default())
}

fn calibrate(cut: f64) -> Bench {
    let settings = PolicySettings { capfc_cut: cut, ..PolicySettings::default() };
    Bench::new(PolicyKind::CaPfcStopCalibrate, settings)
}

fn queue(bench: &mut Bench, egress: u8) -> &mut Egress {
    let Policy::CaPfc(capfc) = &mut bench.policy else { panic!("policy of the bench is not CaPFC") };
    &mut capfc.egress[usize::from(egress)]
}

fn counts(bench: &mut Bench, egress: u8) -> Vec<u64> {
    queue(bench, egress).arrivals.to_vec()
}

#[test]
fn capfc_counts_arrivals_from_warn_threshold_on() {
    let mut bench = stop_max();
    bench.enqueue(0, OUT, 7_999);
    assert_eq!(counts(&mut bench, OUT), [0; 5], "arrivals counted one byte below WARN");
    bench.enqueue(1, OUT, 1);
    assert_eq!(counts(&mut bench, OUT), [0, 1, 0, 0, 0], "arrival at WARN is not counted once");
}

#[test]
fn capfc_blames_port_with_most_arrivals_above_xoff() {
    let mut bench = stop_max();
    bench.enqueue(0, OUT, 9_000);
    assert_eq!(bench.enqueue(0, OUT, 1_000), [], "port blamed at XOFF, not above");
    assert_eq!(
        bench.enqueue(1, OUT, 1),
        [xoff(0, BLAMED)],
        "port 0 with two of three arrivals is not blamed"
    );
}

#[test]
fn capfc_also_blames_port_that_later_has_most_arrivals() {
    let mut bench = stop_max();
    bench.enqueue(2, OUT, 9_999);
    bench.enqueue(2, OUT, 1);
    assert_eq!(bench.enqueue(2, OUT, 1), [xoff(2, BLAMED)]);
    assert_eq!(bench.enqueue(1, OUT, 1), []);
    assert_eq!(bench.enqueue(1, OUT, 1), []);
    assert_eq!(counts(&mut bench, OUT), [0, 2, 3, 0, 0]);
    assert_eq!(bench.enqueue(1, OUT, 1), [xoff(1, BLAMED)], "lower of two equal ports is not blamed");
    assert_eq!(bench.enqueue(1, OUT, 1), [], "a blame that did not change caused an intent");
}

#[test]
fn capfc_blames_lower_of_two_ports_with_equal_arrivals() {
    let mut bench = stop_max();
    bench.enqueue(1, OUT, 9_999);
    bench.enqueue(1, OUT, 2);
    assert_eq!(bench.enqueue(2, OUT, 1), []);
    assert_eq!(bench.enqueue(2, OUT, 1), [], "higher of two equal ports is blamed");
    assert_eq!(bench.enqueue(2, OUT, 1), [xoff(2, BLAMED)]);
}

#[test]
fn capfc_counts_are_reset_when_queue_drains_to_warn() {
    let mut bench = stop_max();
    queue(&mut bench, OUT).xon = Bytes(5_000);
    bench.enqueue(0, OUT, 9_000);
    assert_eq!(bench.enqueue(0, OUT, 1_001), [xoff(0, BLAMED)]);
    assert_eq!(bench.dequeue(0, OUT, 2_000), []);
    assert_eq!(counts(&mut bench, OUT)[0], 2, "counts were reset above WARN");
    assert_eq!(bench.dequeue(0, OUT, 1), []);
    assert_eq!(counts(&mut bench, OUT)[0], 0, "counts remain at WARN");
    assert_eq!(bench.dequeue(0, OUT, 2_999), [], "blame ended above XON");
    assert_eq!(bench.dequeue(0, OUT, 1), [xon(0)], "blame remains at XON");
    assert_eq!(bench.dequeue(0, OUT, 1), []);
}

#[test]
fn capfc_resets_counts_only_at_warn_if_warn_is_below_xon() {
    let mut bench = stop_max();
    queue(&mut bench, OUT).warn = Bytes(5_000);
    bench.enqueue(0, OUT, 10_001);
    assert_eq!(bench.dequeue(0, OUT, 2_001), [xon(0)]);
    assert_eq!(counts(&mut bench, OUT)[0], 1);
    bench.dequeue(0, OUT, 3_000);
    assert_eq!(counts(&mut bench, OUT)[0], 0);
}

/// CaPFC paper, section II-D, Algorithm 2.
#[test]
fn capfc_blames_fewest_ports_that_reach_the_cut_share() {
    // Of 10 arrivals, 5 came through port 1, 3 through port 0 and 2 through port 2.
    let blamed = |cut: f64| {
        let mut bench = calibrate(cut);
        for from in [1, 1, 1, 1, 1, 0, 0, 0, 2] {
            assert_eq!(bench.enqueue(from, OUT, 1_000)[..], [], "port blamed below XOFF");
        }
        queue(&mut bench, OUT).arrivals = [3, 5, 1, 0, 0].into();
        bench.enqueue(2, OUT, 1_001)
    };
    assert_eq!(blamed(0.5), [xoff(1, BLAMED)], "port 1 with exactly the share is not blamed alone");
    assert_eq!(blamed(0.51), [xoff(1, BLAMED), xoff(0, BLAMED)]);
    assert_eq!(blamed(0.8), [xoff(1, BLAMED), xoff(0, BLAMED)]);
    assert_eq!(blamed(0.81), [xoff(1, BLAMED), xoff(0, BLAMED), xoff(2, BLAMED)]);
}

/// CaPFC paper, section II-D, Algorithm 2 with CUT = 1.
#[test]
fn capfc_with_cut_share_1_blames_every_contributing_port() {
    let mut bench = calibrate(1.0);
    bench.enqueue(0, OUT, 8_000);
    bench.enqueue(1, OUT, 1_000);
    bench.enqueue(2, OUT, 1_000);
    assert_eq!(bench.enqueue(2, OUT, 1), [xoff(2, BLAMED), xoff(0, BLAMED), xoff(1, BLAMED)]);
    assert_eq!(bench.dequeue(0, OUT, 2_001), [xon(0), xon(1), xon(2)]);
}

#[test]
fn capfc_peer_resumes_when_no_egress_port_blames_its_port() {
    let mut bench = stop_max();
    assert_eq!(bench.receive(0, 20_000), [xoff(0, Trigger::Ingress)]);
    for egress in 1..5 {
        assert_eq!(
            bench.enqueue(0, egress, 10_001),
            [],
            "a second cause made the policy pause the port again"
        );
    }
    assert_eq!(bench.release(0, 20_000), [], "port resumed although four queues blame it");
    for egress in 1..4 {
        assert_eq!(bench.dequeue(0, egress, 10_001), []);
    }
    assert_eq!(bench.dequeue(0, 4, 10_001), [xon(0)]);
    assert_eq!(
        bench.enqueue(0, 2, 10_001),
        [xoff(0, Trigger::Egress(PortId(2)))],
        "the port blamed by one egress port is not paused"
    );
}

#[test]
fn port_over_xoff_stays_paused_after_its_blame_ends() {
    let mut bench = stop_max();
    assert_eq!(bench.receive(1, 19_999), [], "pause one byte below XOFF");
    assert_eq!(bench.enqueue(1, OUT, 10_001), [xoff(1, BLAMED)]);
    assert_eq!(bench.receive(1, 1), [], "ingress XOFF repeats the pause of a blamed port");
    assert_eq!(bench.dequeue(1, OUT, 10_001), []);
    assert_eq!(bench.release(1, 10_000), [], "port resumed at XON, not below");
    assert_eq!(bench.release(1, 1), [xon(1)]);
}

#[test]
fn blamed_port_depends_on_counting_bytes_or_frames() {
    let culprit = |count_unit| {
        let settings = PolicySettings { capfc_count_unit: count_unit, ..PolicySettings::default() };
        let mut bench = Bench::new(PolicyKind::CaPfcStopMax, settings);
        bench.enqueue(0, OUT, 8_000);
        bench.enqueue(1, OUT, 100);
        bench.enqueue(1, OUT, 100);
        bench.enqueue(2, OUT, 1_801)
    };
    assert_eq!(culprit(CountUnit::Frames), [xoff(1, BLAMED)]);
    assert_eq!(culprit(CountUnit::Bytes), [xoff(0, BLAMED)]);
}

#[test]
fn capfc_never_blames_port_that_may_not_send_xoff() {
    let (kind, policy) = (PolicyKind::CaPfcStopMax, PolicySettings::default());
    let mut bench = Bench::of_class(kind, policy, C3, ClassSet(1 << 3), |settings| {
        settings.ports[0].flow_control = FlowControl::Pfc { obey: ClassSet::ALL, send: ClassSet::NONE };
    });
    bench.enqueue(0, OUT, 8_000);
    bench.enqueue(0, OUT, 1_000);
    assert_eq!(bench.enqueue(1, OUT, 1_001), [xoff(1, BLAMED)]);
}

#[test]
fn capfc_egress_port_never_blames_itself() {
    let mut bench = stop_max();
    assert_eq!(bench.enqueue(4, OUT, 10_001), [], "port 4 blames itself");
}

#[test]
fn change_to_capfc_pauses_queues_above_xoff() {
    let mut bench = stop_max();
    bench.buffer.enter_ingress(PortId(2), C3, Bytes(20_000)).expect("the ingress queue is full");
    assert_eq!(bench.adopt(), [xoff(2, Trigger::Ingress)]);
}
