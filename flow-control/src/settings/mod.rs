//! Settings of a switch: plain values, validated by their maker (`config`, a simulator), and factories of custom
//! policies.

mod custom;
mod group;
mod memory;
mod pipeline;
mod plain;
mod policy;
mod qcn;

pub use custom::{Custom, PolicyFactory};
pub use group::{GroupSettings, MEMBERS_MAX, Member, Spread, Turns, WEIGHT_MAX};
pub use memory::{EgressLimits, HeadroomPlace, LossyPool, Memory, SharedMemory};
pub use pipeline::{FrameRate, IngressOrder, PipelineSettings};
pub use policy::{
    CountUnit, GPfcSettings, GfcSettings, OfcSettings, PPfcSettings, PolicyKind, PolicySettings,
};
pub use qcn::{Culprit, QcnSettings};

use xoff_wire::flow::mix;
use xoff_wire::units::{BitRate, Bytes, CLASSES, Class, ClassSet, MacAddr, Nanos, PortId, PortSet, Quanta};

/// Settings of a whole switch.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchSettings {
    /// Ports; [`PortId`] is the index.
    pub ports: Vec<PortSettings>,
    /// Time at which a frame stops counting at its ingress.
    pub accounting: Accounting,
    /// Ownership of the buffer memory.
    pub memory: Memory,
    /// Pool shared by lossy queues.
    pub lossy_pool: LossyPool,
    /// Handling of frames whose egress queue is full.
    pub when_full: WhenFull,
    /// Pipeline between ingress and egress queues.
    pub pipeline: PipelineSettings,
    /// Flow-control policy of each class.
    pub policies: [PolicyKind; CLASSES],
    /// Shadow policies, which observe all classes.
    pub shadows: Vec<PolicyKind>,
    /// Parameters of all policies, selected or not.
    pub policy: PolicySettings,
    /// Forwarding database.
    pub fdb: FdbSettings,
    /// VLAN memberships.
    pub vlans: Vec<VlanSettings>,
    /// At most 256 groups of ports.
    pub groups: Vec<GroupSettings>,
    /// VLANs with a router, and its address there.
    pub routed_vlans: Vec<(u16, MacAddr)>,
    /// Congestion points.
    pub qcn: QcnSettings,
}

impl SwitchSettings {
    /// Returns the classes that are lossless at some port.
    #[must_use]
    pub fn lossless_anywhere(&self) -> ClassSet {
        let lossless = |class: &Class| self.ports.iter().any(|port| port.classes[class.index()].lossless);
        Class::ALL.into_iter().filter(lossless).collect()
    }

    /// Returns the ports that are router interfaces.
    #[must_use]
    pub fn routed_ports(&self) -> PortSet {
        ports_where(&self.ports, |_, port| port.routed)
    }

    /// Returns the ports that may send XOFF for `class`.
    #[must_use]
    pub fn senders(&self, class: Class) -> PortSet {
        ports_where(&self.ports, |_, port| port.sends().contains(class))
    }
}

/// Returns the ports for which `holds` is true.
pub fn ports_where(ports: &[PortSettings], holds: impl Fn(PortId, &PortSettings) -> bool) -> PortSet {
    let ids = (0..=u8::MAX).map(PortId);
    ids.zip(ports).filter(|(id, port)| holds(*id, port)).map(|(id, _)| id).collect()
}

/// Maximum copies of flooded lossless frames per port of a worker. Copies count only once at ingress, so nothing
/// else bounds them.
pub const FLOOD_COPIES_MAX: u32 = 512;

/// Maximum queued frames of the host at each router interface. They count at no ingress, so nothing else bounds them.
pub const HOST_FRAMES_MAX: u32 = 64;

/// Settings of one VLAN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlanSettings {
    /// VLAN identifier, 1..=4094.
    pub vid: u16,
    /// Ports that send its frames with a tag.
    pub tagged: Vec<PortId>,
    /// Ports that send its frames without a tag.
    pub untagged: Vec<PortId>,
}

/// Kind of destination for which a frame is flooded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flooded {
    /// Broadcast address.
    Broadcast,
    /// Other group address.
    Multicast,
    /// Unknown station.
    Unknown,
}

xoff_wire::named! { Flooded {
    Broadcast: "broadcast",
    Multicast: "multicast",
    Unknown: "unknown",
} }

/// Reaction to two ports that seem connected outside of the switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LoopDetection {
    /// No detection.
    Off,
    /// Report the loop.
    #[default]
    Alert,
    /// Report the loop, and exclude the higher-numbered port from floods for some time, if it has this setting.
    Block,
}

/// Rate limits of floods, as the line counts frames; `None`: unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StormLimit {
    rates: [Option<BitRate>; Flooded::COUNT],
}

impl StormLimit {
    /// Returns the limit of one kind.
    #[must_use]
    pub const fn of(&self, kind: Flooded) -> Option<BitRate> {
        self.rates[kind.index()]
    }

    /// Returns a copy with another limit for one kind.
    #[must_use]
    pub const fn with(mut self, kind: Flooded, rate: BitRate) -> StormLimit {
        self.rates[kind.index()] = Some(rate);
        self
    }
}

/// Settings of the forwarding database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FdbSettings {
    /// Maximum addresses, static ones included.
    pub capacity: usize,
    /// Time after which an unused address is removed; `None`: never.
    pub ageing: Option<Nanos>,
    /// Stations that never move or age: (VLAN, address, port).
    pub statics: Vec<(u16, MacAddr, PortId)>,
    /// Seed of the address hash, identical in all workers.
    pub seed: HashSeed,
}

/// Seed of hash tables. An attacker who knows it can choose addresses that crowd out another station.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashSeed(pub [u64; 2]);

impl HashSeed {
    /// Public seed for reproducible tests and simulations.
    pub const PUBLIC: HashSeed = HashSeed([0x786f_6666, 0x1051_2025]);

    /// Returns the seed as one number, for other random choices.
    pub fn digest(self) -> u64 {
        self.0.into_iter().fold(0, |digest, word| mix(digest ^ word))
    }
}

/// Hides the secret from logs.
impl std::fmt::Debug for HashSeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == HashSeed::PUBLIC { "HashSeed::PUBLIC" } else { "HashSeed(..)" })
    }
}

/// Time at which a frame stops counting at its ingress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accounting {
    /// On transmission: current shared-memory switches, and OFC.
    #[default]
    UntilTransmitted,
    /// On entry into an egress queue: CaPFC's reference switch.
    UntilForwarded,
}

/// Handling of frames whose egress queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The frame is dropped and counted (CaPFC's PFC_wdrop).
    #[default]
    Drop,
    /// The pipeline halts for all ports and classes while its first frame has no room (PFC_wstop). Requires a
    /// single worker.
    Stop,
}

impl WhenFull {
    /// Returns the name in configuration and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            WhenFull::Drop => "drop",
            WhenFull::Stop => "stop",
        }
    }
}

/// Settings of one port.
#[derive(Clone, Debug, PartialEq)]
pub struct PortSettings {
    /// Name in logs and metrics.
    pub name: String,
    /// MAC address, source of its control frames.
    pub mac: MacAddr,
    /// Line rate.
    pub speed: BitRate,
    /// Longest frame in bytes without FCS and [`xoff_wire::units::TAGS`].
    pub mtu_frame: u32,
    /// Source of a frame's class.
    pub trust: Trust,
    /// Class of frames without a trusted field.
    pub default_class: Class,
    /// Class of each PCP.
    pub pcp_to_class: [Class; 8],
    /// Class of each DSCP.
    pub dscp_to_class: [Class; 64],
    /// PCP of tagged frames at egress, by class; `None`: unchanged.
    pub rewrite_pcp: Option<[u8; CLASSES]>,
    /// DSCP of IP packets at egress, by class; `None`: unchanged.
    pub rewrite_dscp: Option<[u8; CLASSES]>,
    /// VLAN of untagged and priority-tagged frames; `None`: not admitted.
    pub pvid: Option<u16>,
    /// True if source addresses are learned here.
    pub learning: bool,
    /// Maximum addresses learned here; others are still forwarded.
    pub learn_limit: Option<usize>,
    /// Rate limits of floods.
    pub storm_limit: StormLimit,
    /// Reaction to stations that move to and fro between two ports.
    pub loop_detection: LoopDetection,
    /// True if frames to unknown addresses are sent out here.
    pub flood_unknown: bool,
    /// True if group-addressed frames are sent out here.
    pub flood_group: bool,
    /// True if no frames are exchanged with other isolated ports.
    pub isolated: bool,
    /// True if the port is a router interface, which bridges nothing.
    pub routed: bool,
    /// Pause frames that are obeyed and sent.
    pub flow_control: FlowControl,
    /// LLDP agent. With [`Lldp::Off`] LLDP frames are consumed, otherwise punted.
    pub lldp: Lldp,
    /// Rate limit of punted frames.
    pub punt_limit: PuntLimit,
    /// Use of the neighbour's DCBX information.
    pub dcbx: Dcbx,
    /// Peer capabilities that LLDP determines instead of the next two fields.
    pub auto_peer: AutoPeer,
    /// True if the peer understands lists of flows ([`xoff_wire::ofc`]).
    pub ofc_peer: bool,
    /// True if the peer understands rates (GFC), which are then obeyed and sent.
    pub gfc_peer: bool,
    /// Pause time of every XOFF.
    pub pause_time: Quanta,
    /// Interval of repetitions of a held XOFF.
    pub refresh: Nanos,
    /// Bytes (layer 1) by which a late worker may run ahead of the line.
    pub burst: Bytes,
    /// Maximum bytes (layer 1) handed to the driver and not yet sent; they can no longer be paused.
    pub commit: Bytes,
    /// Computed headroom: maximum bytes of a class past XOFF from a peer that behaves as declared. [`Bytes::MAX`]:
    /// the peer is not judged.
    pub past_xoff: Bytes,
    /// Declared maximum time for the peer to stop.
    pub peer_response: Nanos,
    /// Settings by class.
    pub classes: [ClassSettings; CLASSES],
}

/// LLDP agent of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lldp {
    /// None.
    #[default]
    Off,
    /// The switch.
    Switch,
    /// A program at the port's host interface.
    Kernel,
}

/// Use of the neighbour's DCBX information; the dataplane itself ignores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dcbx {
    /// DCBX is neither sent nor read.
    Off,
    /// DCBX is compared with the port's settings.
    #[default]
    Compare,
    /// DCBX is compared, and PFC is enabled for the classes for which the neighbour enables it.
    Willing,
}

/// Peer capabilities learned by LLDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AutoPeer {
    /// True if LLDP determines [`PortSettings::ofc_peer`].
    pub flow_lists: bool,
    /// True if LLDP determines [`PortSettings::gfc_peer`].
    pub rates: bool,
}

/// Source of a frame's class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// PCP of the VLAN tag, else the default class.
    Pcp,
    /// DSCP of the IP header, else the default class.
    Dscp,
    /// DSCP for IP, else PCP for tagged frames, else the default class.
    #[default]
    Both,
    /// Default class for all frames.
    Port,
}

/// Pause frames on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowControl {
    /// 802.1Qbb per class; asymmetric if `obey` is all and `send` the lossless classes.
    Pfc {
        /// Classes whose XOFF is obeyed.
        obey: ClassSet,
        /// Classes for which XOFF is sent; lossless only.
        send: ClassSet,
    },
    /// 802.3x: PAUSE stops the whole port, sent while any lossless class is over XOFF.
    Pause8023x,
    /// Pause frames are counted, but neither obeyed nor sent (untrusted ports).
    Ignore,
}

/// Settings of one class on one port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassSettings {
    /// True if frames must never be dropped because room is missing.
    pub lossless: bool,
    /// Ingress: XOFF at or above this; lossless only.
    pub xoff: Bytes,
    /// Ingress: XON below this.
    pub xon: Bytes,
    /// Ingress: room beyond `xoff`; zero for lossy classes.
    pub headroom: Bytes,
    /// Ingress: XOFF also at this many frames, since small frames use up slots of the store. `u32::MAX`: none.
    pub xoff_frames: u32,
    /// Ingress: reserve in shared memory, beside other limits.
    pub ingress_reserve: Bytes,
    /// Ingress: maximum bytes of a lossy class.
    pub ingress_max: Bytes,
    /// Egress: a frame that would fill the queue to this is handled by [`WhenFull`].
    pub egress_max: Bytes,
    /// Egress: maximum frames, since small frames use up slots of the store. `u32::MAX`: none (`xoff_frames` bounds
    /// lossless classes).
    pub egress_max_frames: u32,
    /// Egress: reserve in shared memory.
    pub egress_reserve: Bytes,
    /// Egress: policies with egress thresholds count arrivals at or above this.
    pub egress_warn: Bytes,
    /// Egress: congested above this.
    pub egress_xoff: Bytes,
    /// Egress: no longer congested at this.
    pub egress_xon: Bytes,
    /// Egress: order within the class.
    pub queue: QueueKind,
    /// Egress: scheduling among classes.
    pub service: Service,
    /// Egress: maximum rate; `None`: the line rate.
    pub max_rate: Option<BitRate>,
    /// Egress: ECN marking; `None`: never.
    pub ecn: Option<EcnSettings>,
    /// Egress: reaction to a peer that keeps the class paused, if any.
    pub watchdog: Option<WatchdogSettings>,
}

/// ECN marking of an egress queue by the curve in `congestion/ecn.rs`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EcnSettings {
    /// Bytes below which no frame is marked.
    pub min: Bytes,
    /// Bytes from which on every frame is marked.
    pub max: Bytes,
    /// Share of frames marked just below `max`, 0..=1.
    pub probability: f64,
    /// True if frames that cannot be marked are dropped; only in classes lossy at every port.
    pub wred: bool,
}

/// Rate limit of frames punted from a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PuntLimit {
    /// Frames per second.
    pub rate: u32,
    /// Frames at once after an idle time.
    pub burst: u32,
}

impl PuntLimit {
    /// Default limit: enough for periodic frames of neighbours, and for a burst from all of them.
    pub const PLAIN: PuntLimit = PuntLimit { rate: 1_000, burst: 250 };
}

/// Definition of a pause storm ([`crate::watchdog`]) and the reaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchdogSettings {
    /// Reaction to a storm.
    pub action: WatchdogAction,
    /// Time after which a paused class with queued frames that sends none is in a storm.
    pub detect: Nanos,
    /// Time without pause after which the storm ends.
    pub restore: Nanos,
}

/// Reaction to a storm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchdogAction {
    /// Drop queued and arriving frames of the class for the port.
    #[default]
    Drop,
    /// Send the class despite the pause.
    Forward,
    /// Count and report the storm only.
    Alert,
}

impl ClassSettings {
    /// Returns the maximum bytes of the ingress queue.
    #[must_use]
    pub const fn ingress_most(&self) -> Bytes {
        let beyond_reserve = match self.lossless {
            true => self.xoff.saturating_add(self.headroom),
            false => self.ingress_max,
        };
        self.ingress_reserve.saturating_add(beyond_reserve)
    }
}

impl WatchdogAction {
    /// Returns the name in configuration and status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            WatchdogAction::Drop => "drop",
            WatchdogAction::Forward => "forward",
            WatchdogAction::Alert => "alert",
        }
    }
}

/// Order within an egress class queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueKind {
    /// First in, first out.
    #[default]
    Fifo,
    /// Sub-queues per ingress port, served round robin, as the QCN paper's input-buffered fabric.
    Voq,
}

/// Scheduling of a class at its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Before all weighted classes; the higher class first.
    Strict,
    /// Deficit round robin with this weight, 1..=100,000 (ETS).
    Weighted(u32),
}

impl PortSettings {
    /// Returns the lossless classes.
    #[must_use]
    pub fn lossless(&self) -> ClassSet {
        Class::ALL.into_iter().filter(|class| self.classes[class.index()].lossless).collect()
    }

    /// Returns the classes for which this port sends XOFF.
    #[must_use]
    pub fn sends(&self) -> ClassSet {
        let lossless = self.lossless();
        match self.flow_control {
            FlowControl::Pfc { send, .. } => ClassSet(send.0 & lossless.0),
            FlowControl::Pause8023x => lossless,
            FlowControl::Ignore => ClassSet::NONE,
        }
    }
}
