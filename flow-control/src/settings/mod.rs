//! Settings of a switch: plain values that the caller has validated, and factories of custom policies.

mod custom;
mod group;
mod memory;
mod multicast;
mod pipeline;
mod plain;
mod policy;
mod qcn;

pub use custom::{Custom, PolicyFactory};
pub use group::{GroupSettings, Lacp, MEMBERS_MAX, Member, Spread, Turns, WEIGHT_MAX};
pub use memory::{EgressLimits, HeadroomPlace, LossyPool, Memory, SharedMemory};
pub use multicast::{MulticastSettings, UnknownGroups};
pub use pipeline::{FrameRate, IngressOrder, PipelineSettings};
pub use policy::{
    CountUnit, GPfcSettings, GfcSettings, OfcSettings, PPfcSettings, PolicyKind, PolicySettings,
};
pub use qcn::{Culprit, QcnSettings};

use xoff_wire::PathHash;
use xoff_wire::flow::mix;
use xoff_wire::units::{BitRate, Bytes, CLASSES, Class, ClassSet, MacAddr, Nanos, PortId, PortSet, Quanta};

#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the names say it
pub struct SwitchSettings {
    pub ports: Vec<PortSettings>,
    pub accounting: Accounting,
    pub memory: Memory,
    pub lossy_pool: LossyPool,
    pub when_full: WhenFull,
    pub pipeline: PipelineSettings,
    pub policies: [PolicyKind; CLASSES],
    pub shadows: Vec<PolicyKind>,
    pub policy: PolicySettings,
    pub hash: PathHash,
    pub fdb: FdbSettings,
    pub vlans: Vec<VlanSettings>,
    /// Groups of ports, at most 256.
    pub groups: Vec<GroupSettings>,
    /// VLANs with a router, and the router's MAC address in each.
    pub routed_vlans: Vec<(u16, MacAddr)>,
    pub multicast: MulticastSettings,
    pub qcn: QcnSettings,
}

impl SwitchSettings {
    /// Returns the classes that are lossless at one port or more.
    #[must_use]
    pub fn lossless_anywhere(&self) -> ClassSet {
        let lossless = |class: &Class| self.ports.iter().any(|port| port.classes[class.index()].lossless);
        Class::ALL.into_iter().filter(lossless).collect()
    }

    /// Returns the ports that are interfaces of the router.
    #[must_use]
    pub fn routed_ports(&self) -> PortSet {
        ports_where(&self.ports, |_, port| port.routed)
    }

    /// Returns ports that may send XOFF for `class`.
    #[must_use]
    pub fn senders(&self, class: Class) -> PortSet {
        ports_where(&self.ports, |_, port| port.sends().contains(class))
    }
}

/// Returns the ports for which `holds` returns true.
pub fn ports_where(ports: &[PortSettings], holds: impl Fn(PortId, &PortSettings) -> bool) -> PortSet {
    let ids = (0..=u8::MAX).map(PortId);
    ids.zip(ports).filter(|(id, port)| holds(*id, port)).map(|(id, _)| id).collect()
}

/// Maximum number of copies of flooded lossless frames that a worker may hold for each of its ports. Ingress counts
/// such a frame once, so nothing else limits its copies.
pub const FLOOD_COPIES_MAX: u32 = 512;

/// Maximum number of queued frames from the host at each router interface. No ingress queue counts or limits them.
pub const HOST_FRAMES_MAX: u32 = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct VlanSettings {
    /// VLAN identifier, 1..=4094.
    pub vid: u16,
    pub tagged: Vec<PortId>,
    pub untagged: Vec<PortId>,
}

/// Kind of destination of a flooded frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names say it
pub enum Flooded {
    Broadcast,
    /// Group address other than broadcast.
    Multicast,
    Unknown,
}

xoff_wire::named! { Flooded {
    Broadcast: "broadcast",
    Multicast: "multicast",
    Unknown: "unknown",
} }

/// Reaction to two ports that seem connected to each other outside the switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names say it
pub enum LoopDetection {
    Off,
    #[default]
    Alert,
    /// Loops are reported. The higher-numbered of the two connected ports, if it has this setting, is kept out of
    /// floods for some time.
    Block,
}

/// Layer-1 rate limits of floods by kind; `None` means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StormLimit {
    rates: [Option<BitRate>; Flooded::COUNT],
}

impl StormLimit {
    /// Returns the limit for floods of `kind`.
    #[must_use]
    pub const fn of(&self, kind: Flooded) -> Option<BitRate> {
        self.rates[kind.index()]
    }

    /// Returns a copy with the limit `rate` for floods of `kind`.
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
    /// Time after which an unused address is removed; with `None`, it never is.
    pub ageing: Option<Nanos>,
    /// Stations that never move or age: (VID, address, port).
    pub statics: Vec<(u16, MacAddr, PortId)>,
    /// Seed of the address hash; all workers use the same.
    pub seed: HashSeed,
}

/// Secret seed of the address hash: attackers must not be able to choose addresses that collide with a station's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashSeed(pub [u64; 2]);

impl HashSeed {
    /// Public seed for tests and simulations.
    pub const PUBLIC: HashSeed = HashSeed([0x786f_6666, 0x1051_2025]);

    /// Derives a seed for random choices other than hashing.
    pub fn digest(self) -> u64 {
        self.0.into_iter().fold(0, |digest, word| mix(digest ^ word))
    }
}

impl std::fmt::Debug for HashSeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == HashSeed::PUBLIC { "HashSeed::PUBLIC" } else { "HashSeed(..)" })
    }
}

/// Event from which on a frame no longer counts at ingress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accounting {
    /// The frame counts until it is transmitted, as in shared-memory switches and OFC.
    #[default]
    UntilTransmitted,
    /// The frame counts until it enters an egress queue, as in CaPFC.
    UntilForwarded,
}

/// Handling of frames for full egress queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Frames for a full egress queue are dropped (CaPFC's PFC_wdrop).
    #[default]
    Drop,
    /// The pipeline halts for all ports and classes while the egress queue of its first frame is full (PFC_wstop).
    /// Requires one worker.
    Stop,
}

impl WhenFull {
    /// Returns the name of this handling in configuration and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            WhenFull::Drop => "drop",
            WhenFull::Stop => "stop",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the names say it
pub struct PortSettings {
    pub name: String,
    /// Source address of control frames.
    pub mac: MacAddr,
    pub speed: BitRate,
    pub max_rate: Option<BitRate>,
    /// Longest frame in bytes, without FCS and tags ([`xoff_wire::units::TAGS`]).
    pub mtu_frame: u32,
    pub trust: Trust,
    pub default_class: Class,
    pub pcp_to_class: [Class; 8],
    pub dscp_to_class: [Class; 64],
    /// PCP of tagged frames at egress by class; with `None`, it stays unchanged.
    pub rewrite_pcp: Option<[u8; CLASSES]>,
    /// DSCP of IP packets at egress by class; with `None`, it stays unchanged.
    pub rewrite_dscp: Option<[u8; CLASSES]>,
    /// VLAN of untagged and priority-tagged frames; with `None`, they are dropped.
    pub pvid: Option<u16>,
    pub learning: bool,
    /// Maximum number of addresses learned at the port. Frames of other stations are still forwarded.
    pub learn_limit: Option<usize>,
    pub storm_limit: StormLimit,
    pub loop_detection: LoopDetection,
    pub flood_unknown: bool,
    pub flood_group: bool,
    /// True if a multicast router is at the port, even if it sends no queries.
    pub multicast_router: bool,
    /// True if an IGMP or MLD leave ends a membership at once (single host at the port).
    pub fast_leave: bool,
    /// True if no frames pass to or from other isolated ports.
    pub isolated: bool,
    pub routed: bool,
    pub flow_control: FlowControl,
    /// LLDP agent. With [`Lldp::Off`], the switch consumes LLDP frames; otherwise the agent gets them.
    pub lldp: Lldp,
    pub punt_limit: PuntLimit,
    pub dcbx: Dcbx,
    /// Overrides of `ofc_peer` and `gfc_peer` by LLDP.
    pub auto_peer: AutoPeer,
    pub ofc_peer: bool,
    /// True if the peer understands rates (GFC). The port then obeys and sends rates.
    pub gfc_peer: bool,
    pub pause_time: Quanta,
    /// Interval of XOFF repetitions during a pause.
    pub refresh: Nanos,
    /// Maximum credit in layer-1 bytes with which the port catches up after its worker was late.
    pub burst: Bytes,
    /// Maximum layer-1 bytes in the driver, where a pause cannot stop them.
    pub commit: Bytes,
    /// Computed headroom: maximum bytes of a class that arrive after the decision to pause it, from a peer as
    /// configured. More are the peer's fault; [`Bytes::MAX`] disables this check.
    pub past_xoff: Bytes,
    pub peer_response: Nanos,
    pub classes: [ClassSettings; CLASSES],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Lldp {
    #[default]
    Off,
    Switch,
    /// A host program at the port's host interface is the agent.
    Kernel,
}

/// Use of the neighbour's DCBX announcements. The dataplane ignores this setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Dcbx {
    Off,
    #[default]
    Compare,
    /// DCBX announcements are compared, and the neighbour's PFC classes are adopted.
    Willing,
}

/// Peer capabilities that LLDP determines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AutoPeer {
    /// True if LLDP determines [`PortSettings::ofc_peer`].
    pub flow_lists: bool,
    /// True if LLDP determines [`PortSettings::gfc_peer`].
    pub rates: bool,
}

/// Header field that selects a frame's class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// PCP of the VLAN tag, else the default class.
    Pcp,
    /// DSCP of the IP header, else the default class.
    Dscp,
    /// DSCP of IP, else PCP of a tag, else the default class.
    #[default]
    Both,
    /// Default class for all frames.
    Port,
}

/// Kind of pause frames that a port obeys and sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum FlowControl {
    /// PFC (802.1Qbb) per class. For asymmetric flow control, `obey` has all classes, `send` the lossless ones.
    Pfc {
        obey: ClassSet,
        /// Classes for which XOFF is sent; all of them are lossless.
        send: ClassSet,
    },
    /// 802.3x: a PAUSE stops the port, and is sent while any lossless class is over XOFF.
    Pause8023x,
    /// Pause frames are counted, but neither obeyed nor sent (untrusted ports).
    Ignore,
}

#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // the names say it
pub struct ClassSettings {
    /// True if frames must never be dropped because memory is full.
    pub lossless: bool,
    /// Ingress queue length at which XOFF is sent (lossless classes only).
    pub xoff: Bytes,
    /// Ingress queue length below which XON is sent.
    pub xon: Bytes,
    /// Bytes that the ingress queue may hold beyond `xoff`; zero in a lossy class.
    pub headroom: Bytes,
    /// Number of queued frames at which XOFF is also sent, because small frames can exhaust frame slots first.
    /// `u32::MAX` means no limit.
    pub xoff_frames: u32,
    pub ingress_reserve: Bytes,
    pub ingress_max: Bytes,
    /// Length at which the egress queue is full. [`WhenFull`] applies to a frame that would make it so long or longer.
    pub egress_max: Bytes,
    /// Maximum number of frames in the egress queue; `u32::MAX` means no limit.
    pub egress_max_frames: u32,
    pub egress_reserve: Bytes,
    /// Egress queue length from which CaPFC counts arrivals.
    pub egress_warn: Bytes,
    /// Egress queue length above which the queue is congested.
    pub egress_xoff: Bytes,
    /// Egress queue length at which the congestion ends.
    pub egress_xon: Bytes,
    pub queue: QueueKind,
    pub service: Service,
    /// Maximum sending rate of the class; `None` means line rate.
    pub max_rate: Option<BitRate>,
    pub ecn: Option<EcnSettings>,
    pub watchdog: Option<WatchdogSettings>,
}

/// ECN marking of an egress queue, at random between `min` and `max`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EcnSettings {
    /// Queue length in bytes below which no frame is marked.
    pub min: Bytes,
    /// Queue length in bytes from which every frame is marked.
    pub max: Bytes,
    /// Share of frames marked just below `max`, 0..=1.
    pub probability: f64,
    /// True if frames that cannot carry a mark are dropped instead; allowed only in classes that are lossy at
    /// every port.
    pub wred: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct PuntLimit {
    pub rate: u32,
    /// Maximum number of frames punted at once after an idle time.
    pub burst: u32,
}

impl PuntLimit {
    /// Default limit, which suffices for neighbours' periodic frames, and a burst from all of them.
    pub const PLAIN: PuntLimit = PuntLimit { rate: 1_000, burst: 250 };
}

/// Definition of a pause storm ([`crate::watchdog`]), and reaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct WatchdogSettings {
    pub action: WatchdogAction,
    /// Time without sending after which a paused class with queued frames counts as being in a pause storm.
    pub detect: Nanos,
    /// Time without a pause that ends the storm.
    pub restore: Nanos,
    /// Share of `detect` in percent that pauses must fill for a storm; 100 means one unbroken pause.
    pub share: u8,
}

impl WatchdogSettings {
    /// Value of `share` at which only an unbroken pause is a storm.
    pub const UNBROKEN: u8 = 100;
}

/// Reaction to a pause storm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchdogAction {
    /// Queued and arriving frames for the class are dropped.
    #[default]
    Drop,
    /// Frames of the class are sent despite the pause.
    Forward,
    /// The storm is only counted and reported.
    Alert,
}

impl ClassSettings {
    /// Returns the maximum bytes of the class at ingress, headroom included.
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
    /// Returns the name of this reaction in configuration and status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            WatchdogAction::Drop => "drop",
            WatchdogAction::Forward => "forward",
            WatchdogAction::Alert => "alert",
        }
    }
}

/// Order of frames in an egress queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum QueueKind {
    #[default]
    Fifo,
    /// One sub-queue per ingress port, served in round robin, as in the QCN paper's input-buffered fabric.
    Voq,
}

/// Scheduling of a class on its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Served before all weighted classes; of several strict classes, the highest first.
    Strict,
    /// Deficit round robin with this weight, 1..=100,000 (ETS).
    Weighted(u32),
}

impl PortSettings {
    /// Returns the maximum rate at which the port sends.
    #[must_use]
    pub fn sending_rate(&self) -> BitRate {
        self.max_rate.map_or(self.speed, |rate| rate.min(self.speed))
    }

    /// Returns the lossless classes of the port.
    #[must_use]
    pub fn lossless(&self) -> ClassSet {
        Class::ALL.into_iter().filter(|class| self.classes[class.index()].lossless).collect()
    }

    /// Returns the classes for which the port sends XOFF.
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
