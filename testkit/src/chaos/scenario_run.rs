use xoff_flow_control::counters::ClassCounters;
use xoff_flow_control::drop_reason::{DropKind, DropReason};
use xoff_sim::FabricEvent;
use xoff_wire::mac_control::{MacControl, Pfc};
use xoff_wire::units::{Class, Nanos, Quanta};

use super::report::{Breach, Tally};
use super::scenario::{Action, Scenario};
use crate::bed::plan::{CABLE, GIGABIT, LOSSLESS};
use crate::bed::{Bed, NodeId, Obeys, Promise, Stream, Watched, end};
use crate::panics;

pub(super) struct Outcome {
    pub(super) tally: Tally,
    pub(super) breach: Option<Breach>,
}

#[derive(Clone, Copy, Debug)]
enum TimedStep {
    Do(Action),
    Up(usize, u8),
}

struct ScenarioRun<'scenario> {
    scenario: &'scenario Scenario,
    events_max: u64,
    bed: Bed,
    switches: Vec<NodeId>,
    hosts: Vec<NodeId>,
    streams: Vec<u32>,
    watched: Watched,
    rests: bool,
}

pub(super) fn run(scenario: &Scenario, events_max: u64) -> Outcome {
    let mut run = ScenarioRun::new(scenario, events_max);
    let breach = match panics::catch(|| run.go()) {
        Err(describe) => Some((run.bed.now(), Promise::NoPanic, describe)),
        Ok(()) => run.bed.broken().into_iter().next().or_else(|| run.judge()),
    };
    let breach = breach.map(|(at, promise, what)| Breach { promise, at, what, last: run.last() });
    Outcome { tally: run.tally(), breach }
}

impl ScenarioRun<'_> {
    fn new(scenario: &Scenario, events_max: u64) -> ScenarioRun<'_> {
        let mut bed = Bed::that_notes_all(scenario.seed);
        let switches: Vec<NodeId> =
            (0..scenario.switches()).map(|switch| bed.add_switch(scenario.plan(switch))).collect();
        let mut hosts = Vec::new();
        for &switch in &switches {
            let ports = 0..u8::try_from(scenario.hosts).expect("the number of hosts must fit in 8 bits");
            for port in ports {
                let obeys = if scenario.unruly == Some(hosts.len()) { Obeys::Never } else { Obeys::AtOnce };
                hosts.push(bed.add_host(switch, port, obeys));
            }
        }
        for switch in 1..scenario.switches() {
            let (up, down) = scenario.uplink(switch);
            let parent = switches[scenario.parents[switch - 1]];
            bed.link(end(switches[switch], up), end(parent, down), GIGABIT, CABLE);
        }
        if let Some((last, first)) = scenario.closing() {
            let ends = [end(switches[switches.len() - 1], last), end(switches[0], first)];
            bed.link(ends[0], ends[1], GIGABIT, CABLE);
        }
        for (number, &switch) in switches.iter().enumerate() {
            let Some(onward) = scenario.onward(number) else { break };
            let others = hosts.iter().enumerate().filter(|(host, _)| host / scenario.hosts != number);
            others.for_each(|(_, host)| bed.lead(switch, *host, onward));
        }
        if scenario.understand {
            hosts.iter().for_each(|host| bed.keep_rates(*host));
        }
        let watched = Watched::of(scenario.may_stand_still());
        ScenarioRun { scenario, events_max, bed, switches, hosts, streams: Vec::new(), watched, rests: false }
    }

    fn go(&mut self) {
        self.bed.start(self.scenario.has_twins);
        for &(switch, port, faults) in &self.scenario.faults {
            self.bed.harm_control(end(self.switches[switch], port), faults);
        }
        for flow in &self.scenario.flows {
            let [from, to] = [flow.from, flow.to].map(|host| self.hosts[host]);
            let stream = Stream {
                class: flow.class,
                len: flow.len,
                rate: flow.rate,
                ..Stream::new(self.bed.host(to).mac, flow.count, flow.start)
            };
            self.streams.push(self.bed.send(from, stream));
        }
        let mut steps: Vec<(Nanos, TimedStep)> = Vec::new();
        for &(at, action) in &self.scenario.actions {
            steps.push((at, TimedStep::Do(action)));
            if let Action::Flap(switch, port, span) = action {
                steps.push((at + span, TimedStep::Up(switch, port)));
            }
        }
        steps.sort_by_key(|(at, _)| *at);
        for (at, step) in steps {
            if !self.bed.run_watched(at, self.events_max, &mut self.watched) {
                return;
            }
            match step {
                TimedStep::Do(action) => self.act(action),
                TimedStep::Up(switch, port) => self.bed.set_link(end(self.switches[switch], port), true),
            }
        }
        self.rests = self.bed.run_watched(Nanos::NEVER, self.events_max, &mut self.watched);
        if self.rests {
            self.bed.check_rest();
        }
    }

    fn act(&mut self, action: Action) {
        let switch = |number: usize| self.switches[number];
        match action {
            Action::Flap(number, port, _) => self.bed.set_link(end(switch(number), port), false),
            Action::Stall(number, span) => self.bed.stall(switch(number), span),
            Action::Refuse(number, port, span) => self.bed.refuse(end(switch(number), port), span),
            Action::CompleteLate(number, span) => self.bed.complete_late(switch(number), span),
            Action::Replace(number, class, kind) => self.bed.set_policy(switch(number), class, kind),
            Action::Revise(number, eighths) => self.revise(number, eighths),
            Action::Pause(host, class, quanta) => {
                let pfc = Pfc::default().with(class, Quanta(quanta));
                let host = self.hosts[host];
                let bytes = MacControl::Pfc(pfc).encode(self.bed.host(host).mac);
                self.bed.inject(host, &bytes);
            }
            Action::Restart(number) => {
                let plan = self.scenario.plan(number);
                self.bed.restart(switch(number), &plan, self.scenario.has_twins);
            }
        }
    }

    fn revise(&mut self, number: usize, eighths: u64) {
        let id = self.switches[number];
        let mut settings = self.bed.switch(id).settings.clone();
        let planned = self.scenario.plan(number).settings;
        for (port, planned) in settings.ports.iter_mut().zip(&planned.ports) {
            for (class, planned) in
                port.classes.iter_mut().zip(&planned.classes).filter(|(it, _)| it.lossless)
            {
                class.xoff.0 = planned.xoff.0 * eighths / 8;
                class.xon.0 = planned.xon.0 * eighths / 8;
            }
        }
        self.bed.revise(id, settings);
    }

    fn judge(&self) -> Option<(Nanos, Promise, String)> {
        let now = self.bed.now();
        self.scenario.flows.iter().zip(&self.streams).find_map(|(flow, &id)| {
            let [from, to] = [flow.from, flow.to].map(|host| self.bed.host(self.hosts[host]));
            let (sent, received) = (from.sent(id), to.received(id));
            let must_come = LOSSLESS.contains(flow.class) && !self.scenario.may_harm();
            if self.rests && sent < flow.count {
                let what =
                    format!("the sender of stream {id} is blocked after {sent} of {} frames", flow.count);
                return Some((now, Promise::PausesEnd, what));
            }
            let what = || format!("{} of {} frames of stream {id} arrived", received.frames, flow.count);
            (self.rests && must_come && received.frames < flow.count)
                .then(|| (now, Promise::Delivery, what()))
        })
    }

    fn last(&self) -> Vec<String> {
        self.watched
            .last
            .iter()
            .map(|(at, happened)| format!("{} ns: {}", at.0, self.describe(*happened)))
            .collect()
    }

    fn describe(&self, happened: FabricEvent) -> String {
        let node = happened.node().index();
        let name = match node.checked_sub(self.switches.len()) {
            Some(host) => format!("host {host}"),
            None => format!("switch {node}"),
        };
        match happened {
            FabricEvent::Left(end) => format!("a frame left {name} at port {}", end.port.0),
            FabricEvent::Arrived(end) => format!("a frame arrived at {name}, port {}", end.port.0),
            FabricEvent::Due(_) => format!("a timer of {name} expired"),
        }
    }

    fn tally(&mut self) -> Tally {
        let fault_counts = self.bed.fault_counts();
        let is_exempt = self.scenario.may_harm();
        Tally {
            exempt_runs: is_exempt.into(),
            exempt_losses: if is_exempt { self.lossless_losses() } else { 0 },
            seeds: 1,
            came_to_rest: self.rests.into(),
            frames: self.hosts.iter().map(|host| self.bed.host(*host).arrivals.len() as u64).sum(),
            xoffs: self.sum(|class| class.xoff_sent.get()),
            lost: fault_counts.lost + fault_counts.lost_control,
            late: fault_counts.late,
            harmed: fault_counts.harmed,
            events: self.bed.events(),
            digest: self.bed.digest(),
            drops: DropReason::ALL.map(|reason| self.sum(|class| class.drops[reason.index()].get())),
            causes: std::array::from_fn(|trigger| {
                self.sum(|class| {
                    class.xoff_causes.own[trigger].get() + class.xoff_causes.relayed[trigger].get()
                })
            }),
        }
    }

    fn lossless_losses(&self) -> u64 {
        let reasons = || DropReason::ALL.into_iter().filter(|reason| reason.kind() == DropKind::Lost);
        self.classes()
            .filter(|(class, _)| LOSSLESS.contains(*class))
            .map(|(_, counters)| reasons().map(|reason| counters.drops[reason.index()].get()).sum::<u64>())
            .sum()
    }

    fn sum(&self, count: impl Fn(&ClassCounters) -> u64) -> u64 {
        self.classes().map(|(_, counters)| count(counters)).sum()
    }

    fn classes(&self) -> impl Iterator<Item = (Class, &ClassCounters)> {
        let switches = self.switches.iter().map(|id| self.bed.switch(*id));
        let ports = switches.flat_map(|switch| switch.ports().map(|port| switch.counters.port(port)));
        ports.flat_map(|port| Class::ALL.into_iter().zip(&port.classes))
    }
}
