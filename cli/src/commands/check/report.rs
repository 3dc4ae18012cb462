//! What follows from a configuration, as plain data: printed as tables or as JSON.

use std::path::PathBuf;

use serde::{Serialize, Serializer};
use xoff_config::{Choice as _, Config, Machine, PortShell, Problem, Queues, Rings, Router, Worker};
use xoff_dataplane::headroom::Headroom;
use xoff_dataplane::settings::{
    Accounting, ClassSettings, Culprit, EcnSettings, FlowControl, Memory, PipelineSettings, PolicyKind,
    PortSettings, QcnSettings, Service, SwitchSettings, VlanSettings, WatchdogSettings,
};
use xoff_dataplane::units::{Bytes, Class, ClassSet, ETHERNET_HEADER, PortId};

/// A whole configuration. Sizes in bytes, times in microseconds; `null` is "no limit".
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The file.
    pub file: String,
    /// True: what is invalid has no report.
    pub valid: bool,
    /// The switch's name.
    pub name: String,
    /// The longest stall through which nothing lossless is lost.
    pub stall_budget_us: f64,
    /// The smallest average frame for which that holds.
    pub smallest_frame_bytes: u32,
    /// `busy` or `adaptive`.
    pub poll: &'static str,
    /// Where metrics and status are served.
    pub http: Option<String>,
    /// Until when a frame counts at its ingress.
    pub accounting: &'static str,
    /// Who owns packet memory.
    pub memory_model: &'static str,
    /// What a full egress queue does.
    pub when_full: &'static str,
    /// What is between ingress and egress queues.
    pub pipeline: PipelineReport,
    /// Threads, as they would be on the machine.
    pub workers: Vec<WorkerReport>,
    /// Ports.
    pub ports: Vec<PortReport>,
    /// The router; `null`: none.
    pub router: Option<RouterReport>,
    /// Congestion points; `null`: none.
    pub qcn: Option<QcnReport>,
    /// Memory, line by line.
    pub memory: Vec<MemoryReport>,
    /// UMEM chunk size.
    pub chunk_bytes: u32,
    /// Whether frames may take several chunks.
    pub multi_buffer: bool,
    /// All memory of the process.
    pub memory_total_bytes: u64,
    /// What the kernel takes beside it.
    pub kernel_memory_bytes: u64,
    /// What is doubtful.
    pub warnings: Vec<ProblemReport>,
    /// What is meant so, and has a price.
    pub notes: Vec<ProblemReport>,
}

/// The pipeline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PipelineReport {
    /// Frames a second; `null`: as they come.
    pub rate_pps: Option<u32>,
    /// How long a frame is in it.
    pub delay_us: f64,
    /// `by-class` or `fifo`.
    pub ingress: &'static str,
}

impl From<PipelineSettings> for PipelineReport {
    fn from(PipelineSettings { rate, delay, ingress }: PipelineSettings) -> PipelineReport {
        let rate_pps = rate.map(|rate| rate.0.get());
        PipelineReport { rate_pps, delay_us: micros(delay.0), ingress: ingress.name() }
    }
}

/// One thread.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerReport {
    /// The core to which it is pinned; `None`: the kernel decides where it runs.
    pub core: Option<u16>,
    /// Its ports.
    pub ports: Vec<String>,
}

/// The router, as the kernel has it.
#[derive(Clone, Debug, Serialize)]
pub struct RouterReport {
    /// The network namespace of its host interfaces; `null`: that of the switch.
    pub netns: Option<PathBuf>,
    /// Names of its host interfaces.
    pub interfaces: Vec<String>,
}

impl From<&Router> for RouterReport {
    fn from(router: &Router) -> RouterReport {
        let interfaces = router.interfaces.iter().map(|interface| interface.name.clone()).collect();
        RouterReport { netns: router.netns.clone(), interfaces }
    }
}

/// One port.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)] // the names are those of docs/configuration.md
pub struct PortReport {
    pub name: String,
    pub device: String,
    pub speed_bps: u64,
    pub mtu: u32,
    /// `all`, or the list.
    pub queues: String,
    /// One for each queue; `null` where the device is not here to tell: memory is for one then.
    pub sockets: Option<u32>,
    pub fill_ring: u32,
    pub rx_ring: u32,
    pub tx_ring: u32,
    pub completion_ring: u32,
    /// Frames that may arrive during a stall.
    pub stall_frames: u32,
    pub burst_bytes: u64,
    pub commit_bytes: u64,
    pub pause: &'static str,
    /// Classes whose pause is obeyed.
    pub obeys: Vec<u8>,
    /// Classes for which pauses are sent.
    pub sends: Vec<u8>,
    pub pause_time_us: f64,
    pub refresh_us: f64,
    pub trust: &'static str,
    pub routed: bool,
    pub pvid: Option<u16>,
    pub tagged: Vec<u16>,
    pub untagged: Vec<u16>,
    pub classes: Vec<ClassReport>,
}

/// One class of one port.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)] // the names are those of docs/configuration.md
pub struct ClassReport {
    pub class: u8,
    pub lossless: bool,
    pub xoff_bytes: Option<u64>,
    pub xon_bytes: Option<u64>,
    pub headroom_bytes: u64,
    /// The computed headroom, cause by cause.
    #[serde(serialize_with = "in_order")]
    pub headroom_terms: Vec<(&'static str, u64)>,
    pub xoff_frames: Option<u32>,
    pub ingress_max_bytes: Option<u64>,
    pub egress_max_bytes: Option<u64>,
    pub egress_max_frames: Option<u32>,
    pub queue: &'static str,
    /// `strict`, or the weight.
    pub weight: String,
    pub max_rate_bps: Option<u64>,
    pub policy: &'static str,
    /// What the policy compares with beside XOFF and XON; none for a lossy class.
    #[serde(serialize_with = "in_order")]
    pub policy_thresholds: Vec<(&'static str, u64)>,
    /// Where this port's line is congested in the class; `null` where no thresholds of
    /// the ports that feed it tell that by themselves.
    pub congested: Option<CongestedReport>,
    /// `null`: off.
    pub ecn: Option<EcnReport>,
    /// `null`: off.
    pub watchdog: Option<WatchdogReport>,
}

/// A congested line, as far as the thresholds of the ports that feed it decide.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CongestedReport {
    /// How long what is queued below XON keeps the line busy while a peer has yet to go on: of the one port that
    /// has least, and of all others together.
    pub covered_us: Spread,
    /// How long a frame waits for what is queued up to XOFF: of the one port that has most, and of all others together.
    pub delay_us: Spread,
    /// How much of its own worker's absence the line makes up for.
    pub made_up_us: f64,
}

/// Of one feeding port, and of all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Of one.
    pub one: f64,
    /// Of all.
    pub all: f64,
}

/// ECN of one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)] // the names are those of docs/configuration.md
pub struct EcnReport {
    pub min_bytes: u64,
    pub max_bytes: u64,
    pub probability: f64,
    pub wred: bool,
}

impl From<EcnSettings> for EcnReport {
    fn from(EcnSettings { min, max, probability, wred }: EcnSettings) -> EcnReport {
        EcnReport { min_bytes: min.0, max_bytes: max.0, probability, wred }
    }
}

/// The watchdog of one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)] // the names are those of docs/configuration.md
pub struct WatchdogReport {
    pub action: &'static str,
    pub detect_us: f64,
    pub restore_us: f64,
}

impl From<WatchdogSettings> for WatchdogReport {
    fn from(settings: WatchdogSettings) -> WatchdogReport {
        WatchdogReport {
            action: settings.action.name(),
            detect_us: micros(settings.detect.0),
            restore_us: micros(settings.restore.0),
        }
    }
}

/// Congestion points.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)] // the names are those of docs/configuration.md
pub struct QcnReport {
    pub ingress: Vec<u8>,
    pub egress: Vec<u8>,
    pub set_point_bytes: u64,
    pub weight: u32,
    pub sample_every_bytes: u64,
    pub jitter_percent: u8,
    pub frames_per_cnm: u32,
    pub culprit: &'static str,
    /// Flows told apart; `null` where none are.
    pub flows: Option<u16>,
}

/// One consumer of memory.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryReport {
    /// What it is.
    pub what: &'static str,
    /// UMEM chunks.
    pub chunks: u64,
    /// Bytes, chunks included.
    pub bytes: u64,
}

/// One error, warning or note.
#[derive(Clone, Debug, Serialize)]
pub struct ProblemReport {
    /// What was found and what is allowed.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// From 1.
    pub line: Option<usize>,
    /// From 1.
    pub column: Option<usize>,
}

impl ProblemReport {
    /// As data.
    #[must_use]
    pub fn of(problem: &Problem) -> ProblemReport {
        let (line, column) = problem.position.unzip();
        ProblemReport { message: problem.message.clone(), help: problem.help.clone(), line, column }
    }
}

impl Report {
    /// What follows from `config`, which was read from `file`, on `machine`.
    #[must_use]
    pub fn of(file: &str, config: &Config, machine: &Machine) -> Report {
        let (switch, shell) = (&config.switch, &config.shell);
        let queues = config.queues(machine);
        let placed = config.with_spare_places();
        let workers = placed.workers(&machine.cores);
        let plan = placed.memory(&workers, &placed.queues(machine));
        let memory = plan.consumers.iter().map(|consumer| MemoryReport {
            what: consumer.what,
            chunks: consumer.frames,
            bytes: consumer.bytes.0,
        });
        Report {
            file: file.to_owned(),
            valid: true,
            name: shell.name.clone(),
            stall_budget_us: micros(shell.stall_budget.0),
            smallest_frame_bytes: shell.smallest_frame,
            poll: match shell.poll {
                xoff_config::Poll::Busy => "busy",
                xoff_config::Poll::Adaptive { .. } => "adaptive",
            },
            http: shell.http.as_ref().map(ToString::to_string),
            accounting: switch.accounting.word(),
            memory_model: match switch.memory {
                Memory::Dedicated => "dedicated",
                Memory::Shared(_) => "shared",
            },
            when_full: switch.when_full.name(),
            pipeline: switch.pipeline.into(),
            workers: workers.iter().map(|worker| worker_report(worker, config)).collect(),
            ports: ports(config, &queues),
            router: shell.router.as_ref().map(RouterReport::from),
            qcn: qcn_report(&switch.qcn),
            memory: memory.collect(),
            chunk_bytes: shell.chunks.bytes,
            multi_buffer: shell.chunks.multi_buffer,
            memory_total_bytes: plan.total.0,
            kernel_memory_bytes: plan.kernel.0,
            warnings: config.warnings.iter().map(ProblemReport::of).collect(),
            notes: config.notes.iter().map(ProblemReport::of).collect(),
        }
    }
}

fn qcn_report(qcn: &QcnSettings) -> Option<QcnReport> {
    let list = |classes: ClassSet| -> Vec<u8> { classes.iter().map(Class::get).collect() };
    let report = QcnReport {
        ingress: list(qcn.ingress),
        egress: list(qcn.egress),
        set_point_bytes: qcn.set_point.0,
        weight: qcn.weight,
        sample_every_bytes: qcn.sample_every.0,
        jitter_percent: qcn.jitter_percent,
        frames_per_cnm: qcn.frames_per_cnm,
        culprit: qcn.culprit.word(),
        flows: (qcn.culprit == Culprit::OccupancyDeterministic).then_some(qcn.flows_max),
    };
    (!(report.ingress.is_empty() && report.egress.is_empty())).then_some(report)
}

fn worker_report(worker: &Worker, config: &Config) -> WorkerReport {
    let name = |port: &PortId| config.switch.ports.get(port.index()).map(|port| port.name.clone());
    WorkerReport { core: worker.core, ports: worker.ports.iter().filter_map(name).collect() }
}

fn ports(config: &Config, queues: &[Option<u32>]) -> Vec<PortReport> {
    let ports = config.switch.ports.iter().zip(&config.shell.ports).zip(&config.headroom).zip(queues);
    let numbered = (0..=u8::MAX).map(PortId).zip(ports);
    numbered
        .map(|(id, (((port, shell), headroom), &queues))| PortReport {
            sockets: queues,
            ..port_report(id, port, shell, headroom, &config.switch)
        })
        .collect()
}

/// What the thresholds of the other ports mean for the line of `port` where it is congested in `class`: of those whose
/// peers are told to stop, by ingress thresholds that are what the settings say. Those of shared memory depend on what is
/// free there, and other policies look at egress queues, rates or other classes, too.
fn congested(port: &PortSettings, class: Class, switch: &SwitchSettings) -> Option<CongestedReport> {
    let feeding = || {
        let others = switch.ports.iter().filter(|other| other.name != port.name);
        others.filter(|other| other.sends().contains(class)).map(|other| &other.classes[class.index()])
    };
    let time = |bytes: Bytes| micros(port.speed.time_of(bytes).0);
    let all =
        |of: fn(&ClassSettings) -> Bytes| time(feeding().map(of).fold(Bytes::ZERO, Bytes::saturating_add));
    let decide = switch.accounting == Accounting::UntilTransmitted
        && matches!(switch.memory, Memory::Dedicated)
        && switch.policies[class.index()] == PolicyKind::Pfc;
    let is_told = decide && port.classes[class.index()].lossless;
    let least = feeding().map(|class| class.xon).min().filter(|_| is_told)?;
    let most = feeding().map(|class| class.xoff).max()?;
    Some(CongestedReport {
        covered_us: Spread { one: time(least), all: all(|class| class.xon) },
        delay_us: Spread { one: time(most), all: all(|class| class.xoff) },
        made_up_us: time(port.burst),
    })
}

fn port_report(
    id: PortId,
    port: &PortSettings,
    shell: &PortShell,
    headroom: &[Option<Headroom>],
    switch: &SwitchSettings,
) -> PortReport {
    let (pause, obeys, sends) = flow_control(port);
    let Rings { fill, rx, tx, completion } = shell.rings;
    let vids = |member: fn(&VlanSettings) -> &[PortId]| {
        switch.vlans.iter().filter(|vlan| member(vlan).contains(&id)).map(|vlan| vlan.vid).collect()
    };
    PortReport {
        name: port.name.clone(),
        device: shell.device.clone(),
        speed_bps: port.speed.bits_per_second(),
        mtu: port.mtu_frame - ETHERNET_HEADER,
        queues: match &shell.queues {
            Queues::All => "all".into(),
            Queues::List(list) => list.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
        },
        sockets: None,
        fill_ring: fill,
        rx_ring: rx,
        tx_ring: tx,
        completion_ring: completion,
        stall_frames: shell.stall_frames,
        burst_bytes: port.burst.0,
        commit_bytes: port.commit.0,
        pause,
        obeys: numbers(obeys),
        sends: numbers(sends),
        pause_time_us: micros(port.speed.time_of_quanta(port.pause_time).0),
        refresh_us: micros(port.refresh.0),
        trust: port.trust.word(),
        routed: port.routed,
        pvid: port.pvid,
        tagged: vids(|vlan| &vlan.tagged),
        untagged: vids(|vlan| &vlan.untagged),
        classes: Class::ALL
            .map(|class| {
                let (settings, headroom) = (&port.classes[class.index()], headroom[class.index()].as_ref());
                let congested = congested(port, class, switch);
                ClassReport { congested, ..class_report(class, settings, headroom, switch) }
            })
            .to_vec(),
    }
}

fn class_report(
    class: Class,
    settings: &ClassSettings,
    headroom: Option<&Headroom>,
    switch: &SwitchSettings,
) -> ClassReport {
    let policy = switch.policies[class.index()];
    let thresholds = policy.thresholds(settings, &switch.policy);
    let terms = headroom.map(Headroom::terms).into_iter().flatten();
    ClassReport {
        class: class.get(),
        lossless: settings.lossless,
        xoff_bytes: limit(settings.xoff),
        xon_bytes: settings.lossless.then_some(settings.xon.0),
        headroom_bytes: settings.headroom.0,
        headroom_terms: terms.map(|(name, bytes)| (name, bytes.0)).collect(),
        xoff_frames: limit_frames(settings.xoff_frames),
        ingress_max_bytes: limit(settings.ingress_max),
        egress_max_bytes: limit(settings.egress_max),
        egress_max_frames: limit_frames(settings.egress_max_frames),
        queue: settings.queue.word(),
        weight: match settings.service {
            Service::Strict => "strict".into(),
            Service::Weighted(weight) => weight.to_string(),
        },
        max_rate_bps: settings.max_rate.map(|rate| rate.bits_per_second()),
        ecn: settings.ecn.map(EcnReport::from),
        watchdog: settings.watchdog.map(WatchdogReport::from),
        policy: policy.name(),
        congested: None,
        policy_thresholds: thresholds
            .into_iter()
            .filter(|_| settings.lossless)
            .map(|(name, bytes)| (name, bytes.0))
            .collect(),
    }
}

fn flow_control(port: &PortSettings) -> (&'static str, ClassSet, ClassSet) {
    match port.flow_control {
        FlowControl::Pfc { obey, send } if obey == send => ("pfc", obey, send),
        FlowControl::Pfc { obey, send } => ("asymmetric", obey, send),
        FlowControl::Pause8023x => ("802.3x", ClassSet::ALL, port.lossless()),
        FlowControl::Ignore => ("ignore", ClassSet::NONE, ClassSet::NONE),
    }
}

fn numbers(classes: ClassSet) -> Vec<u8> {
    classes.iter().map(Class::get).collect()
}

fn in_order<S: Serializer>(terms: &[(&'static str, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(terms.iter().copied())
}

fn limit(bytes: Bytes) -> Option<u64> {
    (bytes != Bytes::MAX).then_some(bytes.0)
}

fn limit_frames(frames: u32) -> Option<u32> {
    (frames != u32::MAX).then_some(frames)
}

#[allow(clippy::cast_precision_loss)] // for people to read
fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1_000.0
}
