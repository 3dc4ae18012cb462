// Tests for SPECIFICATION.md: gfc

use xoff_flow_control::headroom::{Headroom, Link};
use xoff_flow_control::settings::PolicyKind;
use xoff_wire::Rates;
use xoff_wire::units::{BitRate, Bytes, Nanos, PortId, Quanta, RateStep};

use crate::bed::plan::{self, CABLE, GIGABIT, LINK};
use crate::bed::{Bed, NodeId, Obeys, Star, Stream, SwitchPlan, end};
use crate::watchdog::ring;
use crate::{C3, resume, stop};

/// XOFF threshold of policy GFC. As the queue grows, the requested rate falls in steps at 120, 180, 210, 225, 232.5 and
/// 236.25 KB. As it shrinks, the rate rises again at 60, 150, 195, 217.5, 228.75 and 234.375 KB.
const XOFF: Bytes = Bytes(240_000);
const SLOW: BitRate = BitRate::from_mbps(300);
/// Maximum time until a requested rate arrives: the rest of a frame on the wire, the rate frame, and the cable.
const DELIVERY: Nanos = Nanos(12_304 + 672 + CABLE.0);

/// Chain of host a, switches `near` and `far`, and host b, whose line is slow. Host a obeys requested rates.
struct GfcChain {
    bed: Bed,
    near: NodeId,
    far: NodeId,
    a: NodeId,
    b: NodeId,
}

const UP: u8 = 0;
const DOWN: u8 = 1;

impl GfcChain {
    fn new(obeys: Obeys, change: impl Fn(&mut SwitchPlan)) -> GfcChain {
        let mut bed = Bed::new(5);
        let [near, far] = [GIGABIT, SLOW].map(|speed| {
            let mut plan = plan::switch(&[LINK, Link { speed, ..LINK }]);
            plan.settings.policies = [PolicyKind::Gfc; 8];
            plan.each_lossless(|class| {
                (class.xoff, class.xon, class.egress_max) = (XOFF, Bytes(100_000), Bytes(1_000_000));
            });
            plan.each_port(|port| port.gfc_peer = true);
            change(&mut plan);
            bed.add_switch(plan)
        });
        bed.link(end(near, DOWN), end(far, UP), GIGABIT, CABLE);
        let a = bed.add_host(near, UP, obeys);
        let b = bed.add_host(far, DOWN, Obeys::AtOnce);
        bed.keep_rates(a);
        GfcChain { bed, near, far, a, b }
    }

    fn send(&mut self, frames: u64) -> u32 {
        let to = self.bed.host(self.b).mac;
        self.bed.send(self.a, Stream::new(to, frames, self.bed.now()))
    }

    fn requested(&self, switch: NodeId) -> u8 {
        self.bed.switch(switch).worker(PortId(UP)).requested_rate(PortId(UP), C3).get()
    }

    fn kept(&self) -> u64 {
        self.bed.switch(self.near).counters.class(PortId(DOWN), C3).rate_obeyed.get()
    }

    fn held(&self, switch: NodeId) -> Bytes {
        self.bed.switch(switch).worker(PortId(UP)).buffer().ingress(PortId(UP), C3)
    }

    fn xoffs(&self, switch: NodeId) -> u64 {
        self.bed.switch(switch).counters.class(PortId(UP), C3).xoff_sent.get()
    }

    fn watch(&mut self, until: Nanos, mut look: impl FnMut(&GfcChain)) {
        while self.bed.now() < until {
            let next = self.bed.now() + Nanos::from_micros(1);
            self.bed.run_until(next);
            look(self);
        }
    }

    fn assert_whole(&mut self, id: u32, frames: u64) {
        self.bed.run_to_rest();
        let received = self.bed.host(self.b).received(id);
        assert_eq!((received.frames, received.late_or_twice), (frames, 0));
        assert_eq!(
            (self.requested(self.near), self.requested(self.far), self.kept()),
            (0, 0, 0),
            "a rate is still requested or obeyed"
        );
    }
}

fn changes<T: PartialEq + Copy>(series: &[T]) -> Vec<T> {
    let mut series = series.to_vec();
    series.dedup();
    series
}

fn step_of(rate: u64) -> u8 {
    (1..=6).find(|step| GIGABIT.bits_per_second() >> step == rate).unwrap_or(0)
}

#[test]
fn gfc_rates_stabilize_queue_length_without_pauses() {
    let mut chain = GfcChain::new(Obeys::AtOnce, |_| ());
    let id = chain.send(4_000);
    let (mut requested, mut kept) = (Vec::new(), Vec::new());
    let (mut settled, mut of_host) = (Vec::new(), Vec::new());
    chain.watch(Nanos::from_millis(100), |chain| {
        requested.push(chain.requested(chain.far));
        kept.push(step_of(chain.kept()));
        of_host.push(chain.requested(chain.near));
        if chain.bed.now() > Nanos::from_millis(20) {
            settled.push(chain.held(chain.far));
        }
    });
    assert_eq!(changes(&requested), changes(&kept), "rates obeyed by the peer differ from requested rates");
    let late = usize::try_from(DELIVERY.0.div_ceil(1_000)).expect("more microseconds than 64 bits count");
    let in_time = kept.windows(late + 1).zip(&requested).all(|(kept, requested)| kept.contains(requested));
    assert!(in_time, "a host obeyed a requested rate too late");
    let (low, high) = (settled.iter().min().copied(), settled.iter().max().copied());
    // Tolerate two frames, and the bytes that the sender sends until a rate frame arrives.
    let slack = Bytes(2 * 1_518) + GIGABIT.bytes_in(DELIVERY);
    assert!(high.is_some_and(|high| high <= Bytes(180_000) + slack), "{high:?}");
    assert!(low.is_some_and(|low| low + slack >= Bytes(150_000)), "{low:?}");
    assert!(of_host.contains(&2), "the near switch requested no rate of the host");
    assert_eq!((chain.xoffs(chain.near), chain.xoffs(chain.far)), (0, 0), "a switch sent XOFF");
    chain.assert_whole(id, 4_000);
}

#[test]
fn gfc_rates_follow_queue_length_step_by_step() {
    let mut chain = GfcChain::new(Obeys::AtOnce, |_| ());
    let id = chain.send(600);
    let pause = stop(C3, 0xffff).encode(chain.bed.host(chain.b).mac);
    chain.bed.inject(chain.b, &pause);
    let mut requested = Vec::new();
    let mut came: Vec<(Nanos, u64)> = Vec::new();
    chain.watch(Nanos::from_millis(7), |chain| {
        let step = chain.requested(chain.far);
        if requested.last() != Some(&step) {
            requested.push(step);
            came.push((chain.bed.now(), chain.held(chain.far).0));
        }
    });
    assert_eq!(requested, [0, 1, 2, 3, 4, 5, 6]);
    for (step, span) in (1..5).zip(came[1..].windows(2)) {
        let bits = (span[1].1 - span[0].1) * 8 * 1_538 / 1_518;
        let rate = bits * 1_000_000 / span[1].0.since(span[0].0).0;
        let expected = 1_000_000 >> step;
        assert!(
            rate.abs_diff(expected) < expected / 3,
            "rate in step {step} is {rate} instead of {expected} kb/s"
        );
    }
    assert_eq!(chain.xoffs(chain.far), 0, "the far switch sent XOFF");
    let go = resume(C3).encode(chain.bed.host(chain.b).mac);
    chain.bed.inject(chain.b, &go);
    requested.clear();
    chain.watch(Nanos::from_millis(40), |chain| requested.push(chain.requested(chain.far)));
    let rising = changes(&requested);
    assert_eq!((&rising[..6], rising.last()), (&[6, 5, 4, 3, 2, 1][..], Some(&0)));
    chain.assert_whole(id, 600);
}

#[test]
fn lost_rate_frames_cause_no_data_loss() {
    for lost in 0..5 {
        let mut chain = GfcChain::new(Obeys::AtOnce, |_| ());
        for from in [end(chain.far, UP), end(chain.near, UP)] {
            let mut count = 0;
            chain.bed.wire_mut(from).lose(move |bytes| {
                let has_rates = bytes.get(34..38) == Some(b"GFC1");
                count += usize::from(has_rates);
                has_rates && (count % 4 == lost || lost == 4)
            });
        }
        let id = chain.send(2_000);
        chain.bed.run_until(Nanos::from_millis(40));
        assert!(
            lost < 4 || (chain.kept() == 0 && chain.xoffs(chain.far) > 0),
            "without any rate frame, the far switch did not pause"
        );
        chain.assert_whole(id, 2_000);
    }
}

#[test]
fn rate_limit_expires_if_frame_that_ends_it_is_lost() {
    let mut chain = GfcChain::new(Obeys::AtOnce, |_| ());
    chain
        .bed
        .wire_mut(end(chain.far, UP))
        .lose(|bytes| bytes.get(34..38) == Some(b"GFC1") && bytes[40 + C3.index()] == 0);
    let id = chain.send(400);
    let mut last_requested = Nanos::ZERO;
    let mut last_kept = Nanos::ZERO;
    chain.watch(Nanos::from_millis(40), |chain| {
        last_requested = if chain.requested(chain.far) > 0 { chain.bed.now() } else { last_requested };
        last_kept = if chain.kept() > 0 { chain.bed.now() } else { last_kept };
    });
    let pause_time = GIGABIT.time_of_quanta(Quanta(1000));
    assert!(
        last_kept > last_requested + DELIVERY,
        "the rate limit ended although the frame that ends it was lost"
    );
    assert!(
        last_kept < last_requested + pause_time + DELIVERY,
        "the rate limit lasted longer than its pause time"
    );
    chain.assert_whole(id, 400);
}

#[test]
fn host_that_obeys_rates_late_loses_nothing() {
    for late in [100, 400] {
        let late = Nanos::from_micros(late);
        let mut chain = GfcChain::new(Obeys::Late(late), |plan| {
            let link = Link { peer_response: late, ..LINK };
            let headroom = Headroom::of(&link).total();
            plan.each_lossless(|class| class.headroom = headroom);
        });
        let id = chain.send(3_000);
        chain.bed.run_until(Nanos::from_millis(40));
        assert!(chain.requested(chain.near) > 0);
        chain.assert_whole(id, 3_000);
    }
}

#[test]
fn stopping_switch_ends_requested_rates_immediately() {
    let mut chain = GfcChain::new(Obeys::AtOnce, |_| ());
    chain.send(2_000);
    chain.bed.run_until(Nanos::from_millis(10));
    assert!(chain.kept() > 0);
    chain.bed.release_peers(chain.far);
    assert!(chain.bed.switch(chain.far).worker(PortId(UP)).announcements_due().contains(PortId(UP)));
    let soon = chain.bed.now() + DELIVERY;
    chain.bed.run_until(soon);
    assert_eq!(chain.kept(), 0);
}

#[test]
fn stopping_switch_requests_no_new_rates() {
    for after in (0..2_000).step_by(200) {
        let mut chain =
            GfcChain::new(Obeys::AtOnce, |plan| plan.each_port(|port| port.commit = Bytes(20_000)));
        chain.send(600);
        let pause = stop(C3, 0xffff).encode(chain.bed.host(chain.b).mac);
        chain.bed.inject(chain.b, &pause);
        chain.bed.run_until(Nanos::from_millis(7));
        let go = resume(C3).encode(chain.bed.host(chain.b).mac);
        chain.bed.inject(chain.b, &go);
        chain.bed.run_until(Nanos::from_millis(7) + Nanos::from_micros(after));
        assert!(chain.requested(chain.far) > 0);
        chain.bed.release_peers(chain.far);
        let left = chain.bed.now() + SLOW.time_of(Bytes(20_000));
        chain.watch(left, |chain| assert_eq!(chain.requested(chain.far), 0, "{after} us"));
    }
}

#[test]
fn link_loss_ends_rate_limits_until_link_returns() {
    let mut chain = GfcChain::new(Obeys::AtOnce, |_| ());
    chain.send(4_000);
    chain.bed.run_until(Nanos::from_millis(10));
    let before = chain.kept();
    assert!(before > 0);
    let trunk = end(chain.far, UP);
    chain.bed.set_link(trunk, false);
    assert_eq!(chain.kept(), 0);
    chain.bed.set_link(trunk, true);
    let soon = chain.bed.now() + DELIVERY;
    chain.bed.run_until(soon);
    assert_eq!(chain.kept(), before);
}

#[test]
fn lower_of_requested_and_configured_class_rate_applies() {
    let sent_in_a_millisecond = |step: u8| {
        let mut plan = plan::switch(&[LINK; 2]);
        plan.each_port(|port| {
            (port.gfc_peer, port.burst, port.commit) = (true, Bytes(100_000), Bytes(100_000));
            port.classes[C3.index()].max_rate = Some(BitRate::from_mbps(500));
        });
        let mut star = Star::new(plan);
        let requested = RateStep::new(step).expect("invalid rate step");
        let rates = Rates { time: Quanta(10_000), ..Rates::default() }.with(C3, requested);
        star.inject(0, &rates.encode(star.mac(0)));
        star.run_for(Nanos::from_micros(10));
        let flow = star.start(1, 0, star.stream(0, C3, 100));
        star.run_for(Nanos::from_millis(1));
        let frames = star.received(flow).frames;
        star.run_to_rest();
        star.assert_whole(flow, 100);
        frames
    };
    assert!((19..=21).contains(&sent_in_a_millisecond(2)));
    assert!((70..=80).contains(&sent_in_a_millisecond(0)), "{}", sent_in_a_millisecond(0));
}

fn ring_comes_to_an_end(kind: PolicyKind) -> bool {
    let (mut bed, _, hosts) = ring(500, |plan| {
        plan.settings.policies = [kind; 8];
        plan.each_lossless(|class| {
            (class.xoff, class.xon, class.egress_max) = (XOFF, Bytes(100_000), Bytes(1_000_000));
        });
        plan.each_port(|port| port.gfc_peer = true);
    });
    hosts.iter().for_each(|&host| bed.keep_rates(host));
    bed.run_until(Nanos::from_millis(500));
    let arrived: usize = hosts.iter().map(|&host| bed.host(host).arrivals.len()).sum();
    arrived == 1_500
}

#[test]
fn gfc_ring_continues_where_pfc_deadlocks() {
    assert!(!ring_comes_to_an_end(PolicyKind::Pfc));
    assert!(ring_comes_to_an_end(PolicyKind::Gfc));
}
