//! A bed in which much goes wrong, run event by event until something is broken.

use std::collections::VecDeque;

use xoff_sim::{ControlFaults, Happened, Mishaps, Picos, Seed};
use xoff_wire::units::{Nanos, PortId};

use super::breaches::{Breaches, OnBreach, Promise};
use super::{Bed, End, NodeId, SwitchNode, SwitchPlan};

/// Events that are remembered.
const LAST: usize = 24;
/// After so many events every switch is looked at, and not only the one at which something has happened.
const ROUND: u64 = 1_000;
/// Longer than any pause, storm and ailment.
const STANDSTILL: Nanos = Nanos::from_millis(100);

/// What is kept of a run.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// Frames may wait for each other for good.
    may_stand_still: bool,
    pub(crate) last: VecDeque<(Nanos, Happened)>,
    /// Frames that hosts had received when that was looked at last, and when there were more.
    came: usize,
    moved: Nanos,
}

impl Watched {
    pub(crate) fn of(may_stand_still: bool) -> Watched {
        Watched { may_stand_still, ..Watched::default() }
    }
}

impl Bed {
    /// An empty one, which notes every promise that is broken, thresholds included.
    pub(crate) fn that_notes_all(seed: u64) -> Bed {
        Bed::with(seed, OnBreach::NoteAll)
    }

    /// Makes its switches, with one driver each where there is none to be compared.
    pub(crate) fn start(&mut self, has_twins: bool) {
        let fabric = self.begin();
        for number in 0..u32::try_from(fabric.switches().len()).expect("few switches") {
            fabric.at_switch(number, |at, _| {
                if !has_twins {
                    at.node.go_alone()
                }
            });
        }
    }

    /// Lets everything happen that is due by `end`, but no more than `events_max` in all, and nothing behind what breaks a promise.
    /// True where all of it has happened.
    pub(crate) fn run_watched(&mut self, end: Nanos, events_max: u64, watched: &mut Watched) -> bool {
        let end = if end == Nanos::NEVER { Picos::NEVER } else { Picos::from(end) };
        while self.events() < events_max {
            let fabric = self.begin();
            let Some(happened) = fabric.step(end) else {
                fabric.wait_until(end);
                return true;
            };
            if watched.last.len() == LAST {
                watched.last.pop_front();
            }
            watched.last.push_back((fabric.now().floor(), happened));
            let is_round = fabric.tally().events.is_multiple_of(ROUND);
            if is_round {
                for number in 0..u32::try_from(fabric.switches().len()).expect("few switches") {
                    fabric.at_switch(number, |at, net| at.check(net));
                }
            }
            let at = happened.node().index();
            let is_broken = |breaches: &Breaches| !breaches.noted().is_empty();
            let (switches, hosts) = (fabric.switches(), fabric.hosts());
            let broken = match switches.get(at) {
                _ if is_round => switches.iter().any(|switch| is_broken(&switch.breaches)),
                Some(switch) => is_broken(&switch.breaches),
                None => is_broken(&hosts[at - switches.len()].breaches),
            };
            if broken || is_round && !self.something_moves(watched) {
                return false;
            }
        }
        false
    }

    /// Frames that wait in switches do not wait for good, whatever they wait for.
    fn something_moves(&mut self, watched: &mut Watched) -> bool {
        let now = self.now();
        let fabric = self.begin();
        let came = fabric.hosts().iter().map(|host| host.node.arrivals.len()).sum();
        let waits = fabric.switches().iter().any(|switch| switch.node.frames_held() > 0);
        if came != watched.came || !waits || watched.may_stand_still {
            (watched.came, watched.moved) = (came, now);
        }
        let moves = now.since(watched.moved) < STANDSTILL;
        self.breaches.now = now;
        let what = || format!("frames wait, and none has come to a host since {} ns", watched.moved.0);
        self.breaches.expect(moves, Promise::NothingStranded, what);
        moves
    }

    /// Events so far.
    pub(crate) fn events(&mut self) -> u64 {
        self.begin().tally().events
    }

    pub(crate) fn mishaps(&mut self) -> Mishaps {
        self.begin().mishaps()
    }

    /// What is left behind when nothing moves any more.
    pub(crate) fn check_rest(&mut self) {
        let fabric = self.begin();
        for number in 0..u32::try_from(fabric.switches().len()).expect("few switches") {
            fabric.at_switch(number, |at, net| {
                at.check(net);
                at.node.check_empty(&mut at.breaches);
            });
        }
    }

    pub(crate) fn harm_control(&mut self, from: End, faults: ControlFaults) {
        let (from, seed) = (self.at(from), Seed(self.seed));
        self.begin().harm_control(from, faults, seed);
    }

    /// The switch does not look at its ports for a time.
    pub(crate) fn stall(&mut self, id: NodeId, span: Nanos) {
        self.ail(id, span, |switch, until| switch.ailing.stall(until));
    }

    /// No frame gets on the line of a port for a time.
    pub(crate) fn refuse(&mut self, at: End, span: Nanos) {
        self.ail(at.node, span, |switch, until| switch.ailing.refuse(at.port, until));
    }

    /// The switch does not hear for a time that frames have left.
    pub(crate) fn complete_late(&mut self, id: NodeId, span: Nanos) {
        self.ail(id, span, |switch, until| switch.ailing.complete_late(until));
    }

    fn ail(&mut self, id: NodeId, span: Nanos, ail: impl FnOnce(&mut SwitchNode, Nanos)) {
        let until = self.now() + span;
        let number = self.switch_number(id);
        self.begin().at_switch(number, |at, net| {
            ail(&mut at.node, until);
            at.wake(until, net);
        });
    }

    /// A switch ends, and begins anew as planned; its links are down in between.
    pub(crate) fn restart(&mut self, id: NodeId, plan: &SwitchPlan, has_twins: bool) {
        let (number, seed) = (self.switch_number(id), self.seed);
        let ports = u8::try_from(plan.settings.ports.len()).expect("few ports");
        let ends = move || (0..ports).map(move |port| End { node: id, port: PortId(port) });
        ends().for_each(|end| self.set_link(end, false));
        self.begin().at_switch(number, |at, net| {
            let mut plan = plan.clone();
            plan.settings.fdb.statics.clone_from(&at.node.settings.fdb.statics);
            plan.settings.fdb.capacity = at.node.settings.fdb.capacity;
            let mut node = SwitchNode::new(plan, seed);
            if !has_twins {
                node.go_alone();
            }
            at.restart(node, net);
        });
        ends().for_each(|end| self.set_link(end, true));
    }
}
