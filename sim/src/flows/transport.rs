//! Transports of flows, and their parameters.

use xoff_flow_control::congestion::ReactionSettings;
use xoff_host::Obedience;
use xoff_wire::units::{Bytes, Class};

use super::dcqcn::DcqcnSettings;
use super::frames::PAYLOAD_MAX;
use super::swift::SwiftSettings;
use super::timely::TimelySettings;
use crate::time::Picos;

/// Properties of all hosts of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct HostSettings {
    /// Transport of flows.
    pub transport: Transport,
    /// Maximum payload of a frame in bytes.
    pub payload_max: u32,
    /// Reaction to pauses.
    pub obedience: Obedience,
    /// Obedience to flow lists (OFC).
    pub obeys_flows: bool,
    /// Obedience to rates (GFC).
    pub obeys_rates: bool,
    /// QCN reaction point per flow; replaces `control` of RoCE. Each host and flow adds its number to the seed.
    pub qcn: Option<ReactionSettings>,
}

impl Default for HostSettings {
    /// Returns line rate, an MTU of 1500, and obedience to PFC only, without delay.
    fn default() -> HostSettings {
        HostSettings {
            transport: Transport::LineRate,
            payload_max: PAYLOAD_MAX,
            obedience: Obedience::Obey,
            obeys_flows: false,
            obeys_rates: false,
            qcn: None,
        }
    }
}

/// Transport of flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Transport {
    /// Each frame once, at line rate, without answers or ECN. A flow ends when all its frames have arrived, and never
    /// after a loss.
    LineRate,
    /// Reliable and in order, as RDMA over Converged Ethernet.
    Roce(RoceSettings),
}

/// Go-back-N with acknowledgements. The receiver discards frames after a gap and sends one NAK. Frames are
/// ECN-capable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoceSettings {
    /// Maximum unacknowledged payload, at least one frame.
    pub window: Option<Bytes>,
    /// Frames per acknowledgement, at least 1; a flow's last frame is always acknowledged.
    pub ack_every: u32,
    /// Class of acknowledgements; `None`: the flow's.
    pub ack_class: Option<Class>,
    /// Time without an acknowledgement after which the sender goes back.
    pub timeout: Picos,
    /// Congestion control.
    pub control: Control,
}

impl Default for RoceSettings {
    /// Returns no window, and an acknowledgement per frame in the flow's class, as in HPCC's simulations
    /// (`L2_ACK_INTERVAL 1`). The timeout is chosen here: 4.096 us * 2^8 (IBTA, local ACK timeout 8).
    fn default() -> RoceSettings {
        RoceSettings {
            window: None,
            ack_every: 1,
            ack_class: None,
            timeout: Picos::from_nanos(4_096 << 8),
            control: Control::None,
        }
    }
}

/// Congestion control of senders.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Control {
    /// None beside PFC.
    #[default]
    None,
    /// DCQCN: ECN marks, reported by CNPs (SIGCOMM 2015).
    Dcqcn(DcqcnSettings),
    /// Swift: delay compared with a target (SIGCOMM 2020).
    Swift(SwiftSettings),
    /// TIMELY: gradient of the delay (SIGCOMM 2015).
    Timely(TimelySettings),
}
