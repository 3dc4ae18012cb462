use xoff_flow_control::headroom::{Headroom, Link};
use xoff_flow_control::settings::{Accounting, WhenFull};
use xoff_wire::units::{BitRate, Bytes, Nanos, PortId};

use crate::bed::plan::{self, CABLE, GIGABIT, LINK};
use crate::bed::{Bed, NodeId, Obeys, Stream, SwitchPlan, end};
use crate::{C3, C4, stop};

/// Row of three switches, with two hosts each at the first and the third.
struct Chain {
    bed: Bed,
    switches: [NodeId; 3],
    hosts: [NodeId; 4],
}

fn chain(change: impl Fn(&mut SwitchPlan)) -> Chain {
    let mut bed = Bed::new(7);
    let switches = [0, 1, 2].map(|_| {
        let mut plan = plan::switch(&[LINK; 4]);
        change(&mut plan);
        bed.add_switch(plan)
    });
    for (left, right) in [(0, 1), (1, 2)] {
        bed.link(end(switches[left], 1), end(switches[right], 0), GIGABIT, CABLE);
    }
    let [first, _, third] = switches;
    let hosts = [(first, 0), (third, 1), (first, 2), (third, 2)]
        .map(|(switch, port)| bed.add_host(switch, port, Obeys::AtOnce));
    Chain { bed, switches, hosts }
}

impl Chain {
    fn stream(&self, to: NodeId, count: u64) -> Stream {
        Stream::new(self.bed.host(to).mac, count, self.bed.now())
    }

    fn assert_whole(&self, to: NodeId, id: u32, frames: u64) {
        let received = self.bed.host(to).received(id);
        assert_eq!((received.frames, received.late_or_twice), (frames, 0));
    }

    fn xoffs(&self, switch: usize) -> u64 {
        self.bed.switch(self.switches[switch]).counters.class(PortId(0), C3).xoff_sent.get()
    }
}

#[test] // proves: lossless
fn pause_propagates_hop_by_hop() {
    let mut chain = chain(|_| ());
    let [a, b, ..] = chain.hosts;
    let pause = stop(C3, 0xffff).encode(chain.bed.host(b).mac);
    chain.bed.inject(b, &pause);
    let id = chain.bed.send(a, chain.stream(b, 300));
    let mut first_xoffs = [None; 3];
    for _ in 0..2_000 {
        let next = chain.bed.now() + Nanos::from_micros(1);
        chain.bed.run_until(next);
        for (switch, first) in first_xoffs.iter_mut().enumerate() {
            if chain.xoffs(switch) > 0 {
                first.get_or_insert(next);
            }
        }
    }
    let [first, second, third] =
        first_xoffs.map(|first| first.expect("a switch did not pause the one before it"));
    assert!(third < second && second < first, "{first_xoffs:?}");
    assert!(chain.bed.host(a).sent(id) < 100, "the source was not paused");
    chain.bed.run_to_rest();
    chain.assert_whole(b, id, 300);
}

#[test]
fn pause_does_not_affect_other_class_on_same_path() {
    let run = |paused: bool| {
        let mut chain = chain(|_| ());
        let [a, b, c, d] = chain.hosts;
        if paused {
            let pause = stop(C3, 0xffff).encode(chain.bed.host(b).mac);
            chain.bed.inject(b, &pause);
            chain.bed.send(a, chain.stream(b, 100));
        }
        let rate = Some(BitRate::from_mbps(300));
        let stream = Stream { class: C4, rate, from: Nanos::from_millis(5), ..chain.stream(d, 200) };
        let id = chain.bed.send(c, stream);
        chain.bed.run_until(Nanos::from_millis(20));
        chain.assert_whole(d, id, 200);
        let frames = chain.bed.host(d).arrivals.iter().map(|&(at, _)| at).collect::<Vec<_>>();
        let first = frames[0];
        frames.into_iter().map(|at| at.since(first)).collect::<Vec<_>>()
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn slow_receiver_behind_three_switches_causes_no_loss() {
    type Change = fn(&mut SwitchPlan);
    let modes: [Change; 4] = [
        |_| (),
        |plan| plan.settings.when_full = WhenFull::Stop,
        |plan| {
            plan.settings.accounting = Accounting::UntilForwarded;
            plan.settings.when_full = WhenFull::Stop;
            plan.each_lossless(|class| class.egress_max = Bytes(30_000));
        },
        |plan| plan.owners = vec![0, 1, 0, 1],
    ];
    for mode in modes {
        let mut chain = chain(|plan| {
            mode(plan);
            for port in &mut plan.settings.ports[2..] {
                port.speed = BitRate::from_mbps(100);
            }
        });
        let [a, b, c, d] = chain.hosts;
        let streams = [(a, d, 150), (a, b, 300), (c, b, 50), (d, a, 100)];
        let ids = streams.map(|(from, to, count)| chain.bed.send(from, chain.stream(to, count)));
        chain.bed.run_to_rest();
        for ((_, to, count), id) in streams.into_iter().zip(ids) {
            chain.assert_whole(to, id, count);
        }
    }
}

#[test] // proves: lossless
fn long_cables_use_more_headroom_and_lose_nothing() {
    let far = Link { cable: Nanos::from_micros(50), ..LINK };
    let mut bed = Bed::new(1);
    let switches = [0, 1, 2].map(|_| bed.add_switch(plan::switch(&[far; 2])));
    for (left, right) in [(0, 1), (1, 2)] {
        bed.link(end(switches[left], 1), end(switches[right], 0), GIGABIT, far.cable);
    }
    let a = bed.add_host(switches[0], 0, Obeys::AtOnce);
    let b = bed.add_host(switches[2], 1, Obeys::AtOnce);
    let pause = stop(C3, 20_000).encode(bed.host(b).mac);
    bed.inject(b, &pause);
    let id = bed.send(a, Stream::new(bed.host(b).mac, 500, Nanos::ZERO));
    bed.run_to_rest();
    let received = bed.host(b).received(id);
    assert_eq!((received.frames, received.late_or_twice), (500, 0));
    let used = bed.switch(switches[1]).counters.class(PortId(0), C3).headroom_watermark.get();
    let without_cable = Headroom::of(&LINK).total().0;
    assert!(used > without_cable, "only {used} bytes of headroom used: the cable needs more");
}
