//! Choice of the group member by which a frame leaves ([`crate::forward::WeightedPaths`]).
//!
//! In a group that spreads by flow, a frame waits until its flow's member has queue space. In other groups, frames
//! avoid members that are full or closed (by link loss or the watchdog) if possible, and a waiting frame chooses again.
//! The known lengths of another worker's queues exclude frames on their way to that worker.

use xoff_flow_control::settings::{GroupSettings, Spread, SwitchSettings, Turns, WhenFull};
use xoff_wire::PathHash;
use xoff_wire::flow::mix;
use xoff_wire::header::Header;
use xoff_wire::units::{Bytes, Class, PortId, PortSet};

use super::Switch;
use crate::forward::{GroupId, Groups, PathSet, WeightedPaths, shortest};
use crate::frame::{Frame, FrameStore};
use crate::queue::{FrameMeta, Origin};
use crate::routing::{Hop, Hops};

#[derive(Debug)]
pub(super) struct Paths {
    groups: Box<[Group]>,
    salt: u64,
    hash: PathHash,
    pub(super) hops_drawn: u64,
}

#[derive(Debug)]
struct Group {
    ports: Box<[PortId]>,
    paths: WeightedPaths,
    spread: Spread,
    salt: u64,
    at: SpreadState,
    then: SpreadState,
}

#[derive(Clone, Copy, Debug, Default)]
struct SpreadState {
    place: usize,
    drawn: u64,
}

impl Paths {
    pub(super) fn new(settings: &SwitchSettings) -> Paths {
        let secret = settings.fdb.seed.digest();
        let groups = settings.groups.iter().map(|group| Group::new(group, secret)).collect();
        Paths { groups, salt: mix(secret), hash: settings.hash, hops_drawn: 0 }
    }

    pub(super) fn take(&mut self, ports: &PortSet, groups: &Groups) {
        if self.groups.is_empty() {
            return;
        }
        for port in ports.and(groups.grouped()).iter() {
            if let Some(group) = groups.of(port) {
                self.groups[group.index()].take();
            }
        }
    }
}

impl Group {
    fn new(settings: &GroupSettings, secret: u64) -> Group {
        let names = settings.members.iter().map(|member| (u64::from(member.port.0), member.weight));
        Group {
            ports: settings.members.iter().map(|member| member.port).collect(),
            paths: WeightedPaths::new(names),
            spread: settings.spread,
            salt: mix(secret ^ settings.salt),
            at: SpreadState::default(),
            then: SpreadState::default(),
        }
    }

    fn paths_where(&self, holds: impl Fn(PortId) -> bool) -> PathSet {
        let mut paths = PathSet::NONE;
        for (path, _) in self.ports.iter().enumerate().filter(|(_, port)| holds(**port)) {
            paths.insert(path);
        }
        paths
    }

    fn next(&mut self, turns: Turns, usable: PathSet) -> Option<PortId> {
        let SpreadState { place, drawn } = self.at;
        let chance = mix(self.salt ^ mix(drawn));
        let (path, place) = self.paths.next(turns, place, chance, usable)?;
        self.then = SpreadState { place, drawn: drawn.wrapping_add(1) };
        Some(self.ports[path])
    }

    fn take(&mut self) {
        self.at = self.then;
    }
}

impl Switch {
    #[inline(never)]
    pub(super) fn take_path<S: FrameStore>(
        &mut self,
        group: GroupId,
        hop: Option<Hop>,
        frame: Frame,
        store: &mut S,
    ) {
        let Some(egress) = self.choose(group, self.open_members(group), &frame, store) else {
            unreachable!("forwarding must choose a group with an open member")
        };
        if self.must_wait(egress, self.nodes.meta(&frame)) {
            return self.wait_for_room(egress, frame);
        }
        self.paths.groups[group.index()].take();
        self.leave_pipeline(&frame);
        if let Some(hop) = hop {
            self.readdress(&frame, &hop, store);
        }
        self.enqueue(egress, frame, store);
    }

    pub(super) fn with_members<S: FrameStore>(
        &mut self,
        ports: PortSet,
        frame: &Frame,
        store: &S,
    ) -> PortSet {
        let grouped = ports.and(self.bridge.groups().grouped());
        let mut chosen = ports.without(&grouped);
        for port in grouped.iter() {
            let Some(group) = self.bridge.groups().of(port) else { continue };
            if self.paths.groups[group.index()].spread != Spread::Flow {
                self.end_run(); // occupancies are read
            }
            let paths = self.flood_paths(group, self.nodes.meta(frame));
            if let Some(egress) = self.choose(group, paths, frame, store) {
                chosen.insert(egress);
            }
        }
        chosen
    }

    fn flood_paths(&self, id: GroupId, meta: &FrameMeta) -> PathSet {
        let group = &self.paths.groups[id.index()];
        let linked = self.open_members(id);
        if group.spread == Spread::Flow {
            return linked;
        }
        let still = self.standing_still(self.bridge.groups().members(id), meta.class);
        if still.is_empty() {
            return linked;
        }
        let moves = |path: &usize| {
            let port = group.ports[*path];
            let lets_wait = self.when_full == WhenFull::Stop && !self.is_closed(port, meta.class);
            !still.contains(port) && (lets_wait || self.takes(port, meta))
        };
        linked.iter().filter(moves).collect::<PathSet>().or(linked)
    }

    fn open_members(&self, id: GroupId) -> PathSet {
        self.paths.groups[id.index()].paths_where(|port| self.bridge.is_open(port))
    }

    #[cold]
    pub(super) fn with_leanest_members(&self, ports: PortSet, meta: &FrameMeta) -> PortSet {
        let leanest = |port: PortId| {
            let id = self.bridge.groups().of(port)?;
            let group = &self.paths.groups[id.index()];
            let paths = self.flood_paths(id, meta).iter().map(|path| group.ports[path]);
            let others = paths.filter(|other| self.takes(*other, meta));
            let beyond =
                |other: &PortId| self.buffer.egress_beyond_reserve(*other, meta.class, meta.counted());
            if group.spread == Spread::Flow { None } else { others.min_by_key(beyond) }
        };
        ports.iter().map(|port| leanest(port).unwrap_or(port)).collect()
    }

    fn choose<S: FrameStore>(
        &mut self,
        id: GroupId,
        paths: PathSet,
        frame: &Frame,
        store: &S,
    ) -> Option<PortId> {
        let spread = self.paths.groups[id.index()].spread;
        if spread != Spread::Flow {
            self.end_run(); // occupancies are read
        }
        let meta = *self.nodes.meta(frame);
        let group = &self.paths.groups[id.index()];
        if spread == Spread::Flow {
            let head = store.head(frame);
            let flow = self.paths.hash.digest(&Header::read(meta.layout, head), head);
            let path = group.paths.of_flow(mix(flow ^ group.salt), paths)?;
            return Some(group.ports[path]);
        }
        let (turns, usable) = self.open_paths(spread, paths, &meta, |path| Some(group.ports[path]));
        self.paths.groups[id.index()].next(turns, usable)
    }

    pub(super) fn choose_hop(&self, spread: Spread, hops: &Hops, frame: &Frame, head: &[u8]) -> Option<Hop> {
        let meta = *self.nodes.meta(frame);
        let port = |path: usize| hops.hops[path].site.port();
        let has_link = |path: &usize| port(*path).is_none_or(|port| self.bridge.is_up(port));
        let linked: PathSet = (0..hops.hops.len()).filter(has_link).collect();
        let path = if spread == Spread::Flow {
            let flow = self.paths.hash.digest(&Header::read(meta.layout, head), head);
            hops.paths.of_flow(mix(flow ^ self.paths.salt), linked)
        } else {
            let (_, usable) = self.open_paths(spread, linked, &meta, port);
            hops.paths.at_random(mix(self.paths.salt ^ mix(self.paths.hops_drawn)), usable)
        };
        // If no next hop has a link, return the first: the switch drops the frame at that port.
        hops.hops.get(path.unwrap_or(0)).copied()
    }

    fn open_paths(
        &self,
        spread: Spread,
        linked: PathSet,
        meta: &FrameMeta,
        port: impl Fn(usize) -> Option<PortId>,
    ) -> (Turns, PathSet) {
        let takes = |path: &usize| port(*path).is_none_or(|port| self.takes(port, meta));
        let wants_only_room = |path: &usize| port(*path).is_some_and(|port| self.may_enter(port, meta));
        let open: PathSet = linked.iter().filter(takes).collect();
        let usable = match open.is_empty() {
            true => linked.iter().filter(wants_only_room).collect::<PathSet>().or(linked),
            false => open,
        };
        match spread {
            Spread::Flow => (Turns::Random, usable),
            Spread::Frame(turns) => (turns, usable),
            Spread::Adaptive { low, high } => {
                let waits = |path| port(path).map_or(Bytes::ZERO, |port| self.waits_at(port, meta.class));
                (Turns::Random, shortest(usable, low, high, waits))
            }
        }
    }

    /// Returns the frame's egress port or, if that is closed (no link, or a storm with action `drop`), the open member
    /// of its group with the shortest queue. Frames spread by flow, copies of floods, and host frames keep a closed
    /// port.
    #[inline]
    pub(super) fn open_member(&mut self, meta: &FrameMeta) -> PortId {
        if !self.ports[meta.egress.index()].egress.closed.contains(meta.class) {
            return meta.egress;
        }
        self.end_run(); // occupancies are read
        self.other_member(meta).unwrap_or(meta.egress)
    }

    #[cold]
    fn other_member(&self, meta: &FrameMeta) -> Option<PortId> {
        let group = &self.paths.groups[self.bridge.groups().of(meta.egress)?.index()];
        let may_change = group.spread != Spread::Flow && meta.origin == Origin::Network && !meta.is_flooded();
        let open = group.ports.iter().copied().filter(|&port| may_change && self.may_enter(port, meta));
        open.min_by_key(|&port| (!self.takes(port, meta), self.waits_at(port, meta.class)))
    }

    fn takes(&self, egress: PortId, meta: &FrameMeta) -> bool {
        let has_room = || self.buffer.egress_has_room(egress, meta.class, meta.counted());
        !self.is_closed(egress, meta.class) && (!self.workers.owns(egress) || has_room())
    }

    fn is_closed(&self, egress: PortId, class: Class) -> bool {
        match self.workers.owns(egress) {
            true => self.ports[egress.index()].egress.closed.contains(class),
            false => self.occupancy.queue(egress, class).given_up.get() != 0,
        }
    }

    fn waits_at(&self, egress: PortId, class: Class) -> Bytes {
        let above = Class::ALL.into_iter().skip(class.index());
        let counted = |class| match self.workers.owns(egress) {
            true => self.buffer.egress(egress, class),
            false => self.occupancy.egress(egress, class),
        };
        above.map(counted).fold(Bytes::ZERO, Bytes::saturating_add)
    }
}
