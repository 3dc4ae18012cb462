// Tests for SPECIFICATION.md: sim-faults

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use xoff_dataplane::frame::{Frame, FrameStore};
use xoff_dataplane::tap::{FrameEvent, Sighting, Tap, TapId};
use xoff_flow_control::drop_reason::DropReason;
use xoff_sim::{At, Fabric, FabricEvent, Flow, Line, Pace, Picos, Plan, Seed, topology};
use xoff_wire::units::{BitRate, Bytes, Class, Nanos, PortId, PortSet};

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

fn two_to_one(frames: u64) -> (Plan, Fabric) {
    let plan = topology::single(3, LINE);
    let mut fabric = Fabric::new(&plan, Seed(1));
    [1, 2].into_iter().for_each(|host| fabric.begin(host, &flow(0, frames)));
    (plan, fabric)
}

fn held() -> (Plan, Fabric) {
    let (plan, mut fabric) = two_to_one(5_000);
    let is_held = |fabric: &Fabric| {
        [1, 2].map(|port| !fabric.switches()[0].switch().held(PortId(port)).classes().is_empty())
    };
    while is_held(&fabric) != [true; 2] {
        fabric.step(Picos::NEVER);
    }
    fabric.run_until(fabric.now().after(Picos::from_micros(3)));
    assert_eq!(is_held(&fabric), [true; 2], "an XOFF has not arrived at both hosts");
    (plan, fabric)
}

fn restarted(away: Nanos) -> (Plan, Fabric, u64) {
    let (plan, mut fabric) = held();
    let held = fabric.switches()[0].switch().ledger().held;
    let begins = fabric.now().floor().after(away);
    restart(&mut fabric, &plan, 0, begins);
    (plan, fabric, held)
}

#[test]
fn frames_in_a_restarted_switch_are_lost_and_counted() {
    let (_, mut fabric, held) = restarted(Nanos::ZERO);
    check(&fabric);
    let nothing_is_there = |fabric: &Fabric| {
        for port in 0..3 {
            let class = fabric.switches()[0].counters().class(PortId(port), LOSSLESS);
            let there = [&class.ingress_bytes, &class.egress_bytes, &class.headroom_bytes, &class.held_since];
            assert_eq!(there.map(|counter| counter.get()), [0; 4]);
        }
    };
    nothing_is_there(&fabric);
    assert_eq!(fabric.switches()[0].switch().ledger().held, 0);
    let impairment_counts = fabric.switches()[0].impairment_counts();
    assert_eq!(
        (impairment_counts.restarts, impairment_counts.lost_in_restarts),
        (1, held - 1),
        "wrong number of restarts or of lost frames"
    );
    assert!(held > 100);
    fabric.run_to_rest();
    check(&fabric);
    let lost = fabric.switches()[0].impairment_counts().lost_in_restarts;
    assert_eq!(fabric.hosts()[0].received() + lost, 10_000);
    assert_eq!(lost, held - 1, "frames were lost after the restart");
    nothing_is_there(&fabric);
    let counters = fabric.switches()[0].counters();
    assert_eq!(
        counters.class(PortId(1), LOSSLESS).rx_frames.get(),
        5_000,
        "wrong number of received frames before and after the restart"
    );
    let sent = counters.class(PortId(0), LOSSLESS).tx_frames.get();
    assert_eq!(
        sent,
        fabric.hosts()[0].received(),
        "the frame on the line at the restart does not count as sent"
    );
}

#[test]
fn switch_restart_counts_uncompleted_frames_as_sent() {
    let (plan, mut fabric) = two_to_one(50);
    fabric.at_switch(0, |switch, net| switch.complete_late(Nanos::from_micros(100), net));
    fabric.run_until(Picos::from_micros(3));
    restart(&mut fabric, &plan, 0, Nanos::from_micros(3));
    fabric.run_to_rest();
    check(&fabric);
    let sent = fabric.switches()[0].counters().class(PortId(0), LOSSLESS).tx_frames.get();
    assert!(sent > 0 && sent == fabric.hosts()[0].received(), "{sent}");
}

#[test]
fn switch_resumes_peers_before_a_restart() {
    let (_, mut fabric, _) = restarted(Nanos::from_micros(100));
    let sent = |fabric: &Fabric| [1, 2].map(|host: usize| fabric.hosts()[host].sent());
    let before = sent(&fabric);
    let xon_received_at = fabric.now().after(time_of(60)).after(LINE.delay);
    fabric.run_until(Picos(xon_received_at.0 - 1));
    assert_eq!(sent(&fabric), before);
    fabric.run_until(xon_received_at);
    assert_eq!(sent(&fabric), before.map(|frames| frames + 1));
    check(&fabric);
    fabric.run_to_rest();
    check(&fabric);
}

#[test]
fn restarted_switch_resumes_peer_once_its_line_is_unblocked() {
    for (refused, away) in [(50, 10), (10, 50)] {
        let (plan, mut fabric) = held();
        let [end, begins] = [refused, away].map(|span| fabric.now().floor().after(Nanos::from_micros(span)));
        fabric.at_switch(0, |switch, net| switch.refuse(PortId(1), end, net));
        restart(&mut fabric, &plan, 0, begins);
        let xon_received_at = Picos::from(end).after(time_of(60)).after(LINE.delay);
        fabric.run_until(Picos(xon_received_at.0 - 1));
        let before = fabric.hosts()[1].sent();
        fabric.run_until(xon_received_at);
        assert_eq!(
            fabric.hosts()[1].sent(),
            before + 1,
            "line blocked for {refused} us, switch gone for {away} us"
        );
        fabric.run_to_rest();
        check(&fabric);
    }
}

/// A frame for host 1 arrives 3 ns after one or two simultaneous restarts of the switch. The XON to host 1 takes 7 ns;
/// the last frame before the restart leaves for host 0.
#[test]
fn frame_after_restart_waits_for_xon_sent_before_restart() {
    for times in [1, 2] {
        let (plan, mut fabric) = held();
        let line = fabric.end(At::Switch(0, 0));
        while fabric.step(Picos::NEVER) != Some(FabricEvent::Left(line)) {}
        let came = fabric.now().after(Picos(6 * time_of(FRAME).0));
        fabric.begin(0, &Flow { from: Picos(came.0 - time_of(FRAME).0 - LINE.delay.0), ..flow(1, 1) });
        let parts = Picos::from(Nanos(came.floor().0 - 2));
        fabric.run_until(parts);
        (0..times).for_each(|_| restart(&mut fabric, &plan, 0, parts.floor()));
        fabric.run_until(Picos::from_micros(200));
        let last = parts.after(time_of(60)).after(time_of(FRAME)).after(LINE.delay);
        assert_eq!((fabric.hosts()[1].received(), fabric.hosts()[1].last_received()), (1, last), "{times}");
        fabric.run_to_rest();
        check(&fabric);
    }
}

#[test]
fn restarted_switch_sends_only_after_frame_on_the_line() {
    let plan = topology::single(3, LINE);
    let mut fabric = Fabric::new(&plan, Seed(1));
    fabric.begin(1, &flow(0, 1));
    fabric.begin(2, &Flow { from: Picos::from_nanos(60), ..flow(0, 1) });
    let begin = time_of(FRAME).after(LINE.delay);
    fabric.run_until(begin);
    let end = begin.floor().after(Nanos(100));
    fabric.at_switch(0, |switch, net| switch.refuse(PortId(0), end, net));
    restart(&mut fabric, &plan, 0, begin.floor());
    fabric.run_to_rest();
    let last = begin.after(time_of(FRAME)).after(time_of(FRAME)).after(LINE.delay);
    assert_eq!((fabric.hosts()[0].received(), fabric.hosts()[0].last_received()), (2, last));
    check(&fabric);
}

#[test]
fn restarted_switch_sends_once_its_line_is_unblocked() {
    let (plan, mut fabric) = two_to_one(1);
    let idle = Nanos::from_micros(100);
    fabric.at_switch(0, |switch, net| switch.refuse(PortId(2), idle, net));
    fabric.run_until(time_of(FRAME).after(LINE.delay));
    let now = fabric.now().floor();
    restart(&mut fabric, &plan, 0, now);
    fabric.run_until(Picos::from_micros(5));
    let end = Nanos::from_micros(20);
    fabric.at_switch(0, |switch, net| switch.refuse(PortId(0), end, net));
    fabric.begin(1, &Flow { from: fabric.now(), ..flow(0, 1) });
    fabric.run_to_rest();
    assert_eq!(fabric.hosts()[0].last_received(), Picos::from(end).after(time_of(FRAME)).after(LINE.delay));
    check(&fabric);
}

#[test]
fn frames_arriving_during_a_restart_are_lost_and_counted() {
    let came = |frames: u64| Picos(time_of(FRAME).0 * frames + LINE.delay.0);
    assert_eq!(Picos::from(came(20).floor()), came(20));
    // Blocking the idle port 0 keeps the driver impaired, which must not change counts.
    let refusals = [Nanos::ZERO, Nanos::from_micros(100)];
    for (later, lost, refused) in refusals.iter().flat_map(|refused| [(0, 9, *refused), (1, 10, *refused)]) {
        let plan = topology::chain(1, LINE);
        let mut fabric = Fabric::new(&plan, Seed(1));
        fabric.at_switch(0, |switch, net| switch.refuse(PortId(0), refused, net));
        fabric.begin(0, &flow(1, 100));
        fabric.run_until(came(10).after(Picos::from_nanos(1)));
        restart(&mut fabric, &plan, 0, came(20).floor().after(Nanos(later)));
        fabric.run_to_rest();
        check(&fabric);
        let impairment_counts = fabric.switches()[0].impairment_counts();
        assert_eq!((impairment_counts.lost_in_restarts, fabric.hosts()[1].received()), (lost, 100 - lost));
    }
}

#[test]
fn link_change_during_restart_is_applied_after_it() {
    let (plan, mut fabric) = two_to_one(100);
    fabric.run_until(Picos::from_micros(3));
    let begins = Nanos::from_micros(40);
    restart(&mut fabric, &plan, 0, begins);
    fabric.set_link(At::Host(2, 0), false);
    let is_up = |fabric: &Fabric| fabric.switches()[0].switch().bridge().is_up(PortId(2));
    fabric.run_until(Picos(Picos::from(begins).0 - 1));
    assert!(is_up(&fabric));
    fabric.run_until(Picos::from(begins));
    assert!(!is_up(&fabric));
    fabric.run_to_rest();
    check(&fabric);
}

#[test]
fn link_change_queued_behind_restart_is_applied_after_it() {
    let (plan, mut fabric) = two_to_one(100);
    fabric.run_until(Picos::from_micros(3));
    let [polls, begins] = [20, 40].map(Nanos::from_micros);
    fabric.at_switch(0, |switch, net| switch.stall(polls, net));
    restart(&mut fabric, &plan, 0, begins);
    fabric.set_link(At::Host(2, 0), false);
    let state = |fabric: &Fabric| {
        let switch = &fabric.switches()[0];
        (switch.impairment_counts().restarts, switch.switch().bridge().is_up(PortId(2)))
    };
    for (time, expected) in [
        (Picos(Picos::from(polls).0 - 1), (0, true)),
        (Picos::from(polls), (1, true)),
        (Picos(Picos::from(begins).0 - 1), (1, true)),
        (Picos::from(begins), (1, false)),
    ] {
        fabric.run_until(time);
        assert_eq!(state(&fabric), expected, "{time:?}");
    }
    fabric.run_to_rest();
    check(&fabric);
}

#[derive(Debug)]
struct Count(Arc<AtomicU64>);

impl Tap for Count {
    fn ports(&self) -> PortSet {
        PortSet::ALL
    }

    fn see(&mut self, sighting: &Sighting, _: &Frame, _: &dyn FrameStore) {
        self.0.fetch_add(u64::from(matches!(sighting.event, FrameEvent::Received { .. })), Relaxed);
    }
}

#[test]
fn tap_gets_all_frames_before_and_after_a_restart() {
    let plan = topology::chain(1, LINE);
    let mut fabric = Fabric::new(&plan, Seed(1));
    let received = Arc::default();
    let tap = Box::new(Count(Arc::clone(&received)));
    fabric
        .at_switch(0, |switch, net| switch.put_tap(TapId(1), tap, net))
        .expect("the switch already has this tap");
    fabric.begin(0, &flow(1, 100));
    fabric.run_until(Picos::from_micros(5));
    let begins = fabric.now().floor();
    restart(&mut fabric, &plan, 0, begins);
    fabric.run_to_rest();
    assert_eq!(received.load(Relaxed), 100);
}

#[test]
fn restarted_switch_sends_until_peers_refresh_pauses() {
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
    assert!(paused(&fabric).contains(LOSSLESS), "the restarted switch ignores the peer's refreshed pause");
    fabric.run_to_rest();
    check(&fabric);
    let lost = fabric.switches()[0].impairment_counts().lost_in_restarts
        + fabric
            .switches()
            .iter()
            .map(|switch| switch.counters().dropped(DropReason::HeadroomExhausted))
            .sum::<u64>();
    assert_eq!(fabric.hosts()[1].received() + lost, 2_000);
}

#[test]
fn switch_restarts_despite_stall_blocked_line_or_down_link() {
    let (plan, mut fabric) = two_to_one(5_000);
    fabric.run_until(Picos::from_micros(20));
    fabric.set_link(At::Host(2, 0), false);
    fabric.at_switch(0, |switch, net| {
        switch.stall(Nanos::from_micros(30), net);
        switch.refuse(PortId(0), Nanos::from_micros(70), net);
        switch.complete_late(Nanos::from_micros(60), net);
    });
    restart(&mut fabric, &plan, 0, Nanos::from_micros(40));
    fabric.run_until(Picos::from_micros(29));
    assert_eq!(
        fabric.switches()[0].impairment_counts().restarts,
        0,
        "a restart was processed during the stall"
    );
    fabric.run_until(Picos::from_micros(35));
    assert_eq!(fabric.switches()[0].impairment_counts().restarts, 1);
    restart(&mut fabric, &plan, 0, Nanos::from_micros(50));
    restart(&mut fabric, &plan, 0, Nanos::from_micros(45));
    check(&fabric);
    fabric.run_until(Picos::from_micros(90));
    assert_eq!(fabric.switches()[0].impairment_counts().restarts, 3);
    assert!(!fabric.switches()[0].switch().bridge().is_up(PortId(2)));
    fabric.set_link(At::Host(2, 0), true);
    fabric.run_to_rest();
    check(&fabric);
    let node = &fabric.switches()[0];
    let dropped: u64 = DropReason::ALL.iter().map(|reason| node.counters().dropped(*reason)).sum();
    let lost = node.impairment_counts().lost_in_restarts + node.receive_drops() + dropped;
    assert!(fabric.hosts()[0].received() + lost <= 10_000);
    assert!(fabric.hosts()[0].received() > 8_000);
}
