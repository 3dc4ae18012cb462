//! A test bed for the dataplane: switches and hosts linked by wires, in virtual time.
//!
//! There is no kernel, no thread, no socket and no clock in it. What will happen stands in a queue
//! ordered by (time, id); a wire carries one frame at a time at its rate and delivers it, whole, after
//! its delay. So time is exact, every run repeats, and a test can demand that something happens at
//! one nanosecond and not at the next.
//!
//! After every event each switch is checked against its promises (`watch`), and against itself in the hands of a
//! driver that takes each frame in a batch of its own (`twin`): a test that merely runs has already proven
//! something.

mod breaches;
mod events;
pub mod flow_pauses;
mod host;
pub mod payload;
pub mod plan;
mod rates;
mod star;
pub mod store;
mod switch_node;
mod trace;
mod twin;
mod watch;
mod wire;

pub use breaches::Promise;
pub use events::{End, NodeId};
pub use host::{Host, Obeys, Seen, Stream};
pub use star::{Flow, Star};
pub use switch_node::{SwitchNode, SwitchPlan};
pub use twin::Batches;
pub use wire::Wire;

use std::collections::{BTreeMap, VecDeque};

use breaches::{Breaches, OnBreach};
use events::{Event, Events};
use trace::Trace;
use xoff_dataplane::settings::{PolicyKind, SwitchSettings};
use xoff_dataplane::units::{BitRate, Class, MacAddr, Nanos, PortId};

/// More events than any test has: a bed that never comes to rest.
const EVENTS_MAX: u64 = 20_000_000;

#[derive(Debug)]
enum Node {
    /// Becomes a switch when all is linked: it is told where every host is.
    Planned(Box<SwitchPlan>),
    Switch(Box<SwitchNode>),
    Host(Box<Host>),
}

/// Switches, hosts and wires, and the time.
#[derive(Debug)]
pub struct Bed {
    now: Nanos,
    seed: u64,
    events: Events,
    nodes: Vec<Node>,
    /// Each node's earliest wake-up on its way.
    wakes: Vec<Nanos>,
    /// By the end that sends.
    wires: BTreeMap<End, Wire>,
    /// By switch and host, where the way is not to be the shortest.
    ways: BTreeMap<(NodeId, NodeId), PortId>,
    streams: u32,
    trace: Trace,
    happened: u64,
    breaches: Breaches,
}

impl Bed {
    /// An empty one, which panics where a promise is broken.
    #[must_use]
    pub fn new(seed: u64) -> Bed {
        Bed::with(seed, OnBreach::Panic)
    }

    /// An empty one, which goes on where a promise is broken, and [says](Bed::broken) what was.
    #[must_use]
    pub fn that_notes(seed: u64) -> Bed {
        Bed::with(seed, OnBreach::Note)
    }

    fn with(seed: u64, on_breach: OnBreach) -> Bed {
        Bed {
            now: Nanos::ZERO,
            seed,
            events: Events::default(),
            nodes: Vec::new(),
            wakes: Vec::new(),
            wires: BTreeMap::new(),
            ways: BTreeMap::new(),
            streams: 0,
            trace: Trace::default(),
            happened: 0,
            breaches: Breaches::new(on_breach),
        }
    }

    /// A switch; it exists from the first run on.
    pub fn add_switch(&mut self, plan: SwitchPlan) -> NodeId {
        self.add(Node::Planned(Box::new(plan)))
    }

    /// A host at `port` of `switch`.
    pub fn add_host(&mut self, switch: NodeId, port: u8, obeys: Obeys) -> NodeId {
        let Node::Planned(plan) = &self.nodes[switch.0] else { panic!("{switch:?} is no planned switch") };
        let rate = plan.settings.ports[usize::from(port)].speed;
        let mac = MacAddr([2, 0, 0, 0, 0, u8::try_from(self.nodes.len()).expect("few nodes")]);
        let id = self.add(Node::Host(Box::new(Host::new(mac, rate, obeys))));
        self.link(end(id, 0), end(switch, port), rate, plan::CABLE);
        id
    }

    /// A wire between two ends, `delay` each way.
    pub fn link(&mut self, a: End, b: End, rate: BitRate, delay: Nanos) {
        self.wires.insert(a, Wire::new(b, rate, delay));
        self.wires.insert(b, Wire::new(a, rate, delay));
    }

    /// Frames for `host` leave `switch` by `port`, shortest way or not.
    pub fn lead(&mut self, switch: NodeId, host: NodeId, port: u8) {
        self.ways.insert((switch, host), PortId(port));
    }

    /// What time it is.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Promises that were broken, each with when that was first seen, and what was seen.
    #[must_use]
    pub fn broken(&self) -> &[(Nanos, Promise, String)] {
        self.breaches.noted()
    }

    /// One number for all that has happened.
    pub fn digest(&self) -> u64 {
        self.trace.digest()
    }

    /// That host.
    pub fn host(&self, id: NodeId) -> &Host {
        let Node::Host(host) = &self.nodes[id.0] else { panic!("{id:?} is no host") };
        host
    }

    /// That switch, once the bed has run.
    pub fn switch(&self, id: NodeId) -> &SwitchNode {
        let Node::Switch(switch) = &self.nodes[id.0] else { panic!("{id:?} is no switch yet") };
        switch
    }

    /// The wire on which this end sends.
    pub fn wire_mut(&mut self, from: End) -> &mut Wire {
        self.wires.get_mut(&from).expect("a linked end")
    }

    /// Starts a stream at a host; answers its number.
    pub fn send(&mut self, from: NodeId, stream: Stream) -> u32 {
        let id = self.streams;
        self.streams += 1;
        self.host_mut(from).send(id, stream);
        self.events.at(self.now.max(stream.from), Event::Wake(from));
        id
    }

    /// From here on a host keeps the rates (GFC) that it is asked for.
    pub fn keep_rates(&mut self, host: NodeId) {
        self.host_mut(host).keep_rates();
    }

    /// Has a host send these bytes before anything else.
    pub fn inject(&mut self, from: NodeId, bytes: &[u8]) {
        self.host_mut(from).send_first(bytes.to_vec());
        self.events.at(self.now, Event::Wake(from));
    }

    /// Takes the link at this end down, or up again, on both sides at once.
    pub fn set_link(&mut self, at: End, up: bool) {
        let other = self.wires[&at].to;
        let now = self.now;
        for end in [at, other] {
            self.wire_mut(end).set_link(up);
            match &mut self.nodes[end.node.0] {
                Node::Switch(switch) => switch.set_link(now, end.port, up),
                Node::Host(host) => host.set_link(up),
                Node::Planned(_) => panic!("the bed has not begun"),
            }
            self.events.at(now, Event::Wake(end.node));
        }
    }

    /// Has a switch let go every peer that it holds, as before a stop.
    pub fn release_peers(&mut self, id: NodeId) {
        let now = self.now;
        let Node::Switch(switch) = &mut self.nodes[id.0] else { panic!("{id:?} is no switch yet") };
        switch.let_peers_go(now);
        self.events.at(now, Event::Wake(id));
    }

    /// Gives a class of a switch another policy.
    pub fn set_policy(&mut self, id: NodeId, class: Class, kind: PolicyKind) {
        self.make_switches();
        let now = self.now;
        let Node::Switch(switch) = &mut self.nodes[id.0] else { panic!("{id:?} is no switch") };
        switch.set_policy(now, class, kind);
        self.events.at(now, Event::Wake(id));
    }

    /// Other settings hold in a switch from now on.
    pub fn revise(&mut self, id: NodeId, settings: SwitchSettings) {
        self.make_switches();
        let now = self.now;
        let Node::Switch(switch) = &mut self.nodes[id.0] else { panic!("{id:?} is no switch") };
        switch.revise(now, settings);
        self.events.at(now, Event::Wake(id));
    }

    /// Lets everything happen that is due by `end`, and makes it that time.
    pub fn run_until(&mut self, end: Nanos) {
        self.make_switches();
        while let Some((now, event)) = self.events.pop_until(end) {
            (self.now, self.breaches.now) = (now, now);
            self.happened += 1;
            if self.happened >= EVENTS_MAX {
                self.breaches.expect(false, Promise::Rest, || "the bed does not come to rest".to_owned());
                break;
            }
            self.trace.note(now, &event);
            self.happen(event);
        }
        if end != Nanos::NEVER {
            self.now = end;
        }
    }

    /// Lets everything happen until nothing moves any more, and checks that nothing was left behind.
    pub fn run_to_rest(&mut self) {
        self.run_until(Nanos::NEVER);
        for node in &self.nodes {
            if let Node::Switch(switch) = node {
                switch.check_empty(&mut self.breaches);
            }
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Left(end) => self.left(end),
            Event::Arrived(end, bytes) => self.arrived(end, bytes),
            Event::Heed(node, bytes) => {
                let now = self.now;
                self.host_mut(node).heed(now, &bytes);
                self.settle(node);
            }
            Event::Wake(node) => {
                if self.wakes[node.0] <= self.now {
                    self.wakes[node.0] = Nanos::NEVER;
                }
                self.settle(node);
            }
        }
    }

    fn left(&mut self, end: End) {
        let now = self.now;
        let wire = self.wire_mut(end);
        let (to, delivery) = (wire.to, wire.left(now));
        if let Some((when, bytes)) = delivery {
            self.events.at(when, Event::Arrived(to, bytes));
        }
        if let Node::Switch(switch) = &mut self.nodes[end.node.0] {
            switch.left(now, end.port, &mut self.breaches);
        }
        self.settle(end.node);
    }

    fn arrived(&mut self, end: End, bytes: Vec<u8>) {
        if !self.wires[&end].is_up() {
            return; // it was on its way when the link went down
        }
        let now = self.now;
        match &mut self.nodes[end.node.0] {
            Node::Switch(switch) => switch.arrived(end.port, &bytes),
            Node::Host(host) => {
                if let Some(later) = host.arrived(now, &bytes) {
                    self.events.at(later, Event::Heed(end.node, bytes));
                }
            }
            Node::Planned(_) => {}
        }
        self.settle(end.node);
    }

    /// Lets a node do all that it can do now.
    fn settle(&mut self, id: NodeId) {
        let now = self.now;
        let (ports, is_looking) = match &mut self.nodes[id.0] {
            Node::Switch(switch) => {
                let is_looking = switch.looks_at(now);
                if is_looking {
                    switch.look(now, &mut self.breaches);
                }
                (switch.ports().collect(), is_looking)
            }
            Node::Host(_) => (vec![PortId(0)], false),
            Node::Planned(_) => return,
        };
        for port in ports {
            self.start(End { node: id, port });
        }
        let next = match &self.nodes[id.0] {
            Node::Switch(switch) => {
                switch.check(now, &mut self.breaches);
                if is_looking {
                    switch.check_idle(now, &mut self.breaches);
                }
                switch.next_look(now)
            }
            Node::Host(host) => host.next_wake(now),
            Node::Planned(_) => Nanos::NEVER,
        };
        if next < self.wakes[id.0] {
            self.wakes[id.0] = next;
            self.events.at(next, Event::Wake(id));
        }
    }

    /// Puts the next frame on the wire, if it is free.
    fn start(&mut self, end: End) {
        let now = self.now;
        let Some(wire) = self.wires.get_mut(&end).filter(|wire| wire.is_free()) else { return };
        let bytes = match &mut self.nodes[end.node.0] {
            Node::Switch(switch) => switch.next_frame(end.port),
            Node::Host(host) => host.next_frame(now),
            Node::Planned(_) => None,
        };
        if let Some(bytes) = bytes {
            let until = wire.carry(now, bytes);
            self.events.at(until, Event::Left(end));
        }
    }

    fn host_mut(&mut self, id: NodeId) -> &mut Host {
        let Node::Host(host) = &mut self.nodes[id.0] else { panic!("{id:?} is no host") };
        host
    }

    fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        self.wakes.push(Nanos::NEVER);
        NodeId(self.nodes.len() - 1)
    }

    /// Makes the planned switches, with a static address for every host, behind the port that leads to
    /// it by the fewest wires.
    fn make_switches(&mut self) {
        let hosts: Vec<(NodeId, MacAddr)> = (0..)
            .zip(&self.nodes)
            .filter_map(|(id, node)| match node {
                Node::Host(host) => Some((NodeId(id), host.mac)),
                Node::Planned(_) | Node::Switch(_) => None,
            })
            .collect();
        for id in (0..self.nodes.len()).map(NodeId) {
            let Node::Planned(plan) = &self.nodes[id.0] else { continue };
            let mut plan = SwitchPlan::clone(plan);
            let chosen = |to| self.ways.get(&(id, to)).copied();
            let way = |&(to, mac)| chosen(to).or_else(|| self.first_port(id, to)).map(|port| (1, mac, port));
            plan.settings.fdb.statics.extend(hosts.iter().filter_map(way));
            self.nodes[id.0] = Node::Switch(Box::new(SwitchNode::new(plan, self.seed)));
        }
    }

    fn first_port(&self, from: NodeId, to: NodeId) -> Option<PortId> {
        let mut found: BTreeMap<NodeId, Option<PortId>> = [(from, None)].into();
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            if node == to {
                return found[&node];
            }
            for (end, wire) in self.wires.iter().filter(|(end, _)| end.node == node) {
                let port = found[&node].or(Some(end.port));
                if let std::collections::btree_map::Entry::Vacant(entry) = found.entry(wire.to.node) {
                    entry.insert(port);
                    queue.push_back(wire.to.node);
                }
            }
        }
        None
    }
}

/// The end at `port` of `node`.
pub fn end(node: NodeId, port: u8) -> End {
    End { node, port: PortId(port) }
}
