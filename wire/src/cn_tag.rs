//! CN-TAG: tag for congestion notification, which names the rate limiter of the frame's sender (802.1Q clause 30).

use pnet_packet::ethernet::EtherType;

/// EtherType of a CN-TAG.
pub const CN_TAG: EtherType = EtherType(0x22e9);

/// CN-TAG: identifier (RPID) of the rate limiter of the sending station.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CnTag(pub u16);
