// Tests for SPECIFICATION.md: floods

use xoff_dataplane::forward::{LOOP_HOLD, LOOP_MOVES, LOOP_MOVES_OF_ONE};
use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::LoopDetection;
use xoff_wire::units::{MacAddr, Nanos, PortId};

use crate::C0;
use crate::bed::plan::{self, CABLE, GIGABIT, LINK};
use crate::bed::{Bed, NodeId, Obeys, Stream, end};

const AWHILE: Nanos = Nanos::from_millis(5);

/// Switch with hosts at ports 0 and 1; ports 2 and 3 are connected.
struct LoopedSwitch {
    bed: Bed,
    switch: NodeId,
    hosts: [NodeId; 2],
}

fn looped(detection: LoopDetection) -> LoopedSwitch {
    let mut bed = Bed::new(9);
    let mut plan = plan::switch(&[LINK; 4]);
    plan.each_port(|port| port.loop_detection = detection);
    let switch = bed.add_switch(plan);
    let hosts = [0, 1].map(|port| bed.add_host(switch, port, Obeys::AtOnce));
    bed.link(end(switch, 2), end(switch, 3), GIGABIT, CABLE);
    LoopedSwitch { bed, switch, hosts }
}

impl LoopedSwitch {
    fn broadcast(&mut self, station: u8) {
        let from = [2, 0, 0, 0, 9, station];
        let bytes = [&[0xff; 6][..], &from, &[0x88, 0xb5], &[0; 46]].concat();
        self.bed.inject(self.hosts[0], &bytes);
    }

    fn run_for(&mut self, span: Nanos) {
        self.bed.run_until(self.bed.now() + span);
    }

    fn copies(&self) -> usize {
        self.bed.host(self.hosts[1]).strange.len()
    }

    fn drops(&self, port: u8) -> u64 {
        let class = self.bed.switch(self.switch).counters.class(PortId(port), C0);
        class.drops[DropReason::Loop.index()].get()
    }

    fn found(&self, port: u8) -> (u64, bool) {
        let bridge = self.bed.switch(self.switch).worker(PortId(port)).bridge();
        (bridge.loops_at(PortId(port)).count, bridge.is_looped(PortId(port)))
    }
}

#[test]
fn broadcast_circulates_forever_without_loop_detection() {
    let mut ring = looped(LoopDetection::Off);
    ring.broadcast(1);
    ring.run_for(AWHILE);
    let before = ring.copies();
    ring.run_for(AWHILE);
    assert!(
        before > 2 * LOOP_MOVES as usize && ring.copies() > before + before / 2,
        "the frame stopped circulating"
    );
    assert_eq!(ring.found(3), (0, false));
}

#[test]
fn loop_detection_ends_circulating_frames() {
    let mut ring = looped(LoopDetection::Block);
    ring.broadcast(1);
    ring.run_for(AWHILE);
    assert_eq!(
        (ring.found(2), ring.found(3)),
        ((0, false), (1, true)),
        "the loop was not found at the higher port only"
    );
    let bridge = ring.bed.switch(ring.switch).worker(PortId(3)).bridge();
    assert_eq!((bridge.loops_at(PortId(3)).with, bridge.loops_found()), (Some(PortId(2)), 1));
    assert!(ring.drops(3) > 0, "no frame was dropped at the looped port");
    let copies = ring.copies();
    assert!(copies <= LOOP_MOVES_OF_ONE as usize + 10, "{copies}");
    ring.run_for(AWHILE);
    assert_eq!(ring.copies(), copies, "a frame still circulates");
    (2..12).for_each(|station| ring.broadcast(station));
    ring.run_for(AWHILE);
    assert_eq!(ring.copies(), copies + 10, "broadcasts did not arrive exactly once");
}

#[test]
fn loop_of_two_stations_needs_fewer_moves_than_loop_of_one() {
    let mut ring = looped(LoopDetection::Block);
    (1..=2).for_each(|station| ring.broadcast(station));
    ring.run_for(AWHILE);
    assert_eq!(ring.found(3), (1, true));
    assert!(ring.copies() <= LOOP_MOVES as usize + 10, "{}", ring.copies());
}

#[test]
fn two_hosts_with_same_address_are_not_reported_as_loop() {
    let mut bed = Bed::new(9);
    let mut plan = plan::switch(&[LINK; 3]);
    plan.each_port(|port| port.loop_detection = LoopDetection::Block);
    let switch = bed.add_switch(plan);
    let hosts = [0, 1, 2].map(|port| bed.add_host(switch, port, Obeys::AtOnce));
    let [twice, known] = [1, 2].map(|station| [2, 0, 0, 0, 9, station]);
    let frame = |to: [u8; 6], from: [u8; 6]| [&to[..], &from, &[0x88, 0xb5], &[0; 46]].concat();
    bed.inject(hosts[2], &frame([0xff; 6], known));
    let mut send_for = |rounds: u32| {
        for _ in 0..rounds {
            for host in &hosts[..2] {
                bed.inject(*host, &frame(known, twice));
                bed.run_until(bed.now() + Nanos::from_millis(1));
            }
        }
        let bridge = bed.switch(switch).worker(PortId(1)).bridge();
        (bridge.loops_at(PortId(1)).count, bridge.duplicates_at(PortId(1)))
    };
    assert_eq!(send_for(2 * LOOP_MOVES).1.count, 0, "the window of a second is not over");
    let (loops, duplicate) = send_for(4 * LOOP_MOVES);
    assert_eq!((loops, duplicate.count, duplicate.with), (0, 1, Some(PortId(0))));
    assert_eq!(duplicate.movers, [Some(MacAddr(twice)), None]);
}

#[test]
fn unicast_continues_beside_looped_port() {
    let mut ring = looped(LoopDetection::Block);
    ring.broadcast(1);
    ring.run_for(AWHILE);
    assert_eq!(ring.found(3), (1, true));
    let [a, b] = ring.hosts;
    for (from, to) in [(b, a), (a, b)] {
        let stream = Stream { class: C0, ..Stream::new(ring.bed.host(to).mac, 100, ring.bed.now()) };
        let id = ring.bed.send(from, stream);
        ring.run_for(AWHILE);
        let received = ring.bed.host(to).received(id);
        assert_eq!((received.frames, received.late_or_twice), (100, 0));
    }
}

#[test]
fn port_that_still_loops_after_hold_time_is_blocked_again() {
    let mut ring = looped(LoopDetection::Block);
    ring.broadcast(1);
    ring.run_for(AWHILE);
    ring.run_for(LOOP_HOLD);
    assert_eq!(ring.found(3), (1, false), "the port is still blocked after the hold time");
    ring.broadcast(2);
    ring.run_for(AWHILE);
    assert_eq!(ring.found(3), (2, true));
}

#[test]
fn default_loop_action_reports_loop_and_blocks_no_port() {
    let mut ring = looped(LoopDetection::default());
    ring.broadcast(1);
    ring.run_for(AWHILE);
    assert_eq!((ring.found(3), ring.drops(3)), ((1, true), 0));
    let before = ring.copies();
    ring.run_for(AWHILE);
    assert!(ring.copies() > before + before / 2, "the frame stopped circulating");
}
