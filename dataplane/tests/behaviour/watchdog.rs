// Tests for SPECIFICATION.md: watchdog

use xoff_flow_control::counters::ClassCounters;
use xoff_flow_control::drop_reason::{DropKind, DropReason};
use xoff_flow_control::settings::{PolicyKind, WatchdogAction, WatchdogSettings, WhenFull};
use xoff_wire::units::{Bytes, ClassSet, Nanos, PortId, Quanta};
use xoff_wire::{FlowKey, FlowPauseWriter, Operation};

use crate::bed::plan::{self, CABLE, GIGABIT, LINK};
use crate::bed::{Bed, Flow, NodeId, Obeys, Star, Stream, SwitchPlan, end};
use crate::{C3, C4, resume, stop};

/// Detection time: 10,000 quanta at 1 Gb/s.
const DETECT: Nanos = Nanos(5_120_000);
const RESTORE: Nanos = Nanos(3_000_000);
const SENT: Nanos = Nanos::from_millis(1);
const BEGIN: Nanos = Nanos(SENT.0 + 672 + CABLE.0);
const QUANTUM: u64 = 512;

fn watched(action: WatchdogAction) -> SwitchPlan {
    watched_for_share(action, WatchdogSettings::UNBROKEN)
}

fn watched_for_share(action: WatchdogAction, share: u8) -> SwitchPlan {
    let mut plan = plan::switch(&[LINK; 3]);
    plan.may_lose = action == WatchdogAction::Drop;
    plan.each_lossless(|class| {
        class.watchdog = Some(WatchdogSettings { action, detect: DETECT, restore: RESTORE, share });
    });
    plan
}

fn overloaded(plan: SwitchPlan, frames: u64) -> (Star, [Flow; 2]) {
    let mut star = Star::new(plan);
    let flows = [1, 2].map(|from| star.start(from, 0, star.stream(0, C3, frames)));
    star.run_until(SENT);
    (star, flows)
}

fn counters(star: &Star) -> &ClassCounters {
    star.switch().counters.class(PortId(0), C3)
}

fn discarded(star: &Star) -> u64 {
    counters(star).drops[DropReason::PausedDiscard.index()].get()
}

fn stormed(star: &Star) -> bool {
    star.switch().worker(PortId(0)).stormed(PortId(0)).contains(C3)
}

#[test]
fn pause_one_quantum_beyond_detection_time_starts_storm() {
    let run = |quanta| {
        let (mut star, flows) = overloaded(watched(WatchdogAction::Drop), 600);
        star.pause(0, stop(C3, quanta));
        star.run_to_rest();
        let lost: u64 = flows.iter().map(|&flow| star.lost(flow)).sum();
        assert_eq!(lost, discarded(&star), "a lost frame was not counted as paused_discard");
        (counters(&star).storms.get(), lost > 0)
    };
    assert_eq!(DETECT.0, 10_000 * QUANTUM);
    assert_eq!(run(10_000), (0, false));
    assert_eq!(run(10_001), (1, true));
}

#[test]
fn pause_storm_begins_and_ends_at_exact_nanosecond() {
    let (mut star, _) = overloaded(watched(WatchdogAction::Drop), 600);
    star.pause(0, stop(C3, 20_000));
    star.run_until(Nanos(BEGIN.0 + DETECT.0 - 1));
    assert!(!stormed(&star) && star.holds(1, C3) && star.holds(2, C3));
    star.run_until(BEGIN + DETECT);
    assert!(stormed(&star) && discarded(&star) > 10);
    assert!(!star.holds(1, C3) && !star.holds(2, C3), "the senders were not resumed at once");
    assert_eq!(counters(&star).storm_since.get(), (BEGIN + DETECT).0);

    let over = Nanos(BEGIN.0 + 20_000 * QUANTUM + RESTORE.0);
    star.run_until(Nanos(over.0 - 1));
    assert!(stormed(&star));
    star.run_until(over);
    assert!(!stormed(&star));
    let counted = counters(&star);
    let lasted = over.since(BEGIN + DETECT).0;
    assert_eq!((counted.storm_since.get(), counted.storm_nanos.get()), (0, lasted));
    assert_eq!(
        (counted.last_storm.began.get(), counted.last_storm.nanos.get()),
        ((BEGIN + DETECT).0, lasted)
    );
    star.run_to_rest();
    let flow = star.start(1, 0, star.stream(0, C3, 200));
    star.run_to_rest();
    star.assert_whole(flow, 200);
}

#[test]
fn paused_port_without_queued_frames_has_no_pause_storm() {
    let mut star = Star::new(watched(WatchdogAction::Drop));
    for _ in 0..20 {
        star.pause(0, stop(C3, 0xffff));
        star.run_for(Nanos::from_millis(10));
    }
    assert_eq!(counters(&star).storms.get(), 0);
    let others = [star.start(1, 0, star.stream(0, C4, 500)), star.start(1, 2, star.stream(2, C3, 500))];
    star.run_for(Nanos::from_millis(20));
    others.iter().for_each(|&flow| star.assert_whole(flow, 500));
    assert_eq!(counters(&star).storms.get(), 0);
}

/// The peer pauses the class for 4.608 of each 5 ms; an unbroken pause would be a storm after 5.12 ms.
#[test]
fn pauses_with_gaps_count_as_storm_only_by_share_of_time() {
    let run = |share| {
        let (mut star, flows) = overloaded(watched_for_share(WatchdogAction::Drop, share), 2_000);
        for _ in 0..10 {
            star.pause(0, stop(C3, 9_000));
            star.run_for(Nanos::from_millis(5));
        }
        star.run_to_rest();
        let lost: u64 = flows.iter().map(|&flow| star.lost(flow)).sum();
        assert_eq!(lost, discarded(&star));
        (counters(&star).storms.get(), lost > 0, stormed(&star))
    };
    assert_eq!([100, 95, 90].map(run), [(0, false, false), (0, false, false), (1, true, false)]);
}

fn storm_on(star: &mut Star, span: Nanos) {
    let until = star.now() + span;
    while star.now() < until {
        star.pause(0, stop(C3, 0xffff));
        star.run_for(Nanos::from_millis(5));
    }
}

#[test]
fn pause_storm_drops_frames_and_resumes_their_senders() {
    for when_full in [WhenFull::Drop, WhenFull::Stop] {
        let mut plan = watched(WatchdogAction::Drop);
        plan.settings.when_full = when_full;
        let (mut star, flows) = overloaded(plan, 5_000);
        let beside = star.start(1, 2, Stream { from: Nanos::from_millis(10), ..star.stream(2, C3, 500) });
        storm_on(&mut star, DETECT + Nanos::from_millis(1));
        let (xoffs, before) = (counters_of_senders(&star), star.at(0).arrivals.len());
        storm_on(&mut star, Nanos::from_millis(40));
        assert_eq!(counters_of_senders(&star), xoffs, "a sender was paused during the storm");
        assert_eq!(star.at(0).arrivals.len(), before, "a frame was sent to the pausing peer");
        star.pause(0, resume(C3));
        star.run_to_rest();
        star.assert_whole(beside, 500);
        let lost: u64 = flows.iter().map(|&flow| star.lost(flow)).sum();
        assert_eq!((lost, counters(&star).storms.get()), (discarded(&star), 1));
        assert!(lost > 3_000, "{lost}");
        assert_eq!(DropReason::PausedDiscard.kind(), DropKind::Lost, "discarded frames do not count as lost");
        assert_eq!(star.switch().counters.dropped(DropReason::HeadroomExhausted), 0);
    }
}

fn counters_of_senders(star: &Star) -> [u64; 2] {
    [1, 2].map(|port| star.switch().counters.class(PortId(port), C3).xoff_sent.get())
}

#[test]
fn watchdog_forward_sends_frames_despite_pause_storm() {
    let (mut star, flows) = overloaded(watched(WatchdogAction::Forward), 600);
    star.pause(0, stop(C3, 0xffff));
    star.run_until(Nanos(BEGIN.0 + DETECT.0 - 1));
    let before = star.received(flows[0]).frames + star.received(flows[1]).frames;
    star.run_for(Nanos::from_millis(15));
    flows.iter().for_each(|&flow| star.assert_whole(flow, 600));
    assert!(stormed(&star) && star.switch().worker(PortId(0)).paused(PortId(0)).classes().contains(C3));
    star.pause(0, stop(C3, 10));
    star.run_for(Nanos::from_millis(1));
    assert_eq!(counters(&star).storm_forwarded.get(), 1_200 - before);
    star.run_to_rest();
    assert!(!stormed(&star));
    assert_eq!(discarded(&star), 0);
    star.pause(0, stop(C3, 1_000));
    star.run_for(Nanos(1_172));
    let flow = star.start(1, 0, star.stream(0, C3, 10));
    star.run_for(Nanos(1_000 * QUANTUM - 1));
    assert_eq!(star.received(flow).frames, 0);
    star.run_to_rest();
    star.assert_whole(flow, 10);
}

#[test]
fn watchdog_alert_counts_storm_but_drops_nothing() {
    let (mut star, flows) = overloaded(watched(WatchdogAction::Alert), 600);
    star.pause(0, stop(C3, 30_000));
    star.run_until(BEGIN + DETECT);
    assert!(stormed(&star) && star.holds(1, C3));
    star.run_to_rest();
    flows.iter().for_each(|&flow| star.assert_whole(flow, 600));
    assert_eq!((counters(&star).storms.get(), discarded(&star)), (1, 0));
}

#[test]
fn each_link_loss_ends_pause_and_storm() {
    let (mut star, _) = overloaded(watched(WatchdogAction::Drop), 1_000);
    for flap in 1..=20 {
        star.start(1, 0, star.stream(0, C3, 10));
        star.pause(0, stop(C3, 0xffff));
        let (begin, paused_for) = (Nanos(star.now().0 + 672 + CABLE.0), DETECT + SENT);
        star.run_until(begin + paused_for);
        assert!(stormed(&star));
        let before = counters(&star).paused_nanos.get();
        star.set_link(0, false);
        assert!(!stormed(&star));
        star.run_for(Nanos::from_millis(1));
        let counted = counters(&star);
        assert_eq!((counted.paused_nanos.get() - before, counted.paused_since.get()), (paused_for.0, 0));
        assert_eq!((counted.storms.get(), counted.storm_since.get()), (flap, 0));
        assert!((1..3).all(|port| !star.holds(port, C3)), "a sender is still paused");
        star.set_link(0, true);
        star.run_to_rest();
    }
    let flow = star.start(1, 0, star.stream(0, C3, 10));
    star.run_to_rest();
    star.assert_whole(flow, 10);
}

const TURN: Nanos = Nanos::from_micros(2);

fn down_before_pause_is_received() -> Star {
    let mut star = Star::new(SwitchPlan { gap: TURN, ..watched(WatchdogAction::Alert) });
    star.pause(0, stop(C3, 0xffff));
    star.run_until(Nanos(1_500));
    star.set_link(0, false);
    star
}

#[test]
fn storm_time_of_pause_received_without_link_starts_at_link_up() {
    let mut star = down_before_pause_is_received();
    star.run_until(TURN);
    assert!(star.switch().worker(PortId(0)).paused(PortId(0)).classes().contains(C3));
    star.set_link(0, true);
    star.start(1, 0, star.stream(0, C3, 10));
    let sampled = Nanos(TURN.0 + DETECT.0);
    star.run_until(Nanos(sampled.0 + DETECT.0));
    assert!(stormed(&star), "no storm without another pause frame");
    assert!(
        counters(&star).storm_since.get() > sampled.0,
        "the pause storm began before frames had waited for the detection time"
    );
}

#[test]
fn pause_received_before_link_up_sets_no_past_deadline() {
    let mut star = down_before_pause_is_received();
    star.run_until(Nanos(2 * DETECT.0));
    star.set_link(0, true);
    star.pause(0, stop(C3, 0xffff)); // the bed checks after each turn whether it is at rest
    star.run_for(TURN);
    star.run_for(TURN);
    assert!(!stormed(&star));
}

/// Creates a ring of three switches with a host each. Each host sends clockwise to the host two switches on.
pub fn ring(frames: u64, change: impl Fn(&mut SwitchPlan)) -> (Bed, [NodeId; 3], [NodeId; 3]) {
    let mut bed = Bed::new(3);
    let switches = [0, 1, 2].map(|_| {
        let mut plan = plan::switch(&[LINK; 3]);
        change(&mut plan);
        bed.add_switch(plan)
    });
    for at in 0..3 {
        bed.link(end(switches[at], 1), end(switches[(at + 1) % 3], 2), GIGABIT, CABLE);
    }
    let hosts = switches.map(|switch| bed.add_host(switch, 0, Obeys::AtOnce));
    for at in 0..3 {
        bed.lead(switches[at], hosts[(at + 2) % 3], 1);
        let to = bed.host(hosts[(at + 2) % 3]).mac;
        bed.send(hosts[at], Stream::new(to, frames, Nanos::ZERO));
    }
    (bed, switches, hosts)
}

#[test]
fn ring_of_three_switches_deadlocks_without_watchdog() {
    let (mut bed, switches, hosts) = ring(3_000, |_| ());
    bed.run_until(Nanos::from_millis(50));
    let arrived = |bed: &Bed| hosts.map(|host| bed.host(host).arrivals.len());
    let before = arrived(&bed);
    bed.run_until(Nanos::from_millis(500));
    assert_eq!(arrived(&bed), before, "the ring did not deadlock");
    assert!(before.iter().sum::<usize>() < 9_000);
    for switch in switches {
        let paused = bed.switch(switch).worker(PortId(1)).paused(PortId(1));
        assert!(paused.classes().contains(C3), "a switch is not paused by the next");
    }
}

#[test]
fn watchdog_breaks_ring_deadlock_and_counts_dropped_frames() {
    let (action, share) = (WatchdogAction::Drop, WatchdogSettings::UNBROKEN);
    let settings = WatchdogSettings { action, detect: DETECT, restore: RESTORE, share };
    let (mut bed, switches, hosts) = ring(3_000, |plan| {
        plan.may_lose = true;
        plan.each_lossless(|class| class.watchdog = Some(settings));
    });
    bed.run_to_rest();
    let arrived: usize = hosts.iter().map(|&host| bed.host(host).arrivals.len()).sum();
    let dropped = |switch: &NodeId| bed.switch(*switch).counters.dropped(DropReason::PausedDiscard);
    let dropped: u64 = switches.iter().map(dropped).sum();
    assert!(dropped > 0);
    assert_eq!(arrived as u64 + dropped, 9_000);
    for switch in switches {
        let worker = bed.switch(switch).worker(PortId(1));
        assert_eq!(worker.stormed(PortId(1)), ClassSet::NONE, "a storm has not ended");
    }
}

#[test]
fn pause_storm_drops_frames_of_flows_paused_by_list() {
    let mut plan = watched(WatchdogAction::Drop);
    plan.settings.policies[3] = PolicyKind::Ofc;
    plan.settings.ports[0].ofc_peer = true;
    let (mut star, _) = overloaded(plan, 600);
    let mut bytes = [0; 600];
    let mut list = FlowPauseWriter::new(&mut bytes, star.mac(0), Operation::Pause(Quanta(0xffff)), C3);
    list.push(&FlowKey::L2 { src: star.mac(1), dst: star.mac(0), ether_type: 0x88b5 });
    let list = list.finish().to_vec();
    star.inject(0, &list);
    star.run_for(Nanos::from_millis(1));
    assert_eq!(counters(&star).flows.paused.get(), 1);
    assert!(star.holds(1, C3), "the sender of the paused flow is not paused");
    star.pause(0, stop(C3, 20_000));
    star.run_for(DETECT + Nanos::from_micros(100));
    assert!(stormed(&star));
    assert_eq!(star.switch().worker(PortId(0)).buffer().egress(PortId(0), C3), Bytes::ZERO);
    assert!(!star.holds(1, C3) && !star.holds(2, C3), "the senders were not resumed at once");
    star.run_to_rest();
}
