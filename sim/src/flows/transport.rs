use xoff_flow_control::congestion::ReactionSettings;
use xoff_host::Obedience;
use xoff_host::tcp::TcpSettings;
use xoff_wire::units::{Bytes, Class, ClassSet};

use super::dcqcn::DcqcnSettings;
use super::frames::{Framing, PAYLOAD_MAX};
use super::swift::SwiftSettings;
use super::timely::TimelySettings;
use crate::time::Picos;

/// Settings of all hosts of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct HostSettings {
    /// Transport of flows without TCP.
    pub transport: Transport,
    /// TCP settings, if some flows use TCP.
    pub tcp: Option<TcpHosts>,
    /// Maximum payload of a frame of flows without TCP, in bytes.
    pub payload_max: u32,
    /// Obedience of hosts to pauses of classes.
    pub obedience: Obedience,
    /// True if hosts obey pauses of single flows (OFC).
    pub obeys_flows: bool,
    /// True if hosts obey requested rates (GFC).
    pub obeys_rates: bool,
    /// Settings of QCN reaction points, which replace RoCE's congestion `control`. Each flow adds its own number and
    /// its host's to the seed.
    pub qcn: Option<ReactionSettings>,
    /// Delay between a congestion notification's arrival and its effect on the rate.
    pub qcn_delay: Picos,
}

impl Default for HostSettings {
    /// Returns settings of hosts that send at line rate with an MTU of 1500 and obey only PFC.
    fn default() -> HostSettings {
        HostSettings {
            transport: Transport::LineRate,
            tcp: None,
            payload_max: PAYLOAD_MAX,
            obedience: Obedience::Obey,
            obeys_flows: false,
            obeys_rates: false,
            qcn: None,
            qcn_delay: Picos::ZERO,
        }
    }
}

impl HostSettings {
    /// Returns settings of hosts whose flows all use TCP.
    #[must_use]
    pub fn tcp(settings: TcpSettings) -> HostSettings {
        let tcp = TcpHosts { classes: ClassSet::ALL, ack_class: None, settings };
        HostSettings { tcp: Some(tcp), ..HostSettings::default() }
    }

    /// Returns headers and maximum payload of a class's flows.
    #[inline]
    #[must_use]
    pub fn framing(&self, class: Class) -> Framing {
        match &self.tcp {
            Some(tcp) if tcp.classes.contains(class) => Framing::tcp(tcp.settings.mss),
            _ => Framing::roce(self.payload_max),
        }
    }
}

/// Settings of flows that use TCP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpHosts {
    /// Classes whose flows use TCP.
    pub classes: ClassSet,
    /// Class of acknowledgements; `None` means their flow's class.
    pub ack_class: Option<Class>,
    /// Settings of all TCP connections.
    pub settings: TcpSettings,
}

/// Transport protocol of flows without TCP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Transport {
    /// Sends each frame once at line rate, without acknowledgements or ECN. A flow that loses a frame never ends.
    LineRate,
    /// Reliable, ordered delivery, as RDMA over Converged Ethernet.
    Roce(RoceSettings),
}

/// Settings of the reliable transport: go-back-N with acknowledgements, one NAK per gap, and ECN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoceSettings {
    /// Maximum unacknowledged payload, at least a frame; `None` means no limit.
    pub window: Option<Bytes>,
    /// Frames per acknowledgement, at least 1.
    pub ack_every: u32,
    /// Class of acknowledgements; `None` means their flow's class.
    pub ack_class: Option<Class>,
    /// Time without an acknowledgement after which a sender retransmits.
    pub timeout: Picos,
    /// Congestion control algorithm of senders.
    pub control: Control,
}

impl Default for RoceSettings {
    /// Returns settings without a window limit; each frame is acknowledged in its flow's class, as in HPCC's
    /// simulations (`L2_ACK_INTERVAL 1`).
    ///
    /// The timeout is 4.096 us * 2^8 (local ACK timeout 8 of IBTA), chosen here.
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

/// Congestion control algorithm of senders.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Control {
    /// No congestion control: only pauses limit senders.
    #[default]
    None,
    /// DCQCN: receivers report ECN marks by CNPs (SIGCOMM 2015).
    Dcqcn(DcqcnSettings),
    /// Swift: senders compare the delay with a target (SIGCOMM 2020).
    Swift(SwiftSettings),
    /// TIMELY: senders follow the gradient of the delay (SIGCOMM 2015).
    Timely(TimelySettings),
}
