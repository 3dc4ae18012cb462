//! LLDP (IEEE 802.1AB): what a station says of itself to the one at the other end of its link.

use pnet_packet::ethernet::EtherType;

use super::Header;
use crate::units::MacAddr;

/// The EtherType of LLDP.
pub const LLDP: EtherType = EtherType(0x88cc);

/// Where it goes: the nearest bridge, which never forwards it.
pub const NEAREST_BRIDGE: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0, 0, 0x0e]);

/// Whether the frame is LLDP for the nearest bridge. It is never tagged.
#[must_use]
pub fn is_lldp(header: &Header) -> bool {
    header.ether_type == LLDP && header.tag.is_none() && header.dst == NEAREST_BRIDGE
}
