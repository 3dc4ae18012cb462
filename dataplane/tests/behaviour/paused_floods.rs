//! Floods of lossless classes while some ports are paused for ever: they fill a quarter of XON where they came in,
//! and no more, so that what their senders send to others goes on; what a paused port misses is counted there.

use xoff_dataplane::drop_reason::{DropKind, DropReason};
use xoff_dataplane::settings::{Accounting, PolicyKind, Service, WhenFull};
use xoff_dataplane::units::{BitRate, Bytes, CLASSES, Class, MacAddr, Nanos, PortId};

use crate::bed::plan::{self, LINK};
use crate::bed::{Flow, Star, Stream, SwitchPlan};
use crate::{C3, resume, stop};

/// Nobody has it.
const UNKNOWN: MacAddr = MacAddr([2, 0, 0, 0, 0x77, 0x77]);
const REFRESH: Nanos = Nanos::from_millis(20);
/// What waits at a paused port for longer is made to fit.
const PATIENCE: Nanos = Nanos::from_millis(10);

fn plan(ports: usize) -> SwitchPlan {
    let mut plan = plan::switch(&vec![LINK; ports]);
    plan.may_lose = true; // what is lost, and where, is looked at here
    plan
}

/// Frames dropped at `port`: floods that missed it. No frame is lost for any other reason, or elsewhere.
fn missed(star: &Star, ports: std::ops::Range<u8>) -> u64 {
    let counters = &star.switch().counters;
    let mut missed = 0;
    for port in (0..u8::try_from(counters.ports()).expect("few ports")).map(PortId) {
        for (class, reason) in Class::ALL.into_iter().flat_map(|c| DropReason::ALL.map(|reason| (c, reason)))
        {
            let drops = counters.class(port, class).drops[reason.index()].get();
            match reason {
                DropReason::FloodPaused if ports.contains(&port.0) => missed += drops,
                _ if reason.kind() == DropKind::Filtered => (),
                _ => assert_eq!(drops, 0, "{port:?} class {class}: {}", reason.name()),
            }
        }
    }
    missed
}

/// Lets time go by with `ports` paused all the while.
fn run_paused(star: &mut Star, ports: std::ops::Range<u8>, rounds: u32) {
    for _ in 0..rounds {
        ports.clone().for_each(|port| star.pause(port.into(), stop(C3, 0xffff)));
        star.run_for(REFRESH);
    }
}

/// Hosts 0 and 1 flood more than any port takes, until all others pause the class for ever. Meanwhile the two talk
/// to each other at 300 Mb/s and flood at 100 Mb/s each, for 200 ms.
fn talk_beside_paused_ports(plan: SwitchPlan, what: &str) {
    const UNICAST: u64 = 5_000;
    const FLOODS: u64 = 2_500;
    let paused = 2..u8::try_from(plan.settings.ports.len()).expect("few ports");
    const AHEAD: u64 = 100;
    let mut star = Star::new(plan);
    let ahead = [0, 1].map(|from| {
        let stream = Stream { len: 996, ..Stream::new(UNKNOWN, AHEAD, star.now()) };
        star.start_to_all(from, stream)
    });
    star.run_for(Nanos::from_micros(600));
    run_paused(&mut star, paused.clone(), 1);
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
        star.came_whole(flow, UNICAST);
    }
    for (to, from) in [(1, 0), (0, 1)] {
        let seen = [ahead[from], floods[from]].map(|flood| star.at(to).seen(flood).frames);
        assert_eq!(seen, [AHEAD, FLOODS], "{what}: who pauses nothing misses nothing");
    }
    assert!((0..2).all(|port| !star.holds(port, C3)), "{what}");
    paused.clone().for_each(|port| star.pause(port.into(), resume(C3)));
    star.run_to_rest();
    let missed = missed(&star, paused.clone());
    let all = ahead.into_iter().chain(floods);
    let came: u64 = all
        .flat_map(|id| paused.clone().map(move |port| (port, id)))
        .map(|(port, id)| star.at(port.into()).seen(id).frames)
        .sum();
    assert!(came > 0 && missed > 0, "{what}");
    assert_eq!(came + missed, 2 * (AHEAD + FLOODS) * u64::from(paused.end - 2), "{what}");
}

#[test]
fn who_floods_and_talks_goes_on_talking_while_another_port_is_paused_for_ever() {
    talk_beside_paused_ports(plan(3), "one paused port");
    talk_beside_paused_ports(plan(5), "several paused ports");
}

#[test]
fn nor_do_floods_stop_talk_under_any_policy() {
    for policy in PolicyKind::ALL {
        let mut plan = plan(4);
        plan.settings.policies = [policy; CLASSES];
        // A quarter of XON is more than an egress queue may hold for those who go by it.
        plan.each_lossless(|class| {
            (class.xoff, class.xon, class.egress_max) = (Bytes(150_000), Bytes(110_000), Bytes(1_000_000));
        });
        talk_beside_paused_ports(plan, policy.name());
    }
}

#[test]
fn nor_with_several_workers() {
    for owners in [[0, 1, 1, 0], [0, 0, 1, 2], [0, 1, 2, 3]] {
        let plan = SwitchPlan { owners: owners.to_vec(), ..plan(4) };
        talk_beside_paused_ports(plan, &format!("{owners:?}"));
    }
}

#[test]
fn nor_where_the_pipeline_stops_for_full_queues() {
    for (accounting, owners) in [
        (Accounting::UntilForwarded, vec![]),
        (Accounting::UntilTransmitted, vec![]),
        (Accounting::UntilTransmitted, vec![0, 0, 1]),
        (Accounting::UntilTransmitted, vec![0, 1, 2]),
    ] {
        let mut plan = SwitchPlan { owners, ..plan(3) };
        plan.settings.accounting = accounting;
        plan.settings.when_full = WhenFull::Stop;
        plan.each_lossless(|class| class.egress_max = Bytes(10_000));
        let what = format!("{accounting:?}, workers: {:?}", plan.owners);
        talk_beside_paused_ports(plan, &what);
    }
}

#[test]
fn a_flood_that_waits_for_room_where_a_pause_begins_does_not_wait_any_more() {
    let mut plan = plan(4);
    plan.settings.accounting = Accounting::UntilForwarded;
    plan.settings.when_full = WhenFull::Stop;
    plan.each_lossless(|class| class.egress_max = Bytes(5_000));
    plan.each_port(|port| port.classes[7].service = Service::Strict);
    let mut star = Star::new(plan);
    // Class 7 has the line of port 2, so that no frame leaves that makes room, and floods wait for some.
    let ahead = star.stream(2, Class::ALL[7], 1_000);
    star.start(3, 2, ahead);
    star.run_for(Nanos::from_micros(50));
    let flood = star.start_to_all(0, Stream { len: 996, ..Stream::new(UNKNOWN, 20, star.now()) });
    star.run_for(Nanos::from_millis(1));
    assert!(star.at(1).seen(flood).frames < 20);
    star.pause(2, stop(C3, 0xffff));
    star.run_for(Nanos::from_millis(1));
    assert_eq!(star.at(1).seen(flood).frames, 20);
    star.pause(2, resume(C3));
    star.run_to_rest();
    assert_eq!(star.at(2).seen(flood).frames + missed(&star, 2..3), 20);
}

#[test]
fn what_waits_behind_floods_goes_on_when_they_are_made_to_fit() {
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
    assert_eq!(star.seen(behind).frames, 0, "what is before it waits for room at the paused port");
    star.run_for(PATIENCE);
    assert_eq!(star.seen(behind).frames, 1);
    star.pause(2, resume(C3));
    star.run_to_rest();
}

#[test]
fn floods_from_another_worker_do_not_queue_up_behind_what_waits_for_room() {
    let mut plan = SwitchPlan { owners: vec![0, 0, 1], ..plan(3) };
    plan.settings.when_full = WhenFull::Stop;
    plan.each_lossless(|class| class.egress_max = Bytes(10_000));
    let mut star = Star::new(plan);
    run_paused(&mut star, 2..3, 1);
    let to_paused = star.stream(2, C3, 8);
    star.start(1, 2, to_paused);
    star.run_for(Nanos::from_millis(1));
    let flood = star.start_to_all(0, Stream { len: 996, ..Stream::new(UNKNOWN, 100, star.now()) });
    run_paused(&mut star, 2..3, 1);
    assert_eq!((star.at(1).seen(flood).frames, missed(&star, 2..3)), (100, 100));
    star.pause(2, resume(C3));
    star.run_to_rest();
}

/// What missed port 2, which is paused, after so many floods of 1000 bytes each, FCS included, with this XON.
fn missed_of(frames: u64, xon: u64) -> u64 {
    let mut plan = plan(3);
    plan.each_lossless(|class| class.xon = Bytes(xon));
    let mut star = Star::new(plan);
    run_paused(&mut star, 2..3, 1);
    star.start_to_all(0, Stream { len: 996, ..Stream::new(UNKNOWN, frames, star.now()) });
    run_paused(&mut star, 2..3, 1);
    missed(&star, 2..3)
}

#[test]
fn floods_fill_a_quarter_of_xon_to_its_last_byte_and_no_more() {
    assert_eq!(missed_of(5, 20_000), 0, "5,000 bytes are a quarter of 20,000");
    assert_eq!(missed_of(6, 20_000), 1, "the next frame");
    assert_eq!(missed_of(5, 19_999), 1, "a byte less");
    assert_eq!(missed_of(8, 20_000), 3);
}

#[test]
fn many_small_floods_are_bounded_by_their_number() {
    for (frames, expected) in [(5, 0), (6, 1)] {
        let mut plan = plan(3);
        plan.each_lossless(|class| class.xoff_frames = 30); // and XON at 20
        let mut star = Star::new(plan);
        run_paused(&mut star, 2..3, 1);
        star.start_to_all(0, Stream { len: 60, ..Stream::new(UNKNOWN, frames, star.now()) });
        run_paused(&mut star, 2..3, 1);
        assert_eq!(missed(&star, 2..3), expected, "{frames} frames");
    }
}

/// Ports 0 and 1 flood more than port 2 takes, so that floods wait there when its peer pauses it.
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
fn what_waits_when_a_pause_begins_waits_for_ten_milliseconds_and_then_fits() {
    for (owners, xon, fit) in
        [(vec![], 20_000, 10), (vec![0, 1, 1], 20_000, 10), (vec![0, 0, 1], 20_000, 10), (vec![], 3, 0)]
    {
        let mut plan = SwitchPlan { owners, ..plan(3) };
        plan.each_lossless(|class| class.xon = Bytes(xon));
        let (mut star, waiting) = backlog_when_the_pause_begins(plan);
        assert!(waiting > 10, "more than two ports may leave there");
        let since = star.switch().worker(PortId(2)).paused(PortId(2)).since(C3).expect("paused");
        let until = since + PATIENCE;
        star.run_for(Nanos(until.0 - 1 - star.now().0));
        let before = missed(&star, 2..3);
        star.run_for(Nanos(1));
        let (left, after) =
            (star.switch().worker(PortId(2)).buffer().egress(PortId(2), C3), missed(&star, 2..3));
        assert_eq!(left, Bytes(fit * 1_000), "a quarter of XON of each ingress port");
        assert_eq!(after - before, waiting - fit);
        assert!((0..2).all(|port| !star.holds(port, C3)));
        star.pause(2, resume(C3));
        star.run_to_rest();
    }
}

#[test]
fn a_pause_that_is_over_sooner_costs_nothing_of_what_waits() {
    let (mut star, _) = backlog_when_the_pause_begins(plan(3));
    let before = missed(&star, 2..3);
    for _ in 0..10 {
        star.pause(2, resume(C3));
        star.run_for(Nanos(20_000)); // a frame or two leave
        star.pause(2, stop(C3, 0xffff));
        star.run_for(Nanos::from_millis(9));
    }
    assert_eq!(missed(&star, 2..3), before);
    star.pause(2, resume(C3));
    star.run_to_rest();
}
