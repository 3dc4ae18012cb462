//! Algorithms 1 and 2 line by line, and the paper's worked examples.

use xoff_wire::units::ClassSet;

use super::*;
use crate::cause::Trigger;
use crate::policy::Policy;
use crate::policy::bench::{Bench, C3, xoff, xon};
use crate::settings::{FlowControl, PolicyKind, PolicySettings};

/// Egress port with WARN and XON 8,000 bytes, XOFF 10,000.
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
    let Policy::CaPfc(capfc) = &mut bench.policy else { panic!("not CaPFC") };
    &mut capfc.egress[usize::from(egress)]
}

fn counts(bench: &mut Bench, egress: u8) -> Vec<u64> {
    queue(bench, egress).arrivals.to_vec()
}

// proves: capfc
#[test]
fn line_7_arrivals_count_from_warn() {
    let mut bench = stop_max();
    bench.enqueue(0, OUT, 7_999);
    assert_eq!(counts(&mut bench, OUT), [0; 5], "one byte below WARN");
    bench.enqueue(1, OUT, 1);
    assert_eq!(counts(&mut bench, OUT), [0, 1, 0, 0, 0], "at WARN");
}

// proves: capfc
#[test]
fn line_9_heaviest_port_blamed_above_xoff() {
    let mut bench = stop_max();
    bench.enqueue(0, OUT, 9_000);
    assert_eq!(bench.enqueue(0, OUT, 1_000), [], "at XOFF");
    assert_eq!(bench.enqueue(1, OUT, 1), [xoff(0, BLAMED)], "above: port 0 has two arrivals, port 1 one");
}

// proves: capfc
#[test]
fn line_10_other_ports_blamed_while_congested() {
    let mut bench = stop_max();
    bench.enqueue(2, OUT, 9_999);
    bench.enqueue(2, OUT, 1);
    assert_eq!(bench.enqueue(2, OUT, 1), [xoff(2, BLAMED)]);
    assert_eq!(bench.enqueue(1, OUT, 1), []);
    assert_eq!(bench.enqueue(1, OUT, 1), []);
    assert_eq!(counts(&mut bench, OUT), [0, 2, 3, 0, 0]);
    assert_eq!(bench.enqueue(1, OUT, 1), [xoff(1, BLAMED)], "a tie: the lower port");
    assert_eq!(bench.enqueue(1, OUT, 1), [], "a signal travels only when it changes");
}

#[test]
fn tie_blames_lower_port() {
    let mut bench = stop_max();
    bench.enqueue(1, OUT, 9_999);
    bench.enqueue(1, OUT, 2);
    assert_eq!(bench.enqueue(2, OUT, 1), []);
    assert_eq!(bench.enqueue(2, OUT, 1), [], "both have two arrivals");
    assert_eq!(bench.enqueue(2, OUT, 1), [xoff(2, BLAMED)]);
}

// proves: capfc
#[test]
fn line_17_counts_end_at_warn() {
    let mut bench = stop_max();
    queue(&mut bench, OUT).xon = Bytes(5_000);
    bench.enqueue(0, OUT, 9_000);
    assert_eq!(bench.enqueue(0, OUT, 1_001), [xoff(0, BLAMED)]);
    assert_eq!(bench.dequeue(0, OUT, 2_000), []);
    assert_eq!(counts(&mut bench, OUT)[0], 2, "one byte above WARN");
    assert_eq!(bench.dequeue(0, OUT, 1), []);
    assert_eq!(counts(&mut bench, OUT)[0], 0, "at WARN");
    assert_eq!(bench.dequeue(0, OUT, 2_999), [], "one byte above XON");
    assert_eq!(bench.dequeue(0, OUT, 1), [xon(0)], "at XON");
    assert_eq!(bench.dequeue(0, OUT, 1), []);
}

#[test]
fn warn_below_xon_keeps_counts() {
    let mut bench = stop_max();
    queue(&mut bench, OUT).warn = Bytes(5_000);
    bench.enqueue(0, OUT, 10_001);
    assert_eq!(bench.dequeue(0, OUT, 2_001), [xon(0)]);
    assert_eq!(counts(&mut bench, OUT)[0], 1);
    bench.dequeue(0, OUT, 3_000);
    assert_eq!(counts(&mut bench, OUT)[0], 0);
}

/// II-D: "the input ports whose cumulative counter percentages pass a predefined cut-off threshold".
// proves: capfc
#[test]
fn algorithm_2_blames_fewest_reaching_share() {
    // Arrivals: 5, 3 and 2 of 10 by ports 1, 0 and 2.
    let blamed = |cut: f64| {
        let mut bench = calibrate(cut);
        for from in [1, 1, 1, 1, 1, 0, 0, 0, 2] {
            assert_eq!(bench.enqueue(from, OUT, 1_000)[..], [], "at most 9,000 bytes");
        }
        queue(&mut bench, OUT).arrivals = [3, 5, 1, 0, 0].into();
        bench.enqueue(2, OUT, 1_001)
    };
    assert_eq!(blamed(0.5), [xoff(1, BLAMED)], "at the share");
    assert_eq!(blamed(0.51), [xoff(1, BLAMED), xoff(0, BLAMED)]);
    assert_eq!(blamed(0.8), [xoff(1, BLAMED), xoff(0, BLAMED)]);
    assert_eq!(blamed(0.81), [xoff(1, BLAMED), xoff(0, BLAMED), xoff(2, BLAMED)]);
}

/// II-D: "If the threshold ratio is set as 1, then congestion signal of every input port with a packet
/// inside the egress queue is set to 1."
// proves: capfc
#[test]
fn cut_of_one_blames_every_contributor() {
    let mut bench = calibrate(1.0);
    bench.enqueue(0, OUT, 8_000);
    bench.enqueue(1, OUT, 1_000);
    bench.enqueue(2, OUT, 1_000);
    assert_eq!(bench.enqueue(2, OUT, 1), [xoff(2, BLAMED), xoff(0, BLAMED), xoff(1, BLAMED)]);
    assert_eq!(bench.dequeue(0, OUT, 2_001), [xon(0), xon(1), xon(2)]);
}

/// II-E, five ports: D of port 0 is I or any of E(0,1), E(0,2), E(0,3), E(0,4).
// proves: capfc
#[test]
fn port_pause_ends_with_last_signal() {
    let mut bench = stop_max();
    assert_eq!(bench.receive(0, 20_000), [xoff(0, Trigger::Ingress)]);
    for egress in 1..5 {
        assert_eq!(bench.enqueue(0, egress, 10_001), [], "D is 1 already");
    }
    assert_eq!(bench.release(0, 20_000), [], "I is 0, four E are 1");
    for egress in 1..4 {
        assert_eq!(bench.dequeue(0, egress, 10_001), []);
    }
    assert_eq!(bench.dequeue(0, 4, 10_001), [xon(0)]);
    assert_eq!(
        bench.enqueue(0, 2, 10_001),
        [xoff(0, Trigger::Egress(PortId(2)))],
        "any one of them is enough"
    );
}

// proves: capfc
#[test]
fn ingress_signal_outlasts_egress_signal() {
    let mut bench = stop_max();
    assert_eq!(bench.receive(1, 19_999), [], "one byte below XOFF");
    assert_eq!(bench.enqueue(1, OUT, 10_001), [xoff(1, BLAMED)]);
    assert_eq!(bench.receive(1, 1), [], "I joins E");
    assert_eq!(bench.dequeue(1, OUT, 10_001), []);
    assert_eq!(bench.release(1, 10_000), [], "at XON");
    assert_eq!(bench.release(1, 1), [xon(1)]);
}

#[test]
fn counting_bytes_changes_culprit() {
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
fn port_without_xoff_is_skipped() {
    let (kind, policy) = (PolicyKind::CaPfcStopMax, PolicySettings::default());
    let mut bench = Bench::of_class(kind, policy, C3, ClassSet(1 << 3), |settings| {
        settings.ports[0].flow_control = FlowControl::Pfc { obey: ClassSet::ALL, send: ClassSet::NONE };
    });
    bench.enqueue(0, OUT, 8_000);
    bench.enqueue(0, OUT, 1_000);
    assert_eq!(bench.enqueue(1, OUT, 1_001), [xoff(1, BLAMED)]);
}

// proves: capfc
#[test]
fn port_is_not_blamed_for_itself() {
    let mut bench = stop_max();
    assert_eq!(bench.enqueue(4, OUT, 10_001), [], "o is not i");
}

#[test]
fn adoption_pauses_queues_above_xoff() {
    let mut bench = stop_max();
    bench.buffer.enter_ingress(PortId(2), C3, Bytes(20_000)).expect("there is room");
    assert_eq!(bench.adopt(), [xoff(2, Trigger::Ingress)]);
}
