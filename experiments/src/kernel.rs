//! Hosts that are left to the kernel of a machine: what is asked of its TCP, and what its counters say of bulk transfers.
//!
//! Linux takes no notice of pauses, but its TCP slows down where a switch marks or drops, or where segments come out of order
//! and it takes them for lost. How much a sender may have on its way is bounded by the receiver's buffer.

use derive_more::{Add, Sum};
use xoff_wire::units::Bytes;

/// Whether TCP tells the network that it understands marks (RFC 3168).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    Capable,
    Incapable,
}

/// By what TCP finds segments that it has to send again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossDetection {
    /// By time (RACK, RFC 8985), what Linux does by itself: one is lost where others that were sent a while after it have come. That
    /// while grows, by quarters of the least round-trip time and to one round-trip time at most, where segments are found to have come
    /// late after all.
    Rack,
    /// By three duplicate acknowledgements (`NewReno`, RFC 6582), and never by more.
    Dupack,
    /// By time-outs alone, whatever the order of acknowledgements: the transport of `DeTail`, whose paths are lossless.
    Timeout,
}

impl LossDetection {
    pub const fn name(self) -> &'static str {
        match self {
            LossDetection::Rack => "rack",
            LossDetection::Dupack => "dupack",
            LossDetection::Timeout => "timeout",
        }
    }
}

/// How TCP of hosts is set up.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub ecn: Ecn,
    /// What it takes for lost.
    pub detection: LossDetection,
    pub receive_buffer: Bytes,
}

/// Bytes of one flow, when it had ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Taken by the sender's TCP.
    pub written: u64,
    /// Given out by the receiver's TCP, to the end of the flow.
    pub read: u64,
}

/// What the kernel of a host has counted since the host was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Add, Sum)]
pub struct Counts {
    /// IP packets that came marked "congestion experienced" (`IpExtInCEPkts`).
    pub marked: u64,
    /// TCP segments with data, each counted once (`TcpExtTCPOrigDataSent`).
    pub segments: u64,
    /// Those sent again (`TcpRetransSegs`).
    pub retransmitted: u64,
    /// TCP segments that came before an earlier one (`TcpExtTCPOFOQueue`).
    pub out_of_order: u64,
    /// Times that TCP slowed down for a loss that it had found by duplicate acknowledgements (`TcpExtTCPRenoRecovery`).
    pub dupack_recoveries: u64,
    /// The same by what SACK said (`TcpExtTCPSackRecovery`).
    pub sack_recoveries: u64,
    /// Retransmissions because nothing was acknowledged in time (`TcpExtTCPTimeouts`).
    pub timeouts: u64,
    /// Segments that came and found no room in a receive buffer.
    pub refused: u64,
}
