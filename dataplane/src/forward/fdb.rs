//! Forwarding database (FDB): the ports of station addresses, learned from frames.
//!
//! An address not seen for the ageing time is unknown from that nanosecond on; a sweep later frees its entry. A
//! station that moves is found at its new port at once, unless that port has reached its limit of addresses. Static
//! addresses never move or age.
//!
//! Each worker has a replica, and must [apply](Fdb::apply) the updates of others.

use std::ops::Range;

use xoff_flow_control::settings::{FdbSettings, PortSettings};
use xoff_wire::units::{MacAddr, Nanos, PortId};

use super::table::{Entry, Key, Place, Table};

const SWEEP_PLACES: usize = 256;
const SWEEP_PERIOD_MIN: Nanos = Nanos::from_millis(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Learned {
    New,
    Moved {
        from: PortId,
    },
    /// The address was already known at this port. Replicas of other workers need an update, so that it does not age there.
    Renewed,
    Refreshed,
    Static,
    RefusedByLimit,
    RefusedByCapacity,
    Ignored,
}

impl Learned {
    #[must_use]
    pub(super) const fn is_update(self) -> bool {
        matches!(self, Learned::New | Learned::Moved { .. } | Learned::Renewed)
    }

    #[must_use]
    pub(super) const fn is_refused(self) -> bool {
        matches!(self, Learned::RefusedByLimit | Learned::RefusedByCapacity)
    }
}

/// Update for the replicas of other workers: a station has a new port, or was active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct FdbUpdate {
    pub vid: u16,
    pub mac: MacAddr,
    pub port: PortId,
    pub last_active: Nanos,
}

/// Entry of the forwarding database, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct FdbEntry {
    pub vid: u16,
    pub mac: MacAddr,
    pub port: PortId,
    /// Time since the last frame; `None` for a static address.
    pub age: Option<Nanos>,
}

#[derive(Clone, Copy, Debug)]
struct PortState {
    learning: bool,
    limit: usize,
    learned: usize,
    moved: u64,
    refused: u64,
}

/// Worker's replica of the forwarding database.
#[derive(Clone, Debug)]
pub struct Fdb {
    table: Table,
    capacity: usize,
    ageing: Nanos,
    /// Log2 of the interval, in ns, between updates for an active station.
    update_shift: u32,
    ports: Vec<PortState>,
    statics: usize,
    sweep: Sweep,
}

#[derive(Clone, Copy, Debug)]
struct Sweep {
    next_place: usize,
    places: usize,
    period: Nanos,
    due: Nanos,
}

impl Sweep {
    fn new(places: usize, ageing: Nanos) -> Sweep {
        let round = ageing.0 / 4;
        let sweeps_max = usize::try_from(round / SWEEP_PERIOD_MIN.0).unwrap_or(usize::MAX).max(1);
        let at_once = places.div_ceil(sweeps_max).max(SWEEP_PLACES.min(places));
        let period = Nanos(round / places.div_ceil(at_once) as u64).max(SWEEP_PERIOD_MIN);
        Sweep { next_place: 0, places: at_once, period, due: Nanos::NEVER }
    }
}

impl Fdb {
    #[must_use]
    pub(super) fn new(settings: &FdbSettings, ports: &[PortSettings]) -> Fdb {
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
                self.sweep.due = Nanos::ZERO; // at once, to remove aged entries
            }
        }
        self.fix(&settings.statics)
    }

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
            let entry = Entry { last_active: Nanos::ZERO, port, is_static: true };
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

    #[inline]
    pub(super) fn learn(&mut self, now: Nanos, vid: u16, mac: MacAddr, port: PortId) -> Learned {
        if !self.ports[port.index()].learning || mac.is_group() || mac == MacAddr::default() {
            return Learned::Ignored;
        }
        let key = Key::new(vid, mac);
        match self.table.find(key) {
            Some(place) => self.see_again(now, place, port),
            None => self.add(now, key, port, self.ports[port.index()].is_full()),
        }
    }

    /// Applies another worker's update, unless this replica has a newer one. The other worker has checked the port's
    /// limit of addresses.
    pub(super) fn apply(&mut self, update: &FdbUpdate) -> Learned {
        let key = Key::new(update.vid, update.mac);
        let Some(place) = self.table.find(key) else {
            return self.add(update.last_active, key, update.port, false);
        };
        let entry = self.table.entry(place);
        if entry.is_static {
            Learned::Static
        } else if entry.last_active > update.last_active {
            Learned::Refreshed
        } else {
            self.put(update.last_active, place, update.port)
        }
    }

    /// Returns the port of a station address that is known and not aged at `now`.
    #[inline]
    #[must_use]
    pub fn lookup(&self, now: Nanos, vid: u16, mac: MacAddr) -> Option<PortId> {
        let place = self.table.find(Key::new(vid, mac))?;
        (!self.has_aged(place, now)).then_some(self.table.port(place))
    }

    #[inline]
    pub(crate) fn prefetch(&self, vid: u16, mac: MacAddr) {
        self.table.prefetch(Key::new(vid, mac));
    }

    pub(super) fn flush(&mut self, port: PortId) {
        for place in (0..self.table.places()).map(Table::place) {
            let entry = self.table.entry(place);
            if self.table.key(place).is_some() && !entry.is_static && entry.port == port {
                self.forget(place);
            }
        }
    }

    #[must_use]
    pub(super) const fn next_deadline(&self) -> Nanos {
        self.sweep.due
    }

    pub(super) fn advance(&mut self, now: Nanos) {
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

    /// Returns the number of entries, including aged ones not yet swept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns whether the database is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[must_use]
    pub(super) fn learns_at(&self, port: PortId) -> bool {
        self.ports[port.index()].learning
    }

    /// Returns the number of addresses learned at a port.
    #[must_use]
    pub fn learned_at(&self, port: PortId) -> usize {
        self.ports[port.index()].learned
    }

    #[must_use]
    pub(crate) fn moved_to(&self, port: PortId) -> u64 {
        self.ports[port.index()].moved
    }

    /// Returns how many frames of `port` had a source that was not learned because a limit was reached.
    #[must_use]
    pub fn refused_at(&self, port: PortId) -> u64 {
        self.ports[port.index()].refused
    }

    pub(super) fn take_refusal_back(&mut self, port: PortId) {
        self.ports[port.index()].refused -= 1;
    }

    /// Returns all entries that are not aged at `now`.
    pub fn entries(&self, now: Nanos) -> impl Iterator<Item = FdbEntry> {
        self.entries_at(now, 0..self.places())
    }

    /// Returns the number of table positions, for [`Fdb::entries_at`].
    #[must_use]
    pub fn places(&self) -> usize {
        self.table.places()
    }

    /// Returns the entries at table positions `places` that are not aged at `now`.
    pub fn entries_at(&self, now: Nanos, places: Range<usize>) -> impl Iterator<Item = FdbEntry> {
        places.map(Table::place).filter_map(move |place| {
            let key = self.table.key(place)?;
            let entry = self.table.entry(place);
            let age = (!entry.is_static).then_some(now.since(entry.last_active));
            let is_current = !self.has_aged(place, now);
            is_current.then_some(FdbEntry { vid: key.vid(), mac: key.mac(), port: entry.port, age })
        })
    }

    #[inline]
    fn has_aged(&self, place: Place, now: Nanos) -> bool {
        !self.table.is_static(place) && now.since(self.table.last_active(place)) >= self.ageing
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

    #[inline]
    fn put(&mut self, now: Nanos, place: Place, port: PortId) -> Learned {
        let (before, had_aged) = (self.table.entry(place), self.has_aged(place, now));
        self.table.set(place, Entry { last_active: now, port, is_static: false });
        if before.port != port {
            self.ports[before.port.index()].learned -= 1;
            self.ports[port.index()].learned += 1;
        }
        if had_aged {
            Learned::New
        } else if before.port != port {
            self.ports[port.index()].moved += 1;
            Learned::Moved { from: before.port }
        } else if before.last_active.0 >> self.update_shift != now.0 >> self.update_shift {
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
        let entry = Entry { last_active: now, port, is_static: false };
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

fn table_of_statics(settings: &FdbSettings, capacity: usize) -> Option<Table> {
    let mut table = Table::new(capacity, settings.seed);
    for &(vid, mac, port) in &settings.statics {
        let entry = Entry { last_active: Nanos::ZERO, port, is_static: true };
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
