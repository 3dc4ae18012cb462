use xoff_dataplane::switch::{Switch, Workers};
use xoff_flow_control::counters::Counters;
use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::{Accounting, VlanSettings, WhenFull};
use xoff_wire::header::Header;
use xoff_wire::mac_control::{MacControl, Pfc};
use xoff_wire::units::{Bytes, ClassSet, Nanos, PortId, Quanta};

use crate::bed::plan::{self, LINK};
use crate::bed::store::MemoryStore;
use crate::bed::{Star, Stream};
use crate::{C0, C3, C4, resume, stop};

#[test] // proves: link-down
fn link_loss_ends_pause_received_from_peer() {
    let mut star = Star::new(plan::switch(&[LINK; 2]));
    star.pause(0, stop(C3, 0xffff));
    star.run_for(Nanos::from_micros(10));
    star.set_link(0, false);
    star.run_for(Nanos::from_micros(10));
    star.set_link(0, true);
    let up = star.now();
    let flow = star.start(1, 0, star.stream(0, C3, 1));
    star.run_to_rest();
    star.assert_whole(flow, 1);
    assert_eq!(star.received(flow).last_at, up + Nanos(2 * (12_304 + 500)), "the pause outlived the link");
}

#[test] // proves: link-down
fn pause_of_peer_is_sent_again_after_link_flap() {
    let mut star = Star::new(plan::switch(&[LINK; 2]));
    star.pause(0, stop(C3, 0xffff));
    let flow = star.start(1, 0, star.stream(0, C3, 200));
    star.run_for(Nanos::from_micros(900));
    assert!(star.holds(1, C3));
    star.set_link(1, false);
    star.run_for(Nanos::from_micros(20)); // no refresh is due in this time
    star.set_link(1, true);
    assert_eq!(star.at(1).paused(star.now()), ClassSet::NONE, "the peer is still paused after the flap");
    star.run_for(Nanos(672 + 500));
    assert!(star.at(1).paused(star.now()).contains(C3), "the peer was not paused again at once");
    star.run_for(Nanos::from_millis(2));
    star.pause(0, resume(C3));
    star.run_to_rest();
    assert!(star.lost(flow) <= 1);
    assert_eq!(star.switch().counters.dropped(DropReason::HeadroomExhausted), 0);
}

#[test] // proves: link-down
fn link_loss_drops_queued_frames_and_resumes_their_senders() {
    let mut star = Star::new(plan::switch(&[LINK; 3]));
    let flows = [1, 2].map(|from| star.start(from, 0, star.stream(0, C3, 400)));
    star.run_for(Nanos::from_millis(3));
    let held = [1, 2].map(|port| star.holds(port, C3));
    assert!(held.contains(&true), "no peer was paused when the link went down");
    star.set_link(0, false);
    assert_eq!([1, 2].map(|port| star.holds(port, C3)), [false; 2]);
    star.run_for(Nanos::from_millis(1));
    let dropped = star.switch().counters.dropped(DropReason::LinkDown);
    assert!(dropped > 10, "{dropped}");
    star.set_link(0, true);
    star.run_to_rest();
    let lost: u64 = flows.iter().map(|&flow| star.lost(flow)).sum();
    let dropped = star.switch().counters.dropped(DropReason::LinkDown);
    assert!(
        (dropped..=dropped + 2).contains(&lost),
        "{lost} frames lost, {dropped} dropped; at most two may be on the wire"
    );
    assert!(flows.iter().all(|&flow| star.received(flow).late_or_twice == 0));
}

#[test] // proves: link-down
fn frames_dropped_by_link_loss_do_not_reduce_share_of_class() {
    let mut star = Star::new(plan::switch(&[LINK; 3]));
    let both = MacControl::Pfc(Pfc::default().with(C3, Quanta(600)).with(C4, Quanta(600)));
    star.pause(0, both);
    star.start(1, 0, star.stream(0, C3, 15));
    star.run_for(Nanos::from_micros(250));
    star.set_link(0, false);
    assert_eq!(star.switch().counters.class(PortId(0), C3).drops[DropReason::LinkDown.index()].get(), 15);
    star.set_link(0, true);
    star.pause(0, both);
    let flows = [(1, C3), (2, C4)].map(|(from, class)| star.start(from, 0, star.stream(0, class, 15)));
    star.run_for(Nanos(307_200 + 12 * 12_304));
    let [dropped, other] = flows.map(|flow| star.received(flow).frames);
    assert!(dropped.abs_diff(other) <= 1, "{dropped} and {other} frames sent by two classes of equal weight");
    star.run_to_rest();
}

#[test]
fn repeated_link_flaps_leave_no_pause_or_frame() {
    const FLAPS: u64 = 30;
    for seed in xoff_explore::seeds(0..20) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut plan = plan::switch(&[LINK; 4]);
        // Make headroom larger, because after each link loss a peer sends until it is paused again.
        plan.each_lossless(|class| class.headroom = Bytes(class.headroom.0 * (1 + FLAPS)));
        let mut star = Star::new(plan);
        for from in 1..4 {
            star.start(from, 0, star.stream(0, C3, 300));
            star.start(0, from, Stream { len: 300, ..star.stream(from, C0, 300) });
        }
        star.run_for(Nanos::from_micros(1));
        for _ in 0..FLAPS {
            let port = rng.u8(0..4);
            star.set_link(port, false);
            star.run_for(Nanos(rng.u64(0..150_000)));
            star.set_link(port, true);
            star.run_for(Nanos(rng.u64(0..150_000)));
        }
        star.run_to_rest();
    }
}

#[test] // proves: pause-frames
fn peer_resumes_at_expiry_if_xon_is_lost() {
    let mut plan = plan::switch(&[LINK; 2]);
    plan.may_lapse = true;
    let mut star = Star::new(plan);
    let xon = resume(C3).encode(star_mac(1));
    star.lose(1, move |bytes| bytes == xon);
    star.pause(0, stop(C3, 4_000));
    let flow = star.start(1, 0, star.stream(0, C3, 200));
    star.run_to_rest();
    star.assert_whole(flow, 200);
    assert_eq!(star.switch().counters.class(PortId(1), C3).xon_sent.get(), 1);
    let pauses = star.at(1).pauses();
    assert!(pauses.iter().all(|(_, what)| *what != resume(C3)), "the XON arrived");
    let resumed = pauses.last().map(|&(at, _)| at.after(Nanos(512_000))).expect("the peer was never paused");
    let arrivals = star.arrivals(flow);
    let gap = arrivals.windows(2).find(|two| two[1].since(two[0]) > Nanos(12_304) && two[0] > pauses[0].0);
    let through_the_switch = Nanos(2 * (12_304 + 500));
    assert_eq!(gap.map(|two| two[1]), Some(resumed + through_the_switch));
}

fn star_mac(port: usize) -> xoff_wire::units::MacAddr {
    plan::switch(&[LINK; 2]).settings.ports[port].mac
}

#[test]
fn peer_stays_paused_despite_lost_pause_refreshes() {
    let mut plan = plan::switch(&[LINK; 2]);
    plan.each_port(|port| port.refresh = Nanos(512_000 / 4));
    let mut star = Star::new(plan);
    let mut count = 0;
    star.lose(1, move |bytes| {
        count += u32::from(bytes[12..14] == [0x88, 0x08]);
        bytes[12..14] == [0x88, 0x08] && count % 3 != 1
    });
    star.pause(0, stop(C3, 0xffff));
    let flow = star.start(1, 0, star.stream(0, C3, 100));
    star.run_for(Nanos::from_millis(20));
    let sent = star.at(1).sent(flow.id);
    assert!(sent < 30, "the peer sent {sent} frames: its pause lapsed");
    star.run_to_rest();
    star.assert_whole(flow, 100);
}

#[test]
fn pause_is_sent_as_soon_as_control_frame_pool_has_a_frame() {
    let mut plan = plan::switch(&[LINK; 4]);
    plan.control_slots = 1;
    plan.each_lossless(|class| class.headroom += Bytes(3_000));
    let mut star = Star::new(plan);
    star.pause(0, stop(C3, 8_000));
    let flows = [1, 2, 3].map(|from| star.start(from, 0, star.stream(0, C3, 100)));
    star.run_for(Nanos::from_micros(10));
    while !(1..4).all(|port| star.holds(port, C3)) {
        star.run_for(Nanos::from_micros(10));
    }
    let starved = (0..4).map(|port| star.switch().counters.port(PortId(port)).control_starved.get());
    assert_eq!(starved.sum::<u64>(), 2, "two of three pause frames did not wait for the control frame");
    star.run_to_rest();
    flows.iter().for_each(|&flow| star.assert_whole(flow, 100));
}

#[test]
fn last_frames_leave_although_no_more_traffic_arrives() {
    for frames in 1..=40 {
        let mut star = Star::new(plan::switch(&[LINK; 2]));
        let flow = star.start(1, 0, Stream { len: 60, ..star.stream(0, C3, frames) });
        star.run_to_rest();
        star.assert_whole(flow, frames);
    }
}

#[test] // proves: start-stop
fn stopping_switch_sends_xon_to_paused_peers() {
    let mut star = Star::new(plan::switch(&[LINK; 3]));
    star.pause(0, stop(C3, 0xffff));
    for from in [1, 2] {
        star.start(from, 0, star.stream(0, C3, 100));
    }
    star.run_for(Nanos::from_millis(1));
    assert!(star.holds(1, C3) && star.holds(2, C3));
    star.release_peers();
    star.run_for(Nanos(12_304 + 672 + 500));
    for host in [1, 2] {
        assert_eq!(star.at(host).pauses().last().map(|(_, what)| *what), Some(resume(C3)));
    }
    let counted = star.switch().counters.class(PortId(1), C3);
    assert_eq!(counted.held_since.get(), 0);
    assert!(counted.held_nanos.get() > 500_000);
}

#[test] // proves: start-stop
fn stopping_switch_schedules_no_xon_at_port_without_link() {
    let mut star = Star::new(plan::switch(&[LINK; 3]));
    star.pause(0, stop(C3, 0xffff));
    for from in [1, 2] {
        star.start(from, 0, star.stream(0, C3, 100));
    }
    star.run_for(Nanos::from_millis(1));
    star.set_link(1, false);
    star.run_for(Nanos::from_millis(2));
    assert!(star.holds(1, C3), "the peer without link is no longer paused");
    star.release_peers();
    assert!(!star.switch().worker(PortId(1)).announcements_due().contains(PortId(1)));
    assert_eq!(star.switch().counters.class(PortId(1), C3).held_since.get(), 0);
}

#[test] // proves: pipeline
fn oversized_frame_does_not_halt_pipeline() {
    let mut plan = plan::switch(&[LINK; 2]);
    plan.settings.when_full = WhenFull::Stop;
    plan.settings.ports[0].mtu_frame = 500;
    plan.settings.ports[0].classes[C0.index()].egress_max = Bytes(1_000);
    let mut star = Star::new(plan);
    let long = star.start(1, 0, star.stream(0, C0, 3));
    star.run_to_rest();
    assert_eq!(star.lost(long), 3);
    let drops = &star.switch().counters.class(PortId(0), C0).drops;
    assert_eq!(drops[DropReason::TooLong.index()].get(), 3);
    let short = star.start(1, 0, Stream { len: 500, ..star.stream(0, C0, 3) });
    star.run_to_rest();
    star.assert_whole(short, 3);
}

fn tagged(star: &Star, types: &[u16], len: usize) -> Vec<u8> {
    let mut bytes = [star.mac(0).0, star.mac(1).0].concat();
    types.iter().for_each(|tag| bytes.extend([&tag.to_be_bytes()[..], &[0, 0]].concat()));
    bytes.extend([0x88, 0xb6]);
    bytes.resize(len, 0x5a);
    bytes
}

#[test] // proves: classification
fn longest_frame_with_two_tags_passes() {
    let mut star = Star::new(plan::switch(&[LINK; 2]));
    let most = [(&[][..], 1_514), (&[0x88a8], 1_518), (&[0x88a8, 0x8100], 1_522), (&[0x8100; 2], 1_522)];
    for (tags, len) in most {
        let (fits, does_not) = (tagged(&star, tags, len), tagged(&star, tags, len + 1));
        star.inject(1, &does_not);
        star.inject(1, &fits);
    }
    star.run_to_rest();
    let expected: Vec<Vec<u8>> = most.iter().map(|(tags, len)| tagged(&star, tags, *len)).collect();
    assert_eq!(star.at(0).strange, expected);
    let drops = &star.switch().counters.class(PortId(1), C0).drops;
    assert_eq!(drops[DropReason::TooLong.index()].get(), 4);
}

/// A frame with 802.1ad and 802.1Q tags gets a third tag at a tagged member, and then exceeds the MTU.
#[test] // proves: classification
fn frame_too_long_after_tag_insertion_is_dropped() {
    for accounting in [Accounting::UntilTransmitted, Accounting::UntilForwarded] {
        let mut plan = plan::switch(&[LINK; 2]);
        let (tagged_at, untagged) = (vec![PortId(0)], vec![PortId(1)]);
        plan.settings.vlans = vec![VlanSettings { vid: 1, tagged: tagged_at, untagged }];
        (plan.settings.accounting, plan.settings.when_full) = (accounting, WhenFull::Stop);
        let mut star = Star::new(plan);
        let most = [(&[][..], 1_514), (&[0x88a8], 1_518), (&[0x88a8, 0x8100], 1_518), (&[0x8100; 2], 1_522)];
        for (tags, len) in most {
            for len in [len + 1, len] {
                star.inject(1, &tagged(&star, tags, len));
            }
        }
        star.run_to_rest();
        let lens: Vec<usize> = star.at(0).strange.iter().map(Vec::len).collect();
        assert_eq!(lens, [1_518, 1_522, 1_522, 1_522]);
        let drops =
            |port| star.switch().counters.class(PortId(port), C0).drops[DropReason::TooLong.index()].get();
        assert_eq!((drops(1), drops(0)), (3, 1), "frames too long on arrival or departure were not dropped");
    }
}

#[test] // proves: start-stop
fn stopping_switch_sends_no_data_before_xon() {
    let mut plan = plan::switch(&[LINK; 3]);
    plan.control_slots = 1;
    plan.each_lossless(|class| class.headroom += Bytes(10_000));
    let mut star = Star::new(plan);
    star.pause(0, stop(C3, 0xffff));
    for from in [1, 2] {
        star.start(from, 0, star.stream(0, C3, 100));
        star.start(0, from, star.stream(from, C0, 100));
        star.start(3 - from, from, star.stream(from, C0, 100));
    }
    star.run_for(Nanos::from_millis(1));
    assert!(star.holds(1, C3) && star.holds(2, C3));
    let waiting = |star: &Star, port| {
        let worker = star.switch().worker(port);
        worker.buffer().egress(port, C0).saturating_sub(worker.committed(port))
    };
    let before = [PortId(1), PortId(2)].map(|port| waiting(&star, port));
    assert!(before.iter().all(|&bytes| bytes > Bytes::ZERO), "no data is queued behind the pause frames");
    star.release_peers();
    star.run_for(Nanos::from_micros(50));
    for host in [1, 2] {
        assert_eq!(star.at(host).pauses().last().map(|(_, what)| *what), Some(resume(C3)));
    }
    let after = [PortId(1), PortId(2)].map(|port| waiting(&star, port));
    assert!(
        after.iter().zip(before).all(|(&after, before)| after >= before),
        "data was sent while the switch stopped: {before:?} queued, then {after:?}"
    );
}

#[test]
fn link_loss_wakes_frame_waiting_at_full_egress_queue() {
    let mut plan = plan::switch(&[LINK; 2]);
    (plan.settings.accounting, plan.settings.when_full) = (Accounting::UntilForwarded, WhenFull::Stop);
    plan.each_lossless(|class| class.egress_max = Bytes(20_000));
    let mut star = Star::new(plan);
    star.pause(0, stop(C3, 0xffff));
    star.start(1, 0, star.stream(0, C3, 100));
    star.run_for(Nanos::from_millis(1));
    let can_forward = |star: &Star| star.switch().worker(PortId(1)).next_deadline() == Nanos::ZERO;
    assert!(star.holds(1, C3) && !can_forward(&star), "the frames do not wait");
    star.set_link(0, false);
    assert!(can_forward(&star), "frames were not woken by the loss of the link");
}

#[test] // proves: link-down
fn xoff_left_in_driver_at_link_loss_is_revoked_at_link_up() {
    let mut plan = plan::switch(&[LINK; 2]);
    plan.each_lossless(|class| (class.xoff, class.xon) = (Bytes(100), Bytes(50)));
    let mut store = MemoryStore::new(8, 8, 16, 2000);
    let mut switch = Switch::new(&plan.settings, 16, Workers::single(2), Counters::new(2));
    let [out, held] = [PortId(0), PortId(1)];
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0x00, 0x60, 0x00, 0x88, 0xb5];
    bytes.resize(200, 0);
    let frame = store.fill(&bytes).expect("no slot is free");
    let mut batch = switch.batch(Nanos(1));
    batch.receive(held, frame, &mut store);
    assert!(batch.forward(&mut store));
    let with_driver = batch.announce(held, &mut store).expect("an XOFF");
    drop(batch);
    switch.batch(Nanos(2)).set_link(held, false, &mut store);
    let mut data = None;
    let mut batch = switch.batch(Nanos(3));
    batch.transmit(out, &mut store, 1, |_, frame| data = Some(frame));
    batch.release(out, data.expect("no frame was sent"), &mut store);
    drop(batch);
    assert_eq!(switch.held(held).classes(), ClassSet::NONE);
    let mut batch = switch.batch(Nanos(4));
    batch.set_link(held, true, &mut store);
    let after = batch.announce(held, &mut store).expect("no pause frame was sent after the flap");
    drop(batch);
    let pfc = parse(store.frame(&after));
    assert_eq!((pfc.classes.contains(C3), pfc.times), (true, [Quanta(0); 8]));
    let mut batch = switch.batch(Nanos(5));
    batch.release(held, with_driver, &mut store);
    batch.release(held, after, &mut store);
    assert!(batch.announce(held, &mut store).is_none(), "the pause state was sent twice");
    batch.set_link(held, false, &mut store);
    batch.set_link(held, true, &mut store);
    assert!(
        batch.announce(held, &mut store).is_none(),
        "a pause frame was sent although the driver had none"
    );
}

fn parse(bytes: &[u8]) -> Pfc {
    let header = Header::parse(bytes).expect("frame has no valid header");
    match MacControl::parse(&header, bytes) {
        Ok(MacControl::Pfc(pfc)) => pfc,
        other => panic!("{other:?} is no PFC frame"),
    }
}

#[test] // proves: workers
fn switch_reports_whether_freed_memory_may_unblock_a_frame() {
    let mut star = Star::new(plan::switch(&[LINK; 3]));
    let waits = |star: &Star| star.switch().worker(PortId(0)).waits_for_releases();
    let one = star.start(1, 0, star.stream(0, C3, 1));
    star.run_to_rest();
    star.assert_whole(one, 1);
    assert!(!waits(&star), "the switch waits for freed memory although no frame is queued");
    star.pause(0, stop(C3, 0xffff));
    let many = star.start(1, 0, star.stream(0, C3, 100));
    star.run_for(Nanos::from_millis(1));
    assert!(star.holds(1, C3) && waits(&star));
    star.pause(0, resume(C3));
    star.run_to_rest();
    star.assert_whole(many, 100);
    assert!(!waits(&star));
    let mut committed = plan::switch(&[LINK; 3]);
    committed.each_port(|port| port.commit = Bytes(1));
    let mut star = Star::new(committed);
    for from in [1, 2] {
        star.start(from, 0, star.stream(0, C0, 1));
    }
    star.run_for(Nanos::from_micros(20));
    assert!(waits(&star), "the switch does not wait for the freed memory that would unblock a frame");
    star.run_to_rest();
    assert!(!waits(&star));
}

#[test]
fn prefetch_of_invalid_slots_and_ports_does_not_panic() {
    for ports in [1, 256] {
        let plan = plan::switch(&vec![LINK; ports]);
        let switch = Switch::new(&plan.settings, 16, Workers::single(ports), Counters::new(ports));
        (0..=300).chain([usize::MAX]).for_each(|step| switch.prefetch(step));
        [0, 15, 16, u32::MAX].into_iter().for_each(|slot| switch.prefetch_frame(slot));
        for (port, len) in [0, 1, 255].into_iter().flat_map(|port| [0, 5, 6, 60].map(|len| (port, len))) {
            switch.prefetch_coming(PortId(port), &[2; 60][..len]);
        }
    }
}

#[test]
fn prefetch_of_largest_port_number_changes_no_frame() {
    let mut star = Star::new(plan::switch(&[LINK; 255]));
    star.pause(254, stop(C3, 0xffff));
    let flow = star.start(253, 254, star.stream(254, C3, 10));
    star.run_for(Nanos::from_micros(500));
    assert!(star.switch().counters.between(PortId(253), PortId(254), C3).get() > 0);
    let switch = star.switch().worker(PortId(254));
    (0..=256).for_each(|step| switch.prefetch(step));
    star.pause(254, resume(C3));
    star.run_to_rest();
    star.assert_whole(flow, 10);
}
