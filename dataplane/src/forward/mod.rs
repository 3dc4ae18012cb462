//! Where a frame goes: VLAN admission, learning, lookup, flooding.
//!
//! [`Bridge::forward`] is the whole of 802.1Q's forwarding process for one frame, and [`Bridge::follow`] what
//! becomes of it for one that is like the one before. Neither knows anything of queues or pause: a decision is
//! a port, a set of ports, or the reason why there is none. Frames to 01:80:c2:00:00:00..0f, which no bridge
//! forwards or learns from, never come here.
//!
//! Multipath groups, which fabrics need and a single switch does not, will be a file beside
//! these: an address then leads to a group of equal ports instead of one, and the group picks a
//! member for each flow (by [`crate::wire::FlowKey::digest`]) or frame, after the lookup and
//! before the checks of [`Bridge`] on the port that was found.

mod fdb;
mod table;
mod vlan;

pub use fdb::{Fdb, FdbEntry, FdbUpdate, Learned};
pub use table::table_bytes;
pub use vlan::{DEFAULT_VID, Membership, Vlans};

use crate::drop_reason::DropReason;
use crate::settings::{PortSettings, SwitchSettings};
use crate::units::{Class, MacAddr, Nanos, PortId, PortSet};
use crate::wire::header::Header;

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It leaves through one port.
    Unicast(PortId),
    /// It leaves through each of these, of which there is at least one.
    Flood(PortSet),
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
    /// What other replicas of the forwarding database must hear.
    pub news: Option<FdbUpdate>,
}

/// Where frames from one port may go, links and isolation considered.
#[derive(Clone, Copy, Debug, Default)]
struct Exits {
    all: PortSet,
    /// Those that take frames to unknown addresses.
    unknown: PortSet,
    /// Those that take group-addressed frames.
    group: PortSet,
}

/// Where a frame went, and when.
#[derive(Clone, Copy, Debug)]
struct Path {
    class: Class,
    egress: PortId,
    vid: u16,
    at: Nanos,
    changes: u64,
}

/// The forwarding process of one switch, or of one worker of it.
#[derive(Clone, Debug)]
pub struct Bridge {
    vlans: Vlans,
    fdb: Fdb,
    /// By ingress port.
    exits: Vec<Exits>,
    /// By ingress port: of the last frame, where the next may follow.
    paths: Vec<Option<Path>>,
    /// How often the same frame may have begun to go elsewhere.
    changes: u64,
    up: PortSet,
    isolated: PortSet,
    flood_unknown: PortSet,
    flood_group: PortSet,
}

impl Bridge {
    /// With every link up.
    #[must_use]
    pub fn new(settings: &SwitchSettings) -> Bridge {
        let ports = &settings.ports;
        let mut bridge = Bridge {
            vlans: Vlans::new(&settings.vlans, ports),
            fdb: Fdb::new(&settings.fdb, ports),
            exits: vec![Exits::default(); ports.len()],
            paths: vec![None; ports.len()],
            changes: 0,
            up: ports_where(ports, |_| true),
            isolated: ports_where(ports, |port| port.isolated),
            flood_unknown: ports_where(ports, |port| port.flood_unknown),
            flood_group: ports_where(ports, |port| port.flood_group),
        };
        bridge.find_exits();
        bridge
    }

    /// Learns from a frame of `class`, and says where it goes.
    #[inline]
    pub fn forward(&mut self, now: Nanos, ingress: PortId, class: Class, header: &Header) -> Forwarding {
        let (forwarding, learned) = self.learn_and_route(now, ingress, header);
        self.paths[ingress.index()] = match forwarding.decision {
            Decision::Unicast(egress) if !learned.is_refused() => {
                Some(Path { class, egress, vid: forwarding.vid, at: now, changes: self.changes })
            }
            _ => None,
        };
        forwarding
    }

    /// Where a frame goes, and its VLAN, that is like the one of `class` which [`Bridge::forward`] was last asked for
    /// at `ingress`; it teaches nothing that one did not. `None` where that may have changed, where nothing
    /// was learned because there was no room, which is counted for each frame, and where it does not
    /// go to one port.
    #[inline]
    #[must_use]
    pub fn follow(&self, now: Nanos, ingress: PortId, class: Class) -> Option<(PortId, u16)> {
        let path = self.paths[ingress.index()].as_ref()?;
        let holds = path.class == class && path.at == now && path.changes == self.changes;
        holds.then_some((path.egress, path.vid))
    }

    #[inline]
    fn learn_and_route(&mut self, now: Nanos, ingress: PortId, header: &Header) -> (Forwarding, Learned) {
        let vid = match self.vlans.admit(ingress, header.tag) {
            Ok(vid) => vid,
            Err(reason) => {
                let decision = Decision::Drop(reason);
                return (Forwarding { decision, vid: 0, news: None }, Learned::NotLearned);
            }
        };
        let learned = match self.is_up(ingress) {
            true => self.fdb.learn(now, vid, header.src, ingress),
            false => Learned::NotLearned,
        };
        let news = learned.is_news().then(|| {
            self.changes += 1;
            FdbUpdate { vid, mac: header.src, port: ingress, seen: now }
        });
        (Forwarding { decision: self.route(now, ingress, vid, header.dst), vid, news }, learned)
    }

    /// Takes over what another worker's bridge has learned.
    pub fn apply_remote(&mut self, update: &FdbUpdate) {
        if self.is_up(update.port) {
            self.fdb.apply(update);
            self.changes += 1;
        }
    }

    /// Whether `port` sends frames of VLAN `vid` with a tag.
    #[inline]
    #[must_use]
    pub fn is_tagged(&self, port: PortId, vid: u16) -> bool {
        self.vlans.get(vid).tagged.contains(port)
    }

    /// A link has come up or gone down; what was learned through it is forgotten in the latter case, and
    /// frames that were still on their way teach nothing.
    pub fn set_link(&mut self, port: PortId, is_up: bool) {
        if is_up {
            self.up.insert(port);
        } else {
            self.up.remove(port);
            self.fdb.flush(port);
        }
        self.find_exits();
        self.changes += 1;
    }

    /// Whether frames can leave through `port`.
    #[must_use]
    pub fn is_up(&self, port: PortId) -> bool {
        self.up.contains(port)
    }

    /// The forwarding database, to look at.
    #[must_use]
    pub const fn fdb(&self) -> &Fdb {
        &self.fdb
    }

    /// When [`Bridge::advance`] must be called next.
    #[must_use]
    pub const fn next_deadline(&self) -> Nanos {
        self.fdb.next_deadline()
    }

    /// Ages the forwarding database, a bounded part of it at a time.
    pub fn advance(&mut self, now: Nanos) {
        self.fdb.advance(now);
    }

    #[inline]
    fn route(&self, now: Nanos, ingress: PortId, vid: u16, dst: MacAddr) -> Decision {
        let members = &self.vlans.get(vid).members;
        let exits = &self.exits[ingress.index()];
        let flood = if dst.is_group() {
            exits.group
        } else if let Some(port) = self.fdb.lookup(now, vid, dst) {
            return self.towards(ingress, port, members);
        } else {
            exits.unknown
        };
        let flood = flood.and(members);
        if flood.is_empty() { Decision::Drop(DropReason::NoDestination) } else { Decision::Flood(flood) }
    }

    #[inline]
    fn towards(&self, ingress: PortId, port: PortId, members: &PortSet) -> Decision {
        if self.exits[ingress.index()].all.contains(port) && members.contains(port) {
            return Decision::Unicast(port);
        }
        Decision::Drop(if port == ingress {
            DropReason::Hairpin
        } else if !self.up.contains(port) {
            DropReason::LinkDown
        } else if members.contains(port) {
            DropReason::Isolated
        } else {
            DropReason::NoDestination
        })
    }

    fn find_exits(&mut self) {
        for (ingress, exits) in (0..=u8::MAX).map(PortId).zip(&mut self.exits) {
            let mut all = self.up;
            all.remove(ingress);
            if self.isolated.contains(ingress) {
                all = all.without(&self.isolated);
            }
            *exits = Exits { all, unknown: all.and(&self.flood_unknown), group: all.and(&self.flood_group) };
        }
    }
}

fn ports_where(ports: &[PortSettings], holds: impl Fn(&PortSettings) -> bool) -> PortSet {
    (0..=u8::MAX).map(PortId).zip(ports).filter(|(_, port)| holds(port)).map(|(id, _)| id).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
