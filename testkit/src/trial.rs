use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};

use xoff_flow_control::policy::CustomPanic;
use xoff_flow_control::settings::{PolicyKind, SwitchSettings};
use xoff_wire::units::{Class, Nanos};

use crate::bed::plan::LOSSLESS;
use crate::bed::{Bed, NodeId, Obeys, Promise, Stream, SwitchPlan, end};

/// Time at which a trial ends, long after the last arrival and the last pause.
const END: Nanos = Nanos::from_millis(150);

type Broken = (Nanos, Promise, String);

#[derive(Debug)]
struct TrialFlow {
    from: NodeId,
    to: NodeId,
    id: u32,
    stream: Stream,
    may_lose: bool,
}

pub(crate) struct Trial<'subject> {
    pub(crate) bed: Bed,
    pub(crate) rng: fastrand::Rng,
    pub(crate) kind: PolicyKind,
    prepare: &'subject dyn Fn(&mut SwitchSettings),
    flows: Vec<TrialFlow>,
    switches: Vec<NodeId>,
    misfit: Option<String>,
    panicked: Option<String>,
}

impl<'subject> Trial<'subject> {
    pub(crate) fn new(
        kind: PolicyKind,
        prepare: &'subject dyn Fn(&mut SwitchSettings),
        seed: u64,
    ) -> Trial<'subject> {
        Trial {
            bed: Bed::that_notes(seed),
            rng: fastrand::Rng::with_seed(seed),
            kind,
            prepare,
            flows: Vec::new(),
            switches: Vec::new(),
            misfit: None,
            panicked: None,
        }
    }

    pub(crate) fn run(&mut self, scenario: fn(&mut Trial<'_>)) {
        let run = AssertUnwindSafe(|| {
            scenario(self);
            if self.misfit.is_none() {
                self.bed.run_until(END.max(self.bed.now()));
            }
        });
        if let Err(cause) = panic::catch_unwind(run) {
            let text = cause.downcast_ref::<CustomPanic>().map(|policy| policy.message.clone());
            let text = text.or_else(|| cause.downcast_ref::<String>().cloned());
            let text = text.or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            self.panicked = Some(text.unwrap_or_else(|| "panic without a message".to_owned()));
        }
    }

    pub(crate) fn switch(&mut self, mut plan: SwitchPlan) -> NodeId {
        plan.settings.policies = [self.kind; 8];
        (self.prepare)(&mut plan.settings);
        plan.settings.policies = [self.kind; 8];
        let mut misfits = LOSSLESS.iter().filter_map(|class| self.kind.misfit(class, &plan.settings));
        self.misfit = self.misfit.take().or_else(|| misfits.next().map(|misfit| misfit.to_string()));
        let id = self.bed.add_switch(plan);
        self.switches.push(id);
        id
    }

    pub(crate) fn star(&mut self, plan: SwitchPlan) -> (NodeId, Vec<NodeId>) {
        let ports = u8::try_from(plan.settings.ports.len()).expect("the number of ports must fit in 8 bits");
        let switch = self.switch(plan);
        (switch, (0..ports).map(|port| self.bed.add_host(switch, port, Obeys::AtOnce)).collect())
    }

    pub(crate) fn send(
        &mut self,
        (from, to): (NodeId, NodeId),
        class: Class,
        count: u64,
        change: impl FnOnce(&mut Stream),
    ) {
        let mac = self.bed.host(to).mac;
        let mut stream = Stream { class, ..Stream::new(mac, count, self.bed.now()) };
        change(&mut stream);
        let id = self.bed.send(from, stream);
        self.flows.push(TrialFlow { from, to, id, stream, may_lose: false });
    }

    pub(crate) fn may_lose(&mut self, host: NodeId) {
        let of_host = |flow: &&mut TrialFlow| flow.from == host || flow.to == host;
        self.flows.iter_mut().filter(of_host).for_each(|flow| flow.may_lose = true);
    }

    pub(crate) fn run_for(&mut self, span: Nanos) {
        if self.misfit.is_none() {
            self.bed.run_until(self.bed.now() + span);
        }
    }

    pub(crate) fn set_link(&mut self, switch: NodeId, port: u8, up: bool) {
        if self.misfit.is_none() {
            self.bed.set_link(end(switch, port), up);
        }
    }

    pub(crate) fn set_policy(&mut self, switch: NodeId, class: Class, kind: PolicyKind) {
        if self.misfit.is_none() {
            self.bed.set_policy(switch, class, kind);
        }
    }

    pub(crate) fn outcome(&self) -> Result<Vec<Broken>, String> {
        if let Some(misfit) = &self.misfit {
            return Err(misfit.clone());
        }
        let mut broken: Vec<Broken> = self.bed.broken().to_vec();
        match &self.panicked {
            Some(text) => broken.push((self.bed.now(), Promise::NoPanic, text.clone())),
            None => self.judge(&mut broken),
        }
        broken.sort_by_key(|(at, promise, _)| (*at, *promise));
        Ok(broken)
    }

    fn judge(&self, broken: &mut Vec<Broken>) {
        let now = self.bed.now();
        let mut waiting = 0;
        for &id in &self.switches {
            let switch = self.bed.switch(id);
            let held = switch.frames_held();
            if held > 0 {
                let what = format!("{held} frames are still in switch {} at the end", id.0);
                broken.push((now, Promise::NothingStranded, what));
            }
            waiting += held;
            for port in switch.ports() {
                let held = switch.worker(port).held(port).classes();
                if !held.is_empty() {
                    let what =
                        format!("switch {}, {port:?}: the peer is still paused in classes {held:?}", id.0);
                    broken.push((now, Promise::PausesEnd, what));
                }
            }
        }
        let mut missing = 0;
        for flow in &self.flows {
            missing += self.judge_flow(flow, broken);
        }
        if missing > waiting {
            let what = format!("{} lossless frames were sent and did not arrive", missing - waiting);
            broken.push((now, Promise::Delivery, what));
        }
        let mut promises = BTreeSet::new();
        broken.retain(|(_, promise, _)| promises.insert(*promise));
    }

    fn judge_flow(&self, flow: &TrialFlow, broken: &mut Vec<Broken>) -> u64 {
        let (from, to) = (self.bed.host(flow.from), self.bed.host(flow.to));
        let mut received = BTreeSet::new();
        for (at, mark) in to.arrivals.iter().filter(|(_, mark)| mark.stream == flow.id) {
            let is_late = received.last().is_some_and(|last| mark.sequence < *last);
            let what = || format!("frame {} of stream {}", mark.sequence, flow.id);
            if !received.insert(mark.sequence) {
                broken.push((*at, Promise::Once, what()));
            } else if is_late {
                broken.push((*at, Promise::Order, what()));
            }
        }
        let must_come = LOSSLESS.contains(flow.stream.class) && !flow.may_lose;
        let sent = from.sent(flow.id);
        if must_come && sent < flow.stream.count {
            let what = format!(
                "the sender of stream {} is blocked after {sent} of {} frames",
                flow.id, flow.stream.count
            );
            broken.push((self.bed.now(), Promise::PausesEnd, what));
        }
        if must_come { sent - received.len() as u64 } else { 0 }
    }
}
