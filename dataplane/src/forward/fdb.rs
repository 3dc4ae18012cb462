//! The forwarding database: behind which port an address is, learned from source addresses.
//!
//! What is promised, whatever the traffic:
//! * An address not seen for the ageing time is unknown from that nanosecond on. Its place becomes
//!   free, for the capacity and for its port's limit, within a quarter of the ageing time: a sweep
//!   looks at a bounded number of places each time that [`Fdb::next_deadline`] comes.
//! * A station that moves is found at its new port from its first frame there. A port that has
//!   learned its limit takes over no address either: it stays where it was until it ages.
//! * Group addresses and the address of all zeros are never learned. Static addresses never move,
//!   age or count against a port's limit; they do count against the capacity.
//!
//! A switch of several workers has a replica in each. A worker learns from the frames that it
//! receives; [`Learned::is_update`] says when the others must hear of it, and they [`Fdb::apply`] it. A
//! station that keeps talking is told of again each quarter of the ageing time at least, so that it
//! does not age where its frames do not come in. The same messages feed a replica for whoever
//! only wants to look.

use std::ops::Range;

use xoff_flow_control::settings::{FdbSettings, PortSettings};
use xoff_wire::units::{MacAddr, Nanos, PortId};

use super::table::{Entry, Key, Place, Table};

/// Places that one sweep looks at, about a microsecond, unless more have to be for a short ageing time.
const SWEEP_PLACES: usize = 256;
/// The least time between sweeps.
const SWEEP_PERIOD_MIN: Nanos = Nanos::from_millis(1);

/// What became of a source address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learned {
    /// It was not known.
    New,
    /// It was known at another port.
    Moved {
        /// Where it was.
        from: PortId,
    },
    /// It was known here, and other replicas need to hear that it still is.
    Renewed,
    /// It was known here.
    Refreshed,
    /// It is static, and stays where it is.
    Static,
    /// The port has learned as many as it may.
    RefusedByLimit,
    /// The database is full.
    RefusedByCapacity,
    /// Learning is off at this port, or this is no station's address.
    NotLearned,
}

impl Learned {
    /// Whether other replicas must be told.
    #[must_use]
    pub const fn is_update(self) -> bool {
        matches!(self, Learned::New | Learned::Moved { .. } | Learned::Renewed)
    }

    /// Whether there was no room for it.
    #[must_use]
    pub const fn is_refused(self) -> bool {
        matches!(self, Learned::RefusedByLimit | Learned::RefusedByCapacity)
    }
}

/// What one replica tells the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdbUpdate {
    /// VLAN.
    pub vid: u16,
    /// Address.
    pub mac: MacAddr,
    /// Where it is.
    pub port: PortId,
    /// When it was seen there.
    pub seen: Nanos,
}

/// An address, for people to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdbEntry {
    /// VLAN.
    pub vid: u16,
    /// Address.
    pub mac: MacAddr,
    /// Where it is.
    pub port: PortId,
    /// Since when it has not been seen; `None`: static.
    pub age: Option<Nanos>,
}

#[derive(Clone, Copy, Debug)]
struct PortState {
    learning: bool,
    limit: usize,
    /// Addresses learned here and not yet forgotten.
    learned: usize,
    /// Stations that came here from another port.
    moved: u64,
    /// Frames whose source was not learned for want of room.
    refused: u64,
}

/// The forwarding database, or one replica of it.
#[derive(Clone, Debug)]
pub struct Fdb {
    table: Table,
    capacity: usize,
    /// [`Nanos::NEVER`]: addresses do not age.
    ageing: Nanos,
    /// Time in units of 2^n nanoseconds, at most a quarter of the ageing time: a station seen in a
    /// new one is told of.
    update_shift: u32,
    ports: Vec<PortState>,
    statics: usize,
    sweep: Sweep,
}

#[derive(Clone, Copy, Debug)]
struct Sweep {
    next_place: usize,
    /// How many it looks at.
    places: usize,
    period: Nanos,
    /// Never, while there is nothing that could age.
    due: Nanos,
}

impl Sweep {
    /// Looks at all of `places` in a quarter of the ageing time.
    fn new(places: usize, ageing: Nanos) -> Sweep {
        let round = ageing.0 / 4;
        let sweeps_max = usize::try_from(round / SWEEP_PERIOD_MIN.0).unwrap_or(usize::MAX).max(1);
        let at_once = places.div_ceil(sweeps_max).max(SWEEP_PLACES.min(places));
        let period = Nanos(round / places.div_ceil(at_once) as u64).max(SWEEP_PERIOD_MIN);
        Sweep { next_place: 0, places: at_once, period, due: Nanos::NEVER }
    }
}

impl Fdb {
    /// All memory that it will ever have.
    #[must_use]
    pub fn new(settings: &FdbSettings, ports: &[PortSettings]) -> Fdb {
        let mut capacity = settings.capacity;
        let table = loop {
            match table_of_statics(settings, capacity) {
                Some(table) => break table,
                None => capacity = capacity.max(1) * 2,
            }
        };
        let ageing = settings.ageing.unwrap_or(Nanos::NEVER);
        let sweep = Sweep::new(table.places(), ageing);
        Fdb {
            statics: table.len(),
            table,
            capacity: settings.capacity,
            ageing,
            update_shift: (ageing.0 / 4).max(1).ilog2(),
            ports: ports.iter().map(PortState::new).collect(),
            sweep,
        }
    }

    /// As configured otherwise, in a table of the same size. What was learned stays, but for what is static now. Answers how
    /// many static addresses found no place among those whose hash is alike.
    pub(super) fn revise(&mut self, settings: &FdbSettings, ports: &[PortSettings]) -> usize {
        for (state, port) in self.ports.iter_mut().zip(ports) {
            let of = PortState::new(port);
            (state.learning, state.limit) = (of.learning, of.limit);
        }
        let ageing = settings.ageing.unwrap_or(Nanos::NEVER);
        if ageing != self.ageing {
            self.ageing = ageing;
            self.update_shift = (ageing.0 / 4).max(1).ilog2();
            self.sweep = Sweep::new(self.table.places(), ageing);
            if ageing != Nanos::NEVER {
                self.sweep.due = Nanos::ZERO; // at once: what has aged by now goes
            }
        }
        self.fix(&settings.statics)
    }

    /// These are the static addresses from now on.
    fn fix(&mut self, statics: &[(u16, MacAddr, PortId)]) -> usize {
        let is_there = |&(vid, mac, port): &(u16, MacAddr, PortId)| {
            let entry = self.table.find(Key::new(vid, mac)).map(|place| self.table.entry(place));
            entry.is_some_and(|entry| entry.is_static && entry.port == port)
        };
        if statics.len() == self.statics && statics.iter().all(is_there) {
            return 0;
        }
        for place in (0..self.table.places()).map(Table::place) {
            if self.table.key(place).is_some() && self.table.is_static(place) {
                self.table.remove(place);
            }
        }
        for &(vid, mac, port) in statics {
            let entry = Entry { seen: Nanos::ZERO, port, is_static: true };
            let key = Key::new(vid, mac);
            if let Some(place) = self.table.find(key).filter(|&place| !self.table.is_static(place)) {
                self.forget(place);
            }
            match self.table.find(key) {
                Some(place) => self.table.set(place, entry),
                None => _ = self.table.insert(key, entry),
            }
        }
        let is_static = |&place: &Place| self.table.key(place).is_some() && self.table.is_static(place);
        self.statics = (0..self.table.places()).map(Table::place).filter(is_static).count();
        statics.len() - self.statics
    }

    /// Takes note that `mac` is behind `port`.
    #[inline]
    pub fn learn(&mut self, now: Nanos, vid: u16, mac: MacAddr, port: PortId) -> Learned {
        if !self.ports[port.index()].learning || mac.is_group() || mac == MacAddr::default() {
            return Learned::NotLearned;
        }
        let key = Key::new(vid, mac);
        match self.table.find(key) {
            Some(place) => self.see_again(now, place, port),
            None => self.add(now, key, port, self.ports[port.index()].is_full()),
        }
    }

    /// Takes over what another replica has learned, unless this one knows better. The limit of the
    /// port was the other's to hold.
    pub fn apply(&mut self, update: &FdbUpdate) -> Learned {
        let key = Key::new(update.vid, update.mac);
        let Some(place) = self.table.find(key) else {
            return self.add(update.seen, key, update.port, false);
        };
        let entry = self.table.entry(place);
        if entry.is_static {
            Learned::Static
        } else if entry.seen > update.seen {
            Learned::Refreshed
        } else {
            self.put(update.seen, place, update.port)
        }
    }

    /// Where an address is.
    #[inline]
    #[must_use]
    pub fn lookup(&self, now: Nanos, vid: u16, mac: MacAddr) -> Option<PortId> {
        let place = self.table.find(Key::new(vid, mac))?;
        (!self.has_aged(place, now)).then_some(self.table.port(place))
    }

    /// Has brought near where an address is looked for first.
    #[inline]
    pub(crate) fn prefetch(&self, vid: u16, mac: MacAddr) {
        self.table.prefetch(Key::new(vid, mac));
    }

    /// Forgets what was learned at a port. Looks at every place once: a link that goes down is
    /// worth that.
    pub fn flush(&mut self, port: PortId) {
        for place in (0..self.table.places()).map(Table::place) {
            let entry = self.table.entry(place);
            if self.table.key(place).is_some() && !entry.is_static && entry.port == port {
                self.forget(place);
            }
        }
    }

    /// When [`Fdb::advance`] must be called next.
    #[must_use]
    pub const fn next_deadline(&self) -> Nanos {
        self.sweep.due
    }

    /// Frees the places of addresses that have aged, in a bounded part of the table.
    pub fn advance(&mut self, now: Nanos) {
        if now < self.sweep.due {
            return;
        }
        for _ in 0..self.sweep.places {
            let place = Table::place(self.sweep.next_place);
            self.sweep.next_place = (self.sweep.next_place + 1) % self.table.places();
            if self.table.key(place).is_some() && self.has_aged(place, now) {
                self.forget(place);
            }
        }
        let idle = self.table.len() == self.statics;
        self.sweep.due = if idle { Nanos::NEVER } else { now.after(self.sweep.period) };
    }

    /// Addresses in it, static ones included, and aged ones until they are swept out.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether it knows no address.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether addresses are learned at a port.
    #[must_use]
    pub fn learns_at(&self, port: PortId) -> bool {
        self.ports[port.index()].learning
    }

    /// Addresses learned at a port.
    #[must_use]
    pub fn learned_at(&self, port: PortId) -> usize {
        self.ports[port.index()].learned
    }

    /// Stations that came to a port from another one.
    #[must_use]
    pub fn moved_to(&self, port: PortId) -> u64 {
        self.ports[port.index()].moved
    }

    /// Frames at a port whose source was not learned, for its limit or the capacity.
    #[must_use]
    pub fn refused_at(&self, port: PortId) -> u64 {
        self.ports[port.index()].refused
    }

    /// Does not count the last refusal at a port.
    pub(super) fn take_refusal_back(&mut self, port: PortId) {
        self.ports[port.index()].refused -= 1;
    }

    /// Every address that a frame would find now.
    pub fn entries(&self, now: Nanos) -> impl Iterator<Item = FdbEntry> {
        self.entries_at(now, 0..self.places())
    }

    /// How many places it has. An address keeps its place until it is forgotten.
    #[must_use]
    pub fn places(&self) -> usize {
        self.table.places()
    }

    /// The addresses at these places that a frame would find now.
    pub fn entries_at(&self, now: Nanos, places: Range<usize>) -> impl Iterator<Item = FdbEntry> {
        places.map(Table::place).filter_map(move |place| {
            let key = self.table.key(place)?;
            let entry = self.table.entry(place);
            let age = (!entry.is_static).then_some(now.since(entry.seen));
            let known = !self.has_aged(place, now);
            known.then_some(FdbEntry { vid: key.vid(), mac: key.mac(), port: entry.port, age })
        })
    }

    #[inline]
    fn has_aged(&self, place: Place, now: Nanos) -> bool {
        !self.table.is_static(place) && now.since(self.table.seen(place)) >= self.ageing
    }

    #[inline]
    fn see_again(&mut self, now: Nanos, place: Place, port: PortId) -> Learned {
        let entry = self.table.entry(place);
        if entry.is_static {
            return Learned::Static;
        }
        if entry.port != port && self.ports[port.index()].is_full() {
            self.ports[port.index()].refused += 1;
            return Learned::RefusedByLimit;
        }
        self.put(now, place, port)
    }

    /// A learned address is (still, or now) at `port`.
    #[inline]
    fn put(&mut self, now: Nanos, place: Place, port: PortId) -> Learned {
        let (before, had_aged) = (self.table.entry(place), self.has_aged(place, now));
        self.table.set(place, Entry { seen: now, port, is_static: false });
        if before.port != port {
            self.ports[before.port.index()].learned -= 1;
            self.ports[port.index()].learned += 1;
        }
        if had_aged {
            Learned::New
        } else if before.port != port {
            self.ports[port.index()].moved += 1;
            Learned::Moved { from: before.port }
        } else if before.seen.0 >> self.update_shift != now.0 >> self.update_shift {
            Learned::Renewed
        } else {
            Learned::Refreshed
        }
    }

    fn add(&mut self, now: Nanos, key: Key, port: PortId, is_full: bool) -> Learned {
        if is_full {
            self.ports[port.index()].refused += 1;
            return Learned::RefusedByLimit;
        }
        let entry = Entry { seen: now, port, is_static: false };
        if self.table.len() >= self.capacity || !self.table.insert(key, entry) {
            self.ports[port.index()].refused += 1;
            return Learned::RefusedByCapacity;
        }
        self.ports[port.index()].learned += 1;
        if self.sweep.due == Nanos::NEVER && self.ageing != Nanos::NEVER {
            self.sweep.due = now.after(self.sweep.period);
        }
        Learned::New
    }

    fn forget(&mut self, place: Place) {
        self.ports[self.table.port(place).index()].learned -= 1;
        self.table.remove(place);
    }
}

/// `None` where a table for `capacity` has no place for one of them.
fn table_of_statics(settings: &FdbSettings, capacity: usize) -> Option<Table> {
    let mut table = Table::new(capacity, settings.seed);
    for &(vid, mac, port) in &settings.statics {
        let entry = Entry { seen: Nanos::ZERO, port, is_static: true };
        match table.find(Key::new(vid, mac)) {
            Some(place) => table.set(place, entry),
            None if table.insert(Key::new(vid, mac), entry) => {}
            None => return None,
        }
    }
    Some(table)
}

impl PortState {
    fn new(port: &PortSettings) -> PortState {
        let limit = port.learn_limit.unwrap_or(usize::MAX);
        PortState { learning: port.learning, limit, learned: 0, moved: 0, refused: 0 }
    }

    fn is_full(&self) -> bool {
        self.learned >= self.limit
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
