//! Which ports lead to the same place.
//!
//! The forwarding database knows a group by its first member, the one that it is *at*: what comes in by any member is learned
//! there, and an address that is at any member leads to the group. Which member a frame takes is decided elsewhere, where
//! queues are known ([`super::spread`] chooses).

use xoff_flow_control::settings::{GroupSettings, SwitchSettings};
use xoff_wire::units::{PortId, PortSet};

/// A group, from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(pub u8);

impl GroupId {
    /// As an index into tables per group.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// All groups of a switch.
#[derive(Clone, Debug)]
pub struct Groups {
    /// By port.
    of: Box<[Option<GroupId>]>,
    /// By group.
    members: Box<[PortSet]>,
    /// Ports that are members of any.
    grouped: PortSet,
    /// Members of those groups out of which nothing goes that came in by another of them.
    uplinks: PortSet,
}

impl Groups {
    /// As configured.
    #[must_use]
    pub fn new(settings: &SwitchSettings) -> Groups {
        let members = |group: &GroupSettings| group.members.iter().map(|member| member.port).collect();
        let mut groups = Groups {
            of: vec![None; settings.ports.len()].into(),
            members: settings.groups.iter().map(members).collect(),
            grouped: PortSet::NONE,
            uplinks: PortSet::NONE,
        };
        for (id, group) in (0..=u8::MAX).map(GroupId).zip(&settings.groups) {
            for member in &group.members {
                groups.of[member.port.index()] = Some(id);
                groups.grouped.insert(member.port);
                if group.uplinks {
                    groups.uplinks.insert(member.port);
                }
            }
        }
        groups
    }

    /// The group that `port` is a member of.
    #[inline]
    #[must_use]
    pub fn of(&self, port: PortId) -> Option<GroupId> {
        self.of[port.index()]
    }

    /// Its members.
    #[inline]
    #[must_use]
    pub fn members(&self, group: GroupId) -> &PortSet {
        &self.members[group.index()]
    }

    /// Where the forwarding database has what is behind `port`.
    #[must_use]
    pub fn at(&self, port: PortId) -> PortId {
        let first = self.of(port).and_then(|group| self.members(group).first_from(PortId(0)));
        first.unwrap_or(port)
    }

    /// Ports that are members of one.
    #[must_use]
    pub const fn grouped(&self) -> &PortSet {
        &self.grouped
    }

    /// Ports of groups of uplinks.
    #[must_use]
    pub(super) const fn uplinks(&self) -> &PortSet {
        &self.uplinks
    }

    /// Each group.
    pub(super) fn all(&self) -> impl Iterator<Item = &PortSet> {
        self.members.iter()
    }
}
