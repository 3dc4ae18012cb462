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
    /// QCN reaction point, instead of RoCE's `control`; each host and flow adds its number to the seed.
    pub qcn: Option<ReactionSettings>,
}

impl Default for HostSettings {
    /// Returns line rate, an MTU of 1500, and obedience to PFC only.
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
    /// Frames once, at line rate, without answers or ECN. A flow that loses a frame never ends.
    LineRate,
    /// Reliable and in order, as RDMA over Converged Ethernet.
    Roce(RoceSettings),
}

/// Go-back-N with acknowledgements, one NAK per gap, and ECN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoceSettings {
    /// Maximum unacknowledged payload, at least one frame.
    pub window: Option<Bytes>,
    /// Frames per acknowledgement, at least 1.
    pub ack_every: u32,
    /// Class of acknowledgements; `None`: the flow's.
    pub ack_class: Option<Class>,
    /// Retransmission timeout.
    pub timeout: Picos,
    /// Congestion control.
    pub control: Control,
}

impl Default for RoceSettings {
    /// Returns no window, and an acknowledgement per frame in the flow's class, as in HPCC's simulations
    /// (`L2_ACK_INTERVAL 1`). Chosen here: timeout 4.096 us * 2^8 (IBTA, local ACK timeout 8).
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
    /// PFC only.
    #[default]
    None,
    /// ECN marks, reported by CNPs (SIGCOMM 2015).
    Dcqcn(DcqcnSettings),
    /// Delay compared with a target (SIGCOMM 2020).
    Swift(SwiftSettings),
    /// Gradient of the delay (SIGCOMM 2015).
    Timely(TimelySettings),
}
