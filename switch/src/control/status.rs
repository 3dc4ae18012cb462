//! Content of `/status`, served as JSON. Later versions only add keys. The last word of a name is its unit; bytes
//! include the FCS. Counters begin at the start of the switch; `_max` and `_min` are extremes since then. A map by
//! reason contains every reason.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xoff_xdp::{DeviceDrops, XdpStatistics};

use super::addresses::AddressPage;
pub use super::addresses::FdbEntry;
pub use super::books::Books;
pub use super::groups::{GroupStatus, LacpEnd, LacpStatus, MemberStatus};
pub use super::judged::{OngoingStatus, PeerStatus, ResponseStatus, UnseenStatus};
pub use super::lldp::{
    EtsStatus, LldpStatus, MismatchStatus, NeighborStatus, PfcStatus, PuntStatus, lldp_status,
};
pub use super::multicast::{MulticastGroupStatus, MulticastStatus, MulticastVlanStatus};
use super::notification::CongestionPointStatus;
pub use super::pipeline::{HaltStatus, PipelineStatus};
use super::policy_cells::PolicyNames;
pub use super::routes::{InterfaceStatus, RouterStatus};
pub use super::verdict::Verdict;
use super::view::{Link, ProgramState};
pub use super::worker_status::{Spread, WorkerState, WorkerStatus};

/// Status of a switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Name of the switch.
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// Process id of the switch.
    #[serde(default)]
    pub process_id: u32,
    /// Time since the start.
    pub uptime_nanos: u64,
    /// Verdict on the promise that lossless classes lose nothing.
    pub verdict: Verdict,
    /// Sum of the workers' ledgers; `None` if a worker did not answer.
    pub ledger: Option<Books>,
    /// Each thread that waits for the file holds a clone, which limits the number of these threads.
    pub policies: PolicyNames,
    /// Pipeline between ingress and egress queues.
    #[serde(default)]
    pub pipeline: PipelineStatus,
    /// Ports, in the order of the configuration.
    pub ports: Vec<PortStatus>,
    /// Groups of ports that lead to the same destination.
    #[serde(default)]
    pub groups: Vec<GroupStatus>,
    /// IGMP and MLD snooping; `None` if it is off.
    #[serde(default)]
    pub multicast: Option<MulticastStatus>,
    /// Router; `None` if the switch does not route.
    #[serde(default)]
    pub router: Option<RouterStatus>,
    /// Forwarding threads.
    pub workers: Vec<WorkerStatus>,
    /// Faults that last now.
    #[serde(default)]
    pub ongoing: Vec<OngoingStatus>,
    /// Log lines dropped because writing failed or was too slow.
    #[serde(default)]
    pub log_lines_dropped: u64,
    /// First addresses of the forwarding database, sorted; `/addresses` has all.
    pub fdb: Vec<FdbEntry>,
    /// Number of addresses in the forwarding database.
    #[serde(default)]
    pub fdb_total: u64,
    /// True if the forwarding database has more addresses than `fdb`.
    #[serde(default)]
    pub fdb_truncated: bool,
    /// Routes of the router; empty in `/status`.
    #[serde(skip)]
    pub routes: Vec<crate::router::tables::Row>,
}

impl Status {
    pub(super) fn name(&mut self, page: AddressPage) {
        self.fdb_truncated = page.next.is_some();
        (self.fdb, self.fdb_total) = (page.addresses, page.total);
    }
}

/// Status of a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PortStatus {
    /// Name of the port.
    pub name: String,
    /// Name of the Linux interface.
    pub device: String,
    /// Index of the Linux interface.
    pub ifindex: u32,
    /// MAC address of the port.
    pub mac: String,
    /// State of the link.
    pub link: Link,
    /// Index of the worker that owns the port.
    pub worker: usize,
    /// Place of the XDP program: `native` (in the driver) or `generic`.
    pub xdp: XdpMode,
    /// Path of frames into memory: `zero-copy` or `copy`.
    pub memory: SocketMemory,
    /// Reason for generic XDP; `None` in native mode.
    #[serde(default)]
    pub xdp_reason: Option<String>,
    /// Reason for copying frames; `None` with zero copy.
    #[serde(default)]
    pub memory_reason: Option<String>,
    /// Number of hardware queues with a socket.
    pub queues: u32,
    /// Line rate of the port, layer 1.
    pub speed_bits_per_second: u64,
    /// Flow control with the peer: `pfc`, `802.3x` or `ignore`.
    pub flow_control: String,
    /// PFC and 802.3x PAUSE frames sent.
    pub pause_frames_sent: u64,
    /// PFC frames with rates (GFC) sent; they are no pause frames.
    pub rate_frames_sent: u64,
    /// PFC frames with rates (GFC) received and obeyed.
    pub rate_frames_received: u64,
    /// Well-formed PFC frames received, those without a class included.
    pub pfc_frames_received: u64,
    /// Well-formed 802.3x PAUSE frames received.
    pub pause_frames_received: u64,
    /// Well-formed pause frames not obeyed, by configuration.
    pub pause_frames_ignored: u64,
    /// Malformed MAC control frames received, which paused nothing, by defect.
    pub malformed_control: BTreeMap<String, u64>,
    /// Source of the last pause frame obeyed; `None` before the first.
    pub pause_peer: Option<String>,
    /// Well-formed CNMs received and forwarded.
    pub cnms_received: u64,
    /// Malformed CNMs received and forwarded, by defect.
    pub malformed_cnms: BTreeMap<String, u64>,
    /// Frames to 01:80:c2:00:00:00..0f received and not forwarded, MAC control excepted.
    pub reserved_frames: u64,
    /// Pause frames delayed because no control buffer was free.
    pub control_starved: u64,
    /// Sampled frames with an unfinished TCP or UDP checksum, which receivers discard.
    #[serde(default)]
    pub unfinished_checksums: u64,
    /// Addresses learned on the port.
    pub fdb_entries: u64,
    /// Times that a learned address moved from another port to this port.
    pub station_moves: u64,
    /// Frames whose source was not learned because port or table was full.
    pub learn_refused: u64,
    /// Loops found between this port and a lower-numbered port.
    pub loops: u64,
    /// Other port of the last loop; `None` before the first.
    #[serde(default)]
    pub loop_with: Option<String>,
    /// True if a loop was found at the port in the last 10 s. Meanwhile, with `loop_detection = "block"`, the port
    /// takes no part in floods.
    pub looped: bool,
    /// Statistics of the XDP sockets; `None` if unreadable.
    pub xdp_statistics: Option<XdpStatistics>,
    /// Drops counted by the device; `None` if unreadable.
    pub device_drops: Option<DeviceDrops>,
    /// Last values of `device_drops` that could be read; the true values may be higher.
    #[serde(default)]
    pub device_drops_last: DeviceDrops,
    /// State of the XDP program.
    #[serde(default)]
    pub program: ProgramState,
    /// Times that the port's XDP program was missing; frames received meanwhile are not counted.
    #[serde(default)]
    pub program_detached: u64,
    /// Times that the port's device came back.
    #[serde(default)]
    pub returns: u64,
    /// Times that the numbers of receive queues and sockets differed.
    #[serde(default)]
    pub requeued: u64,
    /// Reason why the sockets do not match the device's receive queues; `None` if they do.
    #[serde(default)]
    pub unfollowed: Option<String>,
    /// True if a loss at the port cannot be excluded: a counter cannot be read, or frames bypassed the switch.
    #[serde(default)]
    pub unproved: bool,
    /// Frames lost outside the switch, by kernel or device.
    #[serde(default)]
    pub unseen: UnseenStatus,
    /// Deviations of the peer from the peer's declared behaviour.
    #[serde(default)]
    pub peer: PeerStatus,
    /// LLDP state of the port.
    #[serde(default)]
    pub lldp: LldpStatus,
    /// Slow-path frames by reason and outcome: copied out of the switch (punted), over the allowed rate (over_rate),
    /// or without room at the receiver (no_room).
    #[serde(default)]
    pub punts: BTreeMap<String, PuntStatus>,
    /// Classes 0 to 7 of the port.
    pub classes: Vec<ClassStatus>,
}

/// Place where the XDP program of a port runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum XdpMode {
    /// The XDP program runs in the driver of the device.
    Native,
    /// The XDP program runs in the network stack of the kernel.
    Generic,
}

/// Path of frames into the switch's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SocketMemory {
    /// The device writes frames into the switch's memory.
    ZeroCopy,
    /// The kernel copies frames into the switch's memory.
    Copy,
}

/// Status of a class on a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassStatus {
    /// Class, 0 to 7.
    pub class: u8,
    /// True if the class is lossless.
    pub lossless: bool,
    /// Frames received, those dropped later included.
    pub rx_frames: u64,
    /// Bytes of frames received, FCS included.
    pub rx_bytes: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Bytes of frames sent, FCS included.
    pub tx_bytes: u64,
    /// Frames of the class that ended in the switch, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Frames lost: dropped although a path to their destination existed.
    pub lost: u64,
    /// Lossless frames lost; `None` for a lossy class.
    #[serde(default)]
    pub lossless_lost: Option<u64>,
    /// Frames flooded because their destination was unknown, counted at the receiving port; no loss.
    #[serde(default)]
    pub flooded_unknown: u64,
    /// Time from the start to the first frame from this port lost for lack of room; `None` without loss.
    pub first_loss_nanos: Option<u64>,
    /// Pauses sent to the peer.
    pub pause_sent: PauseStatus,
    /// Cause of the current or last pause of the peer; `None` before the first.
    pub cause: Option<CauseStatus>,
    /// Pauses of the peer, by trigger, and by whether the culprit queue was itself paused.
    pub causes: BTreeMap<String, CauseCount>,
    /// Egress queues with frames from this port, the fullest first, while the peer is paused.
    pub culprits: Vec<CulpritStatus>,
    /// Decisions of each shadow policy.
    pub shadows: Vec<ShadowStatus>,
    /// Rate that the peer is asked to keep (GFC); in metrics zero if there is no limit; `None`: no limit.
    pub requested_rate_bits_per_second: Option<u64>,
    /// Lowest rate that the peer was ever asked to keep (GFC); in metrics zero if there was none; `None`: there was none.
    pub requested_rate_min_bits_per_second: Option<u64>,
    /// Changes of the rate that the peer is asked to keep (GFC).
    pub rate_changes: u64,
    /// Rate limit that the peer has requested and the port obeys (GFC); in metrics zero if there is no limit; `None`:
    /// no limit.
    pub rate_obeyed_bits_per_second: Option<u64>,
    /// Invalid requests of the custom policy, which are its bugs.
    #[serde(default)]
    pub intents_refused: u64,
    /// XOFF refreshes sent.
    pub refreshes_sent: u64,
    /// Frames of the class that the peer sent after XOFF.
    #[serde(default)]
    pub response: ResponseStatus,
    /// Pauses received from the peer.
    pub pause_received: PauseStatus,
    /// Pauses of single flows; `None` if the peer does not support them.
    pub flows: Option<FlowStatus>,
    /// Memory used by frames that the port received.
    pub ingress: IngressStatus,
    /// Egress queue of the class.
    pub egress: EgressStatus,
    /// Congestion point of the class; `None` if there is none.
    #[serde(default)]
    pub congestion_point: Option<CongestionPointStatus>,
    /// Frames sent with an ECN mark that this switch set.
    #[serde(default)]
    pub ecn_marked_frames: u64,
    /// Bytes of frames sent with an ECN mark that this switch set.
    #[serde(default)]
    pub ecn_marked_bytes: u64,
    /// State of the watchdog; `None` if the class has none.
    #[serde(default)]
    pub watchdog: Option<WatchdogStatus>,
    /// Time from receive to transmit in the switch, by egress port.
    pub queueing_delay: Spread,
}

/// Cause of a pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CauseStatus {
    /// Trigger: `ingress` (the ingress queue reached XOFF), `egress` (an egress queue is congested), or another of
    /// the policy.
    pub trigger: String,
    /// Class of the full queues: the paused class, or a higher one for which it makes room.
    pub class: u8,
    /// Name of the port whose egress queue is the culprit.
    pub culprit: Option<String>,
    /// True if the culprit queue was paused by the peer of its port.
    pub relayed: bool,
}

/// Number of XOFFs with one trigger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CauseCount {
    /// XOFFs whose culprit was not paused by its own peer.
    pub own: u64,
    /// XOFFs whose culprit was paused by its own peer.
    pub relayed: u64,
}

/// Egress queue with frames from a paused port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CulpritStatus {
    /// Name of the egress port.
    pub port: String,
    /// Class of the queue, which is the class of the pause's cause.
    pub class: u8,
    /// Bytes in the queue that the paused port received.
    pub bytes: u64,
    /// True if the peer now pauses the queue, or a flow in it.
    pub held: bool,
}

/// Decisions of a shadow policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShadowStatus {
    /// Name of the policy.
    pub policy: String,
    /// Times that the shadow policy would have sent XOFF.
    pub xoff: u64,
    /// True if the shadow policy would pause the peer now.
    pub now: bool,
    /// Time in pauses of the shadow policy, a running pause included.
    pub nanos: u64,
    /// Time in pauses of the shadow policy, without a running pause.
    #[serde(default)]
    pub finished_nanos: u64,
    /// Frames lost for lack of memory while the shadow policy requested no pause.
    pub lost: u64,
    /// Time from the start to the first frame counted in `lost`; `None` if there was none.
    pub first_loss_nanos: Option<u64>,
    /// Invalid requests (intents) of the custom policy.
    #[serde(default)]
    pub intents_refused: u64,
    /// Pauses of single flows; `None` if the policy pauses no flows.
    pub flows: Option<FlowRequestsStatus>,
    /// Requested rates; `None` if the policy requests none.
    pub rate: Option<RateRequestsStatus>,
}

/// Pauses of single flows requested of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowRequestsStatus {
    /// Times that the peer was asked to pause further flows.
    pub pauses: u64,
    /// Flows that the peer was newly asked to pause.
    pub flow_pauses: u64,
    /// Times that the peer was asked to resume all flows.
    pub resumes: u64,
    /// Flows that the peer is asked to pause now.
    pub requested: u64,
}

/// Rates requested of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RateRequestsStatus {
    /// Changes of the rate that the peer would be asked to keep.
    pub changes: u64,
    /// Rate that the peer would be asked to keep; in metrics zero if there is no limit; `None`: no limit.
    pub requested_bits_per_second: Option<u64>,
    /// Lowest rate that the peer would ever have been asked to keep; in metrics zero if there was none; `None`: there was none.
    pub requested_min_bits_per_second: Option<u64>,
}

/// State of the watchdog of a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WatchdogStatus {
    /// Action: `drop`, `forward` or `alert`.
    pub action: String,
    /// True during a pause storm.
    pub storm: bool,
    /// Pause storms that the watchdog has detected.
    pub storms: u64,
    /// Time in pause storms, including a running storm.
    pub nanos: u64,
    /// Frames dropped during pause storms.
    pub dropped: u64,
    /// Frames sent during pause storms, updated at each pause frame.
    pub forwarded: u64,
    /// Latest storm; `None` before the first.
    pub last: Option<StormStatus>,
}

/// Pause storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StormStatus {
    /// Time since the watchdog detected the storm.
    pub began_nanos_ago: u64,
    /// Duration of the storm, up to now if it lasts.
    pub nanos: u64,
    /// Frames dropped during the storm.
    pub dropped: u64,
    /// Frames sent during the storm.
    pub forwarded: u64,
}

/// Pauses of a class in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PauseStatus {
    /// Number of XOFFs; that of received XOFFs includes refreshes.
    pub xoff: u64,
    /// XONs: pause times of zero.
    pub xon: u64,
    /// True while the peer (pauses sent) or port (pauses received) is paused.
    pub now: bool,
    /// Time that the peer (pauses sent) or port (pauses received) was paused, a running pause included.
    pub nanos: u64,
    /// Durations of finished pauses.
    pub durations: Spread,
}

/// Pauses of single flows (OFC) of one class on one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowStatus {
    /// Frames that asked the peer to pause single flows, refreshes included.
    pub pause_frames_sent: u64,
    /// Frames that asked the peer to resume single flows.
    pub resume_frames_sent: u64,
    /// Frames by which the peer has paused single flows.
    pub pause_frames_received: u64,
    /// Frames by which the peer has resumed single flows.
    pub resume_frames_received: u64,
    /// Requests to the peer for pauses of flows.
    #[serde(flatten)]
    pub requests: FlowRequestsStatus,
    /// Flows of this port that the peer pauses now.
    pub paused: u64,
    /// Times that a whole class was paused because of a full flow table or unknown flows.
    pub fallbacks: u64,
}

/// Ingress occupancy and thresholds of a class on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IngressStatus {
    /// Ingress occupancy: bytes received by the port that still count.
    pub bytes: u64,
    /// Maximum ingress occupancy since the start.
    pub bytes_max: u64,
    /// Ingress occupancy at which XOFF is sent; zero for a lossy class.
    pub xoff_bytes: u64,
    /// Ingress occupancy below which XON is sent; zero for a lossy class.
    pub xon_bytes: u64,
    /// Headroom: memory beyond XOFF for frames that arrive before the peer stops.
    pub headroom_bytes: u64,
    /// Maximum headroom used; zero for a lossy class.
    pub headroom_used_max_bytes: u64,
    /// Minimum headroom left; `None` for a lossy class.
    pub headroom_free_min_bytes: Option<u64>,
    /// Minimum headroom left in the last five minutes; `None` for a lossy class.
    #[serde(default)]
    pub headroom_free_recent_bytes: Option<u64>,
    /// Computed headroom; `None` for a lossy class, or if the peer is not declared.
    #[serde(default)]
    pub headroom_needed_bytes: Option<u64>,
}

/// Egress queue of a class on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EgressStatus {
    /// Egress occupancy: bytes queued at the port or given to its driver.
    pub bytes: u64,
    /// Maximum egress occupancy since the start.
    pub bytes_max: u64,
    /// Maximum length of the queue, beyond which frames are dropped or wait.
    pub limit_bytes: u64,
    /// Halts of the pipeline because this queue was full.
    #[serde(default)]
    pub halts: HaltStatus,
}
