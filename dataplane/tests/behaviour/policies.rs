// Tests for SPECIFICATION.md: shadows

use xoff_flow_control::cause::{Cause, Causes, Trigger};
use xoff_flow_control::counter::Counter;
use xoff_flow_control::counters::{FlowRequests, RateRequests};
use xoff_flow_control::settings::{Custom, Memory, PolicyKind, SharedMemory};
use xoff_wire::units::{BitRate, Bytes, Nanos, PortId, Quanta};
use xoff_wire::{FlowKey, FlowPauseWriter, Operation};

use crate::bed::plan::{self, LINK, XOFF};
use crate::bed::{Flow, Obeys, Star, Stream, SwitchPlan};
use crate::custom::ScaledPfc;
use crate::{C3, C4, resume, stop};

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
    plan.settings.policy.custom = Some(Custom::new(ScaledPfc::HALF));
    plan
}

fn kinds() -> impl Iterator<Item = PolicyKind> {
    PolicyKind::ALL.into_iter().chain([PolicyKind::Custom])
}

fn xoffs_sent(star: &Star, port: u8) -> u64 {
    star.switch().counters.class(PortId(port), C3).xoff_sent.get()
}

fn cause(star: &Star, port: u8) -> Option<Cause> {
    Cause::unpack(star.switch().counters.class(PortId(port), C3).held_cause.get())
}

fn nothing_was_lost(star: &mut Star, flows: &[Flow]) {
    star.run_to_rest();
    flows.iter().for_each(|&flow| star.assert_whole(flow, 400));
    for (port, class) in (0..5).flat_map(|port| [(port, C3), (port, C4)]) {
        assert!(!star.holds(port, class), "the peer at port {port} is still paused");
    }
}

#[test] // proves: lossless
fn every_policy_loses_no_frame_and_resumes_all_peers() {
    for kind in kinds() {
        let (mut star, flows) = incast(kind);
        star.run_for(Nanos::from_millis(3));
        assert!((1..5).any(|port| xoffs_sent(&star, port) > 0), "{kind:?} paused no peer");
        nothing_was_lost(&mut star, &flows);
    }
}

#[test] // proves: lossless
fn every_policy_survives_pause_storms_and_lost_xons() {
    for kind in kinds() {
        let (mut star, flows) = incast(kind);
        for round in 0..40_u64 {
            match round % 4 {
                0 => star.pause(0, stop(C3, 500)),
                2 => star.pause(0, resume(C3)),
                _ => (),
            }
            star.run_for(Nanos::from_micros(83 + round));
        }
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

#[test] // proves: lossless, policy-swap, own-policy
fn policy_swaps_under_load_lose_nothing() {
    for (from, to) in kinds().flat_map(|from| kinds().map(move |to| (from, to))) {
        let (mut star, flows) = incast(from);
        for round in 0..30_u64 {
            star.run_for(Nanos::from_micros(70 + 13 * round));
            star.set_policy(C3, if round % 2 == 0 { to } else { from });
        }
        nothing_was_lost(&mut star, &flows);
    }
}

#[test] // proves: policy-swap
fn policy_swap_keeps_peer_paused_if_both_policies_pause_it() {
    let (mut star, _) = incast(PolicyKind::Pfc);
    star.pause(0, stop(C3, 0xffff));
    star.run_for(Nanos::from_millis(1));
    assert!((1..5).all(|port| star.holds(port, C3)), "not all peers are paused");
    let before = [xoffs_sent(&star, 1), star.switch().counters.class(PortId(1), C3).xon_sent.get()];
    star.set_policy(C3, PolicyKind::CaPfcStopMax);
    star.run_for(Nanos::from_micros(50));
    assert_eq!(before, [xoffs_sent(&star, 1), star.switch().counters.class(PortId(1), C3).xon_sent.get()]);
    assert!(star.holds(1, C3));
}

#[test] // proves: policy-swap
fn policy_swap_resumes_peer_that_new_policy_would_not_pause() {
    let (mut star, flows) = incast(PolicyKind::CaPfcStopCalibrate);
    star.run_for(Nanos::from_micros(200));
    let below = |port: &u8| star.switch().worker(PortId(*port)).buffer().ingress(PortId(*port), C3) < XOFF;
    let held: Vec<u8> = (1..5).filter(|&port| star.holds(port, C3)).filter(below).collect();
    assert!(!held.is_empty(), "no peer is paused only because of the egress queue");
    star.set_policy(C3, PolicyKind::Pfc);
    assert!(held.iter().all(|&port| !star.holds(port, C3)));
    nothing_was_lost(&mut star, &flows);
}

#[test] // proves: causes
fn cause_of_sent_xoff_names_trigger_and_blamed_port() {
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
    let held = (1..5).find(|&port| star.holds(port, C3)).expect("no peer is paused");
    assert_eq!(
        cause(&star, held),
        Some(Cause { trigger: egress, class: C3, culprit: Some(PortId(0)), relayed: false })
    );
}

/// Class 3 waits for a paused peer and fills the pool, so class 4 is paused below its own XOFF threshold.
#[test] // proves: causes, shared-memory
fn cause_of_xoff_by_full_pool_is_the_class_that_fills_it() {
    let mut plan = plan(PolicyKind::Pfc);
    let (pool, alpha_log2) = (Bytes(100_000), Some(0));
    plan.settings.memory = Memory::Shared(SharedMemory { pool, alpha_log2, ..SharedMemory::UNLIMITED });
    plan.each_lossless(|class| {
        (class.xoff, class.xon, class.egress_max) = (Bytes(90_000), Bytes(80_000), Bytes(900_000));
    });
    let mut star = Star::new(plan);
    star.pause(0, stop(C3, 0xffff));
    star.start(1, 0, star.stream(0, C3, 100));
    star.run_for(Nanos::from_millis(1));
    for from in [2, 3] {
        star.start(from, 0, star.stream(0, C4, 100));
    }
    star.run_for(Nanos::from_millis(1));
    let paused = star.switch().counters.class(PortId(2), C4);
    assert!(paused.ingress_watermark.get() < 30_000, "the class reached its own XOFF threshold");
    let culprit = Some(PortId(0));
    let expected = Cause { trigger: Trigger::Pool.index(), class: C3, culprit, relayed: true };
    assert_eq!(Cause::unpack(paused.held_cause.get()), Some(expected));
}

#[test] // proves: causes
fn xoff_due_to_downstream_pause_is_recorded_as_relayed() {
    let mut star = Star::new(plan(PolicyKind::Pfc));
    star.pause(0, stop(C3, 0xffff));
    star.run_for(Nanos::from_micros(10));
    star.start(1, 0, star.stream(0, C3, 100));
    star.run_for(Nanos::from_millis(1));
    let cause = cause(&star, 1).expect("the peer at port 1 is not paused");
    assert_eq!((cause.culprit, cause.relayed), (Some(PortId(0)), true));
    let peer = star.switch().counters.port(PortId(0)).pause_peer.get();
    assert_eq!(peer, star.mac(0).to_number());
}

#[test]
fn shadow_policies_count_pauses_but_send_none() {
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
    let (watched, arrivals) = run(vec![PolicyKind::Pfc, PolicyKind::CaPfcStopMax]);
    assert_eq!(arrivals, expected, "the shadow policies changed when frames arrived");
    let counters = &watched.switch().counters;
    let mut wanted_by_capfc = 0;
    for port in 1..5 {
        let acting = counters.class(PortId(port), C3);
        let same = &counters.shadow(0)[usize::from(port)][C3.index()];
        assert_eq!(
            (xoffs_sent(&alone, port), same.xoff.get()),
            (acting.xoff_sent.get(), acting.xoff_sent.get())
        );
        assert_eq!(same.held_nanos.get(), acting.held_nanos.get());
        assert_eq!((same.held_since.get(), same.lost.get()), (0, 0));
        wanted_by_capfc += counters.shadow(1)[usize::from(port)][C3.index()].xoff.get();
    }
    assert!(wanted_by_capfc > 0, "the CaPFC shadow policy counted no pause");
}

/// Counts of a policy's requests: XOFFs, paused ns, pauses of flows, flows in these pauses, resumes of flows, rate
/// changes, lowest rate.
type Wanted = [u64; 7];

fn wanted_by_the_acting(star: &Star, port: usize) -> Wanted {
    let class = star.switch().counters.class(PortId(u8::try_from(port).expect("few")), C3);
    let Causes { own, relayed } = &class.xoff_causes;
    let xoff = own.iter().chain(relayed).map(Counter::get).sum();
    wanted(xoff, &class.held_nanos, &class.flows.requests, &class.rate_requests)
}

fn wanted_by_a_shadow(star: &Star, shadow: usize, port: usize) -> Wanted {
    let shadow = &star.switch().counters.shadow(shadow)[port][C3.index()];
    wanted(shadow.xoff.get(), &shadow.held_nanos, &shadow.flows, &shadow.rate)
}

fn wanted(xoff: u64, nanos: &Counter, flows: &FlowRequests, rate: &RateRequests) -> Wanted {
    let FlowRequests { pauses, flows, resumes, now } = flows;
    assert_eq!((now.get(), rate.now.get()), (0, 0), "a pause or rate is still requested at rest");
    let [nanos, pauses, flows, resumes, changes, lowest] =
        [nanos, pauses, flows, resumes, &rate.changes, &rate.lowest].map(Counter::get);
    [xoff, nanos, pauses, flows, resumes, changes, lowest]
}

/// Returns the requests of policy `acting`, and those of each shadow policy (only counted), by port. Peers ignore all
/// requests, so frames are the same under every policy.
fn wanted_in_open_loop(
    acting: PolicyKind,
    shadows: &[PolicyKind],
    meanwhile: fn(&mut Star),
) -> (Vec<Wanted>, Vec<Vec<Wanted>>) {
    let mut plan = plan(acting);
    plan.may_lose = true;
    plan.settings.shadows = shadows.to_vec();
    plan.settings.policy.ofc.alpha = 0.75;
    plan.each_port(|port| (port.ofc_peer, port.gfc_peer) = (true, true));
    plan.each_lossless(|class| class.egress_max = Bytes(200_000));
    let mut star = Star::with(plan, |_| Obeys::Never);
    for from in 1..5 {
        star.start(from, 0, star.stream(0, C3, 25));
        for n in 0..3_u32 {
            let rate = Some(BitRate::from_mbps(40 * u64::from(n) + 50 * u64::try_from(from).expect("few")));
            let stream = Stream { rate, len: 300 + 400 * n, ..star.stream(0, C3, 300) };
            star.start(from, 0, Stream { from: Nanos::from_millis(3), ..stream });
        }
    }
    meanwhile(&mut star);
    star.run_to_rest();
    let by_acting = (1..5).map(|port| wanted_by_the_acting(&star, port)).collect();
    let of_shadow = |shadow| (1..5).map(|port| wanted_by_a_shadow(&star, shadow, port)).collect();
    (by_acting, (0..shadows.len()).map(of_shadow).collect())
}

#[test]
fn shadow_policy_counts_equal_those_of_acting_policy() {
    for kind in kinds() {
        let (acted, _) = wanted_in_open_loop(kind, &[], |_| ());
        let (_, watched) = wanted_in_open_loop(PolicyKind::Pfc, &[PolicyKind::Gfc, kind], |_| ());
        assert_eq!(acted, watched[1], "{kind:?} requests differ between acting and shadow");
        let total = |what: usize| acted.iter().map(|wanted| wanted[what]).sum::<u64>();
        assert_eq!([total(2), total(3), total(4)].map(|flows| flows > 0), [kind == PolicyKind::Ofc; 3]);
        assert_eq!([total(5), total(6)].map(|rates| rates > 0), [kind == PolicyKind::Gfc; 2]);
    }
}

#[test]
fn ofc_shadow_policy_tracks_flows_paused_by_peer() {
    let run = |acting, shadows: &[PolicyKind]| {
        wanted_in_open_loop(acting, shadows, |star| {
            star.run_for(Nanos::from_micros(2_500));
            let list = |operation| {
                let mut bytes = [0; 600];
                let mut list = FlowPauseWriter::new(&mut bytes, star.mac(0), operation, C3);
                for from in 1..3 {
                    list.push(&FlowKey::L2 { src: star.mac(from), dst: star.mac(0), ether_type: 0x88b5 });
                }
                list.finish().to_vec()
            };
            let [pause, resume] = [Operation::Pause(Quanta(2_000)), Operation::Resume].map(list);
            star.inject(0, &pause);
            star.run_for(Nanos::from_micros(100));
            star.inject(0, &resume); // otherwise the following congestion would be local
            star.run_for(Nanos::from_micros(1_300));
            star.inject(0, &pause); // this one expires
        })
    };
    let (acted, watched) = run(PolicyKind::Ofc, &[PolicyKind::Ofc, PolicyKind::Pfc]);
    assert_eq!(acted, watched[0]);
    assert_ne!(acted, watched[1]);
    let original = wanted_in_open_loop(PolicyKind::Ofc, &[], |_| ()).0;
    assert_ne!(acted, original, "pauses of the peer did not change the requests");
}

#[test]
fn loss_is_blamed_on_shadow_policy_that_requested_no_xoff() {
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
    assert!(lost(0) > 0, "the PFC shadow policy counted no loss");
    assert_eq!(lost(1), 0, "the CaPFC shadow policy counted a loss");
    let first =
        counters.class(PortId(1), C3).first_loss.get().max(counters.class(PortId(2), C3).first_loss.get());
    assert!(first > 0);
}

/// The senders send in lockstep, so arrivals at all ports are equal. The CaPFC paper does not define which of such
/// ports is blamed and paused.
#[test]
fn capfc_stop_max_blames_ports_by_number_when_arrivals_tie() {
    let mut plan = plan::switch(&[LINK; 8]);
    plan.settings.policies = [PolicyKind::CaPfcStopMax; 8];
    plan.each_lossless(|class| (class.xoff, class.xon) = (Bytes(60_000), Bytes(50_000)));
    let mut star = Star::new(plan);
    let flows: Vec<Flow> = (1..8).map(|from| star.start(from, 0, star.stream(0, C3, 20_000))).collect();
    star.run_for(Nanos::from_millis(500));
    let got: Vec<usize> = flows.iter().map(|&flow| star.arrivals(flow).len()).collect();
    assert!(got[1..].is_sorted(), "{got:?}");
    assert!(got[6] > 5 * got[1], "{got:?}");
}

/// The XOFF threshold is the free part of the pool, so it may be zero at an empty queue.
#[test] // proves: policy-swap
fn new_policy_pauses_no_peer_with_empty_queue() {
    for kind in PolicyKind::ALL {
        let mut plan = plan(PolicyKind::Pfc);
        plan.settings.memory = Memory::Shared(SharedMemory {
            pool: Bytes(20_000),
            ingress_limit: Bytes::MAX,
            egress_limit: Bytes::MAX,
            port_limit: Bytes::MAX,
            alpha_log2: None,
            ..SharedMemory::UNLIMITED
        });
        plan.each_lossless(|class| class.ingress_reserve = Bytes::ZERO);
        let mut star = Star::new(plan);
        star.pause(0, stop(C3, 0xffff));
        let flow = star.start(1, 0, star.stream(0, C3, 400));
        star.run_for(Nanos::from_millis(1));
        assert!(star.holds(1, C3), "the sender that fills the pool is not paused");
        star.set_policy(C3, kind);
        assert!(star.holds(1, C3), "{kind:?}");
        assert!(!star.holds(2, C3), "{kind:?} paused a peer with an empty queue");
        star.pause(0, resume(C3));
        nothing_was_lost(&mut star, &[flow]);
    }
}
