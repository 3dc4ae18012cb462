//! What holds for every flow-control policy: nothing lossless is lost and nothing stays behind,
//! whatever becomes of control frames, and while policies are replaced; every pause has its cause, and
//! shadows are not heard.

use xoff_dataplane::policy::{Cause, PolicyKind, Trigger};
use xoff_dataplane::units::{Bytes, Nanos, PortId};

use crate::bed::plan::{self, LINK, XOFF};
use crate::bed::{Flow, Star, Stream, SwitchPlan};
use crate::{C3, C4, resume, stop};

/// Four senders and a receiver at port 0; an egress queue is congested from 10 frames on.
fn incast(kind: PolicyKind) -> (Star, Vec<Flow>) {
    let mut plan = plan(kind);
    plan.each_lossless(|class| {
        class.egress_warn = Bytes(12_000);
        class.egress_xoff = Bytes(15_000);
        class.egress_xon = Bytes(12_000);
    });
    let mut star = Star::new(plan);
    let flows = (1..5).map(|from| star.start(from, 0, star.stream(0, C3, 400))).collect();
    (star, flows)
}

fn plan(kind: PolicyKind) -> SwitchPlan {
    let mut plan = plan::switch(&[LINK; 5]);
    plan.settings.policies = [kind; 8];
    plan
}

fn told(star: &Star, port: u8) -> u64 {
    star.switch().counters.class(PortId(port), C3).xoff_sent.get()
}

fn cause(star: &Star, port: u8) -> Option<Cause> {
    Cause::unpack(star.switch().counters.class(PortId(port), C3).pausing_cause.get())
}

fn nothing_was_lost(star: &mut Star, flows: &[Flow]) {
    star.run_to_rest();
    flows.iter().for_each(|&flow| star.came_whole(flow, 400));
    for (port, class) in (0..5).flat_map(|port| [(port, C3), (port, C4)]) {
        assert!(!star.holds(port, class), "port {port} is held");
    }
}

#[test]
fn every_policy_is_lossless_and_lets_everybody_go() {
    for kind in PolicyKind::ALL {
        let (mut star, flows) = incast(kind);
        star.run_for(Nanos::from_millis(3));
        assert!((1..5).any(|port| told(&star, port) > 0), "{kind:?} never paused");
        nothing_was_lost(&mut star, &flows);
    }
}

#[test]
fn every_policy_outlives_storms_and_lost_control_frames() {
    for kind in PolicyKind::ALL {
        let (mut star, flows) = incast(kind);
        for round in 0..40_u64 {
            match round % 4 {
                0 => star.pause(0, stop(C3, 500)),
                2 => star.pause(0, resume(C3)),
                _ => (),
            }
            star.run_for(Nanos::from_micros(83 + round));
        }
        // Every third XON of a port is lost: its peer resumes when the pause has run out.
        for port in 1..5 {
            let mut sent = 0;
            star.lose(port, move |bytes| {
                let xon = bytes.len() >= 34 && bytes[12..16] == [0x88, 0x08, 1, 1] && bytes[24..26] == [0, 0];
                sent += u32::from(xon);
                xon && sent % 3 == 0
            });
        }
        nothing_was_lost(&mut star, &flows);
    }
}

#[test]
fn policies_are_replaced_in_mid_flight_and_nothing_is_lost() {
    for (from, to) in PolicyKind::ALL.into_iter().flat_map(|from| PolicyKind::ALL.map(|to| (from, to))) {
        let (mut star, flows) = incast(from);
        for round in 0..30_u64 {
            star.run_for(Nanos::from_micros(70 + 13 * round));
            star.set_policy(C3, if round % 2 == 0 { to } else { from });
        }
        nothing_was_lost(&mut star, &flows);
    }
}

#[test]
fn a_peer_that_both_policies_want_held_is_not_told_anything() {
    let (mut star, _) = incast(PolicyKind::Pfc);
    star.pause(0, stop(C3, 0xffff));
    star.run_for(Nanos::from_millis(1));
    assert!((1..5).all(|port| star.holds(port, C3)), "all are over XOFF at ingress");
    let before = [told(&star, 1), star.switch().counters.class(PortId(1), C3).xon_sent.get()];
    star.set_policy(C3, PolicyKind::CaPfcStopMax);
    star.run_for(Nanos::from_micros(50));
    assert_eq!(before, [told(&star, 1), star.switch().counters.class(PortId(1), C3).xon_sent.get()]);
    assert!(star.holds(1, C3));
}

#[test]
fn a_peer_that_only_the_old_policy_wanted_held_is_let_go_at_once() {
    let (mut star, flows) = incast(PolicyKind::CaPfcStopCalibrate);
    star.run_for(Nanos::from_micros(200));
    let below = |port: &u8| star.switch().worker(PortId(*port)).buffer().ingress(PortId(*port), C3) < XOFF;
    let held: Vec<u8> = (1..5).filter(|&port| star.holds(port, C3)).filter(below).collect();
    assert!(!held.is_empty(), "held for the egress queue's sake alone");
    star.set_policy(C3, PolicyKind::Pfc);
    assert!(held.iter().all(|&port| !star.holds(port, C3)));
    nothing_was_lost(&mut star, &flows);
}

#[test]
fn an_xoff_names_its_trigger_and_its_culprit() {
    let mut star = Star::new(plan(PolicyKind::Pfc));
    star.start(1, 0, star.stream(0, C3, 100));
    star.start(1, 2, Stream { len: 200, ..star.stream(2, C3, 20) });
    star.start(3, 0, star.stream(0, C3, 100));
    star.run_for(Nanos::from_millis(1));
    let expected =
        Cause { trigger: Trigger::Ingress.index(), class: C3, culprit: Some(PortId(0)), relayed: false };
    assert_eq!(cause(&star, 1), Some(expected));
    assert_eq!(cause(&star, 4), None);
    let causes = &star.switch().counters.class(PortId(1), C3).xoff_causes;
    assert_eq!((causes.own[expected.trigger].get() > 0, causes.relayed[expected.trigger].get()), (true, 0));

    let (mut star, _) = incast(PolicyKind::CaPfcStopMax);
    star.run_for(Nanos::from_micros(200));
    let egress = Trigger::Egress(PortId(0)).index();
    let held = (1..5).find(|&port| star.holds(port, C3)).expect("one is blamed");
    assert_eq!(
        cause(&star, held),
        Some(Cause { trigger: egress, class: C3, culprit: Some(PortId(0)), relayed: false })
    );
}

#[test]
fn a_pause_that_comes_from_further_down_says_so_and_from_whom() {
    let mut star = Star::new(plan(PolicyKind::Pfc));
    star.pause(0, stop(C3, 0xffff));
    star.run_for(Nanos::from_micros(10));
    star.start(1, 0, star.stream(0, C3, 100));
    star.run_for(Nanos::from_millis(1));
    let cause = cause(&star, 1).expect("port 1 is held");
    assert_eq!((cause.culprit, cause.relayed), (Some(PortId(0)), true));
    let peer = star.switch().counters.port(PortId(0)).pause_peer.get();
    assert_eq!(peer, star.mac(0).to_number());
}

#[test]
fn shadows_count_what_they_would_have_done_and_are_not_heard() {
    let run = |shadows: Vec<PolicyKind>| {
        let mut plan = plan(PolicyKind::Pfc);
        plan.each_lossless(|class| {
            (class.egress_warn, class.egress_xoff, class.egress_xon) =
                (Bytes(12_000), Bytes(15_000), Bytes(12_000));
        });
        plan.settings.shadows = shadows;
        let mut star = Star::new(plan);
        let flows: Vec<Flow> = (1..5).map(|from| star.start(from, 0, star.stream(0, C3, 400))).collect();
        star.run_to_rest();
        let arrivals: Vec<_> = flows.iter().map(|&flow| star.arrivals(flow)).collect();
        (star, arrivals)
    };
    let (alone, expected) = run(Vec::new());
    let (watched, seen) = run(vec![PolicyKind::Pfc, PolicyKind::CaPfcStopMax]);
    assert_eq!(seen, expected, "a shadow changes nothing");
    let counters = &watched.switch().counters;
    let mut wanted_by_capfc = 0;
    for port in 1..5 {
        let acting = counters.class(PortId(port), C3);
        let same = &counters.shadow(0)[usize::from(port)][C3.index()];
        assert_eq!((told(&alone, port), same.xoff.get()), (acting.xoff_sent.get(), acting.xoff_sent.get()));
        assert_eq!(same.pausing_nanos.get(), acting.pausing_nanos.get());
        assert_eq!((same.pausing_since.get(), same.lost.get()), (0, 0));
        wanted_by_capfc += counters.shadow(1)[usize::from(port)][C3.index()].xoff.get();
    }
    assert!(wanted_by_capfc > 0, "its egress threshold is lower than any ingress threshold");
}

#[test]
fn a_loss_counts_against_those_who_had_not_asked_for_a_pause() {
    let mut plan = plan(PolicyKind::Pfc);
    plan.may_lose = true;
    plan.each_lossless(|class| {
        class.egress_max = Bytes(20_000);
        (class.egress_warn, class.egress_xoff, class.egress_xon) = (Bytes(3_000), Bytes(6_000), Bytes(3_000));
    });
    plan.settings.shadows = vec![PolicyKind::Pfc, PolicyKind::CaPfcStopCalibrate];
    let mut star = Star::new(plan);
    star.start(1, 0, star.stream(0, C3, 100));
    star.start(2, 0, star.stream(0, C3, 100));
    star.run_to_rest();
    let counters = &star.switch().counters;
    let lost = |shadow: usize| -> u64 {
        [1, 2].into_iter().map(|port: usize| counters.shadow(shadow)[port][C3.index()].lost.get()).sum()
    };
    assert!(lost(0) > 0, "PFC saw nothing at ingress");
    assert_eq!(lost(1), 0, "CaPFC had asked both");
    let first =
        counters.class(PortId(1), C3).first_loss.get().max(counters.class(PortId(2), C3).first_loss.get());
    assert!(first > 0);
}
