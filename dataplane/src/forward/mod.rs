//! Where a frame goes: VLAN admission, learning, lookup, flooding.
//!
//! [`Bridge::forward`] is the whole of 802.1Q's forwarding process for one frame. It knows nothing of queues or
//! pause: a decision is a port, a set of ports, or the reason why there is none. Frames to 01:80:c2:00:00:00..0f, which no bridge
//! forwards or learns from, never come here.
//!
//! An address may be at a group of ports ([`groups`]). What comes in by one of them is as from all: it is learned at the group, and
//! leaves by none of them. To which of them a frame goes is not decided here: the decision names the group, or has in a
//! flood the member where the group [is](Groups::at), and whoever knows queues chooses ([`spread`]).

mod fdb;
mod groups;
mod loops;
mod router;
mod spread;
mod table;
mod vlan;

pub use fdb::{Fdb, FdbEntry, FdbUpdate, Learned};
pub use groups::{GroupId, Groups};
pub use loops::{HOLD as LOOP_HOLD, MOVES as LOOP_MOVES, WINDOW as LOOP_WINDOW};
pub use spread::{Ways, Weighted, shortest};
pub use table::table_bytes;
pub use vlan::{DEFAULT_VID, Membership, Vlans};

use loops::Loops;
use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::prefetch::prefetch;
use xoff_flow_control::settings::{Flooded, LoopDetection, PortSettings, SwitchSettings};
use xoff_wire::header::Header;
use xoff_wire::units::{MacAddr, Nanos, PortId, PortSet, Site};

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It leaves through one port.
    Unicast(PortId),
    /// It leaves through one of this group's ports.
    Group(GroupId),
    /// It leaves through each of these, of which there is at least one. A member of a group stands for one of its members.
    Flood(PortSet, Flooded),
    /// It is for the router of the switch.
    Route(Site),
    /// It ends here.
    Drop(DropReason),
}

/// A decision and what it was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarding {
    /// What becomes of the frame.
    pub decision: Decision,
    /// Its VLAN; 0 where it was not let into one.
    pub vid: u16,
    /// A frame alike, if it comes at the same time and the bridge is of the same [version](Bridge::version), goes the same
    /// way and teaches nothing.
    pub repeats: bool,
    /// What other replicas of the forwarding database must hear.
    pub learned: Option<FdbUpdate>,
}

/// Where frames from one port may go, links and isolation considered.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
struct Exits {
    /// Those that are in no group.
    all: PortSet,
    /// Where the forwarding database has what comes in here.
    at: PortId,
    /// Those that take frames to unknown addresses.
    unknown: PortSet,
    /// Those that take group-addressed frames.
    group: PortSet,
}

/// The forwarding process of one switch, or of one worker of it.
#[derive(Clone, Debug)]
pub struct Bridge {
    vlans: Vlans,
    groups: Groups,
    fdb: Fdb,
    /// By ingress port.
    exits: Vec<Exits>,
    /// Of the router, which is behind no port.
    of_router: Exits,
    /// How often the same frame may have begun to go elsewhere.
    version: u64,
    up: PortSet,
    /// Ports with a link that learn, and are not out of floods: from what comes in there is learned.
    teaches: PortSet,
    isolated: PortSet,
    loops: Loops,
    /// Ports that take no part in floods because of a loop.
    looped: PortSet,
    flood_unknown: PortSet,
    flood_group: PortSet,
}

impl Bridge {
    /// With every link up.
    #[must_use]
    pub fn new(settings: &SwitchSettings) -> Bridge {
        let ports = &settings.ports;
        let mut bridge = Bridge {
            vlans: Vlans::new(&settings.vlans, ports).with_routers(&settings.routed_vlans),
            groups: Groups::new(settings),
            fdb: Fdb::new(&settings.fdb, ports),
            exits: vec![Exits::default(); ports.len()],
            of_router: Exits::default(),
            version: 0,
            up: ports_where(ports, |_| true),
            teaches: PortSet::NONE,
            isolated: ports_where(ports, |port| port.isolated),
            loops: Loops::new(ports.iter().map(|port| port.loop_detection)),
            looped: PortSet::NONE,
            flood_unknown: ports_where(ports, |port| port.flood_unknown),
            flood_group: ports_where(ports, |port| port.flood_group),
        };
        bridge.find_exits();
        bridge
    }

    /// As configured otherwise from now on, with the same ports; `vlans` and `groups` are those of the settings, made where memory
    /// may be allocated, and afterwards those before. What was learned stays, but for what is at a port whose group is another
    /// now. Answers how many static addresses found no place.
    pub fn revise(&mut self, settings: &SwitchSettings, vlans: &mut Vlans, groups: &mut Groups) -> usize {
        let ports = &settings.ports;
        std::mem::swap(&mut self.vlans, vlans);
        self.vlans.succeed(vlans);
        std::mem::swap(&mut self.groups, groups);
        for port in (0..=u8::MAX).map(PortId).take(ports.len()) {
            if self.companions(port) != groups.of(port).map(|group| *groups.members(group)) {
                self.fdb.flush(port);
            }
        }
        let unplaced = self.fdb.revise(&settings.fdb, ports);
        self.isolated = ports_where(ports, |port| port.isolated);
        self.loops.revise(ports.iter().map(|port| port.loop_detection));
        let blocks = ports_where(ports, |port| port.loop_detection == LoopDetection::Block);
        self.looped = self.looped.and(&blocks);
        self.flood_unknown = ports_where(ports, |port| port.flood_unknown);
        self.flood_group = ports_where(ports, |port| port.flood_group);
        self.find_exits();
        self.version += 1;
        unplaced
    }

    /// Has brought near what frames are forwarded by that come in by `ingress`.
    #[inline]
    pub(crate) fn prefetch(&self, ingress: PortId) {
        prefetch(&self.exits[ingress.index()]);
    }

    /// Has brought near where `mac` is looked for first, for an untagged frame that comes in by `ingress`.
    #[inline]
    pub(crate) fn prefetch_station(&self, ingress: PortId, mac: MacAddr) {
        if let Some(vid) = self.vlans.pvid(ingress) {
            self.fdb.prefetch(vid, mac);
        }
    }

    /// Learns from a frame, and says where it goes.
    #[inline]
    pub fn forward(&mut self, now: Nanos, ingress: PortId, header: &Header) -> Forwarding {
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
            false => Learned::NotLearned,
        };
        let update = learned.is_update().then(|| {
            self.version += 1;
            FdbUpdate { vid, mac: header.src, port: at, seen: now }
        });
        if let Learned::Moved { from } = learned
            && let Some(port) = self.loops.moved(now, from, at)
        {
            self.set_looped(port, true);
        }
        let decision = self.route(now, ingress, vid, header.dst);
        // What was refused for want of room is counted for each frame.
        Forwarding { decision, vid, repeats: !learned.is_refused(), learned: update }
    }

    /// Does not count the refusal of the frame from `ingress` that was just forwarded.
    pub(crate) fn take_refusal_back(&mut self, ingress: PortId) {
        self.fdb.take_refusal_back(self.exits[ingress.index()].at);
    }

    /// Changes whenever the same frame may begin to go elsewhere.
    #[inline]
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Takes over what another worker's bridge has learned.
    pub fn apply_remote(&mut self, update: &FdbUpdate) {
        if self.leads_on(update.port) && !self.looped.contains(update.port) {
            self.fdb.apply(update);
            self.version += 1;
        }
    }

    /// Whether `port` sends frames of VLAN `vid` with a tag.
    #[inline]
    #[must_use]
    pub fn is_tagged(&self, port: PortId, vid: u16) -> bool {
        self.vlans.get(vid).tagged.contains(port)
    }

    /// A link has come up or gone down; what was learned through it is forgotten in the latter case, unless the port is of a
    /// group that still has another link, and frames that were still on their way teach nothing.
    pub fn set_link(&mut self, port: PortId, is_up: bool) {
        if is_up {
            self.up.insert(port);
        } else {
            self.up.remove(port);
            if !self.leads_on(port) {
                self.fdb.flush(self.groups.at(port));
            }
        }
        self.find_exits();
        self.version += 1;
    }

    /// Whether frames can leave through `port`.
    #[must_use]
    pub fn is_up(&self, port: PortId) -> bool {
        self.up.contains(port)
    }

    /// Which ports lead to the same place.
    #[inline]
    #[must_use]
    pub const fn groups(&self) -> &Groups {
        &self.groups
    }

    /// All members of the group of `port`.
    fn companions(&self, port: PortId) -> Option<PortSet> {
        self.groups.of(port).map(|group| *self.groups.members(group))
    }

    /// Whether frames can leave through `port`, or through another of its group.
    fn leads_on(&self, port: PortId) -> bool {
        self.is_up(port) || self.companions(port).is_some_and(|ports| !ports.and(&self.up).is_empty())
    }

    /// The forwarding database, to look at.
    #[must_use]
    pub const fn fdb(&self) -> &Fdb {
        &self.fdb
    }

    /// When [`Bridge::advance`] must be called next.
    #[must_use]
    pub fn next_deadline(&self) -> Nanos {
        self.fdb.next_deadline().min(self.loops.next_end())
    }

    /// Loops that were found at `port`: the higher of two ports that form one.
    #[must_use]
    pub fn loops_at(&self, port: PortId) -> u64 {
        self.loops.found_at(port)
    }

    /// The other port of the last one found at `port`.
    #[must_use]
    pub fn loop_with(&self, port: PortId) -> Option<PortId> {
        self.loops.found_with(port)
    }

    /// Loops that were found at all ports.
    #[inline]
    #[must_use]
    pub const fn loops_found(&self) -> u64 {
        self.loops.found()
    }

    /// Whether one was found less than [`LOOP_HOLD`] ago.
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

    /// Ages the forwarding database, a bounded part of it at a time.
    pub fn advance(&mut self, now: Nanos) {
        self.fdb.advance(now);
        while let Some(port) = self.loops.next_tried_again(now) {
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
        } else if ports.is_empty() && router.is_some() && dst.is_group() {
            Decision::Route(Site::Vlan(vid)) // which is the only one that is left
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
        self.elsewhere(ingress, port, members)
    }

    /// Not to that port alone: to its group, or nowhere.
    #[inline(never)]
    fn elsewhere(&self, ingress: PortId, port: PortId, members: &PortSet) -> Decision {
        match self.groups.of(port) {
            Some(group) => self.towards_group(ingress, group, members),
            None => Decision::Drop(self.why_not(ingress, port, members)),
        }
    }

    fn towards_group(&self, ingress: PortId, group: GroupId, members: &PortSet) -> Decision {
        let ports = self.groups.members(group).without(&self.kept_apart(ingress));
        if self.groups.of(ingress) != Some(group) && !ports.and(&self.up).and(members).is_empty() {
            return Decision::Group(group);
        }
        let port = self.groups.members(group).first_from(PortId(0)).unwrap_or(ingress);
        let is_hairpin = self.groups.of(ingress) == Some(group);
        Decision::Drop(if is_hairpin { DropReason::Hairpin } else { self.why_not(ingress, port, members) })
    }

    /// Why no frame of `ingress` leaves through `port`, or its group.
    #[cold]
    fn why_not(&self, ingress: PortId, port: PortId, members: &PortSet) -> DropReason {
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

    /// Ports that frames of `ingress` may not leave by, whatever their links.
    fn kept_apart(&self, ingress: PortId) -> PortSet {
        let mut apart = self.companions(ingress).unwrap_or_default();
        apart.insert(ingress);
        for alike in [&self.isolated, self.groups.uplinks()] {
            if alike.contains(ingress) {
                apart = apart.or(alike);
            }
        }
        apart
    }

    fn find_exits(&mut self) {
        let teaches = |port: &PortId| {
            let at = self.groups.at(*port);
            self.fdb.learns_at(at) && !self.looped.contains(at)
        };
        self.teaches = self.up.iter().filter(teaches).collect();
        for ingress in (0..=u8::MAX).map(PortId).take(self.exits.len()) {
            let exits = self.exits_but(&self.kept_apart(ingress));
            self.exits[ingress.index()] = Exits { at: self.groups.at(ingress), ..exits };
        }
        self.of_router = self.exits_but(&PortSet::NONE);
    }

    /// Where frames may go, if not by these ports.
    fn exits_but(&self, apart: &PortSet) -> Exits {
        let all = self.up.without(self.groups.grouped()).without(apart);
        let mut floods = all;
        for ports in self.groups.all() {
            let open = ports.and(&self.up).without(apart);
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

fn ports_where(ports: &[PortSettings], holds: impl Fn(&PortSettings) -> bool) -> PortSet {
    (0..=u8::MAX).map(PortId).zip(ports).filter(|(_, port)| holds(port)).map(|(id, _)| id).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
