// Tests for SPECIFICATION.md: sim-timing

use std::fmt::Write as _;

use xoff_flow_control::drop_reason::DropReason;
use xoff_sim::{
    At, ControlFaults, Fabric, FaultCounts, Flow, Line, Pace, Picos, Plan, Seed, permutation, topology,
};
use xoff_wire::units::{BitRate, Bytes, Class};

const FRAME: u32 = 1_496;
const LINE: Line = Line { rate: BitRate::from_gbps(100), delay: Picos::from_nanos(500) };

fn lossless() -> Class {
    Class::ALL[3]
}

fn flow(to: u32, frames: u64) -> Flow {
    Flow { to, class: lossless(), frame_len: FRAME, frames, from: Picos(77) }
}

fn permuted(k: u8, seed: u64, until: Picos) -> Fabric {
    let mut fabric = Fabric::new(&topology::fat_tree(k, LINE), Seed(seed));
    permutation::begin(&mut fabric, LINE, lossless(), FRAME, Seed(seed));
    fabric.run_until(until);
    fabric
}

fn dropped(fabric: &Fabric) -> u64 {
    let of_all = |reason: &DropReason| -> u64 {
        fabric.switches().iter().map(|switch| switch.counters().dropped(*reason)).sum()
    };
    DropReason::ALL.iter().map(of_all).sum()
}

fn check(fabric: &Fabric) {
    for switch in fabric.switches() {
        assert_eq!(switch.switch().ledger().missing(), 0);
        assert_eq!(switch.receive_drops(), 0);
    }
    assert_eq!(fabric.missing(), 0);
    assert_eq!(dropped(fabric), 0);
    assert!(fabric.hosts().iter().all(|host| host.out_of_order() == 0));
}

fn sum(fabric: &Fabric, of: fn(&xoff_sim::Host) -> u64) -> u64 {
    fabric.hosts().iter().map(of).sum()
}

#[test]
fn latency_over_switches_is_exactly_frame_times_plus_delays() {
    for gbps in [1, 10, 40, 100, 400] {
        for switches in 1..5 {
            for frames in [1, 2, 50] {
                let line = Line { rate: BitRate::from_gbps(gbps), delay: Picos(333_333) };
                let mut fabric = Fabric::new(&topology::chain(switches, line), Seed(1));
                fabric.begin(0, &flow(1, frames));
                fabric.run_to_rest();
                let frame = Pace::of(line.rate).time_of(Bytes::on_line(FRAME)).0;
                let links = u64::from(switches) + 1;
                let expected = 77 + links * (frame + 333_333) + (frames - 1) * frame;
                let host = &fabric.hosts()[1];
                assert_eq!(
                    (host.received(), host.last_received()),
                    (frames, Picos(expected)),
                    "{gbps}G {switches}"
                );
                assert_eq!(fabric.tally().hops, links * frames);
                check(&fabric);
            }
        }
    }
}

#[test]
fn paused_incast_keeps_receivers_line_fully_busy() {
    let mut fabric = Fabric::new(&topology::single(3, LINE), Seed(1));
    let frames = 2_000;
    fabric.begin(1, &flow(0, frames));
    fabric.begin(2, &flow(0, frames));
    fabric.run_to_rest();
    let frame = Pace::of(LINE.rate).time_of(Bytes::on_line(FRAME)).0;
    let first = 77 + 2 * (frame + LINE.delay.0);
    let host = &fabric.hosts()[0];
    assert_eq!(
        (host.received(), host.last_received()),
        (2 * frames, Picos(first + (2 * frames - 1) * frame))
    );
    let port = fabric.switches()[0].counters().class(xoff_wire::units::PortId(1), lossless());
    assert!(port.xoff_sent.get() > 0 && port.xoff_sent.get() == port.xon_sent.get());
    for switch in fabric.switches() {
        assert_eq!((switch.switch().ledger().missing(), switch.frames()), (0, 0));
    }
    assert_eq!(fabric.missing(), 0);
    assert_eq!(dropped(&fabric), 0);
}

#[test]
fn permutation_neither_loses_nor_reorders_frames() {
    let fabric = permuted(4, 3, Picos::from_micros(300));
    check(&fabric);
    let received = sum(&fabric, xoff_sim::Host::received);
    assert!(received > 0 && received < sum(&fabric, xoff_sim::Host::sent));
}

#[test]
fn simulated_time_never_decreases_or_reaches_its_maximum() {
    let mut fabric = Fabric::new(&topology::single(2, LINE), Seed(1));
    fabric.begin(1, &flow(0, 3));
    fabric.run_until(Picos::from_micros(10));
    fabric.run_until(Picos::from_micros(1));
    assert_eq!(fabric.now(), Picos::from_micros(10));
    fabric.begin(1, &Flow { from: Picos::NEVER, ..flow(0, 1) });
    fabric.run_to_rest();
    fabric.run_until(Picos::NEVER);
    assert!(fabric.now() < Picos::NEVER);
    assert_eq!(
        (fabric.hosts()[1].sent(), fabric.hosts()[0].received()),
        (3, 3),
        "a flow with start time NEVER was sent"
    );
}

#[test]
#[should_panic(expected = "host 1 still has 3 frames of another flow to send")]
fn host_refuses_second_flow_before_end_of_first() {
    let mut fabric = Fabric::new(&topology::single(2, LINE), Seed(1));
    fabric.begin(1, &flow(0, 3));
    fabric.begin(1, &flow(0, 3));
}

#[test]
fn all_frames_of_a_permutation_arrive() {
    let mut fabric = Fabric::new(&topology::fat_tree(4, LINE), Seed(9));
    for (host, to) in (0..).zip(permutation::derangement(16, Seed(9))) {
        fabric.begin(host, &flow(to, 700));
    }
    fabric.run_to_rest();
    check(&fabric);
    assert!(fabric.hosts().iter().all(|host| (host.sent(), host.received()) == (700, 700)));
    assert!(fabric.switches().iter().all(|switch| switch.frames() == 0));
}

#[test] // proves: sim-results
fn simulation_results_depend_on_seed_only() {
    let digest = |seed| permuted(4, seed, Picos::from_micros(100)).digest();
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

#[test] // proves: sim-results
fn run_stopped_and_continued_equals_run_without_stops() {
    let whole = permuted(4, 5, Picos::from_micros(60));
    let mut parts = permuted(4, 5, Picos(1));
    (1..=60_000).step_by(7).for_each(|nanos| parts.run_until(Picos::from_nanos(nanos)));
    parts.run_until(Picos::from_micros(60));
    assert_eq!((whole.digest(), whole.tally()), (parts.digest(), parts.tally()));
}

#[test]
fn run_processed_node_by_node_equals_run_in_time_order() {
    let circle = {
        let mut graph = topology::Graph::default();
        let switches = [0; 3].map(|layer| graph.add_switch(layer));
        switches.iter().for_each(|switch| [0; 2].iter().for_each(|_| _ = graph.add_host(*switch, LINE)));
        (0..3).for_each(|at| graph.link(switches[at], switches[(at + 1) % 3], LINE));
        graph.plan(&topology::Build::ideal())
    };
    let faults =
        ControlFaults { lost: 50, late: 200, again: 100, harmed: 50, late_by: Picos::from_nanos(1_700) };
    for plan in [topology::fat_tree(4, LINE), topology::fat_tree(10, LINE), circle] {
        let run = |by_event: bool| {
            let mut fabric = Fabric::new(&plan, Seed(3));
            (0..plan.hosts()).skip(1).for_each(|host| fabric.begin(host, &flow(host / 4, 10_000)));
            (0..6).for_each(|host| fabric.harm_control(At::Host(host, 0), faults, Seed(3)));
            (0..3).for_each(|switch| {
                (0..4).for_each(|port| fabric.harm_control(At::Switch(switch, port), faults, Seed(3)));
            });
            let mut results = Vec::new();
            for (end, goes) in
                [(20_123, At::Switch(1, 0)), (33_457, At::Switch(1, 0)), (60_000, At::Host(2, 0))]
            {
                let end = Picos::from_nanos(end);
                while by_event && fabric.step(end).is_some() {}
                fabric.run_until(end);
                fabric.set_link(goes, end > Picos::from_micros(30));
                assert_eq!(fabric.missing(), 0);
                assert!(fabric.switches().iter().all(|switch| switch.switch().ledger().missing() == 0));
                results.push((fabric.digest(), fabric.tally(), fabric.fault_counts()));
            }
            results
        };
        let results = run(true);
        let FaultCounts { lost, lost_control, late, harmed, .. } = results[2].2;
        assert!([lost, lost_control, late, harmed].iter().all(|count| *count > 0), "{results:?}");
        assert_eq!(results, run(false));
    }
}

#[test]
#[should_panic(expected = "every port must have exactly one")]
fn plan_with_unlinked_port_is_refused() {
    let mut plan = Plan::default();
    let kind = std::sync::Arc::new(xoff_sim::ideal::Ideal::beside(LINE).switch(2));
    let switch = plan.add_switch(&kind, xoff_sim::Forwarding::default());
    plan.add_host(switch, 0, LINE);
    let _ = Fabric::new(&plan, Seed(1));
}

/// A change that is meant to alter results must update the stored table.
#[test] // proves: sim-results
fn results_of_small_fabrics_equal_stored_table() {
    let mut table = String::from("k seed hops events delivered XOFF\n");
    for (k, seed) in [(4, 1), (4, 2), (6, 1)] {
        let fabric = permuted(k, seed, Picos::from_micros(200));
        let tally = fabric.tally();
        let xoffs: u64 = fabric
            .switches()
            .iter()
            .flat_map(|switch| {
                let ports = switch.counters().ports();
                (0..=u8::MAX).take(ports).map(|port| {
                    switch.counters().class(xoff_wire::units::PortId(port), lossless()).xoff_sent.get()
                })
            })
            .sum();
        let delivered = sum(&fabric, xoff_sim::Host::received);
        let _ = writeln!(table, "{k} {seed} {} {} {delivered} {xoffs}", tally.hops, tally.events);
    }
    assert_eq!(table, include_str!("golden/permutations.txt"));
}
