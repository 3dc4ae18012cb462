//! The fabric in time: events are taken one after the other, and what follows from each at once is done before the next.
//!
//! It is the same fabric whatever stands at the ends of its links ([`Node`]): it is made for each kind of switch and of host, and calls
//! them directly.

use std::collections::VecDeque;
use std::sync::Arc;

use xoff_dataplane::settings::SwitchSettings;
#[cfg(doc)]
use xoff_dataplane::switch::Revision;
use xoff_dataplane::units::{Bytes, Nanos, PortId};

use crate::calendar::{BUCKETS, Calendar, Entry, Order};
use crate::ends::{End, Line, LinkId, NodeId};
use crate::event::Event;
use crate::faults::{ControlFaults, Mishaps};
use crate::host::{Flow, Host};
use crate::link::Links;
use crate::node::{Net, Node, Place};
use crate::plan::{At, Plan};
use crate::pool::{Packet, Pool};
use crate::reach::{parts, reach};
use crate::seed::{Purpose, Seed};
#[cfg(doc)]
use crate::switch_node::Ailments;
use crate::switch_node::{Asked, SlotCounts, SwitchNode};
use crate::time::{Pace, Picos};
use crate::trace::Trace;

/// A frame of the usual longest length, without FCS.
const FRAME_LONG: u32 = 1514;

/// The last moment there is: what is due at [`Picos::NEVER`] never happens.
const END: Picos = Picos(Picos::NEVER.0 - 1);

/// Events of a part in a bucket of the calendar.
const EVENTS_WANTED: u64 = 16;

/// Switches, hosts and links, and the time.
#[derive(Debug)]
pub struct Fabric<S = SwitchNode, H = Host> {
    net: Net,
    switches: Vec<S>,
    /// Their nodes follow those of switches.
    hosts: Vec<H>,
    tally: Tally,
    /// By node.
    traces: Box<[Trace]>,
    reach: Picos,
    lead: Picos,
}

/// Where things happen now.
#[derive(Clone, Copy, Debug)]
struct Visit {
    place: u32,
    /// The place that is next, and the step that brings more of it near; none once all is.
    ahead: Option<(u32, usize)>,
}

/// How much has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Events.
    pub events: u64,
    /// Frames that have come to the end of a link, control frames included.
    pub hops: u64,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// The last bit of a frame has left there.
    Left(End),
    /// A frame has come in there, or would have if it were not lost.
    Arrived(End),
    /// A time that it asked for has come.
    Due(NodeId),
}

impl Happened {
    /// The node at which it happens.
    #[must_use]
    pub const fn node(self) -> NodeId {
        match self {
            Happened::Left(end) | Happened::Arrived(end) => end.node,
            Happened::Due(node) => node,
        }
    }
}

impl Fabric {
    /// As planned, with switches of ideal hardware and plain hosts; what switches hash with comes from `seed`.
    ///
    /// # Panics
    /// If the plan is refused by [`Plan::check`].
    #[must_use]
    pub fn new(plan: &Plan, seed: Seed) -> Fabric {
        let switch = |at, settings: SwitchSettings, slots| SwitchNode::new(at, &settings, slots);
        let mut fabric = Fabric::of(plan, seed, switch, Host::new);
        fabric.route(plan);
        fabric
    }

    /// Host number `host` begins to send.
    ///
    /// # Panics
    /// If there is no such host, or it has not sent all of another flow yet.
    pub fn begin(&mut self, host: u32, flow: &Flow) {
        self.at_host(host, |at, net| at.begin(host, flow, net));
    }
}

impl<H: Node> Fabric<SwitchNode, H> {
    /// Routers forward by the tables that `plan`, of which the fabric was made, has for them. Until then they have none.
    ///
    /// # Panics
    /// If there is no such switch.
    pub fn route(&mut self, plan: &Plan) {
        for (switch, forwarding) in (0..).zip(plan.forwarding()) {
            if let Some(fib) = &forwarding.fib {
                self.at_switch(switch, |node, net| node.set_fib(Arc::clone(fib), net));
            }
        }
    }

    /// Other settings hold at switch number `switch` from now on, as after a reload; it forwards as planned. `plan` and `seed` are those
    /// that the fabric was made of. What a running switch cannot change has to be as it is (see [`Revision`]), and its packet memory large
    /// enough for what both let in. Its forwarding database stays as large as it was made.
    ///
    /// # Panics
    /// If there is no such switch.
    pub fn revise(&mut self, plan: &Plan, seed: Seed, switch: u32, settings: &SwitchSettings) {
        let settings = Box::new(told(plan, seed, switch, settings));
        self.at_switch(switch, |node, net| node.ask(Asked::Revise(settings), net));
    }

    /// Switch number `switch` ends now, and another one that is told so begins in its place at `begins`. Its peers are let go first; what
    /// is in it, and what comes meanwhile, is lost, and counted ([`Ailments`]). Links stay up.
    /// `plan` and `seed` are those that the fabric was made of.
    ///
    /// # Panics
    /// If there is no such switch.
    pub fn restart(
        &mut self,
        plan: &Plan,
        seed: Seed,
        switch: u32,
        settings: &SwitchSettings,
        begins: Nanos,
    ) {
        let settings = Box::new(told(plan, seed, switch, settings));
        self.at_switch(switch, |node, net| node.ask(Asked::Restart(settings, begins), net));
    }
}

/// All that a switch is told.
fn told(plan: &Plan, seed: Seed, switch: u32, settings: &SwitchSettings) -> SwitchSettings {
    let mut settings = plan.told(switch, settings);
    draw(&mut settings, NodeId(switch), seed);
    settings
}

/// What a switch hashes with and samples by.
fn draw(settings: &mut SwitchSettings, id: NodeId, seed: Seed) {
    settings.fdb.seed = seed.words(id, Purpose::Hash);
    settings.qcn.seed = seed.number(id, Purpose::Sample);
}

impl<S: Node, H: Node> Fabric<S, H> {
    /// As planned, with these switches and hosts, which are made in the order of the plan; what switches hash with comes from `seed`.
    ///
    /// # Panics
    /// If the plan is refused by [`Plan::check`].
    #[must_use]
    pub fn of(
        plan: &Plan,
        seed: Seed,
        mut switch: impl FnMut(Place, SwitchSettings, SlotCounts) -> S,
        mut host: impl FnMut(Place, Line) -> H,
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
        let hosts = (plan.switches()..).map(NodeId).zip(directions.iter().skip(first_links.0 as usize));
        let hosts: Vec<H> =
            hosts.map(|(id, (_, _, line))| host(Place::new(id, first_links.next(1)), *line)).collect();
        let parts = parts(switches.len() + hosts.len(), &directions);
        let reach = reach(&directions);
        let lead = Picos(reach.0.saturating_mul(parts.lead().max(2).into()));
        let calendar = Calendar::new(bucket_log2(&directions, parts.count()), parts);
        let traces = vec![Trace::default(); switches.len() + hosts.len()].into_boxed_slice();
        let pool = Pool::with_capacity(slots_all + directions.len());
        let net = Net { links: Links::new(&directions, calendar), told: VecDeque::new(), pool };
        Fabric { net, switches, hosts, tally: Tally::default(), traces, reach, lead }
    }

    /// What time it is.
    #[must_use]
    pub fn now(&self) -> Picos {
        self.net.now()
    }

    /// How much has happened.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// One number for all that has happened.
    #[must_use]
    pub fn digest(&self) -> u64 {
        Trace::digest(&self.traces)
    }

    /// The switches, in the order of the plan.
    #[must_use]
    pub fn switches(&self) -> &[S] {
        &self.switches
    }

    /// The hosts, in the order of the plan.
    #[must_use]
    pub fn hosts(&self) -> &[H] {
        &self.hosts
    }

    /// Something is done at host number `host`, from outside.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn at_host<T>(&mut self, host: u32, done: impl FnOnce(&mut H, &mut Net) -> T) -> T {
        done(&mut self.hosts[host as usize], &mut self.net)
    }

    /// Something is done at switch number `switch`, from outside.
    ///
    /// # Panics
    /// If there is no such switch.
    pub fn at_switch<T>(&mut self, switch: u32, done: impl FnOnce(&mut S, &mut Net) -> T) -> T {
        done(&mut self.switches[switch as usize], &mut self.net)
    }

    /// The link at this end goes down, or comes up again, in both directions at once: what is on its way is lost.
    ///
    /// # Panics
    /// If there is no such end.
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

    /// From now on frames from this end for which `loses` answers true are lost on the way.
    ///
    /// # Panics
    /// If there is no such end.
    pub fn lose(&mut self, from: At, loses: impl FnMut(&[u8]) -> bool + 'static) {
        let link = self.link_from(self.end(from));
        self.net.links.lose(link, Box::new(loses));
    }

    /// From now on MAC control from this end has these faults on the way, by a stream of `seed`.
    ///
    /// # Panics
    /// If there is no such end.
    pub fn harm_control(&mut self, from: At, faults: ControlFaults, seed: Seed) {
        let end = self.end(from);
        let stream =
            Seed(seed.number(end.node, Purpose::Faults)).number(NodeId(end.port.0.into()), Purpose::Faults);
        self.net.links.harm_control(self.link_from(end), faults, fastrand::Rng::with_seed(stream));
    }

    /// What has gone wrong on links.
    #[must_use]
    pub fn mishaps(&self) -> Mishaps {
        self.net.links.mishaps()
    }

    /// The same by the ends that the frames left by, of all links on which something may go wrong.
    pub fn mishaps_by_end(&self) -> impl Iterator<Item = (At, Mishaps)> {
        let switches = u32::try_from(self.switches.len()).unwrap_or(u32::MAX);
        self.net.links.mishaps_by_link().map(move |(link, mishaps)| {
            let End { node, port } = self.net.links.from(link);
            let at = match node.0.checked_sub(switches) {
                None => At::Switch(node.0, port.0),
                Some(host) => At::Host(host),
            };
            (at, mishaps)
        })
    }

    /// An end as nodes and ports are numbered here.
    #[must_use]
    pub fn end(&self, at: At) -> End {
        let switches = u32::try_from(self.switches.len()).unwrap_or(u32::MAX);
        match at {
            At::Switch(number, port) => End { node: NodeId(number), port: PortId(port) },
            At::Host(host) => End { node: NodeId(switches + host), port: PortId(0) },
        }
    }

    fn link_from(&self, end: End) -> LinkId {
        self.net.links.leaving(end).unwrap_or_else(|| panic!("there is no {end:?}"))
    }

    /// Lets everything happen that is due by `end`, and makes it that time, unless that is over already. Until
    /// [`Picos::NEVER`] is until nothing moves any more.
    pub fn run_until(&mut self, end: Picos) {
        while self.take_turn(end) {}
        self.wait_until(end);
    }

    /// The same, but stops at once when a node has [something to say](Net::tell), and answers which; the others that do are next.
    /// `None`: it is `end`, or nothing moves any more.
    pub fn run_until_told(&mut self, end: Picos) -> Option<NodeId> {
        while self.net.told.is_empty()
            && let Some(next) = self.take_by_time(end)
        {
            self.happen(next);
        }
        if self.net.told.is_empty() {
            self.wait_until(end);
        }
        self.next_told()
    }

    /// A node that had something to say, and has not been named yet.
    pub(crate) fn next_told(&mut self) -> Option<NodeId> {
        self.net.told.pop_front()
    }

    /// How far nodes may be ahead of each other while all is let happen: two [reaches](Fabric::reach), and up to eight in
    /// a large fabric.
    #[must_use]
    pub fn lead(&self) -> Picos {
        self.lead
    }

    /// What an empty frame takes over the quickest link: nothing that happens at a node is felt at another sooner.
    #[must_use]
    pub fn reach(&self) -> Picos {
        self.reach
    }

    /// Nothing happens any more until `end`: it becomes that time, unless that is over already, or never comes.
    pub fn wait_until(&mut self, end: Picos) {
        if end <= END {
            self.net.links.now = self.net.now().max(end);
        }
    }

    /// Lets everything happen until nothing moves any more. Where frames wait for each other for good, it does not end: pauses are
    /// refreshed.
    pub fn run_to_rest(&mut self) {
        while self.take_turn(END) {}
    }

    /// Lets happen, by `end`, all that happens at some nodes so soon that it follows from nothing elsewhere, node by node. Some nodes are
    /// ahead of others then, by less than the [lead](Fabric::lead), until [`Fabric::run_until`] brings all to one time. Answers whether
    /// there was anything.
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

    /// Lets the next event happen, if it is due by `end`.
    pub fn step(&mut self, end: Picos) -> Option<Happened> {
        let next = self.take_by_time(end)?;
        self.happen(next);
        Some(match Event::of(next.subject()) {
            Event::Left(link) => Happened::Left(self.net.links.from(link)),
            Event::Arrived(link) | Event::Late(link) => Happened::Arrived(self.net.links.to(link)),
            Event::Due(node) => Happened::Due(node),
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

    /// While something happens at `place`, the switch that is next is brought near.
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

    /// Answers whether there is more. It exists once, out of the way of what is done for each frame.
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

    /// Frames in the pool that are in no node and on no link, or the other way round: zero unless there is a bug.
    #[must_use]
    pub fn missing(&self) -> i128 {
        let held = self.switches.iter().map(S::holds).chain(self.hosts.iter().map(H::holds)).sum::<u64>();
        self.net.pool.in_use() as i128 - i128::from(held) - self.net.links.in_flight(&self.net.pool) as i128
    }
}

/// Links of nodes in their order, and of each of its ports.
struct FirstLinks(u32);

impl FirstLinks {
    fn next(&mut self, ports: usize) -> u32 {
        let first = self.0;
        self.0 += u32::try_from(ports).expect("few ports");
        first
    }
}

/// How wide a bucket of the calendar is to be, as a power of two: a long frame's time and the delay of the slowest link, after two more by
/// which a neighbour is behind, are within a turn of its wheel, and so many events are in a bucket that it pays to sort them at once.
fn bucket_log2(directions: &[(End, End, Line)], parts: usize) -> u32 {
    let frame = |line: &Line| Pace::of(line.rate).time_of(Bytes::on_line(FRAME_LONG));
    let ahead = directions.iter().map(|(.., line)| frame(line).after(line.delay).0).max().unwrap_or(1);
    // A direction that is busy has two events in the time of a frame.
    let frame_shortest = directions.iter().map(|(.., line)| frame(line).0).min().unwrap_or(1);
    let wanted =
        frame_shortest.saturating_mul(EVENTS_WANTED * parts as u64) / (2 * directions.len().max(1) as u64);
    (ahead.saturating_mul(3) / BUCKETS as u64).max(wanted).max(1).ilog2() + 1
}
