//! Which member of a group a frame leaves by: chosen after the frame has been let in and looked up, and before its egress queue,
//! where its head, what waits at the members and who has room are at hand. How a choice is made of that is in
//! [`crate::forward::Weighted`].
//!
//! A member whose link is down is out of the choice at once. Where each frame may go anywhere, members whose queue of its class
//! takes nothing (no room, or a watchdog gives it up) are left out as long as there are others. A frame that has to wait has
//! made no choice: it chooses again when it tries again, and it does so as soon as any member that it may take has room. Of a
//! flood, whose copies may lack room together only, the members that take least of what is shared decide. A
//! flow stays with its member, and waits for that.
//!
//! Each worker chooses for the frames that come in by its ports, in turns and by a chance of its own. Of queues of another worker's
//! ports it knows what their counters say: what is on its way there it does not know. Where frames wait for room, such a queue has
//! none when what waits there leaves none below its maximum; of what queues share nothing is known, and that a storm there has ended
//! nobody tells: who waits meanwhile looks again each [`STORM_LOOK`]. Where no member has room, it is another worker's that is taken:
//! there a frame holds up nobody.
//!
//! The worker that has been handed a frame over chooses again where its port is closed, or where frames wait for room and it has none,
//! among the group's members of its own that have a link. Where none of these has room the frame waits for all of them together, and
//! those behind it too, in the order in which they came. It has made no choice then, but for the worker: it is handed over once, and
//! where the last of these members loses its link it is dropped. Copies of floods stay with their port, and so does what was chosen by
//! groups that hold no longer.

use std::iter;

use super::Switch;
use crate::forward::{GroupId, Groups, Ways, Weighted, shortest};
use crate::frame::{Frame, FrameStore};
use crate::queue::{Fifo, FrameMeta, NONE, Origin};
use crate::routing::{Hop, Hops};
use crate::settings::{GroupSettings, Spread, SwitchSettings, Turns};
use crate::switch::Workers;
use crate::units::{Bytes, CLASSES, Class, ClassSet, Nanos, PortId, PortSet};
use crate::wire::FlowKey;
use crate::wire::flow::mix;
use crate::wire::header::Header;

/// How soon what waits looks again whether a storm at a port of another worker is over.
const STORM_LOOK: Nanos = Nanos::from_millis(1);

/// The groups of a switch, as far as a choice needs them.
#[derive(Debug)]
pub(super) struct Paths {
    groups: Box<[Group]>,
    /// What tells this switch's choices from those of another.
    salt: u64,
    /// How often a next hop was chosen by chance.
    pub(super) hops_drawn: u64,
    /// Classes of which a watchdog may give up a port of another worker.
    may_storm_elsewhere: ClassSet,
    /// Which of the groups that this switch has had, one after the other; the same number at each of its workers.
    revision: u32,
}

#[derive(Debug)]
struct Group {
    ports: Box<[PortId]>,
    ways: Weighted,
    spread: Spread,
    salt: u64,
    at: Progress,
    /// After the last choice, which may come to nothing.
    then: Progress,
    /// Per class, frames that another worker has handed over, and that wait for room at any member that is this one's.
    waiting: [Fifo; CLASSES],
}

/// How far a group is in its turns, and in its chances.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    place: usize,
    drawn: u64,
}

impl Paths {
    pub(super) fn new(settings: &SwitchSettings, workers: &Workers) -> Paths {
        let secret = settings.fdb.seed.digest();
        let groups = settings.groups.iter().map(|group| Group::new(group, secret)).collect();
        let ports = (0..=u8::MAX).map(PortId).zip(&settings.ports);
        let elsewhere = ports.filter(|(port, _)| !workers.owns(*port)).map(|(_, port)| port);
        let mut may_storm_elsewhere = ClassSet::NONE;
        for port in elsewhere {
            let given_up =
                Class::ALL.into_iter().filter(|class| port.classes[class.index()].may_be_given_up());
            given_up.for_each(|class| may_storm_elsewhere.insert(class));
        }
        Paths { groups, salt: mix(secret), hops_drawn: 0, may_storm_elsewhere, revision: 0 }
    }

    /// Frames that wait at groups.
    pub(super) fn frames(&self) -> u64 {
        self.groups.iter().flat_map(|group| &group.waiting).map(|waiting| u64::from(waiting.frames())).sum()
    }

    /// What was chosen is taken: of each group that has a port here.
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
            ways: Weighted::new(names),
            spread: settings.spread,
            salt: mix(secret ^ settings.salt),
            at: Progress::default(),
            then: Progress::default(),
            waiting: Default::default(),
        }
    }

    fn ways_where(&self, holds: impl Fn(PortId) -> bool) -> Ways {
        (0..).zip(&self.ports).filter(|(_, port)| holds(**port)).map(|(way, _)| way).collect()
    }

    /// One of `usable`, if there is any.
    fn next(&mut self, turns: Turns, usable: Ways) -> Option<PortId> {
        let Progress { place, drawn } = self.at;
        let chance = mix(self.salt ^ mix(drawn));
        let (way, place) = self.ways.next(turns, place, chance, usable)?;
        self.then = Progress { place, drawn: drawn.wrapping_add(1) };
        Some(self.ports[way])
    }

    fn take(&mut self) {
        self.at = self.then;
    }
}

impl Switch {
    /// A frame goes to one member of `group`, or waits for room at one. It is written for `hop`, where the router sends it.
    #[inline(never)]
    pub(super) fn take_path<S: FrameStore>(
        &mut self,
        group: GroupId,
        hop: Option<Hop>,
        frame: Frame,
        store: &mut S,
    ) {
        let Some(egress) = self.choose(group, self.linked(group), &frame, store) else {
            // There was one when this was decided, at the same instant.
            unreachable!("a group without a link is no decision")
        };
        if self.must_wait(egress, self.nodes.meta(&frame)) {
            let others = self.may_take_instead(group, &frame);
            return self.wait_for_one_of(egress, others, frame);
        }
        self.paths.groups[group.index()].take();
        self.leave_pipeline(&frame);
        if let Some(hop) = hop {
            self.readdress(&frame, &hop, store);
        }
        if !self.workers.owns(egress) {
            self.may_choose_again(group, &frame);
        }
        self.enqueue(egress, frame, store);
    }

    /// Whoever is handed the frame over may choose again, where each may go anywhere.
    #[cold]
    fn may_choose_again(&mut self, group: GroupId, frame: &Frame) {
        let meta = self.nodes.meta_mut(frame);
        if self.paths.groups[group.index()].spread != Spread::Flow && meta.origin == Origin::Network {
            meta.flow = self.paths.revision;
        }
    }

    /// The group by which a frame may go on that another worker has handed over for `egress`: chosen by groups of the number `chosen_by`.
    #[inline]
    pub(super) fn may_go_on_by(&self, egress: PortId, chosen_by: u32) -> Option<GroupId> {
        (chosen_by == self.paths.revision).then(|| self.bridge.groups().of(egress)).flatten()
    }

    /// Whether frames of `class` wait at `group`.
    pub(super) fn is_group_awaited(&self, group: GroupId, class: Class) -> bool {
        !self.paths.groups[group.index()].waiting[class.index()].is_empty()
    }

    /// A frame for `group` that another worker has handed over goes on by a member of this one, or waits for room at any.
    #[cold]
    pub(super) fn wait_at_group<S: FrameStore>(&mut self, group: GroupId, frame: Frame, store: &mut S) {
        let &FrameMeta { egress, class, .. } = self.nodes.meta(&frame);
        self.paths.groups[group.index()].waiting[class.index()].push(&mut self.nodes, frame);
        if self.go_on_from_group(group, class, store) {
            self.agenda.awaited.insert(egress);
        }
    }

    /// There may be room for what waits at `group`. Whether some of it, of whatever class, waits on.
    pub(super) fn go_on_from_group<S: FrameStore>(
        &mut self,
        group: GroupId,
        class: Class,
        store: &mut S,
    ) -> bool {
        let mut waiting = std::mem::take(&mut self.paths.groups[group.index()].waiting[class.index()]);
        while let Some(&meta) = waiting.front(&self.nodes)
            && let Some(egress) = self.choose_again(group, &meta)
            && let Some(frame) = waiting.pop(&self.nodes)
        {
            self.enqueue(egress, frame, store);
            self.give_own_turn(egress, class);
        }
        let of = &mut self.paths.groups[group.index()];
        of.waiting[class.index()] = waiting;
        of.waiting.iter().any(|waiting| !waiting.is_empty())
    }

    /// Whether the first of what waits at `group` goes on if it tries now.
    pub(super) fn may_go_on_from_group(&self, group: GroupId, class: Class) -> bool {
        let first = self.paths.groups[group.index()].waiting[class.index()].front(&self.nodes);
        first.is_some_and(|meta| {
            let members = self.members(group, meta);
            members.is_empty() || !self.open_members(group, members, meta).is_empty()
        })
    }

    /// The member of this worker that a frame takes which waits at `group`; `None` where it waits on.
    fn choose_again(&mut self, group: GroupId, meta: &FrameMeta) -> Option<PortId> {
        self.end_run(); // queues are looked at
        let members = self.members(group, meta);
        if members.is_empty() {
            return Some(meta.egress); // which drops it, and says why
        }
        let open = self.open_members(group, members, meta);
        let of = &self.paths.groups[group.index()];
        let (turns, usable) = self.preferred(of.spread, open, meta.class, |way| Some(of.ports[way]));
        let egress = self.paths.groups[group.index()].next(turns, usable)?;
        self.paths.groups[group.index()].take();
        Some(egress)
    }

    /// Members of this worker that a frame which waits at `group` may take.
    fn members(&self, group: GroupId, meta: &FrameMeta) -> Ways {
        self.paths.groups[group.index()].ways_where(|port| self.may_enter(port, meta))
    }

    /// Those of them that it may take now.
    fn open_members(&self, group: GroupId, members: Ways, meta: &FrameMeta) -> Ways {
        let of = &self.paths.groups[group.index()];
        let is_open = |way: &usize| {
            let port = of.ports[*way];
            let awaits = &self.ports[port.index()].egress.awaits_room[meta.class.index()];
            awaits.taken_over.is_empty() && !awaits.is_own_turn && self.has_room(port, meta)
        };
        let open: Ways = members.iter().filter(is_open).collect();
        if self.when_full.waits() { open } else { open.or(members) }
    }

    /// Other groups hold from now on. What waits at one of those before waits at the port that was chosen for it, or where that is closed
    /// at another member that still is beside it.
    pub(super) fn revise_paths(&mut self, paths: &mut Paths) {
        std::mem::swap(&mut self.paths, paths);
        self.paths.revision = paths.revision.wrapping_add(1) % NONE;
        for Group { ports, waiting, .. } in &mut paths.groups {
            while let Some(frame) = waiting.iter_mut().find_map(|waiting| waiting.pop(&self.nodes)) {
                let meta = *self.nodes.meta(&frame);
                let groups = self.bridge.groups();
                let stays = |port: &PortId| {
                    groups.of(*port).is_some_and(|group| groups.of(meta.egress) == Some(group))
                };
                let others = ports.iter().copied().filter(stays);
                let mut members = iter::once(meta.egress).chain(others);
                let egress = members.find(|&port| self.may_enter(port, &meta)).unwrap_or(meta.egress);
                self.nodes.meta_mut(&frame).egress = egress;
                let awaits = &mut self.ports[egress.index()].egress.awaits_room[meta.class.index()];
                awaits.taken_over.push(&mut self.nodes, frame);
                self.agenda.awaited.insert(egress);
            }
        }
    }

    /// `ports` of a flood, with a member of each group in the place of the one that stands for the group.
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
                self.end_run(); // queues are looked at
            }
            let ways = self.ways_of_flood(group, self.nodes.meta(frame));
            if let Some(egress) = self.choose(group, ways, frame, store) {
                chosen.insert(egress);
            }
        }
        chosen
    }

    /// Ways of a group by which a flood may go: none to a member that stands still, as long as another takes the flood or lets it wait.
    fn ways_of_flood(&self, id: GroupId, meta: &FrameMeta) -> Ways {
        let group = &self.paths.groups[id.index()];
        let linked = self.linked(id);
        if group.spread == Spread::Flow {
            return linked;
        }
        let still = self.standing_still(self.bridge.groups().members(id), meta.class);
        if still.is_empty() {
            return linked;
        }
        let moves = |way: &usize| {
            let port = group.ports[*way];
            let lets_wait = self.when_full.waits() && !self.is_given_up(port, meta.class);
            !still.contains(port) && (lets_wait || self.takes(port, meta))
        };
        linked.iter().filter(moves).collect::<Ways>().or(linked)
    }

    /// Ways of a group that have a link.
    fn linked(&self, id: GroupId) -> Ways {
        self.paths.groups[id.index()].ways_where(|port| self.bridge.is_up(port))
    }

    /// `ports` of a flood, with those members of their groups that take least of what egress queues share: where copies have no
    /// room together with others, whose turn it is does not make the flood wait. Where queues share memory all ports are one worker's.
    #[cold]
    pub(super) fn with_leanest_members(&self, ports: PortSet, meta: &FrameMeta) -> PortSet {
        let leanest = |port: PortId| {
            let id = self.bridge.groups().of(port)?;
            let group = &self.paths.groups[id.index()];
            let ways = self.ways_of_flood(id, meta).iter().map(|way| group.ports[way]);
            let others = ways.filter(|other| self.takes(*other, meta));
            let beyond =
                |other: &PortId| self.buffer.egress_beyond_reserve(*other, meta.class, meta.counted());
            if group.spread == Spread::Flow { None } else { others.min_by_key(beyond) }
        };
        ports.iter().map(|port| leanest(port).unwrap_or(port)).collect()
    }

    /// The member that a frame takes of those to which `ways` lead, which have a link; `None` where there are none.
    fn choose<S: FrameStore>(&mut self, id: GroupId, ways: Ways, frame: &Frame, store: &S) -> Option<PortId> {
        let spread = self.paths.groups[id.index()].spread;
        if spread != Spread::Flow {
            self.end_run(); // queues are looked at
        }
        let meta = *self.nodes.meta(frame);
        let group = &self.paths.groups[id.index()];
        if spread == Spread::Flow {
            let head = store.head(frame);
            let flow = FlowKey::of(&Header::read(meta.layout, head), head);
            let way = group.ways.of_flow(mix(flow.digest() ^ group.salt), ways)?;
            return Some(group.ports[way]);
        }
        let (turns, usable) = self.open_ways(spread, ways, &meta, |way| Some(group.ports[way]));
        self.paths.groups[id.index()].next(turns, usable)
    }

    /// Of several next hops the one that a frame takes; `None` where there is none. Where queues decide the run has to be over.
    pub(super) fn choose_hop(&self, spread: Spread, hops: &Hops, frame: &Frame, head: &[u8]) -> Option<Hop> {
        let meta = *self.nodes.meta(frame);
        let port = |way: usize| hops.hops[way].site.port();
        let has_link = |way: &usize| port(*way).is_none_or(|port| self.bridge.is_up(port));
        let linked: Ways = (0..hops.hops.len()).filter(has_link).collect();
        let way = if spread == Spread::Flow {
            let flow = FlowKey::of(&Header::read(meta.layout, head), head);
            hops.ways.of_flow(mix(flow.digest() ^ self.paths.salt), linked)
        } else {
            let (_, usable) = self.open_ways(spread, linked, &meta, port);
            hops.ways.at_random(mix(self.paths.salt ^ mix(self.paths.hops_drawn)), usable)
        };
        // Where none has a link, the first says so.
        hops.hops.get(way.unwrap_or(0)).copied()
    }

    /// Of ways that have a link, those that a frame like this may take where each frame may take any, and in which order. `port` is that
    /// of a way, where it is one.
    fn open_ways(
        &self,
        spread: Spread,
        linked: Ways,
        meta: &FrameMeta,
        port: impl Fn(usize) -> Option<PortId>,
    ) -> (Turns, Ways) {
        let takes = |way: &usize| port(*way).is_none_or(|port| self.takes(port, meta));
        let open: Ways = linked.iter().filter(takes).collect();
        let usable = if open.is_empty() { self.where_none_takes(linked, meta, &port) } else { open };
        self.preferred(spread, usable, meta.class, port)
    }

    /// Where no way takes a frame, those to other workers do: it waits there for whatever is theirs, and holds up nobody here. Else
    /// those that only want room.
    #[cold]
    fn where_none_takes(
        &self,
        linked: Ways,
        meta: &FrameMeta,
        port: impl Fn(usize) -> Option<PortId>,
    ) -> Ways {
        let those = |holds: &dyn Fn(PortId) -> bool| -> Ways {
            linked.iter().filter(|way| port(*way).is_some_and(holds)).collect()
        };
        let away = those(&|port| !self.workers.owns(port) && !self.is_given_up(port, meta.class));
        away.or(those(&|port| self.may_enter(port, meta))).or(linked)
    }

    /// Of `usable` ways those that a frame of `class` may take as what waits there is, and in which order.
    fn preferred(
        &self,
        spread: Spread,
        usable: Ways,
        class: Class,
        port: impl Fn(usize) -> Option<PortId>,
    ) -> (Turns, Ways) {
        match spread {
            Spread::Flow => (Turns::Random, usable),
            Spread::Frame(turns) => (turns, usable),
            Spread::Adaptive { low, high } => {
                let waits = |way| port(way).map_or(Bytes::ZERO, |port| self.waits_at(port, class));
                (Turns::Random, shortest(usable, low, high, waits))
            }
        }
    }

    /// `port` has a link again, or a storm there has ended: what waits for room at others of its group, or for one of several next
    /// hops, may go there.
    pub(super) fn look_for_room_beside<S: FrameStore>(&mut self, port: PortId, store: &mut S) {
        let groups = self.bridge.groups();
        let mut those = groups.of(port).map_or(PortSet::NONE, |group| *groups.members(group));
        those.insert(port);
        for port in those.iter() {
            Class::ALL.into_iter().for_each(|class| self.room_at(port, class, store));
        }
    }

    /// A frame of `class` begins to wait. Where a watchdog may have given up a port of another worker, nobody here is told when that
    /// is over: it is looked again.
    #[cold]
    pub(super) fn look_again_if_it_may_storm(&mut self, class: Class) {
        if self.paths.may_storm_elsewhere.contains(class) {
            let look = self.now + STORM_LOOK;
            self.agenda.look_elsewhere_at = self.agenda.look_elsewhere_at.min(look);
            self.agenda.look_by(look);
        }
    }

    /// What waits tries again, if it is time to. When it is the next time: who still waits says so by then.
    pub(super) fn look_whether_it_storms<S: FrameStore>(&mut self, store: &mut S) -> Nanos {
        if self.now >= self.agenda.look_elsewhere_at {
            self.agenda.look_elsewhere_at = Nanos::NEVER;
            self.look_elsewhere(store);
        }
        self.agenda.look_elsewhere_at
    }

    /// Whether the queue of `egress` takes a frame like this, as far as this worker knows.
    fn takes(&self, egress: PortId, meta: &FrameMeta) -> bool {
        let (class, size) = (meta.class, meta.counted());
        if !self.workers.owns(egress) {
            let had_room = || !self.when_full.waits() || self.buffer.egress_had_room(egress, class, size);
            return !self.is_given_up(egress, class) && had_room();
        }
        self.has_room(egress, meta) && !self.is_others_turn(egress, class)
    }

    /// Whether the queue of `egress`, a port of this worker, is open and has room for a frame like this.
    fn has_room(&self, egress: PortId, meta: &FrameMeta) -> bool {
        let is_closed = self.ports[egress.index()].egress.closed.contains(meta.class);
        !is_closed && self.buffer.egress_has_room(egress, meta.class, meta.counted())
    }

    /// Whether a watchdog has closed (`egress`, `class`), as far as whose port it is has said.
    fn is_given_up(&self, egress: PortId, class: Class) -> bool {
        self.ports[egress.index()].settings.classes[class.index()].may_be_given_up()
            && self.counters.class(egress, class).storm_since.get() != 0
    }

    /// Bytes of `class` and of those above it that wait or are committed at `egress`, as far as this worker knows.
    fn waits_at(&self, egress: PortId, class: Class) -> Bytes {
        let above = Class::ALL.into_iter().skip(class.index());
        let counted = |class| match self.workers.owns(egress) {
            true => self.buffer.egress(egress, class),
            false => self.buffer.egress_as_counted(egress, class),
        };
        above.map(counted).fold(Bytes::ZERO, Bytes::saturating_add)
    }

    /// Members that have a link, and that a frame which waits for one of them may take as well.
    pub(super) fn may_take_instead(&self, group: GroupId, frame: &Frame) -> PortSet {
        let of = &self.paths.groups[group.index()];
        let misses = |egress: PortId| self.must_wait(egress, self.nodes.meta(frame));
        match of.spread {
            Spread::Flow => PortSet::NONE,
            Spread::Frame(_) | Spread::Adaptive { .. } => {
                of.ports.iter().copied().filter(|&port| misses(port)).collect()
            }
        }
    }
}
