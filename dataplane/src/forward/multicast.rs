//! Table of the ports of multicast groups in snooped VLANs (RFC 4541). The control plane replaces it after a change.

use pnet_packet::ethernet::{EtherType, EtherTypes};
use xoff_wire::ip::Address;
use xoff_wire::multicast::{Role, role};
use xoff_wire::units::PortSet;

/// Ports of a snooped VLAN for one IP version: for membership reports, and for frames of unknown groups. `None` means all ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct MulticastPorts {
    pub reports: Option<PortSet>,
    pub unknown: Option<PortSet>,
}

/// Snooped VLAN, with its ports for IPv4 and for IPv6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct SnoopedVlan {
    pub vid: u16,
    pub ipv4: MulticastPorts,
    pub ipv6: MulticastPorts,
}

/// Multicast forwarding table. The first member of a port group stands for that group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MulticastTable {
    vlans: Box<[SnoopedVlan]>,
    groups: Box<[((u16, Address), PortSet)]>,
}

impl MulticastTable {
    /// Creates a table from snooped VLANs, and from the ports of each multicast group (its VLAN and address).
    #[must_use]
    pub fn new(mut vlans: Vec<SnoopedVlan>, mut groups: Vec<((u16, Address), PortSet)>) -> MulticastTable {
        vlans.sort_unstable_by_key(|vlan| vlan.vid);
        groups.sort_unstable_by_key(|(key, _)| *key);
        MulticastTable { vlans: vlans.into(), groups: groups.into() }
    }

    #[inline]
    pub(crate) fn is_snooped(&self, vid: u16) -> bool {
        !self.vlans.is_empty() && self.vlan(vid).is_some()
    }

    fn vlan(&self, vid: u16) -> Option<&SnoopedVlan> {
        let at = self.vlans.binary_search_by_key(&vid, |vlan| vlan.vid).ok()?;
        Some(&self.vlans[at])
    }

    /// Returns the ports with listeners for the packet of a multicast frame; `None` for all ports.
    #[must_use]
    pub fn exits(&self, vid: u16, ether_type: EtherType, packet: &[u8]) -> Option<PortSet> {
        let vlan = self.vlan(vid)?;
        let ports = if ether_type == EtherTypes::Ipv4 { &vlan.ipv4 } else { &vlan.ipv6 };
        match role(ether_type, packet) {
            Role::Flooded | Role::OfRouter => None,
            Role::Report => ports.reports,
            Role::Data(group) => match self.groups.binary_search_by_key(&(vid, group), |(key, _)| *key) {
                Ok(at) => Some(self.groups[at].1),
                Err(_) => ports.unknown,
            },
        }
    }

    pub(crate) fn wants(&self, vid: u16, ether_type: EtherType, packet: &[u8]) -> bool {
        self.is_snooped(vid) && matches!(role(ether_type, packet), Role::Report | Role::OfRouter)
    }
}
