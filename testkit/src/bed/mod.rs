//! Test bed for the dataplane: switches, hosts and wires in the exact virtual time of the simulator ([`Fabric`]), so
//! that runs can be repeated.
//!
//! After every event, the bed checks the switch's promises (`watch`), and compares the switch with a copy that
//! processes frames one by one (`twin`).

mod batches;
mod breaches;
pub mod exchange;
pub mod flow_pauses;
mod host;
pub mod payload;
mod placed;
pub mod plan;
mod promises;
mod rates;
pub mod ring;
mod star;
pub mod store;
mod switch_node;
mod twin;
mod watch;
mod watched;

pub use batches::Batches;
pub use breaches::Promise;
pub use host::{Host, Obeys, Received, Stream};
pub use plan::SwitchPlan;
pub use star::{Flow, Star};
pub use switch_node::SwitchNode;
pub(crate) use watched::Watched;

use std::collections::BTreeMap;
use std::sync::Arc;

use breaches::{Breaches, OnBreach};
use placed::Placed;
use xoff_flow_control::settings::{PolicyKind, SwitchSettings};
use xoff_sim::{At, Fabric, Forwarding, Line, Picos, Plan, PlanError, Seed, SlotCounts, SwitchKind};
use xoff_wire::units::{BitRate, Class, MacAddr, Nanos, PortId};

const EVENTS_MAX: u64 = 20_000_000;

/// Number of a switch or host, in the order of creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// One end of a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the names say it
pub struct End {
    pub node: NodeId,
    /// Port number; 0 for a host.
    pub port: PortId,
}

#[derive(Clone, Copy, Debug)]
enum Number {
    Switch(u32),
    Host(u32),
}

/// Test bed: switches, hosts and wires in virtual time.
#[derive(Debug)]
pub struct Bed {
    seed: u64,
    nodes: Vec<Number>,
    stage: Stage,
    ways: BTreeMap<(NodeId, NodeId), PortId>,
    streams: u32,
    breaches: Breaches,
}

#[derive(Debug)]
enum Stage {
    Planned(Box<Planned>),
    Runs(Box<Fabric<Placed<SwitchNode>, Placed<Host>>>),
}

#[derive(Debug, Default)]
struct Planned {
    plan: Plan,
    switches: Vec<SwitchPlan>,
    hosts: Vec<Host>,
    wakes: Vec<(Nanos, u32)>,
    losses: Vec<Losses>,
}

struct Losses(At, Loses);

type Loses = Box<dyn FnMut(&[u8]) -> bool>;

/// One direction of a wire, named by its sending end.
#[derive(Debug)]
pub struct Wire<'bed> {
    bed: &'bed mut Bed,
    from: At,
}

impl Wire<'_> {
    /// Makes the wire drop all frames for which `loses` returns true.
    pub fn lose(&mut self, loses: impl FnMut(&[u8]) -> bool + 'static) {
        match &mut self.bed.stage {
            Stage::Planned(planned) => planned.losses.push(Losses(self.from, Box::new(loses))),
            Stage::Runs(fabric) => fabric.lose(self.from, loses),
        }
    }
}

impl std::fmt::Debug for Losses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Losses from {}", self.0)
    }
}

impl Bed {
    /// Creates a test bed that panics when a switch breaks a [`Promise`].
    #[must_use]
    pub fn new(seed: u64) -> Bed {
        Bed::with(seed, OnBreach::Panic)
    }

    /// Creates a test bed that [records](Bed::broken) each broken [`Promise`] instead of panicking.
    #[must_use]
    pub fn that_notes(seed: u64) -> Bed {
        Bed::with(seed, OnBreach::Note)
    }

    fn with(seed: u64, on_breach: OnBreach) -> Bed {
        Bed {
            seed,
            nodes: Vec::new(),
            stage: Stage::Planned(Box::default()),
            ways: BTreeMap::new(),
            streams: 0,
            breaches: Breaches::new(on_breach),
        }
    }

    /// Adds a switch, which the test bed creates when it first runs.
    pub fn add_switch(&mut self, plan: SwitchPlan) -> NodeId {
        let planned = self.planned();
        let slots = SlotCounts { data: plan.slots, control: plan.control_slots, ..SlotCounts::default() };
        let kind = SwitchKind { settings: plan.settings.clone(), slots };
        let number = planned.plan.add_switch(&Arc::new(kind), Forwarding::default());
        planned.switches.push(plan);
        self.add(Number::Switch(number))
    }

    /// Adds a host at a port of `switch`, and returns the host's number.
    pub fn add_host(&mut self, switch: NodeId, port: u8, obeys: Obeys) -> NodeId {
        let mac = MacAddr([
            2,
            0,
            0,
            0,
            0,
            u8::try_from(self.nodes.len()).expect("the number of nodes must fit in 8 bits"),
        ]);
        let number = self.switch_number(switch);
        let planned = self.planned();
        let rate = planned.switches[number as usize].settings.ports[usize::from(port)].speed;
        let host = planned.plan.add_host(number, port, line(rate, plan::CABLE));
        planned.hosts.push(Host::new(mac, rate, obeys));
        self.add(Number::Host(host))
    }

    /// Connects two ends by a wire, with `delay` in each direction.
    pub fn link(&mut self, a: End, b: End, rate: BitRate, delay: Nanos) {
        let (a, b) = (self.at(a), self.at(b));
        self.planned().plan.link(a, b, line(rate, delay));
    }

    /// Makes `switch` forward frames for `host` through `port`, even if other paths are shorter.
    pub fn lead(&mut self, switch: NodeId, host: NodeId, port: u8) {
        self.ways.insert((switch, host), PortId(port));
    }

    /// Returns the virtual time.
    pub fn now(&self) -> Nanos {
        match &self.stage {
            Stage::Planned(_) => Nanos::ZERO,
            Stage::Runs(fabric) => fabric.now().floor(),
        }
    }

    /// Returns the broken promises, each with time and description of its first breach.
    #[must_use]
    pub fn broken(&self) -> Vec<(Nanos, Promise, String)> {
        let (of_switches, of_hosts) = match &self.stage {
            Stage::Planned(_) => (&[][..], &[][..]),
            Stage::Runs(fabric) => (fabric.switches(), fabric.hosts()),
        };
        let of_hosts = of_hosts.iter().map(|host| &host.breaches);
        let all = of_switches.iter().map(|switch| &switch.breaches).chain(of_hosts).chain([&self.breaches]);
        let mut broken: Vec<_> = all.flat_map(Breaches::noted).cloned().collect();
        broken.sort_by_key(|(at, promise, _)| (*promise, *at));
        broken.dedup_by_key(|(_, promise, _)| *promise);
        broken.sort_by_key(|(at, promise, _)| (*at, *promise));
        broken
    }

    /// Returns a hash of all events, equal for equal runs.
    pub fn digest(&self) -> u64 {
        match &self.stage {
            Stage::Planned(_) => 0,
            Stage::Runs(fabric) => fabric.digest(),
        }
    }

    /// Returns a host.
    pub fn host(&self, id: NodeId) -> &Host {
        let number = self.host_number(id) as usize;
        match &self.stage {
            Stage::Planned(planned) => &planned.hosts[number],
            Stage::Runs(fabric) => &fabric.hosts()[number].node,
        }
    }

    /// Returns a switch.
    pub fn switch(&self, id: NodeId) -> &SwitchNode {
        let number = self.switch_number(id) as usize;
        match &self.stage {
            Stage::Planned(_) => panic!("{id:?} does not exist yet: run the test bed first"),
            Stage::Runs(fabric) => &fabric.switches()[number].node,
        }
    }

    /// Returns the wire whose sending end is `from`.
    pub fn wire_mut(&mut self, from: End) -> Wire<'_> {
        let from = self.at(from);
        Wire { bed: self, from }
    }

    /// Starts a stream; returns its number.
    pub fn send(&mut self, from: NodeId, stream: Stream) -> u32 {
        let id = self.streams;
        self.streams += 1;
        self.at_host(from, stream.from, |host| host.send(id, stream));
        id
    }

    /// Makes a host obey requested rate limits (GFC).
    pub fn keep_rates(&mut self, host: NodeId) {
        self.at_host(host, Nanos::ZERO, Host::keep_rates);
    }

    /// Makes a host send the frame `bytes` before its queued frames.
    pub fn inject(&mut self, from: NodeId, bytes: &[u8]) {
        self.at_host(from, Nanos::ZERO, |host| host.send_first(bytes.to_vec()));
    }

    /// Takes a link down or up at both ends.
    pub fn set_link(&mut self, at: End, up: bool) {
        let at = self.at(at);
        let Stage::Runs(fabric) = &mut self.stage else {
            panic!("the link does not exist yet: run the test bed before changing it")
        };
        fabric.set_link(at, up);
    }

    /// Makes a switch send XON to all peers that it pauses.
    pub fn release_peers(&mut self, id: NodeId) {
        self.at_switch(id, |switch, now| switch.release_peers(now));
    }

    /// Replaces a class's policy.
    pub fn set_policy(&mut self, id: NodeId, class: Class, kind: PolicyKind) {
        self.begin();
        self.at_switch(id, |switch, now| switch.set_policy(now, class, kind));
    }

    /// Replaces a switch's settings.
    pub fn revise(&mut self, id: NodeId, settings: SwitchSettings) {
        self.begin();
        self.at_switch(id, |switch, now| switch.revise(now, settings));
    }

    /// Runs all events due by `end`, and sets the virtual time to `end`.
    pub fn run_until(&mut self, end: Nanos) {
        let end = if end == Nanos::NEVER { Picos::NEVER } else { Picos::from(end) };
        let fabric = self.begin();
        while fabric.step(end).is_some() {
            if fabric.tally().events >= EVENTS_MAX {
                self.breaches.now = self.now();
                self.breaches.expect(false, Promise::Rest, || {
                    "the events in the test bed do not come to an end".to_owned()
                });
                break;
            }
        }
        self.begin().wait_until(end);
    }

    /// Runs until no event is left. Checks that no frame or pause remains.
    pub fn run_to_rest(&mut self) {
        self.run_until(Nanos::NEVER);
        let fabric = self.begin();
        for number in
            0..u32::try_from(fabric.switches().len()).expect("the number of switches must fit in 32 bits")
        {
            fabric.at_switch(number, |at, _| at.node.check_empty(&mut at.breaches));
        }
        assert_eq!(fabric.missing(), 0, "the simulator must account for each frame");
    }

    fn add(&mut self, number: Number) -> NodeId {
        self.nodes.push(number);
        NodeId(self.nodes.len() - 1)
    }

    fn planned(&mut self) -> &mut Planned {
        let Stage::Planned(planned) = &mut self.stage else {
            panic!("the test bed already runs: add all nodes and links before its first run")
        };
        planned
    }

    fn switch_number(&self, id: NodeId) -> u32 {
        let Number::Switch(number) = self.nodes[id.0] else { panic!("{id:?} is not a switch") };
        number
    }

    fn host_number(&self, id: NodeId) -> u32 {
        let Number::Host(number) = self.nodes[id.0] else { panic!("{id:?} is not a host") };
        number
    }

    fn at(&self, End { node, port }: End) -> At {
        match self.nodes[node.0] {
            Number::Switch(number) => At::Switch(number, port.0),
            Number::Host(number) => At::Host(number, 0),
        }
    }

    fn at_host(&mut self, id: NodeId, when: Nanos, done: impl FnOnce(&mut Host)) {
        let number = self.host_number(id);
        match &mut self.stage {
            Stage::Planned(planned) => {
                done(&mut planned.hosts[number as usize]);
                planned.wakes.push((when, number));
            }
            Stage::Runs(fabric) => fabric.at_host(number, |host, net| {
                done(&mut host.node);
                host.wake(when, net);
            }),
        }
    }

    fn at_switch(&mut self, id: NodeId, done: impl FnOnce(&mut SwitchNode, Nanos)) {
        let number = self.switch_number(id);
        let Stage::Runs(fabric) = &mut self.stage else {
            panic!("{id:?} does not exist yet: run the test bed first")
        };
        fabric.at_switch(number, |switch, net| {
            done(&mut switch.node, net.now().floor());
            switch.wake(Nanos::ZERO, net);
        });
    }

    fn begin(&mut self) -> &mut Fabric<Placed<SwitchNode>, Placed<Host>> {
        if let Stage::Planned(planned) = &mut self.stage {
            let Planned { mut plan, switches, mut hosts, wakes, losses } = *std::mem::take(planned);
            while let Err(PlanError::Unlinked(At::Switch(number, port))) = plan.check() {
                let rate = switches[number as usize].settings.ports[usize::from(port)].speed;
                plan.add_host(number, port, line(rate, plan::CABLE)); // a placeholder for an unused port
                hosts.push(Host::new(MacAddr([2, 0, 0, 0, 0, 0xff]), rate, Obeys::AtOnce));
            }
            for (id, number) in (0..).map(NodeId).zip(&self.nodes) {
                let Number::Host(host) = *number else { continue };
                let mac = hosts[host as usize].mac;
                let shortest = plan.ways_to(host);
                for (from, number) in (0..).map(NodeId).zip(&self.nodes) {
                    let Number::Switch(switch) = *number else { continue };
                    let chosen = self.ways.get(&(from, id)).copied();
                    if let Some(port) = chosen.or(shortest[switch as usize]) {
                        plan.lead(switch, mac, port);
                    }
                }
            }
            let (seed, breaches) = (self.seed, &self.breaches);
            let (mut switches, mut hosts) = (switches.into_iter(), hosts.into_iter());
            let mut fabric = Fabric::of(
                &plan,
                Seed(seed),
                |place, settings, _| {
                    let mut plan = switches.next().expect("each node of the plan must have settings");
                    let ports = settings.ports.len();
                    plan.settings.fdb.statics = settings.fdb.statics;
                    plan.settings.fdb.capacity = settings.fdb.capacity;
                    Placed::new(SwitchNode::new(plan, seed), place, ports, breaches.clone())
                },
                |place, _| {
                    Placed::new(
                        hosts.next().expect("each node of the plan must have settings"),
                        place,
                        1,
                        breaches.clone(),
                    )
                },
            );
            for (when, host) in wakes {
                fabric.at_host(host, |host, net| host.wake(when, net));
            }
            for Losses(from, loses) in losses {
                fabric.lose(from, loses);
            }
            self.stage = Stage::Runs(Box::new(fabric));
        }
        let Stage::Runs(fabric) = &mut self.stage else { unreachable!("a started test bed must be running") };
        fabric
    }
}

fn line(rate: BitRate, delay: Nanos) -> Line {
    Line { rate, delay: Picos::from(delay) }
}

/// Returns an end of a wire.
pub fn end(node: NodeId, port: u8) -> End {
    End { node, port: PortId(port) }
}
