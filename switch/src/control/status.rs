//! Content of `/status`, served as JSON. Later versions only add keys. The last word of a name is its unit; bytes include the FCS.
//!
//! Counters begin at the start of the switch, as do `_max` and `_min`. A map by reason contains every reason.

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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Name of the switch.
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// Process id of the switch.
    #[serde(default)]
    pub process_id: u32,
    /// Time since the start of the switch.
    pub uptime_nanos: u64,
    /// Verdict on the promise that lossless classes lose no frame.
    pub verdict: Verdict,
    /// Numbers of frames by source and by outcome, summed over the workers; `None` if a worker did not answer.
    pub ledger: Option<Books>,
    /// Name of the flow-control policy of each class, 0 to 7.
    pub policies: PolicyNames,
    /// Pipeline between ingress and egress queues.
    #[serde(default)]
    pub pipeline: PipelineStatus,
    /// Ports, in the order of the configuration.
    pub ports: Vec<PortStatus>,
    /// Groups of ports (LAGs) that lead to the same destination.
    #[serde(default)]
    pub groups: Vec<GroupStatus>,
    /// State of IGMP and MLD snooping; `None` if it is off.
    #[serde(default)]
    pub multicast: Option<MulticastStatus>,
    /// Router; `None` if the switch does not route.
    #[serde(default)]
    pub router: Option<RouterStatus>,
    /// Status of the workers (forwarding threads).
    pub workers: Vec<WorkerStatus>,
    /// Faults that exist now.
    #[serde(default)]
    pub ongoing: Vec<OngoingStatus>,
    /// Log lines dropped because writing them failed or was too slow.
    #[serde(default)]
    pub log_lines_dropped: u64,
    /// First addresses of the forwarding database, sorted; `/addresses` lists all.
    pub fdb: Vec<FdbEntry>,
    /// Number of addresses in the forwarding database.
    #[serde(default)]
    pub fdb_total: u64,
    /// True if the forwarding database has more addresses than `fdb`.
    #[serde(default)]
    pub fdb_truncated: bool,
    /// Routes of the router; always empty in `/status`, but listed by `/routes`.
    #[serde(skip)]
    pub routes: Vec<crate::router::tables::Row>,
}

impl Status {
    pub(super) fn name(&mut self, page: AddressPage) {
        self.fdb_truncated = page.next.is_some();
        (self.fdb, self.fdb_total) = (page.addresses, page.total);
    }
}

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
    /// Place where the XDP program runs: `native` (in the driver) or `generic`.
    pub xdp: XdpMode,
    /// Way in which frames reach the switch's memory: `zero-copy` or `copy`.
    pub memory: SocketMemory,
    /// Reason for generic XDP; `None` in native mode.
    #[serde(default)]
    pub xdp_reason: Option<String>,
    /// Reason for copying frames; `None` with zero copy.
    #[serde(default)]
    pub memory_reason: Option<String>,
    /// Number of hardware queues with a socket.
    pub queues: u32,
    /// Line rate of the port at layer 1.
    pub speed_bits_per_second: u64,
    /// Flow control on the link to the peer: `pfc`, `802.3x` or `ignore`.
    pub flow_control: String,
    /// PFC and 802.3x PAUSE frames sent.
    pub pause_frames_sent: u64,
    /// PFC frames sent that contain rates (GFC); they are no pause frames.
    pub rate_frames_sent: u64,
    /// PFC frames received that contain rates (GFC) and were obeyed.
    pub rate_frames_received: u64,
    /// Well-formed PFC frames received, including those that name no class.
    pub pfc_frames_received: u64,
    /// Well-formed 802.3x PAUSE frames received.
    pub pause_frames_received: u64,
    /// Well-formed pause frames not obeyed, because the configuration forbids it.
    pub pause_frames_ignored: u64,
    /// Malformed MAC control frames received, by defect; they paused nothing.
    pub malformed_control: BTreeMap<String, u64>,
    /// Source address of the last pause frame that was obeyed; `None` before the first.
    pub pause_peer: Option<String>,
    /// Well-formed CNMs received and forwarded.
    pub cnms_received: u64,
    /// Malformed CNMs received and forwarded, by defect.
    pub malformed_cnms: BTreeMap<String, u64>,
    /// Frames to 01:80:c2:00:00:00..0f received and not forwarded, except MAC control.
    pub reserved_frames: u64,
    /// Pause frames delayed because no memory for control frames was free.
    pub control_starved: u64,
    /// Sampled frames with an unfinished TCP or UDP checksum. Receivers discard such frames.
    #[serde(default)]
    pub unfinished_checksums: u64,
    /// Addresses learned on the port.
    pub fdb_entries: u64,
    /// Number of moves of a learned address from another port to this port.
    pub station_moves: u64,
    /// Frames whose source was not learned, because the port's limit or the table was full.
    pub learn_refused: u64,
    /// Loops detected between this port and a lower-numbered port.
    pub loops: u64,
    /// Other port of the last loop; `None` before the first.
    #[serde(default)]
    pub loop_with: Option<String>,
    /// True if a loop was detected at the port in the last 10 s. Meanwhile, with `loop_detection = "block"`, the port
    /// neither sends nor accepts flooded frames.
    pub looped: bool,
    /// Addresses that moved in the last loop, at most two.
    #[serde(default)]
    pub loop_addresses: Vec<String>,
    /// Number of seconds in which addresses moved to and fro between this port and a lower-numbered port without a
    /// loop, as if two hosts had the same address.
    #[serde(default)]
    pub duplicates: u64,
    /// Other port at which the last duplicate addresses were found; `None` before the first.
    #[serde(default)]
    pub duplicate_with: Option<String>,
    /// Addresses last found both at this port and at `duplicate_with`; at most two.
    #[serde(default)]
    pub duplicate_addresses: Vec<String>,
    /// Statistics of the XDP sockets; `None` if unreadable.
    pub xdp_statistics: Option<XdpStatistics>,
    /// Drops counted by the device; `None` if unreadable.
    pub device_drops: Option<DeviceDrops>,
    /// Last readable values of `device_drops`. The true values may have grown since.
    #[serde(default)]
    pub device_drops_last: DeviceDrops,
    /// State of the XDP program.
    #[serde(default)]
    pub program: ProgramState,
    /// Number of times that the port's XDP program was missing; frames received meanwhile were not counted.
    #[serde(default)]
    pub program_detached: u64,
    /// Number of times that another program removed the port's egress filter. The filter stops the machine's own stack
    /// from sending.
    #[serde(default)]
    pub filter_detached: u64,
    /// Number of times that the port's lost device came back and was opened again.
    #[serde(default)]
    pub returns: u64,
    /// Number of changes of the device's receive queues after which the port's sockets did not match them.
    #[serde(default)]
    pub requeued: u64,
    /// Reason why the sockets do not match the device's receive queues; `None` if they match.
    #[serde(default)]
    pub unfollowed: Option<String>,
    /// True if a loss at the port cannot be excluded, because a counter is unreadable, or frames bypassed the switch.
    #[serde(default)]
    pub unproved: bool,
    /// Frames lost outside the switch, by kernel or device.
    #[serde(default)]
    pub unseen: UnseenStatus,
    /// Ways in which the peer deviates from the port's configuration.
    #[serde(default)]
    pub peer: PeerStatus,
    /// LLDP state of the port.
    #[serde(default)]
    pub lldp: LldpStatus,
    /// Outcomes of the port's slow-path frames, by reason.
    #[serde(default)]
    pub punts: BTreeMap<String, PuntStatus>,
    /// Classes 0 to 7 of the port.
    pub classes: Vec<ClassStatus>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum XdpMode {
    /// The XDP program runs in the driver of the device.
    Native,
    /// The XDP program runs in the network stack of the kernel.
    Generic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SocketMemory {
    /// The device writes frames into the switch's memory.
    ZeroCopy,
    /// The kernel copies frames into the switch's memory.
    Copy,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassStatus {
    /// Class, 0 to 7.
    pub class: u8,
    /// True if the class is lossless.
    pub lossless: bool,
    /// Frames received, including those dropped later.
    pub rx_frames: u64,
    /// Bytes of received frames, with FCS.
    pub rx_bytes: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Bytes of sent frames, with FCS.
    pub tx_bytes: u64,
    /// Frames of the class that the switch dropped or consumed, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Lost frames: frames dropped although a path to their destination existed.
    pub lost: u64,
    /// Lost frames of a lossless class; `None` for a lossy class.
    #[serde(default)]
    pub lossless_lost: Option<u64>,
    /// Frames flooded because their destination was unknown, counted at the receiving port; not a loss.
    #[serde(default)]
    pub flooded_unknown: u64,
    /// Time from the switch's start to the first loss of a frame from this port because a queue or memory was full;
    /// `None` without loss.
    pub first_loss_nanos: Option<u64>,
    /// Pauses sent to the peer.
    pub pause_sent: PauseStatus,
    /// Cause of the current or last pause sent to the peer; `None` before the first.
    pub cause: Option<CauseStatus>,
    /// Number of pauses sent to the peer, by trigger, and by whether the culprit egress queue was itself paused.
    pub causes: BTreeMap<String, CauseCount>,
    /// Egress queues with frames from this port, fullest first; empty unless the peer is paused.
    pub culprits: Vec<CulpritStatus>,
    /// Shadow policies, which only record how they would decide.
    pub shadows: Vec<ShadowStatus>,
    /// Rate limit requested of the peer (GFC); in metrics zero if unlimited; `None`: unlimited.
    pub requested_rate_bits_per_second: Option<u64>,
    /// Lowest rate limit ever requested of the peer (GFC); in metrics zero before the first limit; `None` before it.
    pub requested_rate_min_bits_per_second: Option<u64>,
    /// Number of changes of the rate limit requested of the peer (GFC).
    pub rate_changes: u64,
    /// Rate limit requested by the peer, which the port obeys (GFC); in metrics zero if unlimited; `None`: unlimited.
    pub rate_obeyed_bits_per_second: Option<u64>,
    /// Invalid requests of the custom policy; each is a bug of the policy.
    #[serde(default)]
    pub intents_refused: u64,
    /// XOFFs sent again to prolong a pause.
    pub refreshes_sent: u64,
    /// The peer's response to XOFF: frames of the class received after it.
    #[serde(default)]
    pub response: ResponseStatus,
    /// Pauses received from the peer.
    pub pause_received: PauseStatus,
    /// Pauses of single flows (OFC); `None` if the peer does not support them and no flow was paused.
    pub flows: Option<FlowStatus>,
    /// Memory occupied by frames that the port received.
    pub ingress: IngressStatus,
    /// Egress queue of the class.
    pub egress: EgressStatus,
    /// QCN congestion point of the class; `None` if there is none.
    #[serde(default)]
    pub congestion_point: Option<CongestionPointStatus>,
    /// Frames sent with an ECN mark set by this switch.
    #[serde(default)]
    pub ecn_marked_frames: u64,
    /// Bytes of frames sent with an ECN mark set by this switch.
    #[serde(default)]
    pub ecn_marked_bytes: u64,
    /// State of the watchdog; `None` if the class has none.
    #[serde(default)]
    pub watchdog: Option<WatchdogStatus>,
    /// Time that frames spent in the switch, from receive to transmit, by egress port.
    pub queueing_delay: Spread,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CauseStatus {
    /// Trigger of the pause: `ingress` (the port's ingress queue reached XOFF), `egress` (an egress queue is
    /// congested), or one that only some policies use.
    pub trigger: String,
    /// Class of the full queues that caused the pause: the paused class or another.
    pub class: u8,
    /// Name of the port whose egress queue caused the pause.
    pub culprit: Option<String>,
    /// True if the egress queue that caused the pause was itself paused by the peer of its port.
    pub relayed: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CauseCount {
    /// XOFFs caused by an egress queue that was not itself paused.
    pub own: u64,
    /// XOFFs caused by an egress queue that the peer of its port had paused.
    pub relayed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CulpritStatus {
    /// Name of the queue's port.
    pub port: String,
    /// Class of the queue.
    pub class: u8,
    /// Bytes in the queue that came in through the port that pauses its peer.
    pub bytes: u64,
    /// True if the peer of the queue's port now pauses the queue, or a flow in it.
    pub held: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShadowStatus {
    /// Name of the shadow policy.
    pub policy: String,
    /// Number of times that the shadow policy would have sent XOFF.
    pub xoff: u64,
    /// True if the shadow policy would pause the peer now.
    pub now: bool,
    /// Time for which the shadow policy would have paused the peer, including a pause that still lasts.
    pub nanos: u64,
    /// Time for which the shadow policy would have paused the peer, without a pause that still lasts.
    #[serde(default)]
    pub finished_nanos: u64,
    /// Frames lost, because a queue or memory was full, while the shadow policy requested no pause.
    pub lost: u64,
    /// Time from the start to the first frame counted in `lost`; `None` if there was none.
    pub first_loss_nanos: Option<u64>,
    /// Invalid requests (intents) of the policy, if it is a custom policy; each is a bug of it.
    #[serde(default)]
    pub intents_refused: u64,
    /// Pauses of single flows that the shadow policy would request; `None` if the policy pauses no flows.
    pub flows: Option<FlowRequestsStatus>,
    /// Rate limits that the shadow policy would request; `None` if the policy limits no rates.
    pub rate: Option<RateRequestsStatus>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowRequestsStatus {
    /// Number of requests to the peer to pause further flows.
    pub pauses: u64,
    /// Flows that the peer was newly asked to pause.
    pub flow_pauses: u64,
    /// Number of requests to the peer to resume all flows.
    pub resumes: u64,
    /// Flows that the peer is asked to pause now.
    pub requested: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RateRequestsStatus {
    /// Number of times that the shadow policy would have changed the peer's rate limit.
    pub changes: u64,
    /// Rate limit that would be requested of the peer; in metrics zero if unlimited; `None`: unlimited.
    pub requested_bits_per_second: Option<u64>,
    /// Lowest rate limit that would have been requested; in metrics zero before the first limit; `None` before it.
    pub requested_min_bits_per_second: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WatchdogStatus {
    /// Action of the watchdog during a storm: `drop`, `forward` or `alert`.
    pub action: String,
    /// True during a pause storm.
    pub storm: bool,
    /// Number of pause storms that the watchdog has detected.
    pub storms: u64,
    /// Total time in pause storms, including a storm that still lasts.
    pub nanos: u64,
    /// Frames that the watchdog dropped during pause storms.
    pub dropped: u64,
    /// Frames sent during pause storms, updated whenever a pause frame arrives.
    pub forwarded: u64,
    /// Latest pause storm; `None` before the first.
    pub last: Option<StormStatus>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StormStatus {
    /// Time since the watchdog detected the storm.
    pub began_nanos_ago: u64,
    /// Duration of the storm until its end, or until now.
    pub nanos: u64,
    /// Frames dropped during the storm.
    pub dropped: u64,
    /// Frames sent during the storm.
    pub forwarded: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PauseStatus {
    /// XOFFs sent (without refreshes) or received (with refreshes).
    pub xoff: u64,
    /// XONs (pause frames with the time zero) sent or received.
    pub xon: u64,
    /// True while a pause lasts: of the peer in `pause_sent`, of the port in `pause_received`.
    pub now: bool,
    /// Total time of pauses, including one that still lasts: of the peer in `pause_sent`, of the port in
    /// `pause_received`.
    pub nanos: u64,
    /// Durations of finished pauses.
    pub durations: Spread,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowStatus {
    /// Frames sent that asked the peer to pause single flows, including refreshes.
    pub pause_frames_sent: u64,
    /// Frames sent that asked the peer to resume single flows.
    pub resume_frames_sent: u64,
    /// Frames received that paused single flows.
    pub pause_frames_received: u64,
    /// Frames received that resumed single flows.
    pub resume_frames_received: u64,
    /// Pauses of flows that the policy requested of the peer.
    #[serde(flatten)]
    pub requests: FlowRequestsStatus,
    /// Flows of this port that the peer pauses now.
    pub paused: u64,
    /// Number of pauses of the whole class because the flow table was full or the flows were unknown.
    pub fallbacks: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IngressStatus {
    /// Ingress occupancy: bytes that the port received and the switch has not yet sent or dropped.
    pub bytes: u64,
    /// Maximum ingress occupancy since the start.
    pub bytes_max: u64,
    /// Ingress occupancy at which XOFF is sent; zero for a lossy class.
    pub xoff_bytes: u64,
    /// Ingress occupancy below which XON is sent; zero for a lossy class.
    pub xon_bytes: u64,
    /// Headroom: memory beyond XOFF for frames that still arrive until the peer stops.
    pub headroom_bytes: u64,
    /// Maximum headroom used since the start; zero for a lossy class.
    pub headroom_used_max_bytes: u64,
    /// Minimum free headroom since the start; `None` for a lossy class.
    pub headroom_free_min_bytes: Option<u64>,
    /// Minimum free headroom in the last five minutes; `None` for a lossy class.
    #[serde(default)]
    pub headroom_free_recent_bytes: Option<u64>,
    /// Headroom that the port needs by calculation; `None` for a lossy class, or if nothing is assumed about the peer.
    #[serde(default)]
    pub headroom_needed_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EgressStatus {
    /// Egress occupancy: bytes queued at the port or passed to its driver.
    pub bytes: u64,
    /// Maximum egress occupancy since the start.
    pub bytes_max: u64,
    /// Maximum length of the queue, at which frames are dropped or the pipeline halts.
    pub limit_bytes: u64,
    /// Halts of the pipeline because this queue was full.
    #[serde(default)]
    pub halts: HaltStatus,
}
