use std::net::Ipv4Addr;

/// Settings of IGMP and MLD snooping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MulticastSettings {
    /// Snooped VLANs, ascending.
    pub vlans: Vec<u16>,
    /// Ports for frames of groups without a known member.
    pub unknown: UnknownGroups,
    /// IPv4 source address of this switch's own queries; `None` if it sends none.
    pub querier: Option<Ipv4Addr>,
    /// Maximum number of known groups in all VLANs together.
    pub groups_max: usize,
}

impl Default for MulticastSettings {
    fn default() -> MulticastSettings {
        MulticastSettings {
            vlans: Vec::new(),
            unknown: UnknownGroups::Flood,
            querier: None,
            groups_max: 1_024,
        }
    }
}

/// Ports to which frames of multicast groups without a known member are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum UnknownGroups {
    #[default]
    Flood,
    Routers,
}
