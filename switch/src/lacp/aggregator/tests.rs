use std::collections::VecDeque;

use xoff_dataplane::forward::MemberState;
use xoff_flow_control::settings::{Member as MemberSettings, Spread};
use xoff_wire::lacp::Lacpdu;

use super::super::member::Standing::{self, *};
use super::*;

const DELAY: Nanos = Nanos::from_millis(5);
const ACTIVE: Lacp = Lacp { active: true, short_timeout: false };
const PASSIVE: Lacp = Lacp { active: false, short_timeout: false };
const SHORT: Lacp = Lacp { active: true, short_timeout: true };

fn group(ports: &[u8], lacp: Lacp) -> GroupSettings {
    let members = ports.iter().map(|port| MemberSettings { port: PortId(*port), weight: 1 }).collect();
    GroupSettings {
        name: "up".into(),
        members,
        spread: Spread::Flow,
        uplinks: false,
        salt: 0,
        lacp: Some(lacp),
    }
}

fn mac(number: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, number])
}

fn aggregator(system: u8, ports: &[u8], lacp: Lacp) -> Aggregator {
    let mut aggregator = Aggregator::new(mac(system), &group(ports, lacp), lacp, |_| None);
    aggregator.members().for_each(|(_, member)| member.set_link(Nanos(1), true));
    aggregator
}

#[test]
fn lacp_group_with_link_but_no_joined_port_is_idle() {
    let mut alone = aggregator(1, &[0, 1], ACTIVE);
    assert!(alone.is_idle());
    alone.members().for_each(|(_, member)| member.set_link(Nanos(2), false));
    assert!(!alone.is_idle(), "group without any link");
    alone.members().take(1).for_each(|(_, member)| member.set_link(Nanos(3), true));
    assert!(alone.is_idle());
}

/// LACP systems, and the wires between their ports (system, port number). Frames from port numbers in `cut` are lost.
struct Wires {
    now: Nanos,
    ends: Vec<Aggregator>,
    wires: Vec<[(usize, u8); 2]>,
    cut: Vec<u8>,
    on_wire: VecDeque<(Nanos, (usize, u8), Lacpdu)>,
    sent: usize,
}

impl Wires {
    fn new(ends: Vec<Aggregator>, wires: &[[(usize, u8); 2]]) -> Wires {
        let (cut, on_wire) = (Vec::new(), VecDeque::new());
        Wires { now: Nanos(1), ends, wires: wires.to_vec(), cut, on_wire, sent: 0 }
    }

    fn pair(a: Lacp, b: Lacp) -> Wires {
        let ends = vec![aggregator(1, &[0, 1], a), aggregator(2, &[0, 1], b)];
        Wires::new(ends, &[[(0, 0), (1, 0)], [(0, 1), (1, 1)]])
    }

    fn other_end(&self, end: (usize, u8)) -> Option<(usize, u8)> {
        self.wires.iter().find_map(|[a, b]| match end {
            end if end == *a => Some(*b),
            end if end == *b => Some(*a),
            _ => None,
        })
    }

    fn put(&mut self, from: (usize, u8), pdu: Lacpdu) {
        let parsed = Lacpdu::parse(&pdu.frame(mac(9))).unwrap();
        self.sent += 1;
        if let Some(to) = self.other_end(from).filter(|_| !self.cut.contains(&from.1)) {
            self.on_wire.push_back((self.now.after(DELAY), to, parsed));
        }
    }

    fn run(&mut self, time: Nanos) {
        let until = self.now.after(time);
        loop {
            for system in 0..self.ends.len() {
                self.ends[system].advance(self.now);
                let now = self.now;
                let due: Vec<_> = self.ends[system]
                    .members()
                    .filter_map(|(port, member)| Some((port.0, member.frame_due(now)?)))
                    .collect();
                due.into_iter().for_each(|(port, pdu)| self.put((system, port), pdu));
            }
            self.check();
            let timers = self.ends.iter().map(Aggregator::next_deadline).min().unwrap();
            let next = self.on_wire.front().map_or(timers, |(at, ..)| timers.min(*at));
            if next > until {
                self.now = until;
                return;
            }
            assert!(next > self.now || self.on_wire.front().is_some_and(|(at, ..)| *at == self.now));
            self.now = next;
            while self.on_wire.front().is_some_and(|(at, ..)| *at == next) {
                let (_, (system, port), pdu) = self.on_wire.pop_front().unwrap();
                self.ends[system].member(PortId(port)).unwrap().receive(next, &pdu);
            }
        }
    }

    fn check(&mut self) {
        for [a, b] in self.wires.clone() {
            for (from, to) in [(a, b), (b, a)] {
                let sends =
                    self.member(from).state() == MemberState::Distributing && !self.cut.contains(&from.1);
                assert!(
                    !sends || self.member(to).state() != MemberState::Detached,
                    "{from:?} sends data that {to:?} refuses"
                );
            }
        }
    }

    fn member(&mut self, (system, port): (usize, u8)) -> &mut Member {
        self.ends[system].member(PortId(port)).unwrap()
    }

    fn standings(&mut self) -> Vec<Standing> {
        let ends = self.ends.iter_mut();
        ends.flat_map(|end| end.members().map(|(_, member)| member.standing()).collect::<Vec<_>>()).collect()
    }
}

#[test] // proves: lacp
fn lacp_members_send_data_if_one_end_is_active() {
    for (a, b, joins) in [
        (ACTIVE, ACTIVE, true),
        (ACTIVE, PASSIVE, true),
        (PASSIVE, SHORT, true),
        (SHORT, SHORT, true),
        (PASSIVE, PASSIVE, false),
    ] {
        let mut wires = Wires::pair(a, b);
        wires.run(Nanos::from_secs(4));
        let expected = if joins { Distributing } else { NoPartner };
        assert_eq!(wires.standings(), [expected; 4], "{a:?} and {b:?}");
        let before = wires.sent;
        wires.run(Nanos::from_secs(300));
        assert_eq!(wires.standings(), [expected; 4], "{a:?} and {b:?} after five minutes");
        let periods = [a, b].map(|of_peer| if of_peer.short_timeout { 300 } else { 10 });
        let expected = if joins { 2 * (periods[0] + periods[1]) } else { 0 };
        assert!(
            wires.sent.abs_diff(before + expected) <= 4,
            "{} frames, not {expected}",
            wires.sent - before
        );
    }
}

#[test] // proves: lacp
fn lacp_member_leaves_group_when_its_silent_partner_times_out() {
    for (lacp, timeout) in [(SHORT, 3), (ACTIVE, 90)] {
        let mut wires = Wires::pair(lacp, lacp);
        wires.run(Nanos::from_secs(120));
        wires.cut = vec![1];
        wires.run(Nanos::from_secs(timeout - 1).after(Nanos::from_millis(900)));
        wires.run(Nanos::from_secs(2 + if lacp == SHORT { 0 } else { 30 }));
        let left = wires.standings();
        assert_eq!((left[0], left[2]), (Distributing, Distributing));
        assert_ne!((left[1], left[3]), (Distributing, Distributing), "{left:?}");
        wires.run(Nanos::from_secs(10));
        assert_eq!(wires.standings(), [Distributing, NoPartner, Distributing, NoPartner]);
        wires.cut = vec![];
        wires.run(Nanos::from_secs(40));
        assert_eq!(wires.standings(), [Distributing; 4], "partner did not return");
    }
}

#[test] // proves: lacp
fn removed_lacp_member_accepts_data_until_it_leaves_its_group() {
    let mut wires = Wires::pair(ACTIVE, ACTIVE);
    wires.run(Nanos::from_secs(10));
    let last = wires.member((1, 1)).last_frame().unwrap();
    wires.put((1, 1), last);
    let mut before: Vec<_> = wires.ends.pop().unwrap().into_members().collect();
    let kept = |port| Some(before.swap_remove(before.iter().position(|(id, _)| *id == port)?).1);
    wires.ends.push(Aggregator::new(mac(2), &group(&[0], ACTIVE), ACTIVE, kept));
    wires.wires.pop();
    wires.run(Nanos::from_millis(900));
    assert_eq!(
        wires.standings(),
        [Distributing, Collecting, Distributing],
        "leaving member refuses queued data"
    );
    wires.run(Nanos::from_secs(5));
    assert_eq!(wires.standings(), [Distributing, Individual, Distributing]);
}

#[test] // proves: lacp
fn leaving_lacp_member_accepts_data_until_partner_stops() {
    let mut wires = Wires::pair(ACTIVE, SHORT);
    wires.run(Nanos::from_secs(10));
    wires.member((0, 1)).set_leaves(true);
    wires.run(Nanos::from_millis(900));
    assert_eq!(wires.standings(), [Distributing, Collecting, Distributing, Collecting]);
    wires.run(Nanos::from_secs(20));
    let [_, left, _, partner] = wires.standings()[..] else { panic!("a member is missing") };
    assert_eq!((left, wires.member((1, 1)).state()), (OtherPartner, MemberState::Detached), "{partner:?}");
    wires.member((0, 1)).set_leaves(false);
    wires.run(Nanos::from_secs(10));
    assert_eq!(wires.standings(), [Distributing; 4], "the member did not join again");
}

#[test] // proves: lacp
fn ports_to_different_lacp_partners_are_not_aggregated() {
    let ends = || vec![aggregator(1, &[0, 1, 2], ACTIVE), aggregator(2, &[0], SHORT)];
    let other_system = [ends(), vec![aggregator(3, &[1, 2], SHORT)]].concat();
    let wires = [[(0, 0), (1, 0)], [(0, 1), (2, 1)], [(0, 2), (2, 2)]];
    let mut net = Wires::new(other_system, &wires);
    net.run(Nanos::from_secs(10));
    assert_eq!(net.standings()[..4], [Distributing, OtherPartner, OtherPartner, Distributing]);
    for end in [(0, 0), (1, 0)] {
        net.member(end).set_link(Nanos::from_secs(10), false);
    }
    net.run(Nanos::from_secs(10));
    assert_eq!(net.standings()[..3], [Down, Distributing, Distributing]);

    let other_key = [ends(), vec![aggregator(2, &[1, 2], SHORT)]].concat();
    let mut net = Wires::new(other_key, &wires);
    net.run(Nanos::from_secs(10));
    assert_eq!(net.standings()[..3], [Distributing, OtherPartner, OtherPartner]);

    let mut own_cable = Wires::new(vec![aggregator(1, &[0, 1], ACTIVE)], &[[(0, 0), (0, 1)]]);
    own_cable.run(Nanos::from_secs(10));
    assert_eq!(own_cable.standings(), [OtherPartner; 2]);
}

#[test]
fn lacp_group_uses_only_one_of_several_individual_partners() {
    let mut net = Wires::pair(ACTIVE, ACTIVE);
    for port in [0, 1] {
        let pdu = |partner: End| {
            let state = State::ACTIVITY.with(State::SYNCHRONIZATION, true).with(State::COLLECTING, true);
            Lacpdu { actor: End { system: (1, mac(5)), key: 1, port: (1, u16::from(port)), state }, partner }
        };
        let partner = net.member((0, port)).ends().0;
        net.member((0, port)).receive(Nanos(1), &pdu(partner));
    }
    net.cut = vec![0, 1];
    net.run(Nanos::from_secs(3));
    assert_eq!(net.standings()[..2], [Distributing, Individual]);
}

#[test] // proves: lacp
fn flapping_or_hostile_lacp_partner_gets_few_lacp_frames() {
    let mut net = Wires::pair(ACTIVE, ACTIVE);
    net.cut = vec![0, 1];
    for number in 0..10_000_u16 {
        let partner = End { key: number, ..End::default() };
        let actor = End { system: (1, mac(5)), key: number, port: (1, 1), state: State(0xff) };
        let now = net.now;
        net.member((0, 0)).receive(now, &Lacpdu { actor, partner });
        net.run(Nanos::from_millis(1));
        assert!(net.member((0, 0)).state() == MemberState::Detached);
    }
    assert!(net.sent <= 3 * 11 + 3 * 4, "{} frames in ten seconds", net.sent);
}
