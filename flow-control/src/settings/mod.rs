//! What a switch is told once, before its first frame: plain values, validated by whoever makes
//! them (`config` from a file, a simulator from a scenario), and who makes a policy that is not built in.

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
pub use policy::{GPfcSettings, GfcSettings, OfcSettings, PPfcSettings, PolicyKind, PolicySettings, Weigh};
pub use qcn::{Culprit, QcnSettings};

use xoff_wire::flow::mix;
use xoff_wire::units::{BitRate, Bytes, CLASSES, Class, ClassSet, MacAddr, Nanos, PortId, PortSet, Quanta};

/// A whole switch.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchSettings {
    /// Its ports; [`PortId`] is the index.
    pub ports: Vec<PortSettings>,
    /// Until when a frame counts at its ingress.
    pub accounting: Accounting,
    /// Who owns the buffer memory.
    pub memory: Memory,
    /// What lossy queues may hold together.
    pub lossy_pool: LossyPool,
    /// What happens to a frame whose egress queue is full.
    pub when_full: WhenFull,
    /// What is between ingress and egress queues.
    pub pipeline: PipelineSettings,
    /// The flow-control policy of each class.
    pub policies: [PolicyKind; CLASSES],
    /// Policies that watch all classes and are not heard.
    pub shadows: Vec<PolicyKind>,
    /// Parameters of all policies, for those that are chosen later too.
    pub policy: PolicySettings,
    /// The forwarding database.
    pub fdb: FdbSettings,
    /// VLAN memberships; see [`PortSettings::pvid`] for untagged frames.
    pub vlans: Vec<VlanSettings>,
    /// Ports that lead to the same place: 256 groups at most.
    pub groups: Vec<GroupSettings>,
    /// VLANs in which there is a router, with its address there.
    pub routed_vlans: Vec<(u16, MacAddr)>,
    /// Congestion points.
    pub qcn: QcnSettings,
}

impl SwitchSettings {
    /// Classes that are lossless at one port at least.
    #[must_use]
    pub fn lossless_anywhere(&self) -> ClassSet {
        let lossless = |class: &Class| self.ports.iter().any(|port| port.classes[class.index()].lossless);
        Class::ALL.into_iter().filter(lossless).collect()
    }

    /// The ports that are interfaces of the router.
    #[must_use]
    pub fn routed_ports(&self) -> PortSet {
        let ids = (0..=u8::MAX).map(PortId);
        ids.zip(&self.ports).filter(|(_, port)| port.routed).map(|(id, _)| id).collect()
    }

    /// The ports that may send XOFF for `class` at all.
    #[must_use]
    pub fn senders(&self, class: Class) -> PortSet {
        let ids = (0..=u8::MAX).map(PortId);
        ids.zip(&self.ports).filter(|(_, port)| port.sends().contains(class)).map(|(id, _)| id).collect()
    }
}

/// Most copies of flooded frames of a class that is lossless anywhere, for each port of a worker. They
/// count only once where the frame came in, so that nothing else bounds them.
pub const FLOOD_COPIES_MAX: u32 = 512;

/// Most frames of the host beside the switch that may wait at each of the router's interfaces. They count at no ingress, so that
/// nothing else bounds them.
pub const HOST_FRAMES_MAX: u32 = 64;

/// One VLAN: its identifier (1..=4094) and its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlanSettings {
    /// VLAN identifier, 1..=4094.
    pub vid: u16,
    /// Ports that send its frames with a tag.
    pub tagged: Vec<PortId>,
    /// Ports that send its frames without.
    pub untagged: Vec<PortId>,
}

/// What kind of destination a frame is flooded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flooded {
    /// The broadcast address.
    Broadcast,
    /// Another group address.
    Multicast,
    /// A station that is not known.
    Unknown,
}

xoff_wire::named! { Flooded {
    Broadcast: "broadcast",
    Multicast: "multicast",
    Unknown: "unknown",
} }

/// What is done where two ports seem to be connected to each other outside of the switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LoopDetection {
    /// Nothing; nobody looks.
    Off,
    /// It is told.
    #[default]
    Alert,
    /// It is told, and the port with the higher number takes no part in floods for a while, if it says so.
    Block,
}

/// Rates of what a port may flood, as the line counts frames; `None`: as much as comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StormLimit {
    rates: [Option<BitRate>; Flooded::ALL.len()],
}

impl StormLimit {
    /// That of one kind.
    #[must_use]
    pub const fn of(&self, kind: Flooded) -> Option<BitRate> {
        self.rates[kind as usize]
    }

    /// The same with another rate for one kind.
    #[must_use]
    pub const fn with(mut self, kind: Flooded, rate: BitRate) -> StormLimit {
        self.rates[kind as usize] = Some(rate);
        self
    }
}

/// The forwarding database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FdbSettings {
    /// Most addresses, static ones included.
    pub capacity: usize,
    /// An address not seen for so long is forgotten; `None`: never.
    pub ageing: Option<Nanos>,
    /// Stations that never move or age: (VLAN, address, port).
    pub statics: Vec<(u16, MacAddr, PortId)>,
    /// What addresses are hashed with; the same in all workers of a switch.
    pub seed: HashSeed,
}

/// A number that decides which places of a hash table a key may take. Who knows it can choose addresses
/// that leave another station none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashSeed(pub [u64; 2]);

impl HashSeed {
    /// No secret: for tests and simulations, where the same frames have to lead to the same tables.
    pub const KNOWN: HashSeed = HashSeed([0x786f_6666, 0x1051_2025]);

    /// All of it in one number, for what else is drawn by chance.
    pub fn digest(self) -> u64 {
        self.0.into_iter().fold(0, |digest, word| mix(digest ^ word))
    }
}

/// A secret is not written into logs.
impl std::fmt::Debug for HashSeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == HashSeed::KNOWN { "HashSeed::KNOWN" } else { "HashSeed(..)" })
    }
}

/// When a frame stops counting at its ingress; the papers differ in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accounting {
    /// When it has left the switch: today's shared-memory switches, and OFC.
    #[default]
    UntilTransmitted,
    /// When the pipeline has moved it to an egress queue: CaPFC's reference switch.
    UntilForwarded,
}

/// What happens to a frame whose egress queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It is dropped and counted (CaPFC's PFC_wdrop).
    #[default]
    Drop,
    /// The pipeline halts while the frame at its head has no room: nothing is forwarded, whatever port or class it is of
    /// (PFC_wstop). For a switch of one worker.
    Stop,
}

impl WhenFull {
    /// Its name in configuration and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            WhenFull::Drop => "drop",
            WhenFull::Stop => "stop",
        }
    }
}

/// One port.
#[derive(Clone, Debug, PartialEq)]
pub struct PortSettings {
    /// Its name in logs and metrics.
    pub name: String,
    /// Its own address: the source of the control frames that it sends.
    pub mac: MacAddr,
    /// Line rate: pause quanta are computed from it, and egress is paced to it.
    pub speed: BitRate,
    /// Longest frame, bytes without FCS; [`xoff_wire::units::TAGS`] may come on top.
    pub mtu_frame: u32,
    /// How a frame's class is found.
    pub trust: Trust,
    /// Class of frames that carry nothing to trust.
    pub default_class: Class,
    /// Class of each PCP.
    pub pcp_to_class: [Class; 8],
    /// Class of each DSCP.
    pub dscp_to_class: [Class; 64],
    /// PCP written into tagged frames at egress, by class; `None`: left as it is.
    pub rewrite_pcp: Option<[u8; CLASSES]>,
    /// DSCP written into IP packets at egress, by class; `None`: left as it is.
    pub rewrite_dscp: Option<[u8; CLASSES]>,
    /// VLAN of untagged and priority-tagged frames; `None`: such frames are not admitted.
    pub pvid: Option<u16>,
    /// Whether source addresses are learned here.
    pub learning: bool,
    /// Most addresses learned here at a time; frames from others are still forwarded.
    pub learn_limit: Option<usize>,
    /// What the port may flood: above these rates frames are dropped.
    pub storm_limit: StormLimit,
    /// What is done where stations move to and fro between the port and another.
    pub loop_detection: LoopDetection,
    /// Whether frames to unknown addresses are sent out here.
    pub flood_unknown: bool,
    /// Whether group-addressed frames are sent out here.
    pub flood_group: bool,
    /// An isolated port exchanges frames only with ports that are not isolated.
    pub isolated: bool,
    /// Whether it is an interface of the router, and bridges nothing.
    pub routed: bool,
    /// Pause frames: which are obeyed, which are sent.
    pub flow_control: FlowControl,
    /// Who speaks LLDP here. Where nobody does it is consumed, as the rest of its block is; else it is punted.
    pub lldp: Lldp,
    /// How much of what comes in may be punted.
    pub punt_limit: PuntLimit,
    /// What is done with what the neighbor says of its classes.
    pub dcbx: Dcbx,
    /// What of the peer is known by LLDP, and not by the two that follow.
    pub auto_peer: AutoPeer,
    /// Whether the peer understands lists of flows ([`xoff_wire::ofc`]); of effect where the policy of a
    /// class is OFC.
    pub ofc_peer: bool,
    /// Whether the peer understands rates (GFC): then they are obeyed, and sent.
    pub gfc_peer: bool,
    /// Pause time put into every XOFF.
    pub pause_time: Quanta,
    /// A held XOFF is sent again after so long.
    pub refresh: Nanos,
    /// How many bytes (layer 1) may run ahead of the line rate: what the pacer lets a late worker
    /// catch up.
    pub burst: Bytes,
    /// Most bytes (layer 1) handed to the driver and not yet sent: they can no longer be paused.
    pub commit: Bytes,
    /// Most that a peer sends of a class past its XOFF if it is as it was declared: what headroom is computed for,
    /// however much there is. [`Bytes::MAX`]: nothing was declared, and no peer is held to it.
    pub past_xoff: Bytes,
    /// The longest that the peer was declared to take to stop.
    pub peer_response: Nanos,
    /// Per class.
    pub classes: [ClassSettings; CLASSES],
}

/// Who speaks LLDP at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lldp {
    /// Nobody.
    #[default]
    Off,
    /// The switch.
    Switch,
    /// A program at the port's host interface.
    Kernel,
}

/// What a port does with what its neighbor says of its classes (DCBX). The dataplane does nothing with it by itself: who runs it
/// gives it other settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dcbx {
    /// Nothing is said, and nothing looked at.
    Off,
    /// It is compared with what the port does.
    #[default]
    Compare,
    /// And PFC is used for those classes for which the neighbor uses it.
    Willing,
}

/// What of a peer is learned from what it says by LLDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AutoPeer {
    /// [`PortSettings::ofc_peer`].
    pub flow_lists: bool,
    /// [`PortSettings::gfc_peer`].
    pub rates: bool,
}

/// Where a frame's class comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The VLAN tag's PCP; untagged frames get the port's default class.
    Pcp,
    /// The IP header's DSCP; others get the port's default class.
    Dscp,
    /// DSCP for IP, else PCP for tagged frames, else the port's default class.
    #[default]
    Both,
    /// The port's default class for all.
    Port,
}

/// Pause frames on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowControl {
    /// 802.1Qbb per class. Asymmetric PFC is `obey` = all, `send` = the lossless classes.
    Pfc {
        /// Classes whose XOFF is obeyed.
        obey: ClassSet,
        /// Classes for which XOFF is sent; lossless ones only.
        send: ClassSet,
    },
    /// 802.3x: one PAUSE stops the whole port; sent while any lossless class is over its XOFF.
    Pause8023x,
    /// Pause frames are consumed and counted, none is obeyed or sent (untrusted ports).
    Ignore,
}

/// One class on one port: its thresholds at ingress, its queue at egress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassSettings {
    /// Whether frames may never be dropped for want of room: XOFF, headroom.
    pub lossless: bool,
    /// Ingress: XOFF at or above. Lossless classes only.
    pub xoff: Bytes,
    /// Ingress: XON below.
    pub xon: Bytes,
    /// Ingress: room beyond `xoff` for what still arrives; zero for lossy classes.
    pub headroom: Bytes,
    /// Ingress: XOFF also at this many frames, so that small frames cannot use up the store's slots;
    /// `u32::MAX`: no such limit.
    pub xoff_frames: u32,
    /// Ingress: reserve of this queue in shared memory; its other limits come on top.
    pub ingress_reserve: Bytes,
    /// Ingress: most bytes of a lossy class. A lossless one is bound by `xoff + headroom`.
    pub ingress_max: Bytes,
    /// Egress: a frame that would fill the queue up to this or beyond meets [`WhenFull`].
    pub egress_max: Bytes,
    /// Egress: the same beyond this many frames, so that small frames cannot use up the store's slots;
    /// `u32::MAX`: no such limit (lossless classes: `xoff_frames` bounds them).
    pub egress_max_frames: u32,
    /// Egress: reserve of this queue in shared memory.
    pub egress_reserve: Bytes,
    /// Egress, for policies that look there: arrivals are counted at or above this.
    pub egress_warn: Bytes,
    /// Egress: congested above this.
    pub egress_xoff: Bytes,
    /// Egress: no longer congested at this.
    pub egress_xon: Bytes,
    /// Egress: the order within the class.
    pub queue: QueueKind,
    /// Egress: how the class competes with others.
    pub service: Service,
    /// Egress: most that the class may send; `None`: the line rate.
    pub max_rate: Option<BitRate>,
    /// Egress: when congestion is told by ECN marks; `None`: never.
    pub ecn: Option<EcnSettings>,
    /// Egress: what is done about a peer that keeps the class paused; `None`: nothing.
    pub watchdog: Option<WatchdogSettings>,
}

/// How congestion of an egress queue is told; see `congestion/ecn.rs` for the curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EcnSettings {
    /// Bytes of the queue below which no frame is marked.
    pub min: Bytes,
    /// Bytes from which on every frame is marked.
    pub max: Bytes,
    /// Share of frames, 0..=1, that are marked just below `max`.
    pub probability: f64,
    /// Whether frames that cannot be marked are dropped instead, on their way in. Only in classes
    /// that are lossy at every port.
    pub wred: bool,
}

/// How much of what a port receives may be punted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PuntLimit {
    /// Frames per second.
    pub rate: u32,
    /// Frames that may come at once, after a time without any.
    pub burst: u32,
}

impl PuntLimit {
    /// Enough for what neighbours say of themselves, and for a burst of all of them.
    pub const PLAIN: PuntLimit = PuntLimit { rate: 1_000, burst: 250 };
}

/// When a pause counts as a storm, and what is done about it; see [`crate::watchdog`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchdogSettings {
    /// What is done.
    pub action: WatchdogAction,
    /// A class that is paused, has frames waiting and sends none for so long is in a storm.
    pub detect: Nanos,
    /// The storm is over when the class has not been paused for so long.
    pub restore: Nanos,
}

/// What is done about a storm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchdogAction {
    /// Frames of the class that go to the port are dropped: those that wait, and those that come.
    #[default]
    Drop,
    /// The class is sent, whatever the peer asks.
    Forward,
    /// It is counted and told, nothing else.
    Alert,
}

impl ClassSettings {
    /// Most bytes that its ingress queue holds.
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
    /// Its name in configuration and status.
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
    /// One sub-queue per ingress port, served round robin: fair among inputs by construction, and the
    /// QCN paper's input-buffered fabric.
    Voq,
}

/// How a class competes for its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Before all weighted classes; among strict ones the higher class first.
    Strict,
    /// Deficit round robin with this weight, 1..=100,000 (ETS).
    Weighted(u32),
}

impl PortSettings {
    /// Its lossless classes.
    #[must_use]
    pub fn lossless(&self) -> ClassSet {
        Class::ALL.into_iter().filter(|class| self.classes[class.index()].lossless).collect()
    }

    /// Classes for which this port asks its peer to pause.
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
