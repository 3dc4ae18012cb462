//! Forwarding: VLAN admission, learning, lookup, flooding.
//!
//! [`Bridge::forward`] is 802.1Q's forwarding process, without queues or pauses. Frames to 01:80:c2:00:00:00..0f do not
//! reach it: the switch consumes them.

mod fdb;
mod groups;
mod loops;
mod multicast;
mod router;
mod spread;
mod table;
mod vlan;

pub use fdb::{Fdb, FdbEntry, FdbUpdate};
pub use groups::MemberState;
pub(crate) use groups::{GroupId, Groups};
pub use loops::{Finding, HOLD as LOOP_HOLD, MOVES as LOOP_MOVES, MOVES_OF_ONE as LOOP_MOVES_OF_ONE};
pub use multicast::{MulticastPorts, MulticastTable, SnoopedVlan};
pub(crate) use spread::{PathSet, WeightedPaths, shortest};
pub use table::table_bytes;
pub(crate) use vlan::Vlans;

use std::sync::Arc;

use fdb::Learned;
use loops::{Loops, Move};
use vlan::Membership;
use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::prefetch::prefetch;
use xoff_flow_control::settings::{Flooded, LoopDetection, SwitchSettings, ports_where};
use xoff_wire::header::Header;
use xoff_wire::units::{MacAddr, Nanos, PortId, PortSet, Site};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Unicast(PortId),
    Group(GroupId),
    /// Ports that get a copy of the frame. A group's [first member](Groups::at) stands for the member that will send
    /// the copy. In a snooped VLAN, ports without listeners are removed later.
    Flood(PortSet, Flooded),
    Route(Site),
    Drop(DropReason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forwarding {
    pub decision: Decision,
    /// VLAN of the frame; 0 if the port admits it to no VLAN.
    pub vid: u16,
    /// True if further frames with the same header at the same instant are forwarded identically and teach the bridge
    /// no address, while its state is unchanged.
    pub repeats: bool,
    pub learned: Option<FdbUpdate>,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
struct Exits {
    all: PortSet,
    at: PortId,
    unknown: PortSet,
    group: PortSet,
}

/// Forwarding process (802.1Q) of a worker.
#[derive(Clone, Debug)]
pub struct Bridge {
    vlans: Vlans,
    groups: Groups,
    fdb: Fdb,
    exits: Vec<Exits>,
    of_router: Exits,
    version: u64,
    up: PortSet,
    refuses: PortSet,
    distributes: PortSet,
    open: PortSet,
    teaches: PortSet,
    isolated: PortSet,
    multicast: Arc<MulticastTable>,
    loops: Loops,
    looped: PortSet,
    flood_unknown: PortSet,
    flood_group: PortSet,
}

impl Bridge {
    #[must_use]
    pub(crate) fn new(settings: &SwitchSettings) -> Bridge {
        let ports = &settings.ports;
        let mut bridge = Bridge {
            vlans: Vlans::new(&settings.vlans, ports).with_routers(&settings.routed_vlans),
            groups: Groups::new(settings),
            fdb: Fdb::new(&settings.fdb, ports),
            exits: vec![Exits::default(); ports.len()],
            of_router: Exits::default(),
            version: 0,
            up: ports_where(ports, |_, _| true),
            refuses: PortSet::NONE,
            distributes: ports_where(ports, |_, _| true),
            open: PortSet::NONE,
            teaches: PortSet::NONE,
            isolated: ports_where(ports, |_, port| port.isolated),
            multicast: Arc::default(),
            loops: Loops::new(ports.iter().map(|port| port.loop_detection)),
            looped: PortSet::NONE,
            flood_unknown: ports_where(ports, |_, port| port.flood_unknown),
            flood_group: ports_where(ports, |_, port| port.flood_group),
        };
        bridge.adopt_members(PortSet::NONE);
        bridge
    }

    pub(crate) fn revise(
        &mut self,
        settings: &SwitchSettings,
        vlans: &mut Vlans,
        groups: &mut Groups,
    ) -> usize {
        let ports = &settings.ports;
        std::mem::swap(&mut self.vlans, vlans);
        self.vlans.succeed(vlans, &settings.routed_vlans);
        std::mem::swap(&mut self.groups, groups);
        for port in (0..=u8::MAX).map(PortId).take(ports.len()) {
            if self.companions(port) != groups.of(port).map(|group| *groups.members(group)) {
                self.fdb.flush(port);
            }
        }
        let unplaced = self.fdb.revise(&settings.fdb, ports);
        self.isolated = ports_where(ports, |_, port| port.isolated);
        self.loops.revise(ports.iter().map(|port| port.loop_detection));
        let blocks = ports_where(ports, |_, port| port.loop_detection == LoopDetection::Block);
        self.looped = self.looped.and(&blocks);
        self.flood_unknown = ports_where(ports, |_, port| port.flood_unknown);
        self.flood_group = ports_where(ports, |_, port| port.flood_group);
        self.adopt_members(*groups.with_lacp());
        self.version += 1;
        unplaced
    }

    #[inline]
    pub(crate) fn prefetch(&self, ingress: PortId) {
        prefetch(&self.exits[ingress.index()]);
    }

    #[inline]
    pub(crate) fn prefetch_station(&self, ingress: PortId, mac: MacAddr) {
        if let Some(vid) = self.vlans.pvid(ingress) {
            self.fdb.prefetch(vid, mac);
        }
    }

    #[inline]
    pub(crate) fn forward(&mut self, now: Nanos, ingress: PortId, header: &Header) -> Forwarding {
        let vid = match self.vlans.admit(ingress, header.tag) {
            Ok(vid) => vid,
            Err(reason) => {
                return Forwarding {
                    decision: Decision::Drop(reason),
                    vid: 0,
                    repeats: false,
                    learned: None,
                };
            }
        };
        let at = self.exits[ingress.index()].at;
        let learned = match self.teaches.contains(ingress) {
            true => self.fdb.learn(now, vid, header.src, at),
            false if self.refuses.contains(ingress) => {
                let decision = Decision::Drop(DropReason::NotCollecting);
                return Forwarding { decision, vid, repeats: false, learned: None };
            }
            false => Learned::Ignored,
        };
        let update = learned.is_update().then(|| {
            self.version += 1;
            FdbUpdate { vid, mac: header.src, port: at, last_active: now }
        });
        if let Learned::Moved { from } = learned
            && let Some(port) = self.moved(now, vid, header, [from, at])
        {
            self.set_looped(port, true);
        }
        let decision = self.route(now, ingress, vid, header.dst);
        Forwarding { decision, vid, repeats: !learned.is_refused(), learned: update }
    }

    #[cold]
    fn moved(&mut self, now: Nanos, vid: u16, header: &Header, [from, to]: [PortId; 2]) -> Option<PortId> {
        let has_exit = |dst| self.router(vid) == Some(dst) || self.fdb.lookup(now, vid, dst).is_some();
        let is_flooded = header.dst.is_group() || !has_exit(header.dst);
        self.loops.moved(now, Move { from, to, mac: header.src, is_flooded })
    }

    pub(crate) fn take_refusal_back(&mut self, ingress: PortId) {
        self.fdb.take_refusal_back(self.exits[ingress.index()].at);
    }

    #[inline]
    #[must_use]
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn apply_remote(&mut self, update: &FdbUpdate) {
        if self.leads_on(update.port) && !self.looped.contains(update.port) {
            self.fdb.apply(update);
            self.version += 1;
        }
    }

    #[inline]
    #[must_use]
    pub(crate) fn is_tagged(&self, port: PortId, vid: u16) -> bool {
        self.vlans.get(vid).tagged.contains(port)
    }

    #[inline]
    pub(crate) fn multicast(&self) -> &MulticastTable {
        &self.multicast
    }

    pub(crate) fn set_multicast(&mut self, table: Arc<MulticastTable>) -> Arc<MulticastTable> {
        std::mem::replace(&mut self.multicast, table)
    }

    pub(crate) fn set_link(&mut self, port: PortId, is_up: bool) {
        if is_up {
            self.up.insert(port);
        } else {
            self.up.remove(port);
            if self.groups.with_lacp().contains(port) {
                self.note_member(port, MemberState::Detached);
            }
        }
        self.links_changed(port);
    }

    fn links_changed(&mut self, port: PortId) {
        self.find_exits();
        if !self.leads_on(port) {
            self.fdb.flush(self.groups.at(port));
        }
        self.version += 1;
    }

    pub(crate) fn set_member(&mut self, port: PortId, state: MemberState) {
        if self.groups.with_lacp().contains(port) {
            self.note_member(port, state);
            self.links_changed(port);
        }
    }

    fn note_member(&mut self, port: PortId, state: MemberState) {
        for (ports, is_in) in [
            (&mut self.refuses, state == MemberState::Detached),
            (&mut self.distributes, state == MemberState::Distributing),
        ] {
            if is_in { ports.insert(port) } else { ports.remove(port) }
        }
    }

    fn adopt_members(&mut self, before: PortSet) {
        let after = *self.groups.with_lacp();
        after.without(&before).iter().for_each(|port| self.note_member(port, MemberState::Detached));
        before.without(&after).iter().for_each(|port| self.note_member(port, MemberState::Distributing));
        self.find_exits();
        for port in after.without(&before).iter() {
            if !self.leads_on(port) {
                self.fdb.flush(self.groups.at(port));
            }
        }
    }

    /// Returns whether `port` has a link.
    #[must_use]
    pub fn is_up(&self, port: PortId) -> bool {
        self.up.contains(port)
    }

    #[inline]
    #[must_use]
    pub(crate) const fn groups(&self) -> &Groups {
        &self.groups
    }

    #[must_use]
    pub(crate) fn is_open(&self, port: PortId) -> bool {
        self.open.contains(port)
    }

    fn companions(&self, port: PortId) -> Option<PortSet> {
        self.groups.of(port).map(|group| *self.groups.members(group))
    }

    fn leads_on(&self, port: PortId) -> bool {
        self.is_open(port) || self.companions(port).is_some_and(|ports| !ports.and(&self.open).is_empty())
    }

    /// Returns the forwarding database.
    #[must_use]
    pub const fn fdb(&self) -> &Fdb {
        &self.fdb
    }

    #[must_use]
    pub(crate) fn next_deadline(&self) -> Nanos {
        self.fdb.next_deadline().min(self.loops.next_end())
    }

    /// Returns the loops that had `port` as the higher-numbered port.
    #[must_use]
    pub fn loops_at(&self, port: PortId) -> Finding {
        self.loops.found_at(port)
    }

    /// Returns the addresses that moved to and fro between `port` and a lower-numbered port without a loop.
    #[must_use]
    pub fn duplicates_at(&self, port: PortId) -> Finding {
        self.loops.duplicate_at(port)
    }

    /// Returns the number of loops detected at all ports.
    #[inline]
    #[must_use]
    pub const fn loops_found(&self) -> u64 {
        self.loops.found()
    }

    /// Returns whether `port` had a loop less than [`LOOP_HOLD`] ago.
    #[must_use]
    pub fn is_looped(&self, port: PortId) -> bool {
        self.loops.is_found(port)
    }

    #[cold]
    fn set_looped(&mut self, port: PortId, is_looped: bool) {
        if is_looped {
            self.looped.insert(port);
            self.fdb.flush(port);
        } else {
            self.looped.remove(port);
        }
        self.find_exits();
        self.version += 1;
    }

    pub(crate) fn advance(&mut self, now: Nanos) {
        self.fdb.advance(now);
        while let Some(port) = self.loops.next_retried(now) {
            self.set_looped(port, false);
        }
    }

    #[inline]
    fn route(&self, now: Nanos, ingress: PortId, vid: u16, dst: MacAddr) -> Decision {
        let Membership { members, router, .. } = self.vlans.get(vid);
        if *router == Some(dst) {
            return Decision::Route(Site::Vlan(vid));
        }
        let exits = &self.exits[ingress.index()];
        let (exits, kind) = if dst == MacAddr::BROADCAST {
            (exits.group, Flooded::Broadcast)
        } else if dst.is_group() {
            (exits.group, Flooded::Multicast)
        } else if let Some(port) = self.fdb.lookup(now, vid, dst) {
            return self.towards(ingress, port, members);
        } else {
            (exits.unknown, Flooded::Unknown)
        };
        let ports = exits.and(members);
        if self.looped.contains(self.exits[ingress.index()].at) {
            Decision::Drop(DropReason::Loop)
        } else if ports.is_empty() && kind == Flooded::Multicast && self.multicast.is_snooped(vid) {
            Decision::Flood(ports, kind)
        } else if ports.is_empty() && router.is_some() && dst.is_group() {
            Decision::Route(Site::Vlan(vid)) // the only destination left
        } else if ports.is_empty() {
            Decision::Drop(DropReason::NoDestination)
        } else {
            Decision::Flood(ports, kind)
        }
    }

    #[inline]
    fn towards(&self, ingress: PortId, port: PortId, members: &PortSet) -> Decision {
        if self.exits[ingress.index()].all.contains(port) && members.contains(port) {
            return Decision::Unicast(port);
        }
        self.towards_other_member(ingress, port, members)
    }

    #[inline(never)]
    fn towards_other_member(&self, ingress: PortId, port: PortId, members: &PortSet) -> Decision {
        match self.groups.of(port) {
            Some(group) => self.towards_group(ingress, group, members),
            None => Decision::Drop(self.drop_reason(ingress, port, members)),
        }
    }

    fn towards_group(&self, ingress: PortId, group: GroupId, members: &PortSet) -> Decision {
        let ports = self.groups.members(group).without(&self.excluded_exits(ingress));
        if self.groups.of(ingress) != Some(group) && !ports.and(&self.open).and(members).is_empty() {
            return Decision::Group(group);
        }
        let port = self.groups.members(group).first_from(PortId(0)).unwrap_or(ingress);
        let is_hairpin = self.groups.of(ingress) == Some(group);
        Decision::Drop(if is_hairpin {
            DropReason::Hairpin
        } else {
            self.drop_reason(ingress, port, members)
        })
    }

    #[cold]
    fn drop_reason(&self, ingress: PortId, port: PortId, members: &PortSet) -> DropReason {
        if port == ingress {
            DropReason::Hairpin
        } else if !self.leads_on(port) {
            DropReason::LinkDown
        } else if members.contains(port) {
            DropReason::Isolated
        } else {
            DropReason::NoDestination
        }
    }

    fn excluded_exits(&self, ingress: PortId) -> PortSet {
        let mut apart = self.companions(ingress).unwrap_or_default();
        apart.insert(ingress);
        for separate in [&self.isolated, self.groups.uplinks()] {
            if separate.contains(ingress) {
                apart = apart.or(separate);
            }
        }
        apart
    }

    fn find_exits(&mut self) {
        let teaches = |port: &PortId| {
            let at = self.groups.at(*port);
            self.fdb.learns_at(at) && !self.looped.contains(at)
        };
        self.teaches = self.up.without(&self.refuses).iter().filter(teaches).collect();
        self.open = self.up.and(&self.distributes);
        for ingress in (0..=u8::MAX).map(PortId).take(self.exits.len()) {
            let exits = self.exits_but(&self.excluded_exits(ingress));
            self.exits[ingress.index()] = Exits { at: self.groups.at(ingress), ..exits };
        }
        self.of_router = self.exits_but(&PortSet::NONE);
    }

    fn exits_but(&self, apart: &PortSet) -> Exits {
        let all = self.open.without(self.groups.grouped()).without(apart);
        let mut floods = all;
        for ports in self.groups.all() {
            let open = ports.and(&self.open).without(apart);
            if !open.is_empty()
                && let Some(first) = ports.first_from(PortId(0))
            {
                floods.insert(first);
            }
        }
        floods = floods.without(&self.looped);
        let (unknown, group) = (floods.and(&self.flood_unknown), floods.and(&self.flood_group));
        Exits { at: PortId::default(), all, unknown, group }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
