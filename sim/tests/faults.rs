use std::sync::Arc;

use xoff_flow_control::drop_reason::DropReason;
use xoff_sim::ideal::Ideal;
use xoff_sim::{
    At, ControlFaults, Fabric, FabricEvent, Flow, Forwarding, Line, Picos, Plan, PlanError, Seed, topology,
};
use xoff_wire::units::{BitRate, Class};

const LINE: Line = Line { rate: BitRate::from_gbps(100), delay: Picos::from_nanos(500) };

fn flow(to: u32, frames: u64) -> Flow {
    Flow { to, class: Class::ALL[3], frame_len: 1_496, frames, from: Picos::ZERO }
}

fn lost_in_switches(fabric: &Fabric, reason: DropReason) -> u64 {
    fabric.switches().iter().map(|switch| switch.counters().dropped(reason)).sum()
}

#[test] // proves: sim-faults, sim-results
fn frames_in_flight_at_link_loss_are_lost_and_counted() {
    let mut fabric = Fabric::new(&topology::chain(1, LINE), Seed(1));
    fabric.begin(0, &flow(1, 1_000));
    for round in 1..=20 {
        fabric.run_until(Picos::from_micros(5 * round));
        fabric.set_link(At::Host(1, 0), round % 2 == 0);
    }
    fabric.run_to_rest();
    let received = fabric.hosts()[1].received();
    let lost = fabric.fault_counts().lost;
    assert!(received < 1_000 && lost >= 10, "{received} received, {lost} lost");
    assert_eq!(received + lost + lost_in_switches(&fabric, DropReason::LinkDown), 1_000);
    assert_eq!(fabric.missing(), 0);
}

#[test] // proves: sim-faults
fn only_frames_selected_by_loss_function_are_lost() {
    let mut fabric = Fabric::new(&topology::chain(2, LINE), Seed(1));
    let mut count = 0;
    fabric.lose(At::Switch(0, 1), move |_| {
        count += 1;
        count % 3 == 0
    });
    fabric.begin(0, &flow(1, 300));
    fabric.run_to_rest();
    assert_eq!((fabric.hosts()[1].received(), fabric.fault_counts().lost), (200, 100));
    assert_eq!(fabric.missing(), 0);
}

fn harmed(faults: ControlFaults, seed: u64) -> (Fabric, u64) {
    let mut fabric = Fabric::new(&topology::single(3, LINE), Seed(1));
    for port in 1..3 {
        fabric.harm_control(At::Switch(0, port), faults, Seed(seed));
        fabric.begin(port.into(), &flow(0, 5_000));
    }
    fabric.run_until(Picos::from_micros(2_000));
    assert_eq!(fabric.missing(), 0);
    assert_eq!(fabric.switches()[0].switch().ledger().missing(), 0);
    let digest = fabric.digest();
    (fabric, digest)
}

#[test] // proves: sim-faults, sim-results
fn control_frame_faults_follow_configured_shares_and_seed() {
    let all = 1_024;
    let late_by = Picos::from_nanos(300);
    let with = |faults| harmed(faults, 1).0.fault_counts();
    let none = with(ControlFaults::default());
    assert_eq!((none.lost, none.late, none.harmed), (0, 0, 0));
    let lost = with(ControlFaults { lost: all, ..ControlFaults::default() });
    assert!(lost.lost_control > 0 && (lost.lost, lost.late) == (0, 0));
    let late = with(ControlFaults { late: all, late_by, ..ControlFaults::default() });
    assert!(late.late > 0 && late.lost_control == 0, "late frames were lost");
    let again = with(ControlFaults { again: all, late_by, ..ControlFaults::default() });
    assert!(again.late > 0 && again.lost_control == 0);
    let changed = with(ControlFaults { harmed: all, ..ControlFaults::default() });
    assert!(changed.harmed > 0);
    let some = ControlFaults { lost: 50, late: 100, again: 100, harmed: 50, late_by };
    assert_eq!(harmed(some, 1).1, harmed(some, 1).1);
    assert_ne!(harmed(some, 1).1, harmed(some, 2).1);
}

#[test] // proves: sim-results
fn run_by_single_steps_equals_run_at_once() {
    let run = |by_event: bool| {
        let mut fabric = Fabric::new(&topology::chain(1, LINE), Seed(1));
        fabric.begin(0, &flow(1, 10));
        if by_event {
            let mut arrived = 0;
            while let Some(happened) = fabric.step(Picos::NEVER) {
                arrived += u64::from(matches!(happened, FabricEvent::Arrived(_)));
            }
            assert_eq!(arrived, fabric.tally().hops);
        }
        fabric.run_to_rest();
        (fabric.digest(), fabric.tally())
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn host_can_begin_another_flow_once_no_event_is_left() {
    let mut fabric = Fabric::new(&topology::single(2, LINE), Seed(1));
    for frames in [3, 4] {
        fabric.begin(1, &flow(0, frames));
        fabric.run_until(Picos::NEVER);
    }
    assert_eq!(fabric.hosts()[0].received(), 7);
}

#[test] // proves: sim-fabrics
fn invalid_plan_error_names_the_link_end_at_fault() {
    let kind = Arc::new(Ideal::beside(LINE).switch(2));
    let plan = |links: &[(At, At)]| {
        let mut plan = Plan::default();
        let switch = plan.add_switch(&kind, Forwarding::default());
        plan.add_host(switch, 0, LINE);
        links.iter().for_each(|(a, b)| plan.link(*a, *b, LINE));
        plan.check()
    };
    let [first, second] = [0, 1].map(|port| At::Switch(0, port));
    assert_eq!(plan(&[]), Err(PlanError::Unlinked(second)));
    assert_eq!(plan(&[(first, second)]), Err(PlanError::LinkedTwice(first)));
    assert_eq!(plan(&[(second, At::Host(1, 0))]), Err(PlanError::NoSuchEnd(At::Host(1, 0))));
    assert_eq!(plan(&[(second, At::Switch(0, 2))]), Err(PlanError::NoSuchEnd(At::Switch(0, 2))));
    assert_eq!(plan(&[(At::Switch(1, 0), second)]), Err(PlanError::NoSuchEnd(At::Switch(1, 0))));
    assert_eq!(
        PlanError::Unlinked(second).to_string(),
        "port 1 of switch 0 has no link; every port must have exactly one"
    );
    assert_eq!(topology::chain(3, LINE).check(), Ok(()));
}

#[test]
fn host_is_reached_by_lowest_port_of_equal_shortest_paths() {
    let kind = Arc::new(Ideal::beside(LINE).switch(3));
    let mut plan = Plan::default();
    for _ in 0..5 {
        plan.add_switch(&kind, Forwarding::default());
    }
    for switch in 0..4 {
        plan.add_host(switch, 2, LINE);
        plan.link(At::Switch(switch, 0), At::Switch((switch + 1) % 4, 1), LINE);
    }
    let ways = plan.ways_to(0).into_iter().map(|port| port.map(|port| port.0)).collect::<Vec<_>>();
    assert_eq!(ways, [Some(2), Some(1), Some(0), Some(0), None]);
}
