//! Groups: ports that lead to the same stations. In the forwarding database, the first member stands for the group;
//! [`super::spread`] chooses the member by which a frame leaves.

use xoff_flow_control::settings::{GroupSettings, SwitchSettings};
use xoff_wire::units::{PortId, PortSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(pub u8);

impl GroupId {
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Participation of a port in its group. LACP decides it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemberState {
    /// The port carries no data.
    #[default]
    Detached,
    /// The port accepts data and sends none.
    Collecting,
    /// The port accepts and sends data.
    Distributing,
}

xoff_wire::named! { MemberState {
    Detached: "detached",
    Collecting: "collecting",
    Distributing: "distributing",
} }

#[derive(Clone, Debug)]
pub struct Groups {
    of: Box<[Option<GroupId>]>,
    members: Box<[PortSet]>,
    grouped: PortSet,
    uplinks: PortSet,
    with_lacp: PortSet,
}

impl Groups {
    #[must_use]
    pub fn new(settings: &SwitchSettings) -> Groups {
        let members = |group: &GroupSettings| group.members.iter().map(|member| member.port).collect();
        let mut groups = Groups {
            of: vec![None; settings.ports.len()].into(),
            members: settings.groups.iter().map(members).collect(),
            grouped: PortSet::NONE,
            uplinks: PortSet::NONE,
            with_lacp: PortSet::NONE,
        };
        for (id, group) in (0..=u8::MAX).map(GroupId).zip(&settings.groups) {
            for member in &group.members {
                groups.of[member.port.index()] = Some(id);
                groups.grouped.insert(member.port);
                if group.lacp.is_some() {
                    groups.with_lacp.insert(member.port);
                }
                if group.uplinks {
                    groups.uplinks.insert(member.port);
                }
            }
        }
        groups
    }

    #[inline]
    #[must_use]
    pub fn of(&self, port: PortId) -> Option<GroupId> {
        self.of[port.index()]
    }

    #[inline]
    #[must_use]
    pub fn members(&self, group: GroupId) -> &PortSet {
        &self.members[group.index()]
    }

    /// Returns the port that stands for `port` in the forwarding database: its group's first member, or `port` itself.
    #[must_use]
    pub fn at(&self, port: PortId) -> PortId {
        let first = self.of(port).and_then(|group| self.members(group).first_from(PortId(0)));
        first.unwrap_or(port)
    }

    #[must_use]
    pub const fn grouped(&self) -> &PortSet {
        &self.grouped
    }

    #[must_use]
    pub(super) const fn uplinks(&self) -> &PortSet {
        &self.uplinks
    }

    /// Returns the ports whose [`MemberState`] LACP decides.
    #[must_use]
    pub const fn with_lacp(&self) -> &PortSet {
        &self.with_lacp
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &PortSet> {
        self.members.iter()
    }
}
