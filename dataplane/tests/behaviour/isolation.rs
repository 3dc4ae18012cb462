// Tests for SPECIFICATION.md: scheduling

use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::{FlowControl, Memory, QueueKind, Service, SharedMemory};
use xoff_wire::units::{BitRate, Bytes, Class, ClassSet, Nanos, PortId};

use crate::bed::plan::{self, LINK, MTU_FRAME};
use crate::bed::{Flow, Star, Stream};
use crate::{C0, C3, C4, stop};

#[test]
fn pause_storm_affects_no_other_class_or_port() {
    let run = |storm: bool| {
        let mut star = Star::new(plan::switch(&[LINK; 3]));
        let rate = Some(BitRate::from_mbps(400));
        let flows = [C0, C4].map(|class| star.start(1, 0, Stream { rate, ..star.stream(0, class, 300) }));
        for _ in 0..50 {
            if storm {
                star.pause(0, stop(C3, 0xffff));
            }
            star.run_for(Nanos::from_micros(100));
        }
        assert!(
            star.at(1).controls.is_empty() && star.at(2).controls.is_empty(),
            "the switch relayed a pause"
        );
        flows.map(|flow| star.arrivals(flow))
    };
    assert_eq!(run(true), run(false));
}

#[test] // proves: pause-timing
fn pause_of_one_class_leaves_whole_line_to_other_class() {
    let mut star = Star::new(plan::switch(&[LINK; 3]));
    let paused = star.start(1, 0, star.stream(0, C3, 1000));
    let other = star.start(2, 0, star.stream(0, C4, 1000));
    star.pause(0, stop(C3, 0xffff));
    star.run_for(Nanos::from_millis(1));
    let before = star.received(paused).frames;
    assert!(before <= 1, "frames of the paused class were sent");
    for _ in 0..100 {
        star.pause(0, stop(C3, 0xffff));
        star.run_for(Nanos::from_micros(100));
    }
    assert_eq!(star.received(paused).frames, before);
    assert!(star.received(other).frames > 850, "the unpaused class did not get the whole line");
    star.run_to_rest();
    star.assert_whole(paused, 1000);
    star.assert_whole(other, 1000);
}

#[test] // proves: pause-timing
fn padding_of_short_frames_counts_in_driver_byte_limit() {
    let mut plan = plan::switch(&[LINK; 2]);
    plan.each_port(|port| (port.commit, port.burst) = (Bytes(20 * 84), Bytes(100_000)));
    let mut star = Star::new(plan);
    let mut short = [2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 9, 9, 0x81, 0x00, 0x60, 0x00, 0x88, 0xb5];
    short[..6].copy_from_slice(&star.mac(0).0);
    star.pause(0, stop(C3, 200)); // for 102.4 us from 1172 ns on
    star.run_for(Nanos(1_200));
    (0..80).for_each(|_| star.inject(1, &short));
    star.run_for(Nanos(103_000 - 1_200));
    star.pause(0, stop(C3, 1000));
    star.run_for(Nanos::from_micros(100));
    let sent = star.switch().counters.class(PortId(0), C3).tx_frames.get();
    assert_eq!(sent, 20, "padding does not count against the commit limit");
    star.run_to_rest();
}

#[test] // proves: thresholds
fn padding_of_short_frames_counts_in_ingress_limit() {
    let mut plan = plan::switch(&[LINK; 2]);
    plan.each_port(|port| port.classes[0].ingress_max = Bytes(10 * 64));
    plan.each_port(|port| port.flow_control = FlowControl::Pfc { obey: ClassSet::ALL, send: plan::LOSSLESS });
    let mut star = Star::new(plan);
    let mut short = [2, 0, 0, 0, 0, 0, 2, 0, 0, 0, 9, 9, 0x88, 0xb5];
    short[..6].copy_from_slice(&star.mac(0).0);
    star.pause(0, stop(C0, 1000));
    star.run_for(Nanos(1_200));
    (0..30).for_each(|_| star.inject(1, &short));
    star.run_for(Nanos::from_micros(100));
    assert_eq!(star.switch().counters.dropped(DropReason::IngressFull), 20);
    star.run_to_rest();
}

#[test] // proves: pause-modes
fn port_may_obey_pauses_of_classes_it_never_pauses() {
    let mut plan = plan::switch(&[LINK; 2]);
    plan.each_port(|port| port.flow_control = FlowControl::Pfc { obey: ClassSet::ALL, send: plan::LOSSLESS });
    let mut star = Star::new(plan);
    star.pause(0, stop(C0, 0xffff));
    star.run_for(Nanos(1_200));
    star.start(1, 0, star.stream(0, C0, 300));
    star.run_for(Nanos::from_millis(5));
    assert_eq!(star.at(0).arrivals, [], "the lossy class ignored the pause");
    assert!(star.at(1).controls.is_empty(), "the switch sent a pause for a lossy class");
    assert!(star.switch().counters.dropped(DropReason::IngressFull) > 200);
    star.run_to_rest();
}

#[test] // proves: pause-modes
fn port_without_flow_control_exchanges_no_pauses() {
    let mut plan = plan::switch(&[LINK; 3]);
    plan.may_lose = true;
    plan.each_port(|port| port.flow_control = FlowControl::Ignore);
    let mut star = Star::new(plan);
    let flows = [1, 2].map(|from| star.start(from, 0, star.stream(0, C3, 500)));
    star.pause(0, stop(C3, 0xffff));
    star.run_to_rest();
    assert_eq!(star.switch().counters.port(PortId(0)).pause_frames_ignored.get(), 1);
    assert!((0..3).all(|port| star.at(port).controls.is_empty()));
    let lost: u64 = flows.iter().map(|&flow| star.lost(flow)).sum();
    assert_eq!(lost, star.switch().counters.dropped(DropReason::HeadroomExhausted));
    assert!(lost > 0);
}

#[test]
fn strict_class_keeps_rate_beside_overload_in_other_class() {
    let run = |overload: bool| {
        let mut plan = plan::switch(&[LINK; 4]);
        plan.each_port(|port| port.classes[6].service = Service::Strict);
        let mut star = Star::new(plan);
        let rate = Some(BitRate::from_mbps(900));
        let strict = star.start(1, 0, Stream { rate, ..star.stream(0, Class::ALL[6], 1000) });
        if overload {
            for from in [2, 3] {
                star.start(from, 0, star.stream(0, C0, 1500));
            }
        }
        star.run_to_rest();
        star.assert_whole(strict, 1000);
        star.received(strict).last_at.since(star.arrivals(strict)[0])
    };
    let (alone, overloaded) = (run(false), run(true));
    assert!(
        overloaded.0 * 95 <= alone.0 * 100,
        "strict class took {overloaded:?} under load, {alone:?} alone"
    );
}

#[test] // proves: shared-memory
fn class_can_use_its_reserve_when_shared_pool_is_full() {
    let mut plan = plan::switch(&[LINK; 4]);
    plan.settings.memory = Memory::Shared(SharedMemory {
        pool: Bytes(20_000),
        ingress_limit: Bytes::MAX,
        egress_limit: Bytes::MAX,
        port_limit: Bytes::MAX,
        alpha_log2: Some(6),
        ..SharedMemory::UNLIMITED
    });
    let mut star = Star::new(plan);
    let hogs = [1, 2].map(|from| star.start(from, 0, star.stream(0, C0, 1000)));
    let rate = Some(BitRate::from_mbps(20));
    let modest = star.start(3, 0, Stream { rate, len: 700, ..star.stream(0, Class::ALL[1], 30) });
    star.run_to_rest();
    star.assert_whole(modest, 30);
    assert!(hogs.iter().map(|&flow| star.lost(flow)).sum::<u64>() > 500);
}

#[test]
fn uncongested_port_keeps_rate_beside_congested_port() {
    let mut star = Star::new(plan::switch(&[LINK; 4]));
    let half = Some(BitRate::from_mbps(500));
    let to_congested = star.start(1, 0, Stream { rate: half, ..star.stream(0, C0, 1000) });
    let congesting = star.start(2, 0, star.stream(0, C0, 2000));
    let to_free = star.start(1, 3, Stream { rate: half, ..star.stream(3, C0, 1000) });
    star.run_to_rest();
    star.assert_whole(to_free, 1000);
    assert!(star.lost(to_congested) + star.lost(congesting) > 500);
    let span = star.received(to_free).last_at.since(star.arrivals(to_free)[0]);
    let at_its_rate = BitRate::from_mbps(500).time_of(Bytes(999 * Bytes::on_line(MTU_FRAME).0));
    assert!(
        span.0.abs_diff(at_its_rate.0) <= 2 * 12_304,
        "stream to the free port took {span:?} instead of {at_its_rate:?}"
    );
}

#[test]
fn incast_to_one_port_does_not_slow_flow_to_another_port() {
    let mut star = Star::new(plan::switch(&[LINK; 5]));
    let incast = [1, 2].map(|from| star.start(from, 0, star.stream(0, C3, 500)));
    let victim = star.start(3, 4, star.stream(4, C3, 500));
    star.run_to_rest();
    incast.iter().for_each(|&flow| star.assert_whole(flow, 500));
    star.assert_whole(victim, 500);
    let arrivals = star.arrivals(victim);
    assert!(
        arrivals.windows(2).all(|two| two[1].since(two[0]) == Nanos(12_304)),
        "the uncongested flow was interrupted"
    );
}

#[test]
fn voq_serves_backlogged_ingress_ports_in_round_robin() {
    let mut plan = plan::switch(&[LINK; 4]);
    plan.each_port(|port| port.classes.iter_mut().for_each(|class| class.queue = QueueKind::Voq));
    let mut star = Star::new(plan);
    let flows: Vec<Flow> = [1, 2, 3].map(|from| star.start(from, 0, star.stream(0, C3, 300))).into();
    star.run_to_rest();
    flows.iter().for_each(|&flow| star.assert_whole(flow, 300));
    let order: Vec<u32> = star.at(0).arrivals.iter().map(|(_, mark)| mark.stream).collect();
    let in_turn = order[10..890].windows(3).all(|w| w[0] != w[1] && w[1] != w[2] && w[0] != w[2]);
    assert!(in_turn, "{:?}", &order[..40]);
}

#[test]
fn weighted_classes_share_rate_left_by_strict_class() {
    for weights in [[3300, 3300, 3300], [5000, 3500, 1500]] {
        let mut plan = plan::switch(&[LINK; 5]);
        plan.each_port(|port| {
            for (class, weight) in port.classes.iter_mut().zip(weights) {
                class.service = Service::Weighted(weight);
            }
            port.classes[6].service = Service::Strict;
        });
        let mut star = Star::new(plan);
        let rate = Some(BitRate::from_mbps(200));
        let strict = star.start(4, 0, Stream { rate, ..star.stream(0, Class::ALL[6], 400) });
        let flows: Vec<Flow> = [(1, 0), (2, 1), (3, 2)]
            .map(|(from, class)| star.start(from, 0, star.stream(0, Class::ALL[class], 4000)))
            .into();
        star.run_for(Nanos::from_millis(5));
        let before: Vec<u64> = flows.iter().map(|&flow| star.received(flow).frames).collect();
        star.run_for(Nanos::from_millis(15));
        let came: Vec<u64> = flows.iter().zip(before).map(|(&f, b)| star.received(f).frames - b).collect();
        let (all, weight): (u64, u64) = (came.iter().sum(), weights.iter().sum::<u32>().into());
        for (frames, of) in came.iter().zip(weights) {
            let share = all * u64::from(of) / weight;
            assert!(frames.abs_diff(share) <= 6, "{came:?} frames do not match weights {weights:?}");
        }
        assert!(star.received(strict).frames >= 320, "the strict class did not get its rate");
    }
}

#[test]
fn port_sends_all_classes_at_its_maximum_rate() {
    let mut plan = plan::switch(&[LINK; 2]);
    plan.each_port(|port| {
        (port.commit, port.burst) = (Bytes(3_000), Bytes(3_000));
        port.max_rate = Some(BitRate::from_mbps(100));
    });
    let mut star = Star::new(plan);
    let flows = [C0, C3].map(|class| star.start(1, 0, star.stream(0, class, 30)));
    star.run_for(Nanos::from_millis(2));
    // In 2 ms the port sends 25,000 bytes, a burst of up to 3,000, and one frame that starts at zero credit. A frame takes 1538 bytes.
    let frames: u64 = flows.iter().map(|flow| star.received(*flow).frames).sum();
    assert!((16..=19).contains(&frames), "{frames}");
    star.run_to_rest();
    flows.iter().for_each(|flow| star.assert_whole(*flow, 30));
}

#[test]
fn burst_of_class_rate_is_proportional_to_port_burst() {
    let mut plan = plan::switch(&[LINK; 2]);
    plan.each_port(|port| {
        (port.commit, port.burst) = (Bytes(100_000), Bytes(200_000));
        port.classes[C0.index()].max_rate = Some(BitRate::from_mbps(100));
    });
    let mut star = Star::new(plan);
    let flow = star.start(1, 0, star.stream(0, C0, 30));
    star.run_for(Nanos::from_millis(1));
    // In 1 ms the class sends 12,500 bytes, a burst of 10,000, and one frame that starts at zero credit. A frame takes 1538 bytes.
    let frames = star.received(flow).frames;
    assert!((13..=16).contains(&frames), "{frames}");
    star.run_to_rest();
    star.assert_whole(flow, 30);
}
