//! Scenarios that are hard for a policy. All streams and actions end long before the end of the trial.

use xoff_flow_control::headroom::Link;
use xoff_flow_control::settings::{Memory, PolicyKind, SharedMemory};
use xoff_wire::mac_control::{MacControl, Pfc};
use xoff_wire::units::{BitRate, Bytes, Class, Nanos, Quanta};

use crate::bed::plan::{self, CABLE, GIGABIT, LINK, LOSSLESS, MTU_FRAME};
use crate::bed::{NodeId, Obeys, SwitchPlan, end};
use crate::trial::Trial;

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&mut Trial<'_>),
}

pub(crate) const SCENARIOS: [Scenario; 12] = [
    Scenario { name: "incast", run: |trial| incast(trial, star(5)) },
    Scenario { name: "incast, polled rarely", run: |trial| incast(trial, seldom(5)) },
    Scenario { name: "incast into shared memory", run: |trial| incast(trial, shared(None)) },
    Scenario {
        name: "incast into shared memory, dynamic thresholds",
        run: |trial| incast(trial, shared(Some(0))),
    },
    Scenario { name: "two to one", run: two_to_one },
    Scenario { name: "pause storms", run: storms },
    Scenario { name: "lost XONs", run: lost_xons },
    Scenario { name: "flapping links", run: flaps },
    Scenario { name: "cascade", run: cascade },
    Scenario { name: "policy replaced in flight", run: replaced },
    Scenario { name: "random mix", run: |trial| random_mix(trial, star(6)) },
    Scenario { name: "random mix, polled rarely", run: |trial| random_mix(trial, seldom(6)) },
];

const C3: Class = Class::ALL[3];
const C4: Class = Class::ALL[4];

fn star(ports: usize) -> SwitchPlan {
    plan::switch(&vec![LINK; ports])
}

fn seldom(ports: usize) -> SwitchPlan {
    let (loop_gap, commit) = (Nanos::from_micros(100), Bytes(20_000));
    let mut plan = plan::switch(&vec![Link { loop_gap, commit, ..LINK }; ports]);
    plan.each_port(|port| port.burst = commit);
    plan
}

fn shared(alpha_log2: Option<i8>) -> SwitchPlan {
    let mut plan = star(5);
    plan.settings.memory = Memory::Shared(SharedMemory {
        pool: Bytes(120_000),
        ingress_limit: Bytes(100_000),
        egress_limit: Bytes(20_000),
        port_limit: Bytes(60_000),
        alpha_log2,
        ..SharedMemory::UNLIMITED
    });
    plan
}

fn incast(trial: &mut Trial<'_>, plan: SwitchPlan) {
    let (_, hosts) = trial.star(plan);
    for (place, &from) in hosts.iter().enumerate().skip(1) {
        let len = if place % 2 == 0 { trial.rng.u32(64..600) } else { MTU_FRAME };
        let start = Nanos(trial.rng.u64(0..50_000));
        trial.send((from, hosts[0]), C3, 300, |stream| (stream.len, stream.from) = (len, start));
    }
}

fn two_to_one(trial: &mut Trial<'_>) {
    let (_, hosts) = trial.star(star(4));
    let start = Nanos(trial.rng.u64(0..20_000));
    trial.send((hosts[1], hosts[0]), C3, 400, |_| ());
    trial.send((hosts[2], hosts[0]), C3, 400, |stream| stream.from = start);
    trial.send((hosts[1], hosts[3]), C3, 200, |stream| stream.rate = Some(BitRate::from_mbps(300)));
    trial.send((hosts[2], hosts[3]), C4, 200, |_| ());
}

fn storms(trial: &mut Trial<'_>) {
    let (_, hosts) = trial.star(star(5));
    for &from in &hosts[1..] {
        trial.send((from, hosts[0]), C3, 300, |_| ());
        trial.send((from, hosts[0]), C4, 100, |stream| stream.len = 300);
    }
    for _ in 0..80 {
        let span = Nanos(trial.rng.u64(1_000..150_000));
        trial.run_for(span);
        let quanta = if trial.rng.bool() { 0 } else { trial.rng.u16(1..1_000) };
        let class = if trial.rng.u8(0..4) == 0 { C4 } else { C3 };
        pause(trial, hosts[0], class, quanta);
    }
}

fn lost_xons(trial: &mut Trial<'_>) {
    let mut plan = star(5);
    plan.may_lapse = true;
    let (switch, hosts) = trial.star(plan);
    for &from in &hosts[1..] {
        trial.send((from, hosts[0]), C3, 300, |_| ());
    }
    for port in 1..5 {
        let mut rng = trial.rng.fork();
        trial.bed.wire_mut(end(switch, port)).lose(move |bytes| is_xon(bytes) && rng.bool());
    }
}

fn flaps(trial: &mut Trial<'_>) {
    let (switch, hosts) = trial.star(star(5));
    for (place, &from) in hosts.iter().enumerate().skip(1) {
        trial.send((from, hosts[0]), C3, 300, |_| ());
        trial.send((from, hosts[place % 4 + 1]), C4, 50, |_| ());
    }
    trial.may_lose(hosts[0]);
    trial.may_lose(hosts[1]);
    for round in 0..12 {
        let span = Nanos(trial.rng.u64(50_000..400_000));
        trial.run_for(span);
        let port = if round % 4 < 2 { 0 } else { 1 };
        trial.set_link(switch, port, round % 2 == 1);
    }
}

fn cascade(trial: &mut Trial<'_>) {
    let trunk = Link { cable: Nanos(10 * CABLE.0), ..LINK };
    let far = trial.switch(plan::switch(&[LINK, LINK, trunk]));
    let near = trial.switch(plan::switch(&[LINK, LINK, LINK, trunk]));
    let receivers = [0, 1].map(|port| trial.bed.add_host(far, port, Obeys::AtOnce));
    let senders = [0, 1, 2].map(|port| trial.bed.add_host(near, port, Obeys::AtOnce));
    trial.bed.link(end(far, 2), end(near, 3), GIGABIT, trunk.cable);
    for from in senders {
        trial.send((from, receivers[0]), C3, 250, |_| ());
        trial.send((from, receivers[1]), C4, 100, |stream| stream.len = 500);
    }
    for quanta in [2_000, 0xffff, 0, 700] {
        let span = Nanos(trial.rng.u64(100_000..2_000_000));
        trial.run_for(span);
        pause(trial, receivers[0], C3, quanta);
    }
}

fn replaced(trial: &mut Trial<'_>) {
    let (switch, hosts) = trial.star(star(5));
    for &from in &hosts[1..] {
        trial.send((from, hosts[0]), C3, 300, |_| ());
    }
    let kind = trial.kind;
    for round in 0..30 {
        let span = Nanos(trial.rng.u64(20_000..500_000));
        trial.run_for(span);
        trial.set_policy(switch, C3, if round % 2 == 0 { PolicyKind::Pfc } else { kind });
    }
}

fn random_mix(trial: &mut Trial<'_>, plan: SwitchPlan) {
    let (_, hosts) = trial.star(plan);
    for _ in 0..40 {
        let rng = &mut trial.rng;
        let from = rng.usize(0..hosts.len());
        let to = (from + rng.usize(1..hosts.len())) % hosts.len();
        let class = if rng.bool() { Class::ALL[rng.usize(3..5)] } else { Class::ALL[rng.usize(0..8)] };
        let (len, count) = (rng.u32(60..=MTU_FRAME), rng.u64(1..150));
        let rate = rng.bool().then(|| BitRate::from_mbps(rng.u64(10..900)));
        let start = Nanos(rng.u64(0..2_000_000));
        trial.send((hosts[from], hosts[to]), class, count, |stream| {
            (stream.len, stream.rate, stream.from) = (len, rate, start);
        });
    }
}

fn pause(trial: &mut Trial<'_>, host: NodeId, class: Class, quanta: u16) {
    let frame = MacControl::Pfc(Pfc::default().with(class, Quanta(quanta)));
    let bytes = frame.encode(trial.bed.host(host).mac);
    trial.bed.inject(host, &bytes);
}

fn is_xon(bytes: &[u8]) -> bool {
    let is_pfc = bytes.len() >= 34 && bytes[12..16] == [0x88, 0x08, 1, 1];
    is_pfc
        && LOSSLESS.iter().any(|class| {
            let at = 18 + 2 * class.index();
            bytes[17] >> class.get() & 1 == 1 && bytes[at..at + 2] == [0, 0]
        })
}
