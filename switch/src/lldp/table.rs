//! Whom a port hears: few neighbors, each for as long as it says. Who speaks with a time of zero is gone; who finds no place is
//! counted, and pushes nobody out.

use xoff_dataplane::units::{MacAddr, Nanos};
use xoff_dataplane::wire::lldp::{Id, Lldpdu};

use super::Counts;
use super::said::{self, Said};

/// Most neighbors of one port.
pub const NEIGHBORS_MAX: usize = 8;

/// Somebody at the other end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbor {
    key: Key,
    /// Whose chassis.
    pub chassis: String,
    /// Which port of it.
    pub port: String,
    /// The address that it speaks from.
    pub mac: MacAddr,
    /// When it was heard first.
    pub since: Nanos,
    /// When it was heard last.
    pub heard: Nanos,
    /// For how many seconds that holds.
    pub ttl: u16,
    /// What it says.
    pub said: Said,
}

impl Neighbor {
    /// When it is gone if it says nothing more.
    #[must_use]
    pub fn expires(&self) -> Nanos {
        self.heard.after(Nanos::from_secs(self.ttl.into()))
    }
}

/// By what neighbors are told apart: subtype and value of chassis and port.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key([(u8, Vec<u8>); 2]);

impl Key {
    fn of(list: &Lldpdu<'_>) -> Key {
        Key([list.chassis, list.port].map(|Id { subtype, value }| (subtype, value.to_vec())))
    }
}

/// What a frame comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing.
    Nothing,
    /// Somebody who was not there.
    New,
    /// Somebody who says something else.
    Changed,
    /// Somebody who says the same again.
    Refreshed,
    /// Somebody has taken leave.
    Gone(Box<Neighbor>),
    /// Somebody for whom there is no place.
    TooMany,
}

/// The neighbors of one port.
#[derive(Clone, Debug, Default)]
pub struct Table(Vec<Neighbor>);

impl Table {
    /// All of them, in the order in which they came.
    #[must_use]
    pub fn all(&self) -> &[Neighbor] {
        &self.0
    }

    /// The only one, as on a link between two stations.
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

    /// The link is gone, and with it all of them.
    pub fn clear(&mut self) -> Vec<Neighbor> {
        std::mem::take(&mut self.0)
    }

    /// When the next falls silent.
    #[must_use]
    pub fn next_expiry(&self) -> Nanos {
        self.0.iter().map(Neighbor::expires).min().unwrap_or(Nanos::NEVER)
    }
}
