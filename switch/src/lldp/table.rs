//! LLDP neighbors of a port, up to a maximum number, until they expire or announce a zero time to live.

use xoff_wire::lldp::{Id, Lldpdu, Understands};
use xoff_wire::units::{MacAddr, Nanos};

use super::LldpCounts;
use super::announcement::{self, Announcement};

pub const NEIGHBORS_MAX: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbor {
    key: Key,
    pub chassis: String,
    pub port: String,
    pub mac: MacAddr,
    pub since: Nanos,
    pub last_received: Nanos,
    /// Last announced time to live, in seconds.
    pub ttl: u16,
    pub announced: Announcement,
}

impl Neighbor {
    #[must_use]
    pub fn expires(&self) -> Nanos {
        self.last_received.after(Nanos::from_secs(self.ttl.into()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Key([(u8, Vec<u8>); 2]);

impl Key {
    fn of(list: &Lldpdu<'_>) -> Key {
        Key([list.chassis, list.port].map(|Id { subtype, value }| (subtype, value.to_vec())))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NeighborChange {
    Nothing,
    New,
    Changed,
    Refreshed,
    Removed(Box<Neighbor>),
    TooMany,
}

#[derive(Clone, Debug, Default)]
pub struct NeighborTable(Vec<Neighbor>);

impl NeighborTable {
    #[must_use]
    pub fn all(&self) -> &[Neighbor] {
        &self.0
    }

    pub fn speakers(&self) -> impl Iterator<Item = &Neighbor> {
        self.0.iter().filter(|neighbor| neighbor.announced.has_dcbx())
    }

    /// Returns the neighbor that announces DCBX, if exactly one does.
    #[must_use]
    pub fn peer(&self) -> Option<&Neighbor> {
        only(self.speakers())
    }

    /// Returns the announcement that the port may follow. It includes PFC extensions (OFC, GFC) only if exactly one neighbor
    /// announces extensions or DCBX.
    #[must_use]
    pub fn followed(&self) -> Option<Announcement> {
        let extends = |it: &Announcement| it.has_dcbx() || it.understands != Understands::default();
        let extended = only(self.0.iter().filter(|neighbor| extends(&neighbor.announced)));
        let announced = self.peer().or(extended)?.announced.clone();
        let understands = extended.map(|neighbor| neighbor.announced.understands).unwrap_or_default();
        Some(Announcement { understands, ..announced })
    }

    pub(super) fn update(
        &mut self,
        now: Nanos,
        mac: MacAddr,
        list: &Lldpdu<'_>,
        counts: &mut LldpCounts,
    ) -> NeighborChange {
        let key = Key::of(list);
        let at = self.0.iter().position(|neighbor| neighbor.key == key);
        match at {
            Some(at) if list.ttl == 0 => return NeighborChange::Removed(Box::new(self.0.remove(at))),
            None if list.ttl == 0 => return NeighborChange::Nothing,
            None if self.0.len() == NEIGHBORS_MAX => {
                counts.too_many += 1;
                return NeighborChange::TooMany;
            }
            Some(_) | None => (),
        }
        let announced = Announcement::read(list, &mut counts.discarded);
        let (last_received, ttl) = (now, list.ttl);
        let Some(at) = at else {
            let (chassis, port) = (announcement::chassis(list.chassis), announcement::port(list.port));
            self.0.push(Neighbor { key, chassis, port, mac, since: now, last_received, ttl, announced });
            return NeighborChange::New;
        };
        let neighbor = &mut self.0[at];
        counts.shortened += u64::from(ttl < neighbor.ttl);
        let same = (&neighbor.announced, neighbor.mac) == (&announced, mac);
        (neighbor.last_received, neighbor.ttl, neighbor.mac, neighbor.announced) =
            (last_received, ttl, mac, announced);
        if same { NeighborChange::Refreshed } else { NeighborChange::Changed }
    }

    pub(super) fn age(&mut self, now: Nanos) -> Vec<Neighbor> {
        self.0.extract_if(.., |neighbor| neighbor.expires() <= now).collect()
    }

    pub fn clear(&mut self) -> Vec<Neighbor> {
        std::mem::take(&mut self.0)
    }

    #[must_use]
    pub fn next_expiry(&self) -> Nanos {
        self.0.iter().map(Neighbor::expires).min().unwrap_or(Nanos::NEVER)
    }
}

fn only<'a>(mut neighbors: impl Iterator<Item = &'a Neighbor>) -> Option<&'a Neighbor> {
    neighbors.next().filter(|_| neighbors.next().is_none())
}
