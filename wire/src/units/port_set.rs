use std::fmt;

use super::{PORTS_MAX, PortId};

/// Set of ports.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PortSet([u64; PORTS_MAX / 64]);

impl PortSet {
    /// Set of no ports.
    pub const NONE: PortSet = PortSet([0; PORTS_MAX / 64]);

    /// Set of all ports.
    pub const ALL: PortSet = PortSet([u64::MAX; PORTS_MAX / 64]);

    /// Returns whether the set has `port`.
    #[inline]
    #[must_use]
    pub const fn contains(&self, port: PortId) -> bool {
        self.0[port.index() / 64] & (1 << (port.index() % 64)) != 0
    }

    /// Adds `port` to the set.
    #[inline]
    pub const fn insert(&mut self, port: PortId) {
        self.0[port.index() / 64] |= 1 << (port.index() % 64);
    }

    /// Removes `port` from the set.
    #[inline]
    pub const fn remove(&mut self, port: PortId) {
        self.0[port.index() / 64] &= !(1 << (port.index() % 64));
    }

    /// Returns whether the set is empty.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; PORTS_MAX / 64]
    }

    /// Returns the number of ports in the set.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns the ports that are in both sets.
    #[inline]
    #[must_use]
    pub fn and(mut self, other: &PortSet) -> PortSet {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a &= b);
        self
    }

    /// Returns the ports that are in either set.
    #[inline]
    #[must_use]
    pub fn or(mut self, other: &PortSet) -> PortSet {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a |= b);
        self
    }

    /// Returns the ports of this set that are not in `other`.
    #[inline]
    #[must_use]
    pub fn without(mut self, other: &PortSet) -> PortSet {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a &= !b);
        self
    }

    /// Returns the set's lowest port not below `from`.
    #[must_use]
    pub fn first_from(&self, from: PortId) -> Option<PortId> {
        let start = from.index() / 64;
        let mut word = self.0[start] & (u64::MAX << (from.index() % 64));
        let mut at = start;
        loop {
            if word != 0 {
                let index = at * 64 + word.trailing_zeros() as usize;
                return u8::try_from(index).ok().map(PortId);
            }
            at += 1;
            word = *self.0.get(at)?;
        }
    }

    /// Returns the set's lowest port not below `from`; if there is none, its lowest port.
    #[inline]
    #[must_use]
    pub fn next_from(&self, from: PortId) -> Option<PortId> {
        if self.0[1..] == [0; PORTS_MAX / 64 - 1] {
            let turn = self.0[0] & u64::MAX.checked_shl(from.0.into()).unwrap_or(0);
            let first = if turn == 0 { self.0[0] } else { turn };
            return (first != 0).then(|| PortId(first.trailing_zeros().to_le_bytes()[0]));
        }
        self.first_from(from).or_else(|| self.first_from(PortId(0)))
    }

    /// Returns the ports of the set, lowest first.
    pub fn iter(self) -> impl Iterator<Item = PortId> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let port = rest.first_from(PortId(0))?;
            rest.remove(port);
            Some(port)
        })
    }
}

impl FromIterator<PortId> for PortSet {
    fn from_iter<T: IntoIterator<Item = PortId>>(ports: T) -> PortSet {
        let mut set = PortSet::NONE;
        ports.into_iter().for_each(|port| set.insert(port));
        set
    }
}

impl fmt::Debug for PortSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|port| port.0)).finish()
    }
}
