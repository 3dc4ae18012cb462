//! LLDP neighbors of a port, each until its TTL ends. A TTL of zero removes a neighbor. A neighbor beyond the maximum
//! is counted and replaces none.

use xoff_wire::lldp::{Id, Lldpdu};
use xoff_wire::units::{MacAddr, Nanos};

use super::Counts;
use super::said::{self, Said};

/// Maximum number of neighbors per port.
pub const NEIGHBORS_MAX: usize = 8;

/// LLDP neighbor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbor {
    key: Key,
    /// Chassis ID of the neighbor.
    pub chassis: String,
    /// Port ID of the neighbor.
    pub port: String,
    /// Source address of the neighbor's frames.
    pub mac: MacAddr,
    /// Time of the first frame.
    pub since: Nanos,
    /// Time of the last frame.
    pub heard: Nanos,
    /// TTL in seconds.
    pub ttl: u16,
    /// Announced properties of the neighbor.
    pub said: Said,
}

impl Neighbor {
    /// Returns the time at which the neighbor expires.
    #[must_use]
    pub fn expires(&self) -> Nanos {
        self.heard.after(Nanos::from_secs(self.ttl.into()))
    }
}

/// Subtype and value of chassis ID and port ID.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key([(u8, Vec<u8>); 2]);

impl Key {
    fn of(list: &Lldpdu<'_>) -> Key {
        Key([list.chassis, list.port].map(|Id { subtype, value }| (subtype, value.to_vec())))
    }
}

/// Effect of a received LLDPDU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The LLDPDU has no effect.
    Nothing,
    /// New neighbor.
    New,
    /// Changed announcement.
    Changed,
    /// Unchanged announcement.
    Refreshed,
    /// Neighbor removed by a shutdown LLDPDU.
    Gone(Box<Neighbor>),
    /// Neighbor beyond the maximum.
    TooMany,
}

/// Neighbors of one port.
#[derive(Clone, Debug, Default)]
pub struct Table(Vec<Neighbor>);

impl Table {
    /// Returns all neighbors, the oldest first.
    #[must_use]
    pub fn all(&self) -> &[Neighbor] {
        &self.0
    }

    /// Returns the neighbor if there is exactly one.
    #[must_use]
    pub fn only(&self) -> Option<&Neighbor> {
        if let [only] = &self.0[..] { Some(only) } else { None }
    }

    pub(super) fn hear(&mut self, now: Nanos, mac: MacAddr, list: &Lldpdu<'_>, counts: &mut Counts) -> Heard {
        let key = Key::of(list);
        let at = self.0.iter().position(|neighbor| neighbor.key == key);
        match at {
            Some(at) if list.ttl == 0 => return Heard::Gone(Box::new(self.0.remove(at))),
            None if list.ttl == 0 => return Heard::Nothing,
            None if self.0.len() == NEIGHBORS_MAX => {
                counts.too_many += 1;
                return Heard::TooMany;
            }
            Some(_) | None => (),
        }
        let said = Said::read(list, &mut counts.discarded);
        let (heard, ttl) = (now, list.ttl);
        let Some(at) = at else {
            let (chassis, port) = (said::chassis(list.chassis), said::port(list.port));
            self.0.push(Neighbor { key, chassis, port, mac, since: now, heard, ttl, said });
            return Heard::New;
        };
        let neighbor = &mut self.0[at];
        counts.shortened += u64::from(ttl < neighbor.ttl);
        let same = (&neighbor.said, neighbor.mac) == (&said, mac);
        (neighbor.heard, neighbor.ttl, neighbor.mac, neighbor.said) = (heard, ttl, mac, said);
        if same { Heard::Refreshed } else { Heard::Changed }
    }

    pub(super) fn age(&mut self, now: Nanos) -> Vec<Neighbor> {
        self.0.extract_if(.., |neighbor| neighbor.expires() <= now).collect()
    }

    /// Removes and returns all neighbors, after a loss of the link.
    pub fn clear(&mut self) -> Vec<Neighbor> {
        std::mem::take(&mut self.0)
    }

    /// Returns the earliest expiry.
    #[must_use]
    pub fn next_expiry(&self) -> Nanos {
        self.0.iter().map(Neighbor::expires).min().unwrap_or(Nanos::NEVER)
    }
}
