// Tests for SPECIFICATION.md: stalled-floods

use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::{
    EgressLimits, GroupSettings, HeadroomPlace, Member, Memory, SharedMemory, Spread, Turns, WatchdogAction,
    WatchdogSettings, WhenFull,
};
use xoff_wire::units::{BitRate, Bytes, MacAddr, Nanos, PortId};

use super::{UNKNOWN, bring_to_a_standstill, missed, plan, run_paused};
use crate::bed::{Star, Stream, SwitchPlan};
use crate::{C3, resume, stop};

fn group() -> Vec<GroupSettings> {
    let members = [2, 3].map(|port| Member { port: PortId(port), weight: 1 }).to_vec();
    let spread = Spread::Frame(Turns::RoundRobin);
    vec![GroupSettings { name: "up".into(), members, spread, uplinks: false, lacp: None, salt: 1 }]
}

fn share(plan: &mut SwitchPlan, more: u64) {
    plan.each_port(|port| port.classes.iter_mut().for_each(|class| class.egress_reserve = Bytes::ZERO));
    let limits = Bytes(10_000_000);
    plan.settings.memory = Memory::Shared(SharedMemory {
        pool: limits,
        ingress_limit: limits,
        egress_limit: Bytes(5_000 + more),
        port_limit: limits,
        egress_port_limit: limits,
        egress_limits: EgressLimits::All,
        headroom: HeadroomPlace::Reserved,
        alpha_log2: None,
    });
}

fn filled(plan: SwitchPlan, paused: std::ops::Range<u8>) -> Star {
    let mut star = Star::new(plan);
    bring_to_a_standstill(&mut star, paused.clone());
    let held = star.stream(3, C3, 5);
    star.start(2, 3, Stream { len: 996, ..held });
    run_paused(&mut star, paused, 2);
    star
}

fn flood(star: &mut Star, frames: u64) -> u32 {
    star.start_to_all(0, Stream { class: C3, len: 996, ..Stream::new(UNKNOWN, frames, star.now()) })
}

fn discarded(star: &Star, port: u8) -> u64 {
    star.switch().counters.class(PortId(port), C3).drops[DropReason::PausedDiscard.index()].get()
}

#[test]
fn flood_takes_group_member_that_is_not_long_paused() {
    for when_full in [WhenFull::Drop, WhenFull::Stop] {
        let mut plan = plan(4);
        plan.settings.groups = group();
        plan.settings.when_full = when_full;
        let mut star = Star::new(plan);
        bring_to_a_standstill(&mut star, 3..4);
        let rate = Some(BitRate::from_mbps(100));
        let stream = Stream { len: 996, rate, ..Stream::new(MacAddr::BROADCAST, 400, star.now()) };
        let id = star.start_to_all(0, Stream { class: C3, ..stream });
        run_paused(&mut star, 3..4, 10);
        assert_eq!(
            ([1, 2].map(|port| star.at(port).received(id).frames), missed(&star, 3..4)),
            ([400; 2], 0)
        );
    }
}

#[test]
fn flood_skips_long_paused_port_if_memory_is_short() {
    for (left, misses) in [(3_000, 0), (2_500, 1)] {
        let mut plan = plan(4);
        plan.settings.when_full = WhenFull::Stop;
        share(&mut plan, left);
        let mut star = filled(plan, 3..4);
        let id = flood(&mut star, 1);
        let behind = star.stream(1, C3, 3);
        let behind = star.start(0, 1, Stream { len: 996, ..behind });
        run_paused(&mut star, 3..4, 100);
        let received = [(1, id), (2, id), (1, behind.id)].map(|(port, id)| star.at(port).received(id).frames);
        assert_eq!((received, missed(&star, 3..4)), ([1, 1, 3], misses), "{left}");
    }
}

#[test]
fn flood_prefers_long_paused_group_member_to_one_in_storm() {
    let detect = Nanos::from_millis(5);
    for (when_full, owners) in
        [(WhenFull::Drop, vec![]), (WhenFull::Drop, vec![0, 0, 0, 1]), (WhenFull::Stop, vec![])]
    {
        let mut plan = SwitchPlan { owners: owners.clone(), ..plan(4) };
        plan.settings.groups = group();
        plan.settings.when_full = when_full;
        plan.settings.ports[3].classes[C3.index()].watchdog =
            Some(WatchdogSettings { action: WatchdogAction::Drop, detect, restore: detect, share: 100 });
        let mut star = Star::new(plan);
        bring_to_a_standstill(&mut star, 2..3);
        star.pause(3, stop(C3, 0xffff));
        star.run_for(Nanos::from_millis(1));
        flood(&mut star, 2);
        run_paused(&mut star, 2..4, 1);
        assert!(star.switch().worker(PortId(3)).stormed(PortId(3)).contains(C3), "{owners:?}");
        let before = discarded(&star, 3);
        let id = star.start_to_all(0, Stream { class: C3, len: 996, ..Stream::new(UNKNOWN, 3, star.now()) });
        run_paused(&mut star, 2..4, 1);
        assert_eq!(star.at(1).received(id).frames, 3);
        let lost = discarded(&star, 3) - before;
        star.pause(2, resume(C3));
        star.run_for(Nanos::from_millis(1));
        assert_eq!((star.at(2).received(id).frames, lost), (3, 0), "{owners:?}, {when_full:?}");
    }
}

#[test] // proves: group-changes
fn waiting_flood_takes_group_member_that_resumes() {
    let mut plan = plan(4);
    plan.settings.groups = group();
    plan.settings.when_full = WhenFull::Stop;
    plan.each_lossless(|class| class.egress_max = Bytes(5_000));
    let mut star = Star::new(plan);
    bring_to_a_standstill(&mut star, 3..4);
    star.pause(2, stop(C3, 0xffff));
    star.run_for(Nanos::from_micros(200));
    let id = flood(&mut star, 10);
    star.run_for(Nanos::from_millis(1));
    let before = star.at(1).received(id).frames;
    assert!(before < 10, "no flood waits for port 2");
    star.pause(3, resume(C3));
    star.run_for(Nanos::from_millis(20));
    let received = [1, 3].map(|port| star.at(port).received(id).frames);
    assert_eq!(received, [10, 10 - before], "{before} before");
}

#[test] // proves: group-changes
fn waiting_flood_takes_group_member_resumed_several_times() {
    for moments in 0..8 {
        let mut plan = plan(4);
        plan.settings.groups = group();
        plan.settings.when_full = WhenFull::Stop;
        plan.each_lossless(|class| class.egress_max = Bytes(5_000));
        let mut star = Star::new(plan);
        bring_to_a_standstill(&mut star, 3..4);
        for _ in 0..moments {
            star.pause(3, resume(C3));
            star.run_for(Nanos::from_micros(600));
            star.pause(3, stop(C3, 0xffff));
            star.run_for(Nanos::from_millis(1));
        }
        star.pause(2, stop(C3, 0xffff));
        star.run_for(Nanos::from_micros(200));
        let id = flood(&mut star, 10);
        star.run_for(Nanos::from_millis(1));
        star.pause(3, resume(C3));
        star.run_for(Nanos::from_millis(2));
        assert_eq!(star.at(1).received(id).frames, 10, "{moments} moments");
    }
}

#[test]
fn flood_prefers_long_paused_group_member_to_full_one() {
    let mut plan = plan(4);
    plan.settings.groups = group();
    plan.settings.when_full = WhenFull::Drop;
    plan.each_lossless(|class| class.egress_max = Bytes(5_000));
    let mut star = Star::new(plan);
    bring_to_a_standstill(&mut star, 2..3);
    star.pause(3, stop(C3, 0xffff));
    star.run_for(Nanos::from_micros(200));
    let id = flood(&mut star, 5);
    run_paused(&mut star, 2..4, 1);
    (2..4).for_each(|port| star.pause(port, resume(C3)));
    star.run_for(Nanos::from_millis(1));
    let received = [1, 2, 3].map(|port| star.at(port).received(id).frames);
    assert_eq!(
        (received, missed(&star, 2..4)),
        ([5, 1, 4], 0),
        "the flood that would overfill port 3 did not leave by port 2"
    );
}

#[test]
fn flood_skips_only_long_paused_port_with_full_queue() {
    for storms in [false, true] {
        let mut plan = plan(5);
        plan.settings.when_full = WhenFull::Stop;
        share(&mut plan, 2_500);
        let at = &mut plan.settings.ports[4].classes[C3.index()];
        at.egress_reserve = Bytes(if storms { 0 } else { 2_000 });
        let detect = Nanos::from_millis(5);
        let watchdog = WatchdogSettings { action: WatchdogAction::Drop, detect, restore: detect, share: 100 };
        at.watchdog = storms.then_some(watchdog);
        let mut star = filled(plan, 3..5);
        if storms {
            let waits = star.stream(4, C3, 1);
            star.start(2, 4, waits);
            run_paused(&mut star, 3..5, 1);
            assert_eq!(discarded(&star, 4), 1);
        }
        let id = flood(&mut star, 1);
        run_paused(&mut star, 3..5, 2);
        let received = [1, 2].map(|port| star.at(port).received(id).frames);
        let drops = [3, 4].map(|port| {
            let drops = &star.switch().counters.class(PortId(port), C3).drops;
            [DropReason::FloodPaused, DropReason::PausedDiscard].map(|reason| drops[reason.index()].get())
        });
        let of_storm = if storms { 2 } else { 0 };
        assert_eq!(
            (received, drops),
            ([1, 1], [[1, 0], [0, of_storm]]),
            "wrong copies or drops; port 4 in a storm: {storms}"
        );
    }
}

#[test]
fn flood_to_long_paused_ports_does_not_halt_pipeline() {
    for (left, misses) in [(1_999, 2), (2_000, 1), (2_999, 1), (3_000, 0)] {
        let mut plan = plan(4);
        plan.settings.when_full = WhenFull::Stop;
        share(&mut plan, left);
        let mut star = filled(plan, 1..4);
        let id = flood(&mut star, 1);
        run_paused(&mut star, 1..4, 2);
        assert_eq!(missed(&star, 1..4), misses, "{left}");
        (1..4).for_each(|port| star.pause(port, resume(C3)));
        star.run_to_rest();
        let received: u64 = (1..4).map(|port| star.at(port).received(id).frames).sum();
        assert_eq!(received + misses, 3, "{left}");
    }
}
