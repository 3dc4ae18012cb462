// Tests for SPECIFICATION.md: stalled-floods

mod members;

use xoff_flow_control::drop_reason::{DropKind, DropReason};
use xoff_flow_control::settings::{Accounting, PolicyKind, WatchdogAction, WatchdogSettings, WhenFull};
use xoff_wire::units::{BitRate, Bytes, CLASSES, Class, MacAddr, Nanos, PortId};

use crate::bed::plan::{self, LINK};
use crate::bed::{Flow, Star, Stream, SwitchPlan};
use crate::{C3, resume, stop};

const UNKNOWN: MacAddr = MacAddr([2, 0, 0, 0, 0x77, 0x77]);
const REFRESH: Nanos = Nanos::from_millis(20);
/// Shortest and longest duration of the 256 samples after which a paused port is at a standstill (paused nearly all the
/// time).
const LOOKS: [Nanos; 2] = [Nanos::from_millis(255), Nanos::from_millis(275)];

fn plan(ports: usize) -> SwitchPlan {
    let mut plan = plan::switch(&vec![LINK; ports]);
    plan.may_lose = true;
    plan
}

fn missed(star: &Star, ports: std::ops::Range<u8>) -> u64 {
    let counters = &star.switch().counters;
    let mut missed = 0;
    for port in (0..u8::try_from(counters.ports()).expect("more than 255 ports")).map(PortId) {
        for (class, reason) in Class::ALL.into_iter().flat_map(|c| DropReason::ALL.map(|reason| (c, reason)))
        {
            let drops = counters.class(port, class).drops[reason.index()].get();
            match reason {
                DropReason::FloodPaused if ports.contains(&port.0) => missed += drops,
                _ if reason.kind() == DropKind::Filtered => (),
                _ => assert_eq!(
                    drops,
                    0,
                    "{port:?}, class {class}: unexpected drops with reason {}",
                    reason.name()
                ),
            }
        }
    }
    missed
}

fn missed_and_discarded(star: &Star) -> (u64, u64) {
    let drops = &star.switch().counters.class(PortId(2), C3).drops;
    let dropped = |reason: DropReason| drops[reason.index()].get();
    (dropped(DropReason::FloodPaused), dropped(DropReason::PausedDiscard))
}

fn run_paused(star: &mut Star, ports: std::ops::Range<u8>, rounds: u64) {
    let until = star.now() + Nanos(REFRESH.0 * rounds);
    run_paused_until(star, ports, until);
}

fn run_paused_until(star: &mut Star, ports: std::ops::Range<u8>, until: Nanos) {
    while star.now() < until {
        ports.clone().for_each(|port| star.pause(port.into(), stop(C3, 0xffff)));
        star.run_for(until.since(star.now()).min(REFRESH));
    }
}

fn bring_to_a_standstill(star: &mut Star, ports: std::ops::Range<u8>) {
    run_paused(star, ports, LOOKS[1].0 / REFRESH.0 + 1);
}

/// Sends floods, and keeps ports 2 and up paused. Once they are at a standstill, hosts 0 and 1 exchange 300 Mb/s and
/// flood 100 Mb/s each.
fn talk_beside_paused_ports(plan: SwitchPlan, what: &str) {
    const UNICAST: u64 = 5_000;
    const FLOODS: u64 = 2_500;
    let paused = 2..u8::try_from(plan.settings.ports.len()).expect("more than 255 ports");
    const AHEAD: u64 = 100;
    let mut star = Star::new(plan);
    let ahead = [0, 1].map(|from| {
        let stream = Stream { len: 996, ..Stream::new(UNKNOWN, AHEAD, star.now()) };
        star.start_to_all(from, stream)
    });
    star.run_for(Nanos::from_micros(600));
    bring_to_a_standstill(&mut star, paused.clone());
    let rate = |mbps| Some(BitRate::from_mbps(mbps));
    let talk = |from, to: usize, star: &mut Star| {
        let stream = Stream { rate: rate(300), ..star.stream(to, C3, UNICAST) };
        star.start(from, to, stream)
    };
    let flows: [Flow; 2] = [talk(0, 1, &mut star), talk(1, 0, &mut star)];
    let floods = [(0, UNKNOWN), (1, MacAddr::BROADCAST)].map(|(from, to)| {
        let stream = Stream { len: 996, rate: rate(100), ..Stream::new(to, FLOODS, star.now()) };
        star.start_to_all(from, stream)
    });
    run_paused(&mut star, paused.clone(), 12);
    for flow in flows {
        star.assert_whole(flow, UNICAST);
    }
    for (to, from) in [(1, 0), (0, 1)] {
        let received = [ahead[from], floods[from]].map(|flood| star.at(to).received(flood).frames);
        assert_eq!(received, [AHEAD, FLOODS], "{what}: an unpaused port missed floods");
    }
    assert!((0..2).all(|port| !star.holds(port, C3)), "{what}");
    paused.clone().for_each(|port| star.pause(port.into(), resume(C3)));
    star.run_to_rest();
    let missed = missed(&star, paused.clone());
    let all = ahead.into_iter().chain(floods);
    let came: u64 = all
        .flat_map(|id| paused.clone().map(move |port| (port, id)))
        .map(|(port, id)| star.at(port.into()).received(id).frames)
        .sum();
    assert!(came > 0 && missed > 0, "{what}");
    assert_eq!(came + missed, 2 * (AHEAD + FLOODS) * u64::from(paused.end - 2), "{what}");
}

#[test]
fn flooding_sender_continues_beside_paused_port() {
    talk_beside_paused_ports(plan(3), "one paused port");
    talk_beside_paused_ports(plan(5), "several paused ports");
}

#[test]
fn floods_to_paused_port_block_no_unicast_under_any_policy() {
    for policy in PolicyKind::ALL {
        let mut plan = plan(4);
        plan.settings.policies = [policy; CLASSES];
        plan.each_lossless(|class| {
            (class.xoff, class.xon, class.egress_max) = (Bytes(150_000), Bytes(110_000), Bytes(1_000_000));
        });
        talk_beside_paused_ports(plan, policy.name());
    }
}

#[test]
fn floods_to_paused_port_block_no_unicast_across_workers() {
    for owners in [[0, 1, 1, 0], [0, 0, 1, 2], [0, 1, 2, 3]] {
        let plan = SwitchPlan { owners: owners.to_vec(), ..plan(4) };
        talk_beside_paused_ports(plan, &format!("{owners:?}"));
    }
}

#[test]
fn floods_to_paused_port_block_no_unicast_if_pipeline_halts() {
    for accounting in [Accounting::UntilForwarded, Accounting::UntilTransmitted] {
        let mut plan = plan(3);
        (plan.settings.accounting, plan.settings.when_full) = (accounting, WhenFull::Stop);
        plan.each_lossless(|class| class.egress_max = Bytes(10_000));
        talk_beside_paused_ports(plan, &format!("{accounting:?}"));
    }
}

#[test]
fn flood_waits_until_port_counts_as_long_paused() {
    let mut plan = plan(4);
    plan.settings.accounting = Accounting::UntilForwarded;
    plan.settings.when_full = WhenFull::Stop;
    plan.each_lossless(|class| class.egress_max = Bytes(5_000));
    let mut star = Star::new(plan);
    star.pause(2, stop(C3, 0xffff));
    star.run_for(Nanos::from_millis(1));
    let flood = star.start_to_all(0, Stream { len: 996, ..Stream::new(UNKNOWN, 20, star.now()) });
    let since = star.switch().worker(PortId(2)).paused(PortId(2)).since(C3).expect("paused");
    run_paused_until(&mut star, 2..3, since + LOOKS[0]);
    assert!(star.at(1).received(flood).frames < 20);
    run_paused_until(&mut star, 2..3, since + LOOKS[1]);
    assert_eq!(star.at(1).received(flood).frames, 20);
    star.pause(2, resume(C3));
    star.run_to_rest();
    assert_eq!(star.at(2).received(flood).frames + missed(&star, 2..3), 20);
}

#[test]
fn frames_behind_floods_continue_once_port_is_long_paused() {
    let mut plan = plan(3);
    plan.settings.when_full = WhenFull::Stop;
    plan.each_lossless(|class| class.egress_max = Bytes(20_000));
    let (mut star, _) = backlog_when_the_pause_begins(plan);
    let to_paused = star.stream(2, C3, 2);
    star.start(0, 2, to_paused);
    star.run_for(Nanos::from_millis(1));
    let behind = star.stream(1, C3, 1);
    let behind = star.start(0, 1, behind);
    star.run_for(Nanos::from_millis(1));
    assert_eq!(star.received(behind).frames, 0, "a frame passed a halted pipeline");
    bring_to_a_standstill(&mut star, 2..3);
    assert_eq!(star.received(behind).frames, 1);
    star.pause(2, resume(C3));
    star.run_to_rest();
}

/// Sends `frames` floods of 1000 bytes while port 2 is at a standstill; XON is at `xon` bytes. Returns how many port 2
/// dropped.
fn missed_of(frames: u64, xon: u64) -> u64 {
    let mut plan = plan(3);
    plan.each_lossless(|class| class.xon = Bytes(xon));
    let mut star = Star::new(plan);
    bring_to_a_standstill(&mut star, 2..3);
    star.start_to_all(0, Stream { len: 996, ..Stream::new(UNKNOWN, frames, star.now()) });
    run_paused(&mut star, 2..3, 1);
    missed(&star, 2..3)
}

#[test]
fn floods_to_long_paused_port_fill_quarter_of_xon_threshold() {
    assert_eq!(missed_of(5, 20_000), 0, "floods of a quarter of XON were dropped");
    assert_eq!(missed_of(6, 20_000), 1, "a flood beyond a quarter of XON was not dropped");
    assert_eq!(missed_of(5, 19_999), 1, "a flood one byte beyond the limit was not dropped");
    assert_eq!(missed_of(8, 20_000), 3);
}

#[test]
fn frame_limit_applies_to_small_floods_at_long_paused_port() {
    for (frames, expected) in [(5, 0), (6, 1)] {
        let mut plan = plan(3);
        plan.each_lossless(|class| class.xoff_frames = 30); // XON is then 20
        let mut star = Star::new(plan);
        bring_to_a_standstill(&mut star, 2..3);
        star.start_to_all(0, Stream { len: 60, ..Stream::new(UNKNOWN, frames, star.now()) });
        run_paused(&mut star, 2..3, 1);
        assert_eq!(missed(&star, 2..3), expected, "{frames} frames");
    }
}

fn backlog_when_the_pause_begins(plan: SwitchPlan) -> (Star, u64) {
    let mut star = Star::new(plan);
    for from in [0, 1] {
        star.start_to_all(from, Stream { len: 996, ..Stream::new(UNKNOWN, 100, star.now()) });
    }
    star.run_for(Nanos::from_micros(400));
    star.pause(2, stop(C3, 0xffff));
    star.run_for(Nanos::from_millis(1));
    let waiting = star.switch().worker(PortId(2)).buffer().egress(PortId(2), C3);
    (star, waiting.0 / 1_000)
}

#[test]
fn long_paused_port_drops_queued_floods_above_limit() {
    for (owners, xon, fit) in
        [(vec![], 20_000, 10), (vec![0, 1, 1], 20_000, 10), (vec![0, 0, 1], 20_000, 10), (vec![], 3, 0)]
    {
        let mut plan = SwitchPlan { owners, ..plan(3) };
        plan.each_lossless(|class| class.xon = Bytes(xon));
        let (mut star, waiting) = backlog_when_the_pause_begins(plan);
        assert!(waiting > 10, "too few floods are queued");
        let since = star.switch().worker(PortId(2)).paused(PortId(2)).since(C3).expect("paused");
        run_paused_until(&mut star, 2..3, since + LOOKS[0]);
        let before = missed(&star, 2..3);
        star.pause(2, stop(C3, 0xffff));
        while missed(&star, 2..3) == before && star.now() < since + LOOKS[1] {
            star.run_for(Nanos::from_micros(1));
        }
        let (left, after) =
            (star.switch().worker(PortId(2)).buffer().egress(PortId(2), C3), missed(&star, 2..3));
        assert_eq!(
            left,
            Bytes(fit * 1_000),
            "remaining floods are not a quarter of XON of each ingress port"
        );
        assert_eq!(after - before, waiting - fit);
        assert!((0..2).all(|port| !star.holds(port, C3)));
        star.pause(2, resume(C3));
        star.run_to_rest();
    }
}

fn flood_beside_pauses(paused: Nanos, between: Nanos) -> (u64, f64) {
    let mut star = Star::new(plan(3));
    for from in [0, 1] {
        let rate = Some(BitRate::from_mbps(50));
        star.start_to_all(from, Stream { len: 996, rate, ..Stream::new(UNKNOWN, 4_500, star.now()) });
    }
    let (mut rounds, mut held) = (0_u32, 0_u32);
    while star.now() < Nanos::from_millis(700) {
        star.pause(2, resume(C3));
        star.run_for(between);
        star.pause(2, stop(C3, 0xffff));
        star.run_for(paused);
        if star.now() > Nanos::from_millis(500) {
            rounds += 1;
            held += u32::from(star.holds(0, C3));
        }
    }
    let missed = missed(&star, 2..3);
    star.pause(2, resume(C3));
    star.run_to_rest();
    (missed, f64::from(held) / f64::from(rounds))
}

#[test]
fn intermittent_pauses_drop_no_floods() {
    for (paused, between) in [(900_000, 100_000), (4_500_000, 500_000), (30_000_000, 3_500_000)] {
        let (missed, _) = flood_beside_pauses(Nanos(paused), Nanos(between));
        assert_eq!(missed, 0, "floods were dropped with pauses of {paused} ns in {} ns", paused + between);
    }
}

#[test]
fn port_resumed_for_3_us_at_a_time_stays_long_paused() {
    for (paused, between) in [(990_000, 3_000), (9_990_000, 3_000), (30_000_000, 3_000)] {
        let (missed, held) = flood_beside_pauses(Nanos(paused), Nanos(between));
        assert!(
            missed > 0 && held < 0.2,
            "the port does not count as long paused with pauses of {paused} ns in {} ns: {missed} floods missed, sender paused {held}",
            paused + between
        );
    }
}

#[test]
fn port_resumed_after_long_pause_gets_all_later_floods() {
    let mut star = Star::new(plan(3));
    bring_to_a_standstill(&mut star, 2..3);
    star.start_to_all(0, Stream { len: 996, ..Stream::new(UNKNOWN, 100, star.now()) });
    run_paused(&mut star, 2..3, 1);
    let before = missed(&star, 2..3);
    assert!(before > 0, "port 2 does not count as long paused");
    star.pause(2, resume(C3));
    for from in [0, 1] {
        star.start_to_all(from, Stream { len: 996, ..Stream::new(UNKNOWN, 300, star.now()) });
    }
    star.run_for(Nanos::from_millis(4));
    star.run_to_rest();
    assert_eq!(missed(&star, 2..3), before);
}

#[test]
fn gapless_short_pauses_count_as_one_long_pause() {
    let plan = SwitchPlan { gap: Nanos::from_micros(10), ..plan(3) };
    let (mut star, _) = backlog_when_the_pause_begins(plan);
    for _ in 0..LOOKS[1].0 / 1_000 {
        star.pause(2, stop(C3, 2)); // 1,024 ns at 1 Gb/s
        star.run_for(Nanos(1_000));
    }
    assert!(missed(&star, 2..3) > 0);
}

#[test]
fn short_pauses_drop_no_floods() {
    let mut star = Star::new(SwitchPlan { may_lose: false, ..plan(3) });
    let flood = star.start_to_all(0, Stream { len: 996, ..Stream::new(UNKNOWN, 400, star.now()) });
    for _ in 0..10 {
        star.pause(2, stop(C3, 100)); // 51 us at 1 Gb/s
        star.run_for(Nanos::from_micros(500));
    }
    star.run_to_rest();
    assert_eq!([1, 2].map(|to| star.at(to).received(flood).frames), [400, 400]);
}

#[test]
fn watchdog_action_decides_whether_floods_leave_paused_port() {
    for action in [WatchdogAction::Alert, WatchdogAction::Drop, WatchdogAction::Forward] {
        let mut plan = plan(3);
        let detect = Nanos::from_millis(300);
        let watchdog = WatchdogSettings { detect, restore: detect, action, share: 100 };
        plan.each_lossless(|class| class.watchdog = Some(watchdog));
        let (mut star, _) = backlog_when_the_pause_begins(plan);
        bring_to_a_standstill(&mut star, 2..3);
        let after_looks = missed_and_discarded(&star);
        assert!(after_looks.0 > 0 && after_looks.1 == 0, "{action:?}");
        run_paused(&mut star, 2..3, 2);
        let flood = star.start_to_all(0, Stream { len: 996, ..Stream::new(UNKNOWN, 100, star.now()) });
        run_paused(&mut star, 2..3, 1);
        let (missed, discarded) = missed_and_discarded(&star);
        assert!((0..2).all(|port| !star.holds(port, C3)), "{action:?}");
        assert_eq!(star.at(1).received(flood).frames, 100, "{action:?}");
        match action {
            WatchdogAction::Alert => assert!(missed > after_looks.0 && discarded == 0),
            WatchdogAction::Drop => assert!(missed == after_looks.0 && discarded >= 100),
            WatchdogAction::Forward => {
                assert_eq!((missed, discarded), (after_looks.0, 0));
                assert_eq!(star.at(2).received(flood).frames, 100);
            }
        }
        star.pause(2, resume(C3));
        star.run_to_rest();
    }
}

#[test]
fn floods_wait_for_paused_port_of_two_port_switch() {
    for accounting in [Accounting::UntilTransmitted, Accounting::UntilForwarded] {
        let mut plan = plan(2);
        (plan.settings.accounting, plan.settings.when_full) = (accounting, WhenFull::Stop);
        plan.each_lossless(|class| class.egress_max = Bytes(5_000));
        let mut star = Star::new(plan);
        star.pause(1, stop(C3, 0xffff));
        let flood = star.start_to_all(0, Stream { len: 996, ..Stream::new(UNKNOWN, 100, star.now()) });
        bring_to_a_standstill(&mut star, 1..2);
        star.pause(1, resume(C3));
        star.run_to_rest();
        assert_eq!((star.at(1).received(flood).frames, missed(&star, 0..2)), (100, 0), "{accounting:?}");
    }
}
