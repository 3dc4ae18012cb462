//! Groups whose members are ports of several workers, where frames wait for room: who receives one leaves out what is full elsewhere,
//! and who has been handed it over chooses again.

use std::collections::VecDeque;

use xoff_dataplane::counters::Counters;
use xoff_dataplane::frame::Frame;
use xoff_dataplane::settings::{Spread, SwitchSettings, WatchdogAction, WatchdogSettings, WhenFull};
use xoff_dataplane::switch::{Revision, Switch, WorkerId, Workers};
use xoff_dataplane::units::{BitRate, Bytes, MacAddr, Nanos, PortId};

use super::{BEYOND, EACH_FRAME, SIZE, SPREADS, beyond, fan, group, shares, waiting};
use crate::bed::store::MemoryStore;
use crate::bed::{Flow, Star, Stream, SwitchPlan};
use crate::{C3, resume, stop};

const STOPS: [WhenFull; 2] = [WhenFull::Stop, WhenFull::StopClass];
const IN_TURN: Spread = SPREADS[1];
/// All members are the other worker's, or half of them.
const AWAY: [[u8; 6]; 2] = [[0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1]];

/// Ports are of these workers, and each member has room for so many bytes.
fn plan(spread: Spread, when_full: WhenFull, owners: [u8; 6], egress_max: u64) -> SwitchPlan {
    let mut plan = fan(spread);
    (plan.owners, plan.settings.when_full) = (owners.to_vec(), when_full);
    plan.each_lossless(|class| class.egress_max = Bytes(egress_max));
    plan
}

/// Nothing of class 3 leaves by these members.
fn paused(plan: SwitchPlan, members: std::ops::Range<usize>) -> Star {
    let mut star = Star::new(plan);
    members.for_each(|port| star.pause(port, stop(C3, 0xffff)));
    star.run_for(Nanos::from_micros(200));
    star
}

fn let_go(star: &mut Star, member: usize) {
    star.pause(member, resume(C3));
    star.run_for(Nanos::from_micros(400));
}

#[test]
fn what_waits_at_another_worker_goes_on_by_any_member_of_that_with_room() {
    for (when_full, spread) in STOPS.into_iter().flat_map(|stops| EACH_FRAME.map(|spread| (stops, spread))) {
        for owners in AWAY {
            let mut star = paused(plan(spread, when_full, owners, 2 * SIZE + 1), 2..6);
            let id = star.start_to_all(0, Stream { from: star.now(), ..beyond(C3, 12) });
            star.run_for(Nanos::from_millis(1));
            assert_eq!(waiting(&star, C3), [2 * SIZE; 4], "all are full, {spread:?}");
            let_go(&mut star, 4);
            assert_eq!(shares(&star, id), [0, 0, 6, 0], "{spread:?}, {when_full:?}, {owners:?}");
            [2, 3, 5].into_iter().for_each(|port| let_go(&mut star, port));
            star.run_to_rest();
            assert_eq!(shares(&star, id), [2, 2, 6, 2]);
        }
    }
}

#[test]
fn a_member_of_another_worker_is_left_out_where_it_has_no_room_for_the_last_byte() {
    for (when_full, spread) in STOPS.into_iter().flat_map(|stops| EACH_FRAME.map(|spread| (stops, spread))) {
        for (egress_max, fit) in [(2 * SIZE, 1), (2 * SIZE + 1, 2)] {
            let mut star = paused(plan(spread, when_full, AWAY[1], egress_max), 4..6);
            let rate = Some(BitRate::from_mbps(400));
            let id = star.start_to_all(0, Stream { from: star.now(), rate, ..beyond(C3, 40) });
            star.run_for(Nanos::from_millis(2));
            assert_eq!(waiting(&star, C3), [0, 0, fit * SIZE, fit * SIZE], "{spread:?}, {when_full:?}");
            assert_eq!(shares(&star, id).iter().sum::<u64>(), 40 - 2 * fit, "nothing waits for these");
            (4..6).for_each(|port| let_go(&mut star, port));
            star.run_to_rest();
            assert_eq!(shares(&star, id).iter().sum::<u64>(), 40);
        }
    }
}

/// All of a look are handed over by what counters said before it.
#[test]
fn a_frame_that_finds_its_member_full_takes_another_to_the_last_byte() {
    for when_full in STOPS {
        for (egress_max, fit, waits) in [(6 * SIZE, 5, 1), (6 * SIZE + 1, 6, 0)] {
            let mut plan = plan(IN_TURN, when_full, AWAY[0], 2 * SIZE + 1);
            plan.settings.ports[5].classes[C3.index()].egress_max = Bytes(egress_max);
            plan.gap = Nanos::from_micros(200);
            let mut star = paused(plan, 2..6);
            let id = star.start_to_all(0, Stream { from: star.now(), ..beyond(C3, 12) });
            star.run_for(Nanos::from_millis(1));
            assert_eq!(waiting(&star, C3), [2 * SIZE, 2 * SIZE, 2 * SIZE, fit * SIZE], "three each, in turn");
            let_go(&mut star, 2);
            star.run_for(Nanos::from_micros(400));
            assert_eq!(shares(&star, id), [2 + waits, 0, 0, 0], "{when_full:?}");
            (3..6).for_each(|port| let_go(&mut star, port));
            star.run_to_rest();
            assert_eq!(shares(&star, id), [2 + waits, 2, 2, fit]);
        }
    }
}

/// All members are paused; where there is a storm the watchdog closes one, and what waits goes to no other.
#[test]
fn what_waits_at_a_group_goes_on_by_a_member_whose_storm_has_ended() {
    let (detect, restore) = (Nanos::from_millis(1), Nanos::from_millis(2));
    for (when_full, owners) in
        STOPS.into_iter().flat_map(|stops| [AWAY[0], [0; 6]].map(|owners| (stops, owners)))
    {
        let mut plan = plan(IN_TURN, when_full, owners, 2 * SIZE + 1);
        plan.may_lose = true;
        let settings = WatchdogSettings { action: WatchdogAction::Drop, detect, restore };
        plan.settings.ports[2].classes[C3.index()].watchdog = Some(settings);
        let mut star = paused(plan, 2..6);
        let id = star.start_to_all(0, Stream { from: star.now(), ..beyond(C3, 12) });
        star.run_for(detect + detect);
        assert_eq!(waiting(&star, C3), [0, 2 * SIZE, 2 * SIZE, 2 * SIZE], "the first is closed");
        star.pause(2, resume(C3));
        star.run_for(restore);
        assert_eq!(shares(&star, id), [0; 4], "not yet, {when_full:?}, {owners:?}");
        star.run_for(restore);
        assert_eq!(shares(&star, id), [4, 0, 0, 0], "two of twelve were in its queue, six wait at others");
        (3..6).for_each(|port| let_go(&mut star, port));
        star.run_to_rest();
        assert_eq!(shares(&star, id), [4, 2, 2, 2]);
    }
}

#[test]
fn a_flow_waits_for_its_member_at_another_worker_and_stays_in_order() {
    for when_full in STOPS {
        for owners in AWAY {
            let mut star = paused(plan(Spread::Flow, when_full, owners, 2 * SIZE + 1), 2..6);
            let id = star.start_to_all(0, Stream { from: star.now(), ..beyond(C3, 12) });
            star.run_for(Nanos::from_millis(1));
            let of_member = waiting(&star, C3);
            let own = 2 + of_member.iter().position(|bytes| *bytes > 0).expect("one has it");
            assert_eq!(of_member.iter().sum::<u64>(), 2 * SIZE);
            (2..6).filter(|port| *port != own).for_each(|port| let_go(&mut star, port));
            assert_eq!(shares(&star, id), [0; 4], "{when_full:?}");
            let_go(&mut star, own);
            star.run_to_rest();
            star.came_whole(Flow { from: 0, to: own, id }, 12);
        }
    }
}

/// They hold up nothing but themselves.
#[test]
fn a_copy_of_a_flood_stays_with_its_member() {
    for when_full in STOPS {
        let mut star = paused(plan(IN_TURN, when_full, AWAY[0], 2 * SIZE + 1), 2..6);
        let to_all = Stream::new(MacAddr::BROADCAST, 12, star.now());
        let copies = star.start_to_all(0, to_all);
        star.run_for(Nanos::from_millis(1));
        assert_eq!(waiting(&star, C3), [2 * SIZE; 4], "three each, and one of them waits");
        let behind = star.start_to_all(0, Stream { from: star.now(), ..beyond(C3, 1) });
        star.run_for(Nanos::from_micros(100));
        let_go(&mut star, 4);
        assert_eq!(shares(&star, copies), [0, 0, 3, 0], "{when_full:?}");
        assert_eq!(shares(&star, behind), [0, 0, 1, 0]);
        [2, 3, 5].into_iter().for_each(|port| let_go(&mut star, port));
        star.run_to_rest();
        assert_eq!((shares(&star, copies), star.at(1).seen(copies).frames), ([3; 4], 12));
    }
}

#[test]
fn what_waits_when_its_group_is_another_leaves_by_the_port_that_was_chosen() {
    for when_full in STOPS {
        let mut star = paused(plan(IN_TURN, when_full, AWAY[0], 2 * SIZE + 1), 2..6);
        let id = star.start_to_all(0, Stream { from: star.now(), ..beyond(C3, 12) });
        star.run_for(Nanos::from_millis(1));
        let settings = star.switch().settings.clone();
        star.revise(lead_by(settings, 4..6));
        let_go(&mut star, 4);
        assert_eq!(shares(&star, id), [0, 0, 3, 0], "one of those that waited was for it");
        [2, 3, 5].into_iter().for_each(|port| let_go(&mut star, port));
        star.run_to_rest();
        assert_eq!(shares(&star, id), [3; 4]);
    }
}

fn lead_by(mut settings: SwitchSettings, members: std::ops::Range<u8>) -> SwitchSettings {
    settings.fdb.statics.retain(|(_, mac, _)| *mac != BEYOND);
    settings.fdb.statics.push((1, BEYOND, PortId(members.start)));
    settings.groups = vec![group(members, IN_TURN, 1)];
    settings
}

/// Two workers in turns, by hand: one has received eight frames for a group in turn, whose members are all the other's.
struct ByHand {
    now: Nanos,
    plan: SwitchPlan,
    roles: [Workers; 2],
    receives: Switch,
    sends: Switch,
    store: MemoryStore,
}

impl ByHand {
    fn new() -> ByHand {
        ByHand::of([SIZE; 8])
    }

    /// The same with frames of these sizes.
    fn of<const FRAMES: usize>(sizes: [u64; FRAMES]) -> ByHand {
        ByHand::with(WhenFull::StopClass, SIZE + 1, sizes)
    }

    /// The same where queues have that much room.
    fn with<const FRAMES: usize>(when_full: WhenFull, egress_max: u64, sizes: [u64; FRAMES]) -> ByHand {
        let now = Nanos::from_micros(1);
        let plan = plan(IN_TURN, when_full, AWAY[0], egress_max);
        let counters = Counters::new(6);
        let roles = [0, 1].map(|me| Workers::new(AWAY[0].map(WorkerId).into(), WorkerId(me)));
        let [mut receives, sends] =
            roles.clone().map(|roles| Switch::new(&plan.settings, 40, roles, counters.clone()));
        let mut store = MemoryStore::new(30, 10, 16, 1_600);
        let mut bytes = [&BEYOND.0[..], &[2, 0, 0, 0, 0, 1, 0x81, 0, 3 << 5, 1, 0x88, 0xb5]].concat();
        for size in sizes {
            bytes.resize(usize::try_from(size - 4).expect("a frame's length"), 0);
            let frame = store.fill(&bytes).expect("a slot is free");
            receives.batch(now).receive(PortId(0), frame, &mut store);
        }
        while receives.batch(now).forward(&mut store) {}
        ByHand { now, plan, roles, receives, sends, store }
    }

    fn hand_over(&mut self, frames: u32) {
        for _ in 0..frames {
            let handover = self.receives.batch(self.now).hand_over(WorkerId(1)).expect("it is on its way");
            self.sends.batch(self.now).take_over(handover, &mut self.store);
        }
    }

    fn revise(&mut self, settings: &SwitchSettings) {
        for (worker, roles) in [&mut self.receives, &mut self.sends].into_iter().zip(&self.roles) {
            let revision = Box::new(Revision::new(settings.clone(), roles, 40));
            drop(worker.batch(self.now).revise(revision, &mut self.store));
        }
    }

    /// How many leave by a port.
    fn leave(&mut self, port: u8) -> usize {
        (0..10).filter_map(|_| self.leave_next(port)).count()
    }

    /// The length of the next frame that leaves by a port, if there is one.
    fn leave_next(&mut self, port: u8) -> Option<u32> {
        self.now += Nanos::from_micros(20);
        let mut ring: VecDeque<Frame> = VecDeque::new();
        let mut batch = self.sends.batch(self.now);
        batch.transmit(PortId(port), &mut self.store, 1, |_, frame| ring.push_back(frame));
        let frame = ring.pop_front()?;
        let len = frame.len();
        batch.release(PortId(port), frame, &mut self.store);
        Some(len)
    }

    fn all_have_left(mut self) {
        while let Some(back) = self.sends.batch(self.now).give_back(WorkerId(0)) {
            self.receives.batch(self.now).take_back(back, &mut self.store);
        }
        assert_eq!(self.store.in_use(), 0);
    }
}

/// Frames are on their way from one worker to the other while both are told of other groups.
#[test]
fn what_is_on_its_way_when_its_group_is_another_leaves_by_the_port_that_was_chosen() {
    let mut by_hand = ByHand::new();
    by_hand.hand_over(4);
    let settings = lead_by(by_hand.plan.settings.clone(), 2..4);
    by_hand.revise(&settings);
    by_hand.hand_over(4);
    assert_eq!([3, 2, 4, 5].map(|port| by_hand.leave(port)), [2; 4], "in turn, as groups were");
    by_hand.all_have_left();
}

/// The worker that has received them does not know yet.
#[test]
fn what_is_on_its_way_to_a_member_that_has_lost_its_link_takes_another() {
    let mut by_hand = ByHand::new();
    by_hand.sends.batch(by_hand.now).set_link(PortId(2), false, &mut by_hand.store);
    by_hand.hand_over(8);
    let left: usize = [3, 4, 5, 3, 4, 5].map(|port| by_hand.leave(port)).into_iter().sum();
    assert_eq!((left, by_hand.leave(2)), (8, 0));
    by_hand.all_have_left();
}

/// Also where nothing waits for room, and what finds none is dropped.
#[test]
fn what_is_not_to_wait_takes_another_member_where_its_own_has_lost_its_link() {
    for (egress_max, leave) in [(8 * SIZE, 8), (SIZE + 1, 3)] {
        let mut by_hand = ByHand::with(WhenFull::Drop, egress_max, [SIZE; 8]);
        by_hand.sends.batch(by_hand.now).set_link(PortId(2), false, &mut by_hand.store);
        by_hand.hand_over(8);
        let left: usize = [3, 4, 5].map(|port| by_hand.leave(port)).into_iter().sum();
        assert_eq!((left, by_hand.leave(2)), (leave, 0));
        by_hand.all_have_left();
    }
}

/// Others may be of another VLAN now.
#[test]
fn what_waits_when_its_group_is_another_takes_only_members_that_are_still_beside_its_own() {
    for (lost, left) in [(4, [2, 2, 0, 3]), (2, [0, 2, 2, 2])] {
        let mut by_hand = ByHand::new();
        by_hand.hand_over(8);
        by_hand.sends.batch(by_hand.now).set_link(PortId(lost), false, &mut by_hand.store);
        let settings = lead_by(by_hand.plan.settings.clone(), 4..6);
        by_hand.revise(&settings);
        assert_eq!([2, 3, 4, 5].map(|port| by_hand.leave(port)), left, "without {lost}");
        by_hand.all_have_left();
    }
}

/// What waits for a group was chosen for one member each; one of these has lost its link when settings are exchanged.
#[test]
fn what_waits_at_a_group_whose_member_has_lost_its_link_outlives_a_reload() {
    let mut by_hand = ByHand::new();
    by_hand.hand_over(8);
    by_hand.sends.batch(by_hand.now).set_link(PortId(2), false, &mut by_hand.store);
    let settings = by_hand.plan.settings.clone();
    by_hand.revise(&settings);
    let left: usize = [3, 4, 5, 3, 4, 5].map(|port| by_hand.leave(port)).into_iter().sum();
    assert_eq!(left, 8 - WAITED_AT_IT, "what its queue had is lost with its link");
    by_hand.all_have_left();
}

/// Each member has a short frame, and room for another such, and not for a long one.
#[test]
fn what_comes_later_does_not_pass_what_waits_at_a_group() {
    let short = 100;
    let mut by_hand = ByHand::of([short, short, short, short, SIZE, short, short, short, short]);
    by_hand.hand_over(9);
    let lens = |size: u64| u32::try_from(size - 8).ok(); // without the tag, too
    assert_eq!([2, 2].map(|port| by_hand.leave_next(port)), [lens(short), lens(SIZE)]);
    let left: usize = [2, 3, 4, 5].map(|port| by_hand.leave(port)).into_iter().sum();
    assert_eq!(left, 7);
    by_hand.all_have_left();
}

/// Frames in a queue that has room for one and its last byte.
const WAITED_AT_IT: usize = 1;
