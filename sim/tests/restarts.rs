//! Switches that end, and others that begin in their places.

use xoff_dataplane::drop_reason::DropReason;
use xoff_dataplane::units::{BitRate, Bytes, Class, Nanos, PortId};
use xoff_sim::{At, Fabric, Flow, Line, Pace, Picos, Plan, Seed, topology};

const LINE: Line = Line { rate: BitRate::from_gbps(100), delay: Picos::from_nanos(500) };
const LOSSLESS: Class = Class::ALL[3];
const FRAME: u32 = 1_496;

fn flow(to: u32, frames: u64) -> Flow {
    Flow { to, class: LOSSLESS, frame_len: FRAME, frames, from: Picos::ZERO }
}

fn time_of(len: u32) -> Picos {
    Pace::of(LINE.rate).time_of(Bytes::on_line(len))
}

fn restart(fabric: &mut Fabric, plan: &Plan, switch: u32, begins: Nanos) {
    let settings = plan.kind(switch).settings.clone();
    fabric.restart(plan, Seed(1), switch, &settings, begins);
}

fn check(fabric: &Fabric) {
    assert_eq!(fabric.missing(), 0);
    assert!(fabric.switches().iter().all(|switch| switch.switch().ledger().missing() == 0));
}

/// Two hosts send to a third, in whose favour they are paused, and the switch begins anew.
fn restarted(away: Nanos) -> (Plan, Fabric, u64) {
    let plan = topology::single(3, LINE);
    let mut fabric = Fabric::new(&plan, Seed(1));
    [1, 2].into_iter().for_each(|host| fabric.begin(host, &flow(0, 5_000)));
    let is_held = |fabric: &Fabric| {
        [1, 2].map(|port| !fabric.switches()[0].switch().held(PortId(port)).classes().is_empty())
    };
    while is_held(&fabric) != [true; 2] {
        fabric.step(Picos::NEVER);
    }
    fabric.run_until(fabric.now().after(Picos::from_micros(3)));
    assert_eq!(is_held(&fabric), [true; 2], "and they have heard");
    let held = fabric.switches()[0].switch().ledger().held;
    let begins = fabric.now().floor().after(away);
    restart(&mut fabric, &plan, 0, begins);
    (plan, fabric, held)
}

#[test]
fn what_is_in_a_switch_that_ends_is_lost_and_counted_and_the_rest_comes() {
    let (_, mut fabric, held) = restarted(Nanos::ZERO);
    check(&fabric);
    assert_eq!(fabric.switches()[0].switch().ledger().held, 0);
    let ailments = fabric.switches()[0].ailments();
    assert_eq!((ailments.restarts, ailments.lost_in_restarts), (1, held - 1), "one is on a line");
    assert!(held > 100);
    fabric.run_to_rest();
    check(&fabric);
    let lost = fabric.switches()[0].ailments().lost_in_restarts;
    assert_eq!(fabric.hosts()[0].received() + lost, 10_000);
    assert_eq!(lost, held - 1, "what comes behind is not");
    let counters = fabric.switches()[0].counters();
    for port in 0..3 {
        let class = counters.class(PortId(port), LOSSLESS);
        let there = [&class.ingress_bytes, &class.egress_bytes, &class.headroom_bytes, &class.held_since];
        assert_eq!(there.map(|counter| counter.get()), [0; 4]);
    }
    assert_eq!(counters.class(PortId(1), LOSSLESS).rx_frames.get(), 5_000, "what is counted goes on");
}

/// A pause lasts 335 us, and they go on as soon as a control frame has come.
#[test]
fn peers_are_let_go_before_a_switch_ends() {
    let (_, mut fabric, _) = restarted(Nanos::from_micros(100));
    let sent = |fabric: &Fabric| [1, 2].map(|host: usize| fabric.hosts()[host].sent());
    let before = sent(&fabric);
    let heard = fabric.now().after(time_of(60)).after(LINE.delay);
    fabric.run_until(Picos(heard.0 - 1));
    assert_eq!(sent(&fabric), before);
    fabric.run_until(heard);
    assert_eq!(sent(&fabric), before.map(|frames| frames + 1));
    check(&fabric);
    fabric.run_to_rest();
    check(&fabric);
}

/// All that comes before the other one begins is lost, to the frame.
#[test]
fn what_comes_while_a_switch_is_away_is_lost_and_counted() {
    let plan = topology::chain(1, LINE);
    let mut fabric = Fabric::new(&plan, Seed(1));
    fabric.begin(0, &flow(1, 100));
    // The tenth frame has come in just before the switch ends, the twentieth just before the other one begins.
    let came = |frames: u64| Picos(time_of(FRAME).0 * frames + LINE.delay.0 + 1_000);
    fabric.run_until(came(10));
    restart(&mut fabric, &plan, 0, came(20).floor());
    fabric.run_to_rest();
    check(&fabric);
    let ailments = fabric.switches()[0].ailments();
    assert_eq!(ailments.lost_in_restarts, 10);
    assert_eq!(fabric.hosts()[1].received(), 90);
}

/// It does not know what its peer has asked for before it began, until that is said again.
#[test]
fn another_switch_knows_nothing_of_what_its_peers_have_asked_for() {
    let plan = topology::chain(2, LINE);
    let mut fabric = Fabric::new(&plan, Seed(1));
    fabric.begin(0, &flow(1, 2_000));
    fabric.at_switch(1, |switch, net| switch.refuse(PortId(1), Nanos::from_millis(1), net));
    fabric.run_until(Picos::from_micros(60));
    let paused = |fabric: &Fabric| fabric.switches()[0].switch().paused(PortId(1)).classes();
    assert!(paused(&fabric).contains(LOSSLESS));
    restart(&mut fabric, &plan, 0, Nanos::from_micros(61));
    fabric.run_until(Picos::from_micros(62));
    assert!(paused(&fabric).is_empty());
    fabric.run_until(Picos::from_micros(400));
    assert!(paused(&fabric).contains(LOSSLESS), "it was said again");
    fabric.run_to_rest();
    check(&fabric);
    let lost = fabric.switches()[0].ailments().lost_in_restarts
        + fabric
            .switches()
            .iter()
            .map(|switch| switch.counters().dropped(DropReason::HeadroomExhausted))
            .sum::<u64>();
    assert_eq!(fabric.hosts()[1].received() + lost, 2_000);
}

/// Whatever else goes on: a link that is down stays so, a stall is waited for, and another end may come before the first is over.
#[test]
fn ends_stalls_and_links_that_are_down_may_come_together() {
    let plan = topology::single(3, LINE);
    let mut fabric = Fabric::new(&plan, Seed(1));
    [1, 2].into_iter().for_each(|host| fabric.begin(host, &flow(0, 5_000)));
    fabric.run_until(Picos::from_micros(20));
    fabric.set_link(At::Host(2), false);
    fabric.at_switch(0, |switch, net| {
        switch.stall(Nanos::from_micros(30), net);
        switch.refuse(PortId(0), Nanos::from_micros(70), net);
        switch.complete_late(Nanos::from_micros(60), net);
    });
    restart(&mut fabric, &plan, 0, Nanos::from_micros(40));
    fabric.run_until(Picos::from_micros(29));
    assert_eq!(fabric.switches()[0].ailments().restarts, 0, "nobody has heard of it");
    fabric.run_until(Picos::from_micros(35));
    assert_eq!(fabric.switches()[0].ailments().restarts, 1);
    restart(&mut fabric, &plan, 0, Nanos::from_micros(50));
    restart(&mut fabric, &plan, 0, Nanos::from_micros(45));
    check(&fabric);
    fabric.run_until(Picos::from_micros(90));
    assert_eq!(fabric.switches()[0].ailments().restarts, 3);
    assert!(!fabric.switches()[0].switch().bridge().is_up(PortId(2)));
    fabric.set_link(At::Host(2), true);
    fabric.run_to_rest();
    check(&fabric);
    let node = &fabric.switches()[0];
    let dropped: u64 = DropReason::ALL.iter().map(|reason| node.counters().dropped(*reason)).sum();
    let lost = node.ailments().lost_in_restarts + node.never_seen() + dropped;
    assert!(fabric.hosts()[0].received() + lost <= 10_000);
    assert!(fabric.hosts()[0].received() > 8_000);
}
