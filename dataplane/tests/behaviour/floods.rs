use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::{Accounting, FLOOD_COPIES_MAX, Memory, SharedMemory, WhenFull};
use xoff_wire::units::{Bytes, Class, MacAddr, Nanos, PortId};

use crate::bed::plan::{self, LINK};
use crate::bed::{Star, Stream, SwitchPlan};
use crate::{C0, C3, resume, stop};

const FRAMES: u64 = 200;
const NO_LIMIT: Bytes = Bytes(1_000_000);

#[test] // proves: bridging
fn frame_to_reserved_address_is_consumed_without_learning() {
    let mut star = Star::new(plan::switch(&[LINK; 3]));
    let station = [2, 0, 0, 0, 9, 9];
    let frame = |to: [u8; 6]| [&to[..], &station[..], &[0x88, 0xb5], &[0; 46][..]].concat();
    for last in 0x00..=0x0f {
        star.inject(0, &frame([0x01, 0x80, 0xc2, 0, 0, last]));
    }
    star.inject(1, &frame([2, 0, 0, 0, 8, 8]));
    star.run_to_rest();
    assert_eq!(star.switch().counters.port(PortId(0)).reserved_frames.get(), 16);
    assert_eq!((star.at(1).strange.len(), star.at(2).strange.len()), (0, 1));
    star.inject(0, &frame([0x01, 0x80, 0xc2, 0, 0, 0x10]));
    star.run_to_rest();
    assert_eq!(
        (star.at(1).strange.len(), star.at(2).strange.len()),
        (1, 2),
        "frame to an ordinary group address was not flooded"
    );
    let learned = star.switch().worker(PortId(0)).bridge().fdb().learned_at(PortId(0));
    assert_eq!(learned, 1, "an address was learned from a reserved frame");
}

fn broadcast(plan: SwitchPlan, class: Class) -> (Star, u32) {
    let mut star = Star::new(plan);
    let stream = Stream { class, len: 60, ..Stream::new(MacAddr::BROADCAST, FRAMES, Nanos::ZERO) };
    let id = star.start_to_all(0, stream);
    (star, id)
}

#[test]
fn flood_reaches_every_port_once() {
    for (accounting, when_full) in [
        (Accounting::UntilTransmitted, WhenFull::Drop),
        (Accounting::UntilForwarded, WhenFull::Drop),
        (Accounting::UntilForwarded, WhenFull::Stop),
    ] {
        let mut plan = plan::switch(&[LINK; 4]);
        plan.settings.accounting = accounting;
        plan.settings.when_full = when_full;
        (plan.slots, plan.control_slots) = (40, 4);
        let (mut star, id) = broadcast(plan, C0);
        star.run_to_rest();
        for port in 1..4 {
            let received = star.at(port).received(id);
            assert_eq!(
                (received.frames, received.late_or_twice),
                (FRAMES, 0),
                "port {port} missed or repeated floods, {accounting:?}"
            );
        }
        assert_eq!(star.at(0).received(id).frames, 0);
    }
}

#[test] // proves: shared-memory
fn flood_waits_until_all_copies_fit() {
    for accounting in [Accounting::UntilForwarded, Accounting::UntilTransmitted] {
        let mut plan = plan::switch(&[LINK; 5]);
        (plan.settings.accounting, plan.settings.when_full) = (accounting, WhenFull::Stop);
        plan.settings.memory = Memory::Shared(SharedMemory {
            pool: NO_LIMIT,
            ingress_limit: NO_LIMIT,
            egress_limit: Bytes(5_000),
            port_limit: NO_LIMIT,
            alpha_log2: None,
            ..SharedMemory::UNLIMITED
        });
        plan.each_port(|port| port.classes[C0.index()].egress_reserve = Bytes::ZERO);
        let mut star = Star::new(plan);
        let stream = Stream { class: C0, len: 1_000, ..Stream::new(MacAddr::BROADCAST, 20, Nanos::ZERO) };
        let ids = [0, 1].map(|from| star.start_to_all(from, stream));
        star.run_to_rest();
        assert_eq!(star.switch().counters.dropped(DropReason::EgressFull), 0, "{accounting:?}");
        assert!((2..5).all(|port| ids.iter().all(|&id| star.at(port).received(id).frames == 20)));
    }
}

#[test]
fn flood_counts_at_ingress_until_last_copy_leaves() {
    let mut plan = plan::switch(&[LINK; 4]);
    plan.each_lossless(|class| (class.xoff, class.xon) = (Bytes(1_000_000), Bytes(500_000)));
    let (mut star, id) = broadcast(plan, C3);
    star.pause(2, stop(C3, 0xffff));
    star.run_for(Nanos::from_millis(1));
    assert_eq!(star.at(1).received(id).frames, FRAMES, "unpaused port did not get all floods");
    let waiting = FRAMES - star.at(2).received(id).frames;
    let held = star.switch().worker(PortId(0)).buffer().ingress(PortId(0), C3);
    assert_eq!(held, Bytes(waiting * 64), "a queued flood does not count once at its ingress");
    star.pause(2, resume(C3));
    star.run_to_rest();
    assert_eq!(star.at(2).received(id).frames, FRAMES);
}

#[test] // proves: floods
fn number_of_lossless_flood_copies_is_limited() {
    let mut plan = plan::switch(&[LINK; 3]);
    plan.slots = 8_000;
    plan.may_lose = true;
    plan.each_lossless(|class| (class.xoff, class.xon, class.egress_max) = (NO_LIMIT, NO_LIMIT, NO_LIMIT));
    let most = 3 * u64::from(FLOOD_COPIES_MAX);
    for beyond in [0, 1] {
        let mut star = Star::new(plan.clone());
        let frames = most + beyond;
        [1, 2].into_iter().for_each(|port| star.pause(port, stop(C3, 0xffff)));
        star.run_for(Nanos::from_micros(10));
        let stream = Stream { class: C3, len: 60, ..Stream::new(MacAddr::BROADCAST, frames, star.now()) };
        let id = star.start_to_all(0, stream);
        star.run_for(Nanos::from_millis(3));
        let missing = star.switch().counters.class(PortId(1), C3).drops[DropReason::NoFrames.index()].get();
        assert_eq!(missing, beyond, "{frames} frames");
        star.run_to_rest();
        assert_eq!(star.at(1).received(id).frames + missing, frames);
        assert_eq!(star.at(2).received(id).frames, frames);
    }
}

#[test]
fn flood_copy_without_free_slot_is_counted_as_dropped() {
    let mut plan = plan::switch(&[LINK; 3]);
    plan.slots = 40;
    plan.control_slots = 2;
    plan.may_lose = true;
    let (mut star, id) = broadcast(plan, C3);
    star.pause(2, stop(C3, 0xffff));
    star.run_for(Nanos::from_millis(2));
    assert_eq!(star.switch().worker(PortId(2)).buffer().egress(PortId(2), C3), Bytes(40 * 64));
    let missing = star.switch().counters.class(PortId(1), C3).drops[DropReason::NoFrames.index()].get();
    star.run_to_rest();
    let received = star.at(1).received(id);
    assert!(missing > 0);
    assert_eq!(received.frames + missing + star.switch().unreceived_frames(), FRAMES);
    assert_eq!(received.late_or_twice, 0);
}
