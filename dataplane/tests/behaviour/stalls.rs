// Tests for SPECIFICATION.md: pacing

use xoff_flow_control::headroom::Link;
use xoff_wire::units::{BitRate, Bytes, Nanos, PortId, Quanta};

use crate::bed::plan::{self, CABLE, GIGABIT, LINK, MTU_FRAME};
use crate::bed::{Bed, NodeId, Obeys, Star, Stream, SwitchPlan, end};
use crate::{C3, resume, stop};

const FRAME: Bytes = Bytes::on_line(MTU_FRAME);

struct SlowedLine {
    bed: Bed,
    sender: NodeId,
    slow: NodeId,
    receiver: NodeId,
}

impl SlowedLine {
    fn new(slow: BitRate, link: Link, change: impl FnOnce(&mut SwitchPlan)) -> SlowedLine {
        let mut bed = Bed::new(1);
        let mut plan = plan::switch(&[link, Link { speed: slow, ..link }]);
        change(&mut plan);
        let backlog = Bytes(link.commit.0 + plan.settings.ports[1].burst.0);
        let slow = bed.add_switch(plan);
        let beyond = bed.add_switch(plan::switch(&[Link { peer_backlog: backlog, ..LINK }, LINK]));
        bed.link(end(slow, 1), end(beyond, 0), GIGABIT, CABLE);
        let sender = bed.add_host(slow, 0, Obeys::AtOnce);
        let receiver = bed.add_host(beyond, 1, Obeys::AtOnce);
        bed.run_until(Nanos(1));
        SlowedLine { bed, sender, slow, receiver }
    }

    fn start(&mut self, frames: u64) -> u32 {
        let stream = Stream::new(self.bed.host(self.receiver).mac, frames, self.bed.now());
        self.bed.send(self.sender, stream)
    }

    fn sent(&self) -> u64 {
        self.bed.switch(self.slow).counters.class(PortId(1), C3).tx_frames.get()
    }

    fn run_for(&mut self, time: Nanos) {
        let until = self.bed.now().after(time);
        self.bed.run_until(until);
    }

    fn sent_at_once(&mut self, within: Nanos) -> u64 {
        let before = self.sent();
        while self.sent() == before {
            self.run_for(Nanos(500));
        }
        self.run_for(within);
        self.sent() - before
    }
}

#[test]
fn idle_port_sends_at_most_commit_limit_at_once() {
    let slow = BitRate::from_mbps(100);
    let link = Link { commit: Bytes(5 * FRAME.0), ..LINK };
    let mut line =
        SlowedLine::new(slow, link, |plan| plan.each_port(|port| port.burst = Bytes(50 * FRAME.0)));
    let id = line.start(400);
    // In 200 us a paced port sends at most 8 frames: five from credit saved while idle (limit `commit`), one that
    // starts at zero credit, and two at 100 Mb/s. Unpaced, it would send 16.
    let expected = 6..=8;
    let idle = line.sent_at_once(Nanos::from_micros(200));
    assert!(expected.contains(&idle), "{idle} frames sent at once after an idle time");
    let mac = line.bed.host(line.receiver).mac;
    line.bed.inject(line.receiver, &stop(C3, 0xffff).encode(mac));
    line.run_for(Nanos::from_millis(20));
    line.bed.inject(line.receiver, &resume(C3).encode(mac));
    let paused = line.sent_at_once(Nanos::from_micros(200));
    assert!(expected.contains(&paused), "{paused} frames sent at once after a pause");
    line.bed.run_to_rest();
    assert_eq!(line.bed.host(line.receiver).received(id).frames, 400);
}

/// Returns by what factor transmission lasts longer than at 200 Mb/s if the switch runs only once in 2 ms.
fn with_a_switch_that_is_away(burst: Bytes) -> f64 {
    let slow = BitRate::from_mbps(200);
    let link = Link { loop_gap: Nanos::from_millis(2), commit: Bytes(60_000), ..LINK };
    let mut line = SlowedLine::new(slow, link, |plan| {
        plan.each_port(|port| {
            port.burst = burst;
            (port.pause_time, port.refresh) = (Quanta(0xffff), Nanos::from_millis(10));
        });
        plan.each_lossless(|class| {
            (class.xoff, class.xon, class.egress_max) = (Bytes(400_000), Bytes(200_000), Bytes(2_000_000));
        });
    });
    let id = line.start(1_000);
    line.bed.run_to_rest();
    let host = line.bed.host(line.receiver);
    assert_eq!(host.received(id).frames, 1_000);
    let took = host.received(id).last_at.since(host.arrivals[0].0);
    took.0 as f64 / slow.time_of(Bytes(999 * FRAME.0)).0 as f64
}

#[test]
fn port_burst_lets_stalled_switch_reach_line_rate() {
    let enough = with_a_switch_that_is_away(Bytes(52_000)); // 2 ms are 50,000 bytes
    assert!(enough <= 1.03, "{enough}");
    let half = with_a_switch_that_is_away(Bytes(25_000));
    assert!(half >= 1.8, "{half}");
}

/// Returns by what factor transmission lasts longer than at line rate if senders obey pauses 500 us late.
fn with_late_senders(senders: usize, speed: BitRate, xon: Bytes) -> f64 {
    const LATE: Nanos = Nanos::from_micros(500);
    let late = Link { peer_response: LATE, ..LINK };
    let mut links = vec![late; senders + 1];
    links[0].speed = speed;
    let mut plan = plan::switch(&links);
    plan.each_lossless(|class| {
        (class.xoff, class.xon, class.egress_max) = (Bytes(2 * xon.0), xon, Bytes(2_000_000));
    });
    let mut star = Star::with(plan, |port| if port == 0 { Obeys::AtOnce } else { Obeys::Late(LATE) });
    let frames = 4_000 / senders as u64;
    let flows: Vec<_> = (1..=senders).map(|from| star.start(from, 0, star.stream(0, C3, frames))).collect();
    star.run_to_rest();
    flows.iter().for_each(|&flow| star.assert_whole(flow, frames));
    let last = flows.iter().map(|&flow| star.received(flow).last_at).max().expect("no flow was started");
    let took = last.since(star.at(0).arrivals[0].0);
    took.0 as f64 / speed.time_of(Bytes((senders as u64 * frames - 1) * FRAME.0)).0 as f64
}

#[test]
fn line_stays_busy_if_xon_covers_response_time_of_senders() {
    // Bytes that a line of 1 Gb/s carries in 500 us, and two frames in transit.
    let covers = Bytes(62_500 + 2 * FRAME.0);
    for (senders, mbps) in [(1, 900), (2, 1_000), (4, 1_000)] {
        let speed = BitRate::from_mbps(mbps);
        let covered = with_late_senders(senders, speed, covers);
        assert!(covered <= 1.0 / 0.97, "{senders} senders: {covered}");
    }
    let uncovered = with_late_senders(2, GIGABIT, Bytes(covers.0 / 10));
    assert!(uncovered >= 1.0 / 0.9, "the line stayed busy with too low an XON: {uncovered}");
}
