use std::collections::VecDeque;

use xoff_sim::{ControlFaults, FabricEvent, FaultCounts, Picos, Seed};
use xoff_wire::units::{Nanos, PortId};

use super::breaches::{Breaches, OnBreach, Promise};
use super::{Bed, End, NodeId, SwitchNode, SwitchPlan};

const LAST: usize = 24;
/// Number of events between two checks of all switches. After each event in between, only the affected switch is checked.
const ROUND: u64 = 1_000;
/// Maximum time for which frames may be queued while no host receives any; longer than every pause, pause storm and fault.
const STANDSTILL: Nanos = Nanos::from_millis(100);

#[derive(Debug, Default)]
pub(crate) struct Watched {
    may_stand_still: bool,
    pub(crate) last: VecDeque<(Nanos, FabricEvent)>,
    came: usize,
    moved: Nanos,
}

impl Watched {
    pub(crate) fn of(may_stand_still: bool) -> Watched {
        Watched { may_stand_still, ..Watched::default() }
    }
}

impl Bed {
    pub(crate) fn that_notes_all(seed: u64) -> Bed {
        Bed::with(seed, OnBreach::NoteAll)
    }

    pub(crate) fn start(&mut self, has_twins: bool) {
        let fabric = self.begin();
        for number in
            0..u32::try_from(fabric.switches().len()).expect("the number of switches must fit in 32 bits")
        {
            fabric.at_switch(number, |at, _| {
                if !has_twins {
                    at.node.go_alone()
                }
            });
        }
    }

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
                for number in 0..u32::try_from(fabric.switches().len())
                    .expect("the number of switches must fit in 32 bits")
                {
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
        let what =
            || format!("frames are queued, but no host received any since the time {} ns", watched.moved.0);
        self.breaches.expect(moves, Promise::NothingStranded, what);
        moves
    }

    pub(crate) fn events(&mut self) -> u64 {
        self.begin().tally().events
    }

    pub(crate) fn fault_counts(&mut self) -> FaultCounts {
        self.begin().fault_counts()
    }

    pub(crate) fn check_rest(&mut self) {
        let fabric = self.begin();
        for number in
            0..u32::try_from(fabric.switches().len()).expect("the number of switches must fit in 32 bits")
        {
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

    pub(crate) fn stall(&mut self, id: NodeId, span: Nanos) {
        self.ail(id, span, |switch, until| switch.impairments.stall(until));
    }

    pub(crate) fn refuse(&mut self, at: End, span: Nanos) {
        self.ail(at.node, span, |switch, until| switch.impairments.refuse(at.port, until));
    }

    pub(crate) fn complete_late(&mut self, id: NodeId, span: Nanos) {
        self.ail(id, span, |switch, until| switch.impairments.complete_late(until));
    }

    fn ail(&mut self, id: NodeId, span: Nanos, ail: impl FnOnce(&mut SwitchNode, Nanos)) {
        let until = self.now() + span;
        let number = self.switch_number(id);
        self.begin().at_switch(number, |at, net| {
            ail(&mut at.node, until);
            at.wake(until, net);
        });
    }

    pub(crate) fn restart(&mut self, id: NodeId, plan: &SwitchPlan, has_twins: bool) {
        let (number, seed) = (self.switch_number(id), self.seed);
        let ports = u8::try_from(plan.settings.ports.len()).expect("the number of ports must fit in 8 bits");
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
