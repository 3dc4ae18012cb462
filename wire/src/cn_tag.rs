//! CN-TAG (802.1Q clause 30).

use pnet_packet::ethernet::EtherType;

/// EtherType of a CN-TAG.
pub const CN_TAG: EtherType = EtherType(0x22e9);

/// CN-TAG: RPID of the sending station's rate limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CnTag(pub u16);
