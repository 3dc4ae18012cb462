//! Computed headroom suffices for a peer that behaves as declared, and is hardly larger than needed.
//!
//! Port 0 is paused. The host at port 1 sends longest frames at line rate and obeys late. Other hosts keep the line to
//! host 1 busy, so that a pause frame waits as long as possible.

use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::headroom::{Headroom, Link};
use xoff_flow_control::settings::{Accounting, HeadroomPlace, Memory, SharedMemory, WhenFull};
use xoff_wire::units::{Bytes, Nanos, PortId};

use crate::bed::plan::{self, GIGABIT, LINK, MTU_FRAME};
use crate::bed::{Obeys, Star, Stream};
use crate::{C0, C3, resume, stop};

const XOFF: Bytes = Bytes(19 * Bytes::of_frame(MTU_FRAME).0 + 1);

type Phase = (Nanos, Nanos);

fn phases() -> impl Iterator<Item = Phase> {
    let phases_of = |seed| {
        let mut rng = fastrand::Rng::with_seed(seed);
        (0..60).map(move |_| (Nanos(100_000 + rng.u64(0..40_000)), Nanos(rng.u64(0..40_000))))
    };
    xoff_explore::seeds([9]).flat_map(phases_of)
}

fn link(gap: u64, commit: u64, late: u64) -> Link {
    Link { loop_gap: Nanos(gap), commit: Bytes(commit), peer_response: Nanos(late), ..LINK }
}

fn filled(link: Link, headroom: Bytes, late: Nanos, phase: Phase) -> Star {
    let mut plan = plan::switch(&[link; 4]);
    plan.may_lose = true;
    plan.each_port(|port| port.burst = Bytes(20_000));
    plan.each_lossless(|class| (class.xoff, class.headroom) = (XOFF, headroom));
    let mut star = Star::with(plan, |port| if port == 1 { Obeys::Late(late) } else { Obeys::AtOnce });
    star.pause(0, stop(C3, 0xffff));
    for from in [2, 3] {
        star.start(from, 1, Stream { from: phase.1, ..star.stream(1, C0, 200) });
    }
    star.start(1, 0, Stream { from: phase.0, ..star.stream(0, C3, 200) });
    star.run_for(Nanos::from_micros(1500));
    star
}

fn used(link: Link, headroom: Bytes, late: Nanos, phase: Phase) -> (Bytes, u64) {
    let star = filled(link, headroom, late, phase);
    let counters = &star.switch().counters;
    let most = Bytes(counters.class(PortId(1), C3).headroom_watermark.get());
    (most, counters.dropped(DropReason::HeadroomExhausted))
}

fn worst(link: Link) -> (Bytes, Phase) {
    let needed = |phase| (used(link, Bytes(1_000_000), link.peer_response, phase).0, phase);
    phases().map(needed).max().expect("no phase was tried")
}

#[test] // proves: lossless, headroom
fn computed_headroom_exceeds_need_by_at_most_a_frame() {
    for (commit, late) in [(1, 0), (1, 50_000), (4_000, 0), (4_000, 200_000)] {
        let link = link(0, commit, late);
        let (worst, _) = worst(link);
        let computed = Headroom::of(&link).total();
        assert!(worst <= computed, "{worst:?} of headroom needed, only {computed:?} computed");
        // Allow for preambles and gaps, 20 of 1538 bytes: computed headroom counts them, buffers do not.
        let gaps = Bytes(computed.0 * 20 / 1538);
        assert!(
            computed <= worst + Bytes::of_frame(MTU_FRAME) + gaps,
            "only {worst:?} of headroom needed, {computed:?} computed"
        );
    }
}

#[test] // proves: lossless, headroom
fn computed_headroom_suffices_despite_driver_polling_gaps() {
    for (gap, commit, late) in [(20_000, 1, 0), (20_000, 4_000, 50_000), (7_000, 3_000, 1_000)] {
        let link = link(gap, commit, late);
        let (worst, phase) = worst(link);
        assert!(
            worst <= Headroom::of(&link).total(),
            "{worst:?} of headroom needed, only {:?} computed, phase {phase:?}",
            Headroom::of(&link)
        );
    }
}

#[test] // proves: headroom
fn headroom_one_byte_too_small_loses_frame() {
    let link = link(0, 4_000, 50_000);
    let (worst, phase) = worst(link);
    assert_eq!(used(link, worst, link.peer_response, phase), (worst, 0));
    let (_, lost) = used(link, Bytes(worst.0 - 1), link.peer_response, phase);
    assert_eq!(lost, 1);
}

#[test] // proves: headroom
fn peer_that_stops_later_than_declared_loses_frames() {
    let link = link(0, 4_000, 50_000);
    let computed = Headroom::of(&link).total();
    let (_, phase) = worst(link);
    let frame_time = GIGABIT.time_of(Bytes::on_line(MTU_FRAME));
    assert_eq!(used(link, computed, link.peer_response, phase).1, 0);
    let later = link.peer_response + frame_time + frame_time;
    assert!((1..=2).contains(&used(link, computed, later, phase).1));
}

fn response(link: Link, late: Nanos) -> [u64; 4] {
    let star = filled(link, Bytes(1_000_000), late, worst(link).1);
    let class = star.switch().counters.class(PortId(1), C3);
    [&class.after_xoff_max, &class.response_max, &class.excess_frames, &class.late_frames].map(|it| it.get())
}

#[test] // proves: peer-faults
fn peer_fault_is_counted_only_if_peer_is_late() {
    let link = link(20_000, 4_000, 50_000);
    let allowed = Headroom::of(&link).total();
    let [came, after, excess, late] = response(link, link.peer_response);
    assert_eq!((excess, late), (0, 0));
    assert!(came > 0 && came <= allowed.0 && after > link.peer_response.0, "{came} bytes, {after} ns");
    let slow = link.peer_response + GIGABIT.time_of(allowed) + GIGABIT.time_of(allowed);
    let [came_of_slow, after_of_slow, excess, late] = response(link, slow);
    assert!(
        late > 0 && excess < late,
        "wrong faults of the peer: {excess} excess frames, {late} late frames"
    );
    assert!(came_of_slow > allowed.0 && after_of_slow >= slow.0, "{came_of_slow} bytes, {after_of_slow} ns");
}

/// Other queues may use up headroom in a shared pool, so the peer is paused when one more frame would not fit.
#[test] // proves: shared-memory
fn peer_is_paused_when_shared_pool_is_full() {
    for accounting in [Accounting::UntilTransmitted, Accounting::UntilForwarded] {
        let mut plan = plan::switch(&[LINK; 3]);
        plan.may_lose = true;
        plan.settings.accounting = accounting;
        plan.settings.when_full = WhenFull::Stop;
        let (pool, headroom) = (Bytes(100_000), HeadroomPlace::Pool);
        plan.settings.memory = Memory::Shared(SharedMemory { pool, headroom, ..SharedMemory::UNLIMITED });
        plan.each_lossless(|class| {
            (class.ingress_reserve, class.egress_max) = (Bytes(4_000), Bytes(3_000));
            (class.xoff, class.xon, class.headroom) = (Bytes(90_000), Bytes(80_000), Bytes(50_000));
        });
        let mut star = Star::new(plan);
        star.pause(0, stop(C3, 0xffff));
        let hog = star.start(1, 0, star.stream(0, C3, 200));
        star.run_for(Nanos::from_millis(3));
        assert!(star.holds(1, C3), "{accounting:?}");
        let small = star.start(2, 0, star.stream(0, C3, 200));
        star.run_for(Nanos::from_millis(1));
        let held = Bytes(star.switch().counters.class(PortId(2), C3).ingress_bytes.get());
        assert!(
            star.holds(2, C3) && held < Bytes(20_000),
            "{accounting:?}: peer not paused, or only at {held:?}"
        );
        let dropped = |star: &Star| {
            star.switch().counters.class(PortId(2), C3).drops[DropReason::HeadroomExhausted.index()].get()
        };
        let lost = dropped(&star);
        assert!(lost < 5, "{accounting:?}: {lost} frames lost, more than were on the way at XOFF");
        star.pause(0, resume(C3));
        star.run_to_rest();
        assert!(!star.holds(2, C3), "{accounting:?}");
        let (came, dropped) = (star.received(small).frames, dropped(&star));
        assert_eq!(came + dropped, 200, "{accounting:?}");
        assert!(came > 150, "{accounting:?}: only {came} frames arrived after XON");
        assert!(star.received(hog).frames > 190);
    }
}

#[test]
fn peer_with_empty_queue_is_not_paused_by_full_pool() {
    for headroom in [HeadroomPlace::Pool, HeadroomPlace::Reserved] {
        let mut plan = plan::switch(&[LINK; 3]);
        plan.may_lose = true;
        plan.settings.memory =
            Memory::Shared(SharedMemory { pool: Bytes(20_000), headroom, ..SharedMemory::UNLIMITED });
        plan.each_lossless(|class| (class.ingress_reserve, class.headroom) = (Bytes::ZERO, Bytes(1_000)));
        let mut star = Star::new(plan);
        star.pause(0, stop(C3, 0xffff));
        star.start(1, 0, Stream { len: 300, ..star.stream(0, C3, 400) });
        star.run_for(Nanos::from_millis(1));
        let room_for = star.start(2, 0, star.stream(0, C3, 20));
        star.run_for(Nanos::from_millis(1));
        assert_eq!(star.received(room_for).frames, 0, "{headroom:?}: a frame fitted into the full pool");
        let held = star.switch().counters.class(PortId(2), C3).ingress_bytes.get();
        assert_eq!((held, star.holds(2, C3)), (0, false), "{headroom:?}");
        star.pause(0, resume(C3));
        star.run_to_rest();
    }
}
