use std::collections::VecDeque;
use std::sync::Arc;

#[cfg(doc)]
use xoff_dataplane::switch::Revision;
use xoff_flow_control::settings::SwitchSettings;
use xoff_wire::units::{Bytes, Nanos, PortId};

use crate::calendar::{BUCKETS, Calendar, Entry, Order};
use crate::ends::{End, Line, LinkId, NodeId};
use crate::event::Event;
use crate::faults::{ControlFaults, FaultCounts};
use crate::host::{Flow, Host};
use crate::link::Links;
use crate::node::{Net, Node, Place};
use crate::plan::{At, Plan};
use crate::pool::{Packet, Pool};
use crate::reach::{parts, reach};
use crate::scheduled::MaybeDataplane;
use crate::seed::{Purpose, Seed};
#[cfg(doc)]
use crate::switch_node::ImpairmentCounts;
use crate::switch_node::{Request, SlotCounts, SwitchNode};
use crate::time::{Pace, Picos};
use crate::trace::Trace;

const FRAME_LONG: u32 = 1514;

const END: Picos = Picos(Picos::NEVER.0 - 1);

const EVENTS_WANTED: u64 = 16;

/// Running simulation, generic over the switches and hosts ([`Node`]). Methods panic if a switch, host or link end does
/// not exist.
#[derive(Debug)]
pub struct Fabric<S = SwitchNode, H = Host> {
    net: Net,
    switches: Vec<S>,
    hosts: Vec<H>,
    tally: Tally,
    traces: Box<[Trace]>,
    reach: Picos,
    lead: Picos,
}

#[derive(Clone, Copy, Debug)]
struct Visit {
    place: u32,
    ahead: Option<(u32, usize)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct Tally {
    pub events: u64,
    /// Frames that reached the end of a link, MAC control frames included.
    pub hops: u64,
}

/// Event that was processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FabricEvent {
    /// A frame's last bit left a node at this end of a link.
    Left(End),
    /// A frame reached this end of a link, or was lost on the way.
    Arrived(End),
    /// A timer of this node expired.
    Due(NodeId),
}

impl FabricEvent {
    /// Returns the node at which the event happened.
    #[must_use]
    pub const fn node(self) -> NodeId {
        match self {
            FabricEvent::Left(end) | FabricEvent::Arrived(end) => end.node,
            FabricEvent::Due(node) => node,
        }
    }
}

impl Fabric {
    /// Builds a plan's fabric, with ideal switches and plain hosts. Panics if [`Plan::check`] rejects the plan.
    #[must_use]
    pub fn new(plan: &Plan, seed: Seed) -> Fabric {
        let switch = |at, settings: SwitchSettings, slots| SwitchNode::new(at, &settings, slots);
        let mut fabric = Fabric::of(plan, seed, switch, Host::new);
        fabric.route(plan);
        fabric
    }

    /// Starts a flow at a host. Panics if the host still has frames of another flow to send.
    pub fn begin(&mut self, host: u32, flow: &Flow) {
        self.at_host(host, |at, net| at.begin(host, flow, net));
    }
}

impl<S: Node + MaybeDataplane, H: Node> Fabric<S, H> {
    /// Installs the routing tables of the fabric's `plan`.
    pub fn route(&mut self, plan: &Plan) {
        for (switch, forwarding) in (0..).zip(plan.forwarding()) {
            if let Some(fib) = &forwarding.fib {
                self.at_dataplane(switch, |node, net| node.set_fib(Arc::clone(fib), net));
            }
        }
    }

    /// Applies new settings to a running switch; its forwarding tables stay.
    ///
    /// `plan` and `seed` must be the fabric's. Settings that cannot change at run time (see [`Revision`]) must be
    /// equal. Packet memory must suffice for old and new settings together.
    pub fn revise(&mut self, plan: &Plan, seed: Seed, switch: u32, settings: &SwitchSettings) {
        let settings = Box::new(complete_settings(plan, seed, switch, settings));
        self.at_dataplane(switch, |node, net| node.request(Request::Revise(settings), net));
    }

    /// Stops a switch after it has sent XON, and starts another in its place at `begins`. Frames inside the old switch,
    /// or arriving before `begins`, are lost and counted ([`ImpairmentCounts`]). Links stay up. `plan` and `seed` must
    /// be the fabric's.
    pub fn restart(
        &mut self,
        plan: &Plan,
        seed: Seed,
        switch: u32,
        settings: &SwitchSettings,
        begins: Nanos,
    ) {
        let settings = Box::new(complete_settings(plan, seed, switch, settings));
        self.at_dataplane(switch, |node, net| node.request(Request::Restart(settings, begins), net));
    }

    /// Calls a function that may change a switch; does nothing in a scheduled fabric, which has no dataplane.
    pub fn at_dataplane(&mut self, switch: u32, done: impl FnOnce(&mut SwitchNode, &mut Net)) {
        if let Some(node) = self.switches[switch as usize].dataplane() {
            done(node, &mut self.net);
        }
    }
}

fn complete_settings(plan: &Plan, seed: Seed, switch: u32, settings: &SwitchSettings) -> SwitchSettings {
    let mut settings = plan.complete_settings(switch, settings);
    draw(&mut settings, NodeId(switch), seed);
    settings
}

fn draw(settings: &mut SwitchSettings, id: NodeId, seed: Seed) {
    settings.fdb.seed = seed.words(id, Purpose::Hash);
    settings.qcn.seed = seed.number(id, Purpose::Sample);
}

impl<S: Node, H: Node> Fabric<S, H> {
    /// Builds a plan's fabric, with switches and hosts that two functions create. Panics if [`Plan::check`] rejects the
    /// plan.
    #[must_use]
    pub fn of(
        plan: &Plan,
        seed: Seed,
        mut switch: impl FnMut(Place, SwitchSettings, SlotCounts) -> S,
        mut host: impl FnMut(Place, &[Line]) -> H,
    ) -> Fabric<S, H> {
        let directions = plan.directions().unwrap_or_else(|error| panic!("{error}"));
        let mut first_links = FirstLinks(0);
        let mut slots_all = 0;
        let make = |(id, (mut settings, slots)): (NodeId, (SwitchSettings, SlotCounts))| {
            draw(&mut settings, id, seed);
            slots_all += slots.data as usize;
            switch(Place::new(id, first_links.next(settings.ports.len())), settings, slots)
        };
        let switches: Vec<S> = (0..).map(NodeId).zip(plan.settings()).map(make).collect();
        let hosts = (plan.switches()..).map(NodeId).zip(plan.links_of_hosts().map(usize::from));
        let make = |(id, links): (NodeId, usize)| {
            let first = first_links.next(links);
            let own = directions[first as usize..].iter().take(links);
            host(Place::new(id, first), &own.map(|(.., line)| *line).collect::<Vec<_>>())
        };
        let hosts: Vec<H> = hosts.map(make).collect();
        let parts = parts(switches.len() + hosts.len(), &directions);
        let reach = reach(&directions, plan.smallest());
        let lead = Picos(reach.0.saturating_mul(parts.lead().max(2).into()));
        let calendar = Calendar::new(bucket_log2(&directions, parts.count()), parts);
        let traces = vec![Trace::default(); switches.len() + hosts.len()].into_boxed_slice();
        let pool = Pool::with_capacity(slots_all + directions.len());
        let net = Net { links: Links::new(&directions, calendar), reports: VecDeque::new(), pool };
        Fabric { net, switches, hosts, tally: Tally::default(), traces, reach, lead }
    }

    /// Returns the simulated time.
    #[must_use]
    pub fn now(&self) -> Picos {
        self.net.now()
    }

    /// Returns how many events were processed, and how many frames reached the end of a link.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Returns a hash of all processed events; equal runs have equal hashes.
    #[must_use]
    pub fn digest(&self) -> u64 {
        Trace::digest(&self.traces)
    }

    /// Returns the switches in the plan's order.
    #[must_use]
    pub fn switches(&self) -> &[S] {
        &self.switches
    }

    /// Returns the hosts in the plan's order.
    #[must_use]
    pub fn hosts(&self) -> &[H] {
        &self.hosts
    }

    /// Calls a function that may change a host, and returns its result.
    pub fn at_host<T>(&mut self, host: u32, done: impl FnOnce(&mut H, &mut Net) -> T) -> T {
        done(&mut self.hosts[host as usize], &mut self.net)
    }

    /// Calls a function that may change a switch, and returns its result.
    pub fn at_switch<T>(&mut self, switch: u32, done: impl FnOnce(&mut S, &mut Net) -> T) -> T {
        done(&mut self.switches[switch as usize], &mut self.net)
    }

    /// Takes a link down or up; frames in flight on it are lost when it goes down.
    pub fn set_link(&mut self, at: At, is_up: bool) {
        let one = self.link_from(self.end(at));
        let other = self.net.links.back(one);
        for link in [one, other] {
            self.net.set_link(link, is_up);
        }
        for link in [one, other] {
            let End { node, port } = self.net.links.from(link);
            let count = self.switches.len();
            match self.switches.get_mut(node.index()) {
                Some(switch) => switch.linked(port, is_up, &mut self.net),
                None => self.hosts[node.index() - count].linked(port, is_up, &mut self.net),
            }
        }
    }

    /// Drops those frames from one end of a link whose first bytes make `loses` return true.
    pub fn lose(&mut self, from: At, loses: impl FnMut(&[u8]) -> bool + 'static) {
        let link = self.link_from(self.end(from));
        self.net.links.lose(link, Box::new(loses));
    }

    /// Applies faults to MAC control frames from one end of a link.
    pub fn harm_control(&mut self, from: At, faults: ControlFaults, seed: Seed) {
        let end = self.end(from);
        let stream =
            Seed(seed.number(end.node, Purpose::Faults)).number(NodeId(end.port.0.into()), Purpose::Faults);
        self.net.links.harm_control(self.link_from(end), faults, fastrand::Rng::with_seed(stream));
    }

    /// Returns the sum of all links' fault counters.
    #[must_use]
    pub fn fault_counts(&self) -> FaultCounts {
        self.net.links.fault_counts()
    }

    /// Yields the fault counters of each faulty link direction, with its sending end.
    pub fn fault_counts_by_end(&self) -> impl Iterator<Item = (At, FaultCounts)> {
        let switches = u32::try_from(self.switches.len()).unwrap_or(u32::MAX);
        self.net.links.fault_counts_by_link().map(move |(link, fault_counts)| {
            let End { node, port } = self.net.links.from(link);
            let at = match node.0.checked_sub(switches) {
                None => At::Switch(node.0, port.0),
                Some(host) => At::Host(host, port.0),
            };
            (at, fault_counts)
        })
    }

    /// Converts a link end of the plan to one of the fabric.
    #[must_use]
    pub fn end(&self, at: At) -> End {
        let switches = u32::try_from(self.switches.len()).unwrap_or(u32::MAX);
        match at {
            At::Switch(number, port) => End { node: NodeId(number), port: PortId(port) },
            At::Host(host, link) => End { node: NodeId(switches + host), port: PortId(link) },
        }
    }

    fn link_from(&self, end: End) -> LinkId {
        self.net.links.leaving(end).unwrap_or_else(|| panic!("the fabric has no {end:?}"))
    }

    /// Processes all events due by `end`, or all events for [`Picos::NEVER`].
    pub fn run_until(&mut self, end: Picos) {
        while self.take_turn(end) {}
        self.wait_until(end);
    }

    /// Runs until `end`, or until a node calls [`Net::report`](Net::report), and returns that node.
    pub fn run_until_report(&mut self, end: Picos) -> Option<NodeId> {
        while self.net.reports.is_empty()
            && let Some(next) = self.take_by_time(end)
        {
            self.happen(next);
        }
        if self.net.reports.is_empty() {
            self.wait_until(end);
        }
        self.next_report()
    }

    pub(crate) fn next_report(&mut self) -> Option<NodeId> {
        self.net.reports.pop_front()
    }

    /// Returns the maximum simulated time by which one node can be ahead of another: a [reach](Fabric::reach) per link
    /// between the farthest parts of the fabric, but two to eight.
    #[must_use]
    pub fn lead(&self) -> Picos {
        self.lead
    }

    /// Returns the reach, the minimum time until an event affects another node: an empty frame's transmission time plus
    /// delay, on the fastest link.
    #[must_use]
    pub fn reach(&self) -> Picos {
        self.reach
    }

    /// Advances the simulated time to `end`. No event may be due before `end`.
    pub fn wait_until(&mut self, end: Picos) {
        if end <= END {
            self.net.links.now = self.net.now().max(end);
        }
    }

    /// Processes all events. Never returns after a deadlock, in which switches refresh their pauses forever.
    pub fn run_to_rest(&mut self) {
        while self.take_turn(END) {}
    }

    pub(crate) fn take_turn(&mut self, end: Picos) -> bool {
        if !self.net.links.calendar.open(end.min(END), Order::ByPlace(self.reach)) {
            return false;
        }
        let mut latest = self.net.now();
        let mut visit = Visit { place: u32::MAX, ahead: None };
        while let Some(next) = self.net.links.calendar.take() {
            self.note(next);
            latest = latest.max(next.time());
            self.prefetch(&mut visit, next.place());
            self.happen(next);
        }
        self.net.links.now = latest;
        true
    }

    /// Processes the next event if it is due by `end`, and returns it.
    pub fn step(&mut self, end: Picos) -> Option<FabricEvent> {
        let next = self.take_by_time(end)?;
        self.happen(next);
        Some(match Event::of(next.subject()) {
            Event::Left(link) => FabricEvent::Left(self.net.links.from(link)),
            Event::Arrived(link) | Event::Late(link) => FabricEvent::Arrived(self.net.links.to(link)),
            Event::Due(node) => FabricEvent::Due(node),
        })
    }

    fn take_by_time(&mut self, end: Picos) -> Option<Entry> {
        let next = self.net.links.calendar.take_by_time(end.min(END))?;
        self.note(next);
        Some(next)
    }

    #[inline]
    fn note(&mut self, next: Entry) {
        self.net.links.now = next.time();
        self.tally.events += 1;
        self.traces[next.place() as usize].note(next.time(), next.subject());
    }

    #[inline]
    fn prefetch(&self, visit: &mut Visit, place: u32) {
        if visit.place != place {
            let next = self.net.links.calendar.place_after(place);
            *visit = Visit { place, ahead: next.map(|next| (next, 0)) };
        }
        if let Some((next, step)) = visit.ahead {
            visit.ahead = self.prefetch_switch(next, step).then_some((next, step + 1));
        }
    }

    #[inline(never)]
    fn prefetch_switch(&self, place: u32, step: usize) -> bool {
        self.switches.get(place as usize).is_some_and(|switch| switch.prefetch(step, &self.net))
    }

    #[inline]
    fn happen(&mut self, next: Entry) {
        let Fabric { net, switches, hosts, .. } = self;
        let (node, count) = (next.place() as usize, switches.len());
        match Event::of(next.subject()) {
            Event::Left(link) => {
                let port = net.links.port_out(link);
                match switches.get_mut(node) {
                    Some(switch) => switch.left(port, net),
                    None => hosts[node - count].left(port, net),
                }
            }
            Event::Arrived(link) => {
                let Some(packet) = net.links.arrived(link, &net.pool) else { return };
                net.prefetch_next(link);
                if !net.links.is_in_danger(link) || net.survives(link, packet) {
                    self.arrived(link, packet);
                }
            }
            Event::Due(_) => match switches.get_mut(node) {
                Some(switch) => switch.due(net),
                None => hosts[node - count].due(net),
            },
            Event::Late(link) => {
                if let Some(packet) = net.late(link) {
                    self.arrived(link, packet);
                }
            }
        }
    }

    #[inline]
    fn arrived(&mut self, link: LinkId, packet: Packet) {
        let Fabric { net, switches, hosts, tally, traces, .. } = self;
        let count = switches.len();
        let End { node, port } = net.links.to(link);
        tally.hops += 1;
        traces[node.index()].note_frame(net.pool.mark(packet));
        match switches.get_mut(node.index()) {
            Some(switch) => switch.arrived(port, packet, net),
            None => hosts[node.index() - count].arrived(port, packet, net),
        }
    }

    /// Returns how many of the pool's frames are neither in a node nor on a link; anything but 0 is a bug.
    #[must_use]
    pub fn missing(&self) -> i128 {
        let held = self.switches.iter().map(S::holds).chain(self.hosts.iter().map(H::holds)).sum::<u64>();
        self.net.pool.in_use() as i128 - i128::from(held) - self.net.links.in_flight(&self.net.pool) as i128
    }
}

struct FirstLinks(u32);

impl FirstLinks {
    fn next(&mut self, ports: usize) -> u32 {
        let first = self.0;
        self.0 += u32::try_from(ports).expect("the number of links must fit into 32 bits");
        first
    }
}

/// Returns the base-2 logarithm of a calendar bucket's width in picoseconds. All buckets together cover at least 3 S,
/// with S the largest sum of a link's delay and a long frame's transmission time: a frame arrives up to S later, at a
/// node that may be 2 S behind in simulated time.
fn bucket_log2(directions: &[(End, End, Line)], parts: usize) -> u32 {
    let frame = |line: &Line| Pace::of(line.rate).time_of(Bytes::on_line(FRAME_LONG));
    let ahead = directions.iter().map(|(.., line)| frame(line).after(line.delay).0).max().unwrap_or(1);
    let frame_shortest = directions.iter().map(|(.., line)| frame(line).0).min().unwrap_or(1);
    let wanted =
        frame_shortest.saturating_mul(EVENTS_WANTED * parts as u64) / (2 * directions.len().max(1) as u64);
    (ahead.saturating_mul(3) / BUCKETS as u64).max(wanted).max(1).ilog2() + 1
}
