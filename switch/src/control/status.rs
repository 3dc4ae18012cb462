//! What `/status` says, as JSON: everything the switch counts, exactly, for programs and tests.
//!
//! Fields are only ever added. Units are the last word of a name: bytes count the FCS, nanos are
//! nanoseconds. Counters count from the start of the switch; `_max` and `_min` are the extremes since
//! then. Every reason is present in a map by reason, zeros too.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xoff_xdp::{DeviceDrops, XdpStatistics};

use super::addresses::AddressPage;
pub use super::addresses::FdbEntry;
pub use super::books::Books;
pub use super::groups::{GroupStatus, MemberStatus};
pub use super::judged::{GoingOnStatus, PeerStatus, ResponseStatus, UnseenStatus};
pub use super::lldp::{EtsStatus, LldpStatus, MismatchStatus, NeighborStatus, PfcStatus, PuntStatus};
use super::notification::CongestionPointStatus;
pub use super::pipeline::{HaltStatus, PipelineStatus};
use super::policy_cells::PolicyNames;
pub use super::routes::{InterfaceStatus, RouterStatus};
pub use super::verdict::Verdict;
use super::view::{Link, ProgramState};

/// A whole switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// Its process.
    #[serde(default)]
    pub process_id: u32,
    /// Time since it was started.
    pub uptime_nanos: u64,
    /// Whether it kept its promise.
    pub verdict: Verdict,
    /// The workers' ledgers added up; `None` where one of them did not answer.
    pub ledger: Option<Books>,
    /// The flow-control policies of classes 0 to 7.
    pub policies: PolicyNames,
    /// What is between ingress and egress queues.
    #[serde(default)]
    pub pipeline: PipelineStatus,
    /// Its ports, in the order of the configuration.
    pub ports: Vec<PortStatus>,
    /// Ports that lead to the same place.
    #[serde(default)]
    pub groups: Vec<GroupStatus>,
    /// The router; `None`: everything is bridged.
    #[serde(default)]
    pub router: Option<RouterStatus>,
    /// Its forwarding threads.
    pub workers: Vec<WorkerStatus>,
    /// What goes wrong now, or did in the last seconds: what the log has told the beginning of, and not the end.
    #[serde(default)]
    pub going_on: Vec<GoingOnStatus>,
    /// Log lines dropped because they could not be written, or not fast enough.
    #[serde(default)]
    pub log_lines_dropped: u64,
    /// The first addresses and where they are, by VLAN and address; `/addresses` has all.
    pub fdb: Vec<FdbEntry>,
    /// How many addresses there are.
    #[serde(default)]
    pub fdb_total: u64,
    /// There are more than `fdb` has.
    #[serde(default)]
    pub fdb_truncated: bool,
    /// Routes that were asked for beside it: `/routes` has them.
    #[serde(skip)]
    pub routes: Vec<crate::router::tables::Row>,
}

impl Status {
    /// Names the addresses of the first page.
    pub(super) fn name(&mut self, page: AddressPage) {
        self.fdb_truncated = page.next.is_some();
        (self.fdb, self.fdb_total) = (page.addresses, page.total);
    }
}

/// One port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PortStatus {
    /// Its name.
    pub name: String,
    /// The Linux interface.
    pub device: String,
    /// Index of that interface.
    pub ifindex: u32,
    /// Its address.
    pub mac: String,
    /// Whether frames can pass.
    pub link: Link,
    /// Index of the worker that owns it.
    pub worker: usize,
    /// `native` (in the driver) or `generic`.
    pub xdp: XdpMode,
    /// `zero-copy` or `copy`.
    pub memory: SocketMemory,
    /// How many hardware queues have a socket.
    pub queues: u32,
    /// Line rate of the port, layer 1.
    pub speed_bits_per_second: u64,
    /// `pfc`, `802.3x` or `ignore`.
    pub flow_control: String,
    /// PFC and 802.3x PAUSE frames sent.
    pub pause_frames_sent: u64,
    /// PFC frames with rates (GFC) sent; they are no pause frames.
    pub rate_frames_sent: u64,
    /// PFC frames with rates (GFC) received and obeyed.
    pub rate_frames_received: u64,
    /// Well-formed PFC frames received.
    pub pfc_frames_received: u64,
    /// Well-formed 802.3x PAUSE frames received.
    pub pause_frames_received: u64,
    /// Well-formed pause frames received and not obeyed, by configuration.
    pub pause_frames_ignored: u64,
    /// MAC control frames received that paused nothing, by the defect of the frame.
    pub malformed_control: BTreeMap<String, u64>,
    /// Address of whoever sent the last pause frame that was obeyed; `None` while there was none.
    pub pause_peer: Option<String>,
    /// Well-formed CNMs received and forwarded.
    pub cnms_received: u64,
    /// Malformed CNMs received and forwarded, by defect.
    pub malformed_cnms: BTreeMap<String, u64>,
    /// Frames to 01:80:c2:00:00:00..0f received and not forwarded, MAC control excepted.
    pub reserved_frames: u64,
    /// Pause frames that waited because all reserved frames were in flight.
    pub control_starved: u64,
    /// Addresses learned on the port.
    pub fdb_entries: u64,
    /// Addresses that moved to the port from another.
    pub station_moves: u64,
    /// Frames whose source was not learned because the port's limit or the table's capacity was reached.
    pub learn_refused: u64,
    /// Loops found; the port was the higher of two between which stations moved to and fro.
    pub loops: u64,
    /// Name of the other port of the last one; `None` while there was none.
    #[serde(default)]
    pub loop_with: Option<String>,
    /// Whether a loop was found at the port a short while ago. Where `loop_detection = "block"`, the port takes no part in floods meanwhile.
    pub looped: bool,
    /// Statistics of its XDP sockets; `None` where they cannot be read.
    pub xdp_statistics: Option<XdpStatistics>,
    /// The device's own drops; `None` where they cannot be read.
    pub device_drops: Option<DeviceDrops>,
    /// The same as they were read last: there were so many at least.
    #[serde(default)]
    pub device_drops_last: DeviceDrops,
    /// Whether frames that arrive at the device reach the switch.
    #[serde(default)]
    pub program: ProgramState,
    /// Times that the port's XDP program was found off its device; frames that came meanwhile are counted nowhere.
    #[serde(default)]
    pub program_detached: u64,
    /// Times that the port's device had gone and came back.
    #[serde(default)]
    pub returns: u64,
    /// Times that the device had another number of receive queues than the port has sockets.
    #[serde(default)]
    pub requeued: u64,
    /// Why its sockets do not follow the receive queues of its device; `None` where they do.
    #[serde(default)]
    pub unfollowed: Option<String>,
    /// Whether the losses of the port are not proved: a counter cannot be read, or frames went past the switch.
    #[serde(default)]
    pub unproved: bool,
    /// Frames lost unseen before or behind the switch, each counted once, by what is known of their classes.
    #[serde(default)]
    pub unseen: UnseenStatus,
    /// Its peer, beside what was declared of it.
    #[serde(default)]
    pub peer: PeerStatus,
    /// What it says by LLDP, and hears.
    #[serde(default)]
    pub lldp: LldpStatus,
    /// Slow-path (punted) frames by reason and outcome: copied out of the switch (punted), refused beyond the allowed rate (over_rate),
    /// or refused because the receiver had no room (no_room).
    #[serde(default)]
    pub punts: BTreeMap<String, PuntStatus>,
    /// Classes 0 to 7.
    pub classes: Vec<ClassStatus>,
}

/// Where the XDP program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum XdpMode {
    /// In the driver.
    Native,
    /// In the kernel's network stack.
    Generic,
}

/// How frames come into the switch's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SocketMemory {
    /// By the device itself.
    ZeroCopy,
    /// Copied by the kernel.
    Copy,
}

/// One class on one port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassStatus {
    /// 0 to 7.
    pub class: u8,
    /// Whether the class is lossless: its frames may never be dropped because room is missing.
    pub lossless: bool,
    /// Frames received, those dropped later included.
    pub rx_frames: u64,
    /// Bytes of frames received, FCS included.
    pub rx_bytes: u64,
    /// Frames sent.
    pub tx_frames: u64,
    /// Bytes of frames sent, FCS included.
    pub tx_bytes: u64,
    /// Frames that ended here, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Frames that had a way on and were dropped.
    pub lost: u64,
    /// Frames of a lossless class that had a way on and were dropped: zero as long as the promise is kept; `None` for a lossy class.
    #[serde(default)]
    pub lossless_lost: Option<u64>,
    /// Frames flooded because no port was known for their destination, by the port where they came in; no loss.
    #[serde(default)]
    pub flooded_unknown: u64,
    /// When the first frame that came in here was lost for want of room, after the start; `None` while
    /// none was.
    pub first_loss_nanos: Option<u64>,
    /// Pauses that the peer was asked for.
    pub pause_sent: PauseStatus,
    /// Why the peer is held now, or was held last; `None` before the first time.
    pub cause: Option<CauseStatus>,
    /// Times that the peer began to be paused, by what triggered it and whether the culprit egress queue was paused by its own peer.
    pub causes: BTreeMap<String, CauseCount>,
    /// While the peer is held: the egress queues that hold what came in here, the fullest first.
    pub culprits: Vec<CulpritStatus>,
    /// What each shadow policy would have done here.
    pub shadows: Vec<ShadowStatus>,
    /// Rate that the peer is asked to keep (GFC), zero in metrics where there is no limit; `None`: no limit.
    pub rate_asked_bits_per_second: Option<u64>,
    /// Lowest rate that the peer was ever asked to keep (GFC), zero in metrics where there was none; `None`: there was none.
    pub rate_asked_min_bits_per_second: Option<u64>,
    /// Changes of the rate that the peer is asked to keep (GFC).
    pub rate_changes: u64,
    /// Rate that the port keeps for its peer (GFC), zero in metrics where there is no limit; `None`: no limit.
    pub rate_obeyed_bits_per_second: Option<u64>,
    /// Intents of the custom policy that cannot be carried out; above zero the policy is wrong.
    #[serde(default)]
    pub intents_refused: u64,
    /// XOFF refreshes sent.
    pub refreshes_sent: u64,
    /// What came after XOFF.
    #[serde(default)]
    pub response: ResponseStatus,
    /// Pauses that the peer asked for.
    pub pause_received: PauseStatus,
    /// Pauses of single flows; `None` where the peer does not understand them.
    pub flows: Option<FlowStatus>,
    /// Memory taken by what came in here.
    pub ingress: IngressStatus,
    /// The queue of what goes out here.
    pub egress: EgressStatus,
    /// Its congestion point; `None` where there is none.
    #[serde(default)]
    pub congestion_point: Option<CongestionPointStatus>,
    /// Frames sent with a mark that they met congestion here (ECN).
    #[serde(default)]
    pub ecn_marked_frames: u64,
    /// Bytes of frames marked (ECN), FCS included.
    #[serde(default)]
    pub ecn_marked_bytes: u64,
    /// What the watchdog has seen; `None` where the class has none.
    #[serde(default)]
    pub watchdog: Option<WatchdogStatus>,
    /// Time from receive to transmit, on the port of egress.
    pub queueing_delay: Spread,
}

/// Why a peer is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CauseStatus {
    /// `ingress` (the ingress queue reached XOFF), `egress` (an egress queue is congested), or another
    /// that the policy knows.
    pub trigger: String,
    /// The class whose queues are full: this one, or a higher one for which it makes room.
    pub class: u8,
    /// Name of the port whose egress queue is the culprit.
    pub culprit: Option<String>,
    /// That queue was itself held by its peer.
    pub relayed: bool,
}

/// How often something was the cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CauseCount {
    /// With a culprit that was not held.
    pub own: u64,
    /// With a culprit that was held by its peer.
    pub relayed: u64,
}

/// An egress queue that holds what came in through a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CulpritStatus {
    /// Name of the egress port.
    pub port: String,
    /// Its class: that of the pause's cause.
    pub class: u8,
    /// Bytes of the class from that port, now.
    pub bytes: u64,
    /// It, or a flow in it, is held by its own peer now.
    pub held: bool,
}

/// What a shadow policy would have done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShadowStatus {
    /// Its name.
    pub policy: String,
    /// Times that XOFF would have been sent.
    pub xoff: u64,
    /// Whether it would hold the peer now.
    pub now: bool,
    /// Time in pauses that a shadow policy would have asked for, the running one included.
    pub nanos: u64,
    /// Time in pauses that a shadow policy would have asked for, without the running one.
    #[serde(default)]
    pub finished_nanos: u64,
    /// Frames lost because room was missing while the policy had not asked for a pause.
    pub lost: u64,
    /// When the first of them was, after the start.
    pub first_loss_nanos: Option<u64>,
    /// Intents of the custom policy that could not have been carried out.
    #[serde(default)]
    pub intents_refused: u64,
    /// What it would have asked of single flows; `None` where it does not look at flows.
    pub flows: Option<FlowsAskedStatus>,
    /// Rates that it would have asked for; `None` where it does not.
    pub rate: Option<RateAskedStatus>,
}

/// What a peer was asked to do about single flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FlowsAskedStatus {
    /// Times that flows were added to those that the peer is asked to pause.
    pub pauses: u64,
    /// Flows added to those that the peer is asked to pause.
    pub flow_pauses: u64,
    /// Times that the peer was asked to resume all flows.
    pub resumes: u64,
    /// Flows that the peer is asked to pause now.
    pub asked: u64,
}

/// Rates that a peer was asked to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RateAskedStatus {
    /// Changes of the rate that the peer would be asked to keep.
    pub changes: u64,
    /// Rate that the peer would be asked to keep, zero in metrics where there is no limit; `None`: no limit.
    pub asked_bits_per_second: Option<u64>,
    /// Lowest rate that the peer would ever have been asked to keep, zero in metrics where there was none; `None`: there was none.
    pub asked_min_bits_per_second: Option<u64>,
}

/// What the watchdog of one class has seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WatchdogStatus {
    /// `drop`, `forward` or `alert`.
    pub action: String,
    /// Whether the watchdog sees a pause storm.
    pub storm: bool,
    /// Pause storms that the watchdog has seen.
    pub storms: u64,
    /// Time in pause storms, the running one included.
    pub nanos: u64,
    /// Frames that they cost.
    pub dropped: u64,
    /// Frames sent during pause storms, as of the latest pause frame. Dropped ones count as drops.
    pub forwarded: u64,
    /// The latest; `None` before the first.
    pub last: Option<StormStatus>,
}

/// One storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StormStatus {
    /// How long ago it was detected.
    pub began_nanos_ago: u64,
    /// How long it took, or takes so far.
    pub nanos: u64,
    /// Frames dropped.
    pub dropped: u64,
    /// Frames sent.
    pub forwarded: u64,
}

/// Pauses in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PauseStatus {
    /// XOFFs; received ones include refreshes.
    pub xoff: u64,
    /// XONs: pause times of zero.
    pub xon: u64,
    /// Whether a pause holds. Direction: sent (the peer is paused), received (the peer has paused this port).
    pub now: bool,
    /// Time in pause, the running one included. Direction: sent (the peer was paused), received (the peer paused this port).
    pub nanos: u64,
    /// Lengths of finished pauses.
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
    /// What the peer was asked, counted when it was decided.
    #[serde(flatten)]
    pub asked: FlowsAskedStatus,
    /// Flows that the peer has paused here now.
    pub paused: u64,
    /// Times that a class was paused as a whole because a table of flows was full, or frames of unknown flows waited.
    pub fallbacks: u64,
}

/// Bytes of one ingress port and class, and the thresholds that they meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IngressStatus {
    /// Ingress occupancy: bytes that came in on the port and count against its thresholds.
    pub bytes: u64,
    /// Maximum ingress occupancy since the start.
    pub bytes_max: u64,
    /// Ingress occupancy at which XOFF is sent; zero for a lossy class.
    pub xoff_bytes: u64,
    /// Ingress occupancy below which XON is sent; zero for a lossy class.
    pub xon_bytes: u64,
    /// Headroom: room beyond XOFF for what still arrives.
    pub headroom_bytes: u64,
    /// Maximum headroom used since the start; zero for a lossy class.
    pub headroom_used_max_bytes: u64,
    /// Minimum headroom left since the start; `None` for a lossy class.
    pub headroom_free_min_bytes: Option<u64>,
    /// Minimum headroom left in the last five minutes, to the minute; `None` for a lossy class.
    #[serde(default)]
    pub headroom_free_recent_bytes: Option<u64>,
    /// What is computed for the line and the peer as they were declared; `None` for a lossy class, or where nothing was.
    #[serde(default)]
    pub headroom_needed_bytes: Option<u64>,
}

/// Bytes of one egress queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EgressStatus {
    /// Egress occupancy: bytes queued to be sent on the port, those committed to the driver included.
    pub bytes: u64,
    /// Maximum egress occupancy since the start.
    pub bytes_max: u64,
    /// A frame that would take the queue beyond this is dropped, or waits.
    pub limit_bytes: u64,
    /// The pipeline was halted, for every port and class, because this queue was full.
    #[serde(default)]
    pub halts: HaltStatus,
}

/// How a time is spread. Quantiles are upper bounds: a worker's are at most an eighth too high, the others at
/// most twice as high.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub sum_nanos: u64,
    /// Half of them were at most this; `None` while there are none.
    pub p50_nanos: Option<u64>,
    /// 99 of 100 were at most this.
    pub p99_nanos: Option<u64>,
}

/// A forwarding thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerStatus {
    /// The core that it is pinned to.
    pub core: Option<usize>,
    /// Names of its ports.
    pub ports: Vec<String>,
    /// Whether it runs.
    pub state: WorkerState,
    /// Loops of a forwarding thread.
    pub loops: u64,
    /// Longest time between two loops since the start.
    pub longest_gap_nanos: u64,
    /// Times between two loops beyond the stall budget.
    pub stalls: u64,
    /// The stall budget.
    pub stall_budget_nanos: u64,
    /// Time between two loops of an awake forwarding thread.
    pub gaps: Spread,
    /// Time from a crossed threshold to the pause frame handed to the kernel; an upper bound.
    pub send_reaction: Spread,
    /// Time from a pause frame received to the last frame of its class handed to the kernel; an upper bound.
    pub obey_reaction: Spread,
    /// Frames that the worker's buffer memory has room for; falls for good only if the switch has a bug.
    pub frames_free: u64,
    /// Free cells of 96 bytes in the worker's buffer memory; falls for good only if the switch has a bug.
    pub cells_free: u64,
    /// Frames missing from the ledger: zero unless the switch has a bug.
    #[serde(default)]
    pub frames_missing: u64,
    /// Its own ledger; `None` where it did not answer.
    pub ledger: Option<Books>,
}

/// What a worker said when it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkerState {
    /// It answered.
    Running,
    /// It did not answer in time.
    Silent,
    /// It is not there any more.
    Ended,
}
