//! Where a frame goes: VLAN admission, learning, lookup, flooding.
//!
//! [`Bridge::forward`] is the whole of 802.1Q's forwarding process for one frame. It knows nothing of queues or
//! pause: a decision is a port, a set of ports, or the reason why there is none. Frames to 01:80:c2:00:00:00..0f, which no bridge
//! forwards or learns from, never come here.
//!
//! Multipath groups, which fabrics need and a single switch does not, will be a file beside
//! these: an address then leads to a group of equal ports instead of one, and the group picks a
//! member for each flow (by [`crate::wire::FlowKey::digest`]) or frame, after the lookup and
//! before the checks of [`Bridge`] on the port that was found.

mod fdb;
mod loops;
mod table;
mod vlan;

pub use fdb::{Fdb, FdbEntry, FdbUpdate, Learned};
pub use loops::{HOLD as LOOP_HOLD, MOVES as LOOP_MOVES, WINDOW as LOOP_WINDOW};
pub use table::table_bytes;
pub use vlan::{DEFAULT_VID, Membership, Vlans};

use crate::drop_reason::DropReason;
use crate::settings::{Flooded, LoopDetection, PortSettings, SwitchSettings};
use crate::units::{MacAddr, Nanos, PortId, PortSet};
use crate::wire::header::Header;
use loops::Loops;

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It leaves through one port.
    Unicast(PortId),
    /// It leaves through each of these, of which there is at least one.
    Flood(PortSet, Flooded),
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
struct Exits {
    all: PortSet,
    /// Those that take frames to unknown addresses.
    unknown: PortSet,
    /// Those that take group-addressed frames.
    group: PortSet,
}

/// The forwarding process of one switch, or of one worker of it.
#[derive(Clone, Debug)]
pub struct Bridge {
    vlans: Vlans,
    fdb: Fdb,
    /// By ingress port.
    exits: Vec<Exits>,
    /// How often the same frame may have begun to go elsewhere.
    version: u64,
    up: PortSet,
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
            vlans: Vlans::new(&settings.vlans, ports),
            fdb: Fdb::new(&settings.fdb, ports),
            exits: vec![Exits::default(); ports.len()],
            version: 0,
            up: ports_where(ports, |_| true),
            isolated: ports_where(ports, |port| port.isolated),
            loops: Loops::new(ports.iter().map(|port| port.loop_detection)),
            looped: PortSet::NONE,
            flood_unknown: ports_where(ports, |port| port.flood_unknown),
            flood_group: ports_where(ports, |port| port.flood_group),
        };
        bridge.find_exits();
        bridge
    }

    /// As configured otherwise from now on, with the same ports; `vlans` are those of the settings, made where memory may be
    /// allocated, and afterwards those before. What was learned stays. Answers how many static addresses found no place.
    pub fn revise(&mut self, settings: &SwitchSettings, vlans: &mut Vlans) -> usize {
        let ports = &settings.ports;
        std::mem::swap(&mut self.vlans, vlans);
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
        let learned = match self.is_up(ingress) && !self.looped.contains(ingress) {
            true => self.fdb.learn(now, vid, header.src, ingress),
            false => Learned::NotLearned,
        };
        let update = learned.is_update().then(|| {
            self.version += 1;
            FdbUpdate { vid, mac: header.src, port: ingress, seen: now }
        });
        if let Learned::Moved { from } = learned
            && let Some(port) = self.loops.moved(now, from, ingress)
        {
            self.set_looped(port, true);
        }
        let decision = self.route(now, ingress, vid, header.dst);
        // What was refused for want of room is counted for each frame.
        Forwarding { decision, vid, repeats: !learned.is_refused(), learned: update }
    }

    /// Changes whenever the same frame may begin to go elsewhere.
    #[inline]
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Takes over what another worker's bridge has learned.
    pub fn apply_remote(&mut self, update: &FdbUpdate) {
        if self.is_up(update.port) && !self.looped.contains(update.port) {
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
        self.version += 1;
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
        let members = &self.vlans.get(vid).members;
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
        if self.looped.contains(ingress) {
            Decision::Drop(DropReason::Loop)
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
            let floods = all.without(&self.looped);
            *exits =
                Exits { all, unknown: floods.and(&self.flood_unknown), group: floods.and(&self.flood_group) };
        }
    }
}

fn ports_where(ports: &[PortSettings], holds: impl Fn(&PortSettings) -> bool) -> PortSet {
    (0..=u8::MAX).map(PortId).zip(ports).filter(|(_, port)| holds(port)).map(|(id, _)| id).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
