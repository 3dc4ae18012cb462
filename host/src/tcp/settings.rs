use xoff_wire::units::{Bytes, Nanos};

use super::control::Algorithm;

/// Method to detect lost segments before the retransmission timer expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detection {
    /// RACK: delivery times of later segments (RFC 8985, without tail loss probes). Needs selective acknowledgements.
    Rack,
    /// A segment counts as lost after this number of duplicate acknowledgements, or of later segments acknowledged
    /// selectively.
    Duplicates(u32),
    /// None: only time-outs repair losses, as in `DeTail`.
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpSettings {
    /// Maximum payload of a segment in bytes.
    pub mss: u32,
    /// Congestion window of a new connection in segments.
    pub initial_window: u32,
    pub control: Algorithm,
    /// True if data segments are ECN-capable (RFC 3168), as DCTCP needs.
    pub ecn: bool,
    /// True if receivers acknowledge selectively (RFC 2018).
    pub sack: bool,
    pub detection: Detection,
    /// True if the window is restored once timestamps show that a recovery was needless (RFC 3522, RFC 4015).
    pub undo: bool,
    pub rto_min: Nanos,
    /// Retransmission time-out before the first round-trip sample.
    pub rto_initial: Nanos,
    /// Maximum retransmission time-out, including backoff.
    pub rto_max: Nanos,
    /// Number of in-order segments that one acknowledgement answers.
    pub ack_every: u32,
    pub ack_delay: Nanos,
    /// Number of first segments of a flow that the receiver acknowledges one by one.
    pub quick_acks: u32,
    pub window: Bytes,
    /// True if data wait for the answer to a SYN.
    pub handshake: bool,
    /// True if a flow between two hosts reuses an idle connection, with its congestion window.
    pub persistent: bool,
    /// True if a connection idle for a retransmission time-out restarts with at most the initial window (RFC 5681).
    pub idle_restart: bool,
}

impl TcpSettings {
    /// Returns the receive window in segments, at least one.
    #[must_use]
    pub fn window_segments(&self) -> u32 {
        u32::try_from(self.window.0 / u64::from(self.mss.max(1))).unwrap_or(u32::MAX).max(1)
    }
}

impl Default for TcpSettings {
    /// Returns Linux's defaults at an MTU of 1500, but without ECN, handshakes and reuse of connections.
    fn default() -> TcpSettings {
        TcpSettings {
            mss: 1_448,
            initial_window: 10,
            control: Algorithm::Cubic,
            ecn: false,
            sack: true,
            detection: Detection::Rack,
            undo: true,
            rto_min: Nanos::from_millis(200),
            rto_initial: Nanos::from_secs(1),
            rto_max: Nanos::from_secs(120),
            ack_every: 2,
            ack_delay: Nanos::from_millis(40),
            quick_acks: 16,
            window: Bytes(6 << 20),
            handshake: false,
            persistent: false,
            idle_restart: true,
        }
    }
}
