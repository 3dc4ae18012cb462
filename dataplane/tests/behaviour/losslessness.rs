// Tests for SPECIFICATION.md: lossless

use xoff_flow_control::drop_reason::DropReason;
use xoff_wire::units::{BitRate, Bytes, Nanos, PortId};

use crate::bed::plan::{self, GIGABIT, LINK, MTU_FRAME};
use crate::bed::{Bed, Flow, Obeys, Star, Stream, end};
use crate::{C0, C3, C4, resume, stop};

const COUNTED: u64 = 1004;

/// Sends `frames` frames to port 0, paused for ever, from a host that ignores pauses. XOFF is at 10 frames; headroom
/// holds 5 more.
fn filled_with(frames: u64) -> (Star, Flow) {
    let mut plan = plan::switch(&[LINK; 2]);
    plan.may_lose = true;
    plan.each_lossless(|class| {
        (class.xoff, class.xon) = (Bytes(10 * COUNTED), Bytes(5 * COUNTED));
        class.headroom = Bytes(5 * COUNTED);
    });
    let mut star = Star::with(plan, |port| if port == 1 { Obeys::Never } else { Obeys::AtOnce });
    star.pause(0, stop(C3, 0xffff));
    star.run_for(Nanos::from_micros(10));
    let stream = Stream { len: 1000, ..star.stream(0, C3, frames) };
    let flow = star.start(1, 0, stream);
    star.run_for(Nanos::from_millis(1));
    (star, flow)
}

#[test] // proves: thresholds
fn switch_sends_xoff_and_drops_frames_at_exact_thresholds() {
    for (frames, held, dropped) in [(9, false, 0), (10, true, 0), (15, true, 0), (16, true, 1)] {
        let (star, _) = filled_with(frames);
        assert_eq!(star.holds(1, C3), held, "wrong pause state after {frames} frames");
        assert_eq!(star.switch().counters.dropped(DropReason::HeadroomExhausted), dropped);
        assert!(!star.holds(1, C4), "another class was paused");
    }
}

#[test] // proves: thresholds
fn pause_is_refreshed_until_queue_falls_below_xon() {
    let (mut star, flow) = filled_with(12);
    for (left, held) in [(7, true), (8, false)] {
        star.pause(0, resume(C3));
        // The XON takes 672 ns on the wire and 500 ns on the cable; a frame leaves every 8192 ns.
        let frames_so_far = 12 - star.switch().worker(PortId(1)).buffer().ingress(PortId(1), C3).0 / COUNTED;
        let leaving = left - frames_so_far;
        star.run_for(Nanos(672 + 500 + (leaving - 1) * 8192 + 100));
        star.pause(0, stop(C3, 0xffff));
        star.run_for(Nanos::from_micros(20));
        let bytes = star.switch().worker(PortId(1)).buffer().ingress(PortId(1), C3);
        assert_eq!(bytes, Bytes((12 - left) * COUNTED));
        assert_eq!(star.holds(1, C3), held, "wrong pause state at {bytes:?}");
    }
    star.pause(0, resume(C3));
    star.run_to_rest();
    star.assert_whole(flow, 12);
}

#[test]
fn ten_megabyte_burst_into_slow_receiver_loses_nothing() {
    let mut bed = Bed::new(3);
    let slow = BitRate::from_mbps(200);
    let first = bed.add_switch(plan::switch(&[LINK; 2]));
    let second =
        bed.add_switch(plan::switch(&[LINK, xoff_flow_control::headroom::Link { speed: slow, ..LINK }]));
    bed.link(end(first, 1), end(second, 0), GIGABIT, plan::CABLE);
    let sender = bed.add_host(first, 0, Obeys::AtOnce);
    let receiver = bed.add_host(second, 1, Obeys::AtOnce);
    let frames = 10_000_000 / u64::from(MTU_FRAME);
    let stream = Stream::new(bed.host(receiver).mac, frames, Nanos::ZERO);
    let id = bed.send(sender, stream);
    bed.run_to_rest();
    let received = bed.host(receiver).received(id);
    assert_eq!((received.frames, received.late_or_twice), (frames, 0));
    assert_eq!(bed.host(sender).sent(id), frames);
    let line_time = slow.time_of(Bytes((frames - 1) * Bytes::on_line(MTU_FRAME).0));
    let first_at = bed.host(receiver).arrivals[0].0;
    assert_eq!(received.last_at, first_at + line_time);
}

#[test]
fn two_to_one_overload_loses_nothing() {
    for mbps in [525, 550] {
        let mut star = Star::new(plan::switch(&[LINK; 3]));
        let flows: Vec<Flow> = [1, 2]
            .map(|from| {
                let rate = Some(BitRate::from_mbps(mbps));
                star.start(from, 0, Stream { rate, ..star.stream(0, C3, 1000) })
            })
            .into();
        star.run_for(Nanos::from_millis(10));
        let [a, b] = [star.received(flows[0]).frames, star.received(flows[1]).frames];
        assert!(a.abs_diff(b) <= 60, "senders got unfair shares: {a} and {b} frames");
        star.run_to_rest();
        flows.iter().for_each(|&flow| star.assert_whole(flow, 1000));
    }
}

#[test] // proves: lossy-classes
fn lossy_overload_leaves_lossless_class_untouched() {
    let mut star = Star::new(plan::switch(&[LINK; 3]));
    let lossless = star.start(1, 0, star.stream(0, C3, 1000));
    let lossy = [1, 2].map(|from| star.start(from, 0, Stream { len: 700, ..star.stream(0, C0, 3000) }));
    star.run_to_rest();
    star.assert_whole(lossless, 1000);
    let lost: u64 = lossy.iter().map(|&flow| star.lost(flow)).sum();
    let counters = &star.switch().counters;
    let dropped = counters.dropped(DropReason::EgressFull) + counters.dropped(DropReason::IngressFull);
    assert!(lost > 500, "the lossy classes were not overloaded");
    assert_eq!(lost, dropped);
    assert_eq!(star.received(lossy[0]).late_or_twice, 0);
}

#[test]
fn pause_storms_from_a_peer_lose_no_frame() {
    let mut star = Star::new(plan::switch(&[LINK; 3]));
    let flows = [1, 2].map(|from| star.start(from, 0, star.stream(0, C3, 2000)));
    for round in 0..10 {
        for _ in 0..20 {
            star.pause(0, stop(C3, 65_535 >> round));
            star.run_for(Nanos::from_micros(13));
        }
        if round % 2 == 0 {
            star.pause(0, resume(C3));
        }
        star.run_for(Nanos::from_millis(1));
    }
    star.run_to_rest();
    flows.iter().for_each(|&flow| star.assert_whole(flow, 2000));
}

#[test]
fn four_to_one_speed_mismatch_loses_nothing() {
    let slow = xoff_flow_control::headroom::Link { speed: BitRate::from_mbps(250), ..LINK };
    let mut star = Star::new(plan::switch(&[slow, LINK]));
    let flow = star.start(1, 0, star.stream(0, C3, 2000));
    star.run_to_rest();
    star.assert_whole(flow, 2000);
    let line_time = slow.speed.time_of(Bytes(1999 * Bytes::on_line(MTU_FRAME).0));
    assert_eq!(star.received(flow).last_at, star.at(0).arrivals[0].0 + line_time);
}

#[test]
fn incast_completes_at_line_rate() {
    for senders in [2_usize, 8, 32] {
        let mut plan = plan::switch(&vec![LINK; senders + 1]);
        plan.slots = 16_384;
        let mut star = Star::new(plan);
        let flows: Vec<Flow> =
            (1..=senders).map(|from| star.start(from, 0, star.stream(0, C3, 100))).collect();
        star.run_to_rest();
        flows.iter().for_each(|&flow| star.assert_whole(flow, 100));
        let frames = 100 * senders as u64;
        let line_time = GIGABIT.time_of(Bytes((frames - 1) * Bytes::on_line(MTU_FRAME).0));
        let last_at = star.at(0).arrivals.last().map(|&(at, _)| at);
        assert_eq!(
            last_at,
            Some(star.at(0).arrivals[0].0 + line_time),
            "the line to the receiver was idle during the incast"
        );
    }
}
