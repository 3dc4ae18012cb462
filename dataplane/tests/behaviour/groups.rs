// Tests for SPECIFICATION.md: groups

mod lacp;
mod storms;
mod workers;

use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::{GroupSettings, Member, Spread, Turns, WhenFull};
use xoff_wire::units::{Bytes, Class, MacAddr, Nanos, PortId};

use crate::bed::plan::{self, LINK};
use crate::bed::{Bed, Flow, NodeId, Obeys, Star, Stream, SwitchPlan, end};
use crate::{C0, C3, C4, KEEPING, resume, stop};

const SIZE: u64 = 1518;
const ADAPTIVE: Spread = Spread::Adaptive { low: Bytes(3 * SIZE), high: Bytes(6 * SIZE + 1) };
const SPREADS: [Spread; 4] =
    [Spread::Flow, Spread::Frame(Turns::RoundRobin), Spread::Frame(Turns::Random), ADAPTIVE];
const EACH_FRAME: [Spread; 3] = [SPREADS[1], SPREADS[2], SPREADS[3]];
const BEYOND: MacAddr = MacAddr([2, 0, 0, 0, 9, 9]);

fn group(ports: std::ops::Range<u8>, spread: Spread, salt: u64) -> GroupSettings {
    let members = ports.map(|port| Member { port: PortId(port), weight: 1 }).collect();
    GroupSettings { name: "up".into(), members, spread, uplinks: false, lacp: None, salt }
}

fn fan(spread: Spread) -> SwitchPlan {
    let mut plan = plan::switch(&[LINK; 6]);
    plan.settings.groups = vec![group(2..6, spread, 1)];
    plan.settings.fdb.statics = vec![(1, BEYOND, PortId(2))];
    plan
}

fn beyond(class: Class, count: u64) -> Stream {
    Stream { class, ..Stream::new(BEYOND, count, Nanos::ZERO) }
}

fn shares(star: &Star, id: u32) -> [u64; 4] {
    [2, 3, 4, 5].map(|port| star.at(port).received(id).frames)
}

fn waiting(star: &Star, class: Class) -> [u64; 4] {
    [2, 3, 4, 5].map(|port| star.switch().counters.class(PortId(port), class).egress_bytes.get())
}

struct GroupedSwitches {
    bed: Bed,
    switches: [NodeId; 2],
    hosts: [Vec<NodeId>; 2],
}

const WIRES: std::ops::Range<u8> = 4..8;

impl GroupedSwitches {
    fn new(seed: u64, change: impl Fn(&mut SwitchPlan), spread: Spread) -> GroupedSwitches {
        let mut bed = Bed::new(seed);
        let switches = [1, 2].map(|salt| {
            let mut plan = plan::switch(&[LINK; 8]);
            plan.settings.groups = vec![group(WIRES, spread, salt)];
            change(&mut plan);
            bed.add_switch(plan)
        });
        let hosts =
            switches.map(|switch| (0..4).map(|port| bed.add_host(switch, port, Obeys::AtOnce)).collect());
        let [a, b] = switches;
        WIRES.for_each(|port| bed.link(end(a, port), end(b, port), plan::GIGABIT, plan::CABLE));
        GroupedSwitches { bed, switches, hosts }
    }

    fn all_to_all(&mut self, class: Class, count: u64) -> Vec<HostFlow> {
        [0, 1].into_iter().flat_map(|side| self.all_from(side, class, count)).collect()
    }

    fn all_from(&mut self, side: usize, class: Class, count: u64) -> Vec<HostFlow> {
        let mut flows = Vec::new();
        for (from, to) in (0..4).flat_map(|from| (0..4).map(move |to| (from, to))) {
            let (from, to) = (self.hosts[side][from], self.hosts[1 - side][to]);
            let stream = Stream { class, ..Stream::new(self.bed.host(to).mac, count, self.bed.now()) };
            flows.push(HostFlow { to, id: self.bed.send(from, stream) });
        }
        flows
    }

    fn on_wires(&self) -> [Vec<u64>; 2] {
        self.switches.map(|switch| {
            let counters = &self.bed.switch(switch).counters;
            WIRES
                .map(|port| {
                    Class::ALL.map(|class| counters.class(PortId(port), class).tx_frames.get()).iter().sum()
                })
                .collect()
        })
    }

    fn dropped(&self) -> u64 {
        let counters = &self.bed.switch(self.switches[0]).counters;
        let drops = |port| counters.class(PortId(port), C3).drops[DropReason::LinkDown.index()].get();
        (0..WIRES.end).map(drops).sum()
    }

    fn received(&self, flow: &HostFlow) -> (u64, u64) {
        let received = self.bed.host(flow.to).received(flow.id);
        (received.frames, received.late_or_twice)
    }
}

struct HostFlow {
    to: NodeId,
    id: u32,
}

#[test]
fn each_frame_takes_exactly_one_group_member() {
    for spread in SPREADS {
        for (accounting, when_full) in KEEPING {
            let change = |plan: &mut SwitchPlan| {
                (plan.settings.accounting, plan.settings.when_full) = (accounting, when_full);
                if when_full == WhenFull::Stop {
                    plan.each_lossless(|class| class.egress_max = Bytes(8_000));
                }
            };
            let mut pair = GroupedSwitches::new(1, change, spread);
            let flows = match when_full {
                // Send in one direction only, because two pipelines that halt for each other would deadlock.
                WhenFull::Stop => pair.all_from(0, C3, 40),
                WhenFull::Drop => pair.all_to_all(C3, 40),
            };
            pair.bed.run_to_rest();
            for flow in &flows {
                let (frames, late_or_twice) = pair.received(flow);
                assert_eq!(frames, 40, "{spread:?}, {accounting:?}, {when_full:?}");
                assert!(
                    spread != Spread::Flow || late_or_twice == 0,
                    "frames of a flow were reordered under {when_full:?}"
                );
            }
            for frames in pair.on_wires().iter().take(flows.len() / 16) {
                assert_eq!(frames.iter().sum::<u64>(), 16 * 40);
                assert!(frames.iter().all(|frames| *frames > 0), "{spread:?}: {frames:?}");
            }
        }
    }
}

#[test]
fn several_workers_spread_frames_over_all_members() {
    let owners = [[0, 1, 0, 1, 0, 1, 0, 1], [0, 0, 0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 1, 1, 1, 1]];
    for (spread, owners) in SPREADS.into_iter().flat_map(|spread| owners.map(|owners| (spread, owners))) {
        let mut pair = GroupedSwitches::new(2, |plan| plan.owners = owners.to_vec(), spread);
        let flows = pair.all_to_all(C3, 60);
        pair.bed.run_to_rest();
        for flow in &flows {
            let (frames, late_or_twice) = pair.received(flow);
            assert_eq!(frames, 60, "{spread:?}");
            assert!(spread != Spread::Flow || late_or_twice == 0, "frames of a flow were reordered");
        }
        let frames = pair.on_wires();
        assert!(frames.iter().flatten().all(|frames| *frames > 0), "{spread:?}: {frames:?}");
    }
}

#[test]
fn flood_takes_one_group_member_and_never_returns_by_group() {
    for (spread, when_full) in [
        (SPREADS[0], WhenFull::Drop),
        (SPREADS[1], WhenFull::Stop),
        (SPREADS[2], WhenFull::Stop),
        (SPREADS[3], WhenFull::Drop),
    ] {
        let mut pair = GroupedSwitches::new(3, |plan| plan.settings.when_full = when_full, spread);
        let from = pair.hosts[0][0];
        let stream = Stream { len: 60, ..Stream::new(MacAddr::BROADCAST, 50, Nanos::ZERO) };
        let id = pair.bed.send(from, stream);
        pair.bed.run_to_rest();
        for host in pair.hosts.iter().flatten() {
            let received = pair.bed.host(*host).received(id);
            assert_eq!(received.frames, if *host == from { 0 } else { 50 }, "{spread:?}");
        }
        let [there, back] = pair.on_wires();
        assert_eq!((there.iter().sum::<u64>(), back.iter().sum::<u64>()), (50, 0), "{spread:?}");
    }
}

#[test] // proves: group-changes
fn cut_link_of_group_member_moves_only_flows_of_that_member() {
    let mut pair = GroupedSwitches::new(4, |_| (), Spread::Flow);
    pair.bed.run_briefly();
    let flows = pair.all_to_all(C3, 400);
    pair.bed.run_until(Nanos::from_millis(2));
    let (cut, before) = (end(pair.switches[0], 5), pair.on_wires());
    pair.bed.set_link(cut, false);
    pair.bed.run_until(Nanos::from_micros(2_100));
    let waited = pair.dropped();
    pair.bed.run_until(Nanos::from_millis(6));
    assert!(pair.on_wires()[0][1] <= before[0][1] + 1, "frames left by the group member whose link is cut");
    assert_eq!(pair.dropped(), waited, "frames still chose the group member whose link is cut");
    pair.bed.set_link(cut, true);
    let again = pair.on_wires();
    pair.bed.run_to_rest();
    assert!(pair.on_wires()[0][1] > again[0][1], "flows did not return to the repaired group member");
    let received: Vec<(u64, u64)> = flows.iter().map(|flow| pair.received(flow)).collect();
    let unhurt = received.iter().filter(|counts| **counts == (400, 0)).count();
    let hurt = received.iter().filter(|(frames, _)| *frames < 400).count();
    assert!(
        hurt >= 1 && unhurt >= 16,
        "of 32 flows, {hurt} lost frames and {unhurt} arrived whole and in order"
    );
    let counters = &pair.bed.switch(pair.switches[0]).counters;
    for port in (4..8).filter(|port| *port != 5) {
        let drops: u64 = counters.class(PortId(port), C3).drops.iter().map(|drops| drops.get()).sum();
        assert_eq!(drops, 0, "frames queued at other members were dropped");
    }
}

#[test]
fn round_robin_gives_group_members_exact_weighted_shares() {
    let mut plan = fan(Spread::Frame(Turns::RoundRobin));
    for (member, weight) in plan.settings.groups[0].members.iter_mut().zip([1, 1, 2, 4]) {
        member.weight = weight;
    }
    let mut star = Star::new(plan);
    let id = star.start_to_all(0, beyond(C3, 80));
    star.run_to_rest();
    assert_eq!(shares(&star, id), [10, 10, 20, 40]);
}

#[test]
fn random_spread_approximates_weights_of_group_members() {
    let mut plan = fan(Spread::Frame(Turns::Random));
    plan.settings.groups[0].members[3].weight = 5;
    let mut star = Star::new(plan);
    let id = star.start_to_all(0, Stream { len: 60, ..beyond(C3, 4_000) });
    star.run_to_rest();
    for (share, due) in shares(&star, id).into_iter().zip([500, 500, 500, 2_500]) {
        assert!(share.abs_diff(due) < 150, "member got {share} instead of {due} frames");
    }
}

#[test]
fn adaptive_group_fills_shorter_queues_first() {
    let thresholds = [(3 * SIZE, 6 * SIZE, 3, 6), (3 * SIZE + 1, 6 * SIZE + 1, 4, 7)];
    let owners = [&[][..], &[0, 0, 1, 1, 2, 2], &[0, 1, 0, 1, 1, 1]];
    for ((low, high, frames_at_low, frames_at_high), owners) in
        thresholds.into_iter().flat_map(|thresholds| owners.map(|owners| (thresholds, owners)))
    {
        let mut plan = fan(Spread::Adaptive { low: Bytes(low), high: Bytes(high) });
        plan.owners = owners.to_vec();
        let mut star = Star::new(plan);
        for port in 2..6 {
            star.pause(port, stop(C3, 0xffff));
        }
        star.run_for(Nanos::from_micros(10));
        star.start_to_all(0, beyond(C3, 4 * frames_at_low));
        star.run_for(Nanos::from_millis(1));
        assert_eq!(
            waiting(&star, C3),
            [frames_at_low * SIZE; 4],
            "members are not filled evenly up to low = {low}"
        );
        star.start_to_all(1, beyond(C3, 4 * (frames_at_high - frames_at_low)));
        star.run_for(Nanos::from_millis(1));
        assert_eq!(
            waiting(&star, C3),
            [frames_at_high * SIZE; 4],
            "members are not filled evenly up to high = {high}"
        );
        for port in 2..6 {
            star.pause(port, resume(C3));
        }
        star.run_to_rest();
    }
}

#[test]
fn adaptive_group_counts_queues_of_same_and_higher_class() {
    let mut star = Star::new(fan(ADAPTIVE));
    star.pause(3, stop(C3, 0xffff));
    star.run_for(Nanos::from_micros(10));
    let first = star.start_to_all(0, beyond(C3, 60));
    star.run_for(Nanos::from_millis(2));
    assert_eq!(waiting(&star, C3), [0, 3 * SIZE, 0, 0], "the paused group member got more bytes than `low`");
    assert_eq!(shares(&star, first).iter().sum::<u64>(), 57);
    let below = star.start_to_all(0, Stream { from: star.now(), ..beyond(C0, 40) });
    star.run_for(Nanos::from_millis(2));
    assert_eq!(shares(&star, below)[1], 0, "lower class used the member with a queue");
    let above = star.start_to_all(0, Stream { from: star.now(), ..beyond(C4, 40) });
    star.run_for(Nanos::from_millis(2));
    assert!(shares(&star, above)[1] > 0, "higher class avoided a member with a lower queue");
    star.pause(3, resume(C3));
    star.run_to_rest();
}

#[test] // proves: group-changes
fn frame_waiting_at_full_queue_chooses_group_member_again() {
    for spread in EACH_FRAME {
        let mut plan = fan(spread);
        plan.settings.when_full = WhenFull::Stop;
        plan.each_lossless(|class| class.egress_max = Bytes(2 * SIZE + 1));
        let mut star = Star::new(plan);
        for port in 2..6 {
            star.pause(port, stop(C3, 0xffff));
        }
        star.run_for(Nanos::from_micros(10));
        let id = star.start_to_all(0, beyond(C3, 12));
        star.run_for(Nanos::from_millis(1));
        assert_eq!(waiting(&star, C3), [2 * SIZE; 4], "not all members are full, {spread:?}");
        star.pause(4, resume(C3));
        star.run_for(Nanos::from_micros(200));
        assert_eq!(shares(&star, id), [0, 0, 6, 0], "{spread:?}");
        [2, 3, 5].into_iter().for_each(|port| star.pause(port, resume(C3)));
        star.run_to_rest();
        assert_eq!(shares(&star, id).iter().sum::<u64>(), 12);
    }
}

#[test] // proves: group-changes
fn waiting_frame_changes_group_member_on_link_change() {
    for spread in SPREADS {
        let mut plan = fan(spread);
        plan.settings.when_full = WhenFull::Stop;
        plan.each_lossless(|class| class.egress_max = Bytes(2 * SIZE + 1));
        let mut star = Star::new(plan);
        star.run_for(Nanos::from_micros(1));
        star.set_link(5, false);
        for port in 2..5 {
            star.pause(port, stop(C3, 0xffff));
        }
        star.run_for(Nanos::from_micros(10));
        let id = star.start_to_all(0, Stream { from: star.now(), ..beyond(C3, 12) });
        star.run_for(Nanos::from_millis(1));
        let of_class = waiting(&star, C3);
        assert!(of_class.iter().all(|bytes| [0, 2 * SIZE].contains(bytes)), "{of_class:?}");
        let full = (2..5).zip(of_class).find(|(_, bytes)| *bytes > 0).expect("no member is full").0;
        star.set_link(5, true);
        star.run_for(Nanos::from_millis(1));
        if spread != Spread::Flow {
            assert!(shares(&star, id)[3] > 0, "the new link took no waiting frame, {spread:?}");
        }
        star.set_link(full, false);
        star.run_for(Nanos::from_millis(1));
        (2..5).for_each(|port| star.pause(port, resume(C3)));
        star.run_to_rest();
        let came = shares(&star, id).iter().sum::<u64>();
        let counters = &star.switch().counters;
        let of = usize::from(full) - 2;
        let lost: u64 = counters.class(PortId(full), C3).drops.iter().map(|drops| drops.get()).sum();
        assert_eq!((came + lost, lost), (12, of_class[of] / SIZE), "{spread:?}");
    }
}

#[test] // proves: group-changes
fn changing_group_members_under_load_loses_no_frame() {
    let mut star = Star::new(fan(Spread::Flow));
    let id = star.start_to_all(0, beyond(C3, 300));
    star.run_for(Nanos::from_millis(1));
    for (members, spread) in [(2..5, EACH_FRAME[0]), (4..6, ADAPTIVE), (2..6, Spread::Flow)] {
        let mut settings = star.switch().settings.clone();
        settings.groups = vec![group(members.clone(), spread, 1)];
        settings.fdb.statics.retain(|(_, mac, _)| *mac != BEYOND);
        settings.fdb.statics.push((1, BEYOND, PortId(members.start)));
        let before = shares(&star, id);
        star.revise(settings);
        star.run_for(Nanos::from_micros(700));
        let since: Vec<u64> =
            shares(&star, id).iter().zip(before).map(|(now, before)| now - before).collect();
        let out = (2..6).filter(|port| !members.contains(port)).map(|port| usize::from(port) - 2);
        assert!(
            out.into_iter().all(|member| since[member] <= 2),
            "removed members still sent frames: {since:?}"
        );
    }
    star.run_to_rest();
    assert_eq!(shares(&star, id).iter().sum::<u64>(), 300);
}

#[test]
fn flows_in_one_micro_flow_keep_their_own_paths() {
    let udp = |port: u8| {
        let mut ip = vec![
            0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0xc0, port, 0x12, 0xb7,
        ];
        ip.resize(46, 0);
        [&BEYOND.0[..], &[2, 0, 0, 0, 0, 1], &[0x08, 0x00], &ip].concat()
    };
    let mut plan = fan(Spread::Flow);
    plan.gap = Nanos::from_micros(100);
    let mut star = Star::new(plan);
    for _ in 0..4 {
        (0..64).for_each(|port| star.inject(0, &udp(port)));
    }
    star.run_to_rest();
    let ports_at =
        |member: usize| -> Vec<u8> { star.at(member).strange.iter().map(|bytes| bytes[35]).collect() };
    let mut all = 0;
    for member in 2..6 {
        let mut ports = ports_at(member);
        all += ports.len();
        ports.sort_unstable();
        assert!(
            ports.chunk_by(|a, b| a == b).all(|of_flow| of_flow.len() == 4),
            "a flow used several members, one of them {member}"
        );
        assert!(ports.len() >= 4 * 6, "too few flows at member {member}: {ports:?}");
    }
    assert_eq!(all, 4 * 64);
}

trait RunBriefly {
    fn run_briefly(&mut self);
}

impl RunBriefly for Bed {
    fn run_briefly(&mut self) {
        let end = self.now() + Nanos(1);
        self.run_until(end);
    }
}

#[test] // proves: group-changes
fn group_member_without_link_is_excluded_immediately() {
    for spread in SPREADS {
        let mut star = Star::new(fan(spread));
        star.run_for(Nanos::from_micros(1));
        star.set_link(3, false);
        let flow =
            Flow { from: 0, to: 2, id: star.start_to_all(0, Stream { from: star.now(), ..beyond(C3, 90) }) };
        star.run_to_rest();
        let shares = shares(&star, flow.id);
        assert_eq!((shares[1], shares.iter().sum::<u64>()), (0, 90), "{spread:?}");
    }
}
