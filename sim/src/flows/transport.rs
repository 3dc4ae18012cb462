//! How flows are sent: what each transport is told.
//!
//! TCP is to be a third one: it has a place here, a state beside [`Sending`](super::sending::Sending) and answers of its own.

use xoff_dataplane::congestion::ReactionSettings;
use xoff_dataplane::units::{Bytes, Class};
use xoff_host::Obedience;

use super::dcqcn::DcqcnSettings;
use super::frames::PAYLOAD_MAX;
use super::swift::SwiftSettings;
use super::timely::TimelySettings;
use crate::time::Picos;

/// What all hosts of a run are like.
#[derive(Clone, Debug, PartialEq)]
pub struct HostSettings {
    /// How they send.
    pub transport: Transport,
    /// The most payload of a frame, in bytes.
    pub payload_max: u32,
    /// How they answer pauses.
    pub obedience: Obedience,
    /// Whether they obey lists of flows (OFC).
    pub obeys_flows: bool,
    /// Whether they keep rates (GFC).
    pub obeys_rates: bool,
    /// Whether each flow has a reaction point of QCN, and what it is told; it goes before `control` of RoCE. Each host and each flow add
    /// their numbers to its seed.
    pub qcn: Option<ReactionSettings>,
}

impl Default for HostSettings {
    /// At line rate, in frames of an MTU of 1500, obeying PFC at once and nothing else.
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

/// How flows are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Transport {
    /// As fast as the line takes it, each frame once, and nobody answers: a flow ends when as many frames have come as were sent,
    /// in whatever order. Where one is lost it does not end. Its frames are not ECN-capable.
    LineRate,
    /// Reliable, in order, as RDMA over Converged Ethernet.
    Roce(RoceSettings),
}

/// Go-back-N with acknowledgements: what comes behind a gap is thrown away and asked for once (a NAK); where nothing is heard for
/// too long, the sender goes back by itself. Frames are ECN-capable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoceSettings {
    /// Most payload that may be on its way unacknowledged, a frame at least; `None`: as much as there is.
    pub window: Option<Bytes>,
    /// So many frames are acknowledged at once; the last of a flow always is. At least 1.
    pub ack_every: u32,
    /// The class of acknowledgements; `None`: the flow's.
    pub ack_class: Option<Class>,
    /// The sender goes back when it has waited so long for an acknowledgement.
    pub timeout: Picos,
    /// What slows senders down.
    pub control: Control,
}

impl Default for RoceSettings {
    /// No window, each frame acknowledged (as the published set-up of HPCC's simulations has it, `L2_ACK_INTERVAL 1`), in the class of the
    /// flow. The time-out is our choice: 4.096 us * 2^8, a step of InfiniBand's scale (IBTA, local ACK timeout 8).
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

/// What slows a sender down when the fabric is congested.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Control {
    /// PFC alone.
    #[default]
    None,
    /// Marks of switches, told by CNPs (SIGCOMM 2015).
    Dcqcn(DcqcnSettings),
    /// Delay against a target (SIGCOMM 2020).
    Swift(SwiftSettings),
    /// How delay changes (SIGCOMM 2015).
    Timely(TimelySettings),
}
