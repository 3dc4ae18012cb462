use xoff_dataplane::forward::LOOP_HOLD;
use xoff_flow_control::counters::ClassCounters;
use xoff_flow_control::drop_reason::{DropKind, DropReason};
use xoff_flow_control::settings::{FlowControl, LoopDetection, WatchdogSettings};
use xoff_wire::MacControlError;
use xoff_wire::units::{Class, ClassSet, PortId};

use super::super::external_losses::ExternalLosses;
use super::super::judged::UNFINISHED_CHECKSUM;
use super::super::view::{PortView, SwitchView};
use super::super::{loops, storms};
use super::mismatch::pause_mismatch;
use super::paused::{PERCENT_MIN, WINDOW};
use crate::lldp::mismatch::MismatchKind;
use xoff_config::format::span;
use xoff_config::written::grouped;

#[derive(Debug)]
pub(super) struct ConditionKind {
    pub event: &'static str,
    pub is_loss: bool,
    pub began: &'static str,
    pub goes_on: &'static str,
    pub over: &'static str,
    pub counted: &'static str,
    pub end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    AfterQuiet,
    /// The fault ends with its condition, but at the earliest one second after its last log line.
    AtOnce,
    /// The condition is no fault: it is logged only the first time.
    LoggedOnce,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Location {
    pub port: Option<PortId>,
    pub class: Option<Class>,
    pub group: Option<String>,
    pub worker: Option<usize>,
    pub cause: Option<String>,
}

type Count = dyn Fn(&SwitchView, &KernelLosses) -> u64 + Send;
type Lasts = dyn Fn(&SwitchView) -> bool + Send;
type Tests = dyn Fn(&SwitchView) -> u64 + Send;
type Detail = dyn Fn(&SwitchView) -> Option<String> + Send;

pub(super) struct Condition {
    pub kind: &'static ConditionKind,
    pub place: Location,
    pub count: Box<Count>,
    /// Returns whether the fault exists now, even if its counter has not grown.
    pub lasts: Box<Lasts>,
    /// Counts occasions for the fault: for a late peer, XOFFs. The fault ends only after an occasion at which it did
    /// not occur.
    pub tests: Option<Box<Tests>>,
    pub detail: Box<Detail>,
}

const LOSS: ConditionKind = ConditionKind {
    event: "loss",
    is_loss: true,
    began: "lossless frames are lost",
    goes_on: "lossless frames are still being lost",
    over: "lossless frames are no longer lost",
    counted: "frames",
    end: End::AfterQuiet,
};
const UNSEEN_LOSS: ConditionKind = ConditionKind {
    event: "unseen-loss",
    is_loss: true,
    began: "the NIC or kernel drops frames, and lossless ones may be among them",
    goes_on: "the NIC or kernel still drops frames, and lossless ones may be among them",
    over: "the NIC or kernel no longer drops frames",
    counted: "frames",
    end: End::AfterQuiet,
};
const UNSEEN_UNKNOWN: ConditionKind = ConditionKind {
    event: "unseen-loss-unproved",
    is_loss: true,
    began: "frames are lost before the XDP program sees them; only lossy classes arrive, which does not prove that no lost \
        frame is lossless",
    goes_on: "frames are still lost before the XDP program sees them; that only lossy classes arrive does not prove that no \
        lost frame is lossless",
    over: "frames are no longer lost before the XDP program sees them",
    counted: "frames",
    end: End::AfterQuiet,
};
const UNSEEN_LOSSY: ConditionKind = ConditionKind {
    event: "unseen-loss-lossy",
    is_loss: false,
    began: "the NIC or kernel drops frames at a port that carries only lossy classes",
    goes_on: "the NIC or kernel still drops frames at a port that carries only lossy classes",
    over: "the NIC or kernel no longer drops frames of lossy classes",
    counted: "frames",
    end: End::AfterQuiet,
};
const STALL: ConditionKind = ConditionKind {
    event: "stall",
    is_loss: false,
    began: "a worker was not scheduled for longer than `stall_budget`: the machine had no core for the worker",
    goes_on: "a worker is still repeatedly not scheduled for longer than `stall_budget`",
    over: "the worker is scheduled in time again",
    counted: "stalls",
    end: End::AfterQuiet,
};
const STORM: ConditionKind = ConditionKind {
    event: "storm",
    is_loss: false,
    began: "pause storm: the peer keeps the class paused",
    goes_on: "the pause storm continues",
    over: "the pause storm is over",
    counted: "storms",
    end: End::AtOnce,
};
const LONG_PAUSES: ConditionKind = ConditionKind {
    event: "long-pauses",
    is_loss: false,
    began: "the peer pauses the class nearly all the time: look for a slow receiver behind it",
    goes_on: "the peer still pauses the class nearly all the time: look for a slow receiver behind it",
    over: "the peer no longer pauses the class nearly all the time",
    counted: "times found",
    end: End::AfterQuiet,
};
const LOOP: ConditionKind = ConditionKind {
    event: "loop",
    is_loss: false,
    began: "a loop: stations move back and forth between two ports, as if these were connected outside the switch",
    goes_on: "the loop lasts: stations still move back and forth between two ports",
    over: "the loop is over: stations no longer move between the ports",
    counted: "times found",
    end: End::AfterQuiet,
};
const DUPLICATE: ConditionKind = ConditionKind {
    event: "duplicate-address",
    is_loss: false,
    began: "a MAC address moves back and forth between two ports: two hosts with one address? Give one of them another address",
    goes_on: "a MAC address still moves back and forth between two ports",
    over: "no MAC address moves back and forth between the ports any more",
    counted: "seconds",
    end: End::AfterQuiet,
};
const PEER_FAST: ConditionKind = ConditionKind {
    event: "peer-too-fast",
    is_loss: false,
    began: "the peer sends faster than the configured `speed` of its port",
    goes_on: "the peer still sends faster than the configured `speed` of its port",
    over: "the peer no longer sends faster than the configured `speed`",
    counted: "bytes too many",
    end: End::AfterQuiet,
};
const PEER_EXCESS: ConditionKind = ConditionKind {
    event: "peer-excess",
    is_loss: false,
    began: "the peer sends more after XOFF than the headroom assumes: its line exceeds `speed`, or its driver holds more bytes",
    goes_on: "the peer still sends more after XOFF than the headroom assumes: its line exceeds `speed`, or its driver holds more bytes",
    over: "the peer no longer sends more after XOFF than the headroom assumes",
    counted: "frames too many",
    end: End::AfterQuiet,
};
const PEER_LATE: ConditionKind = ConditionKind {
    event: "peer-late",
    is_loss: false,
    began: "the peer still sends while it is paused: run `xoff nic` there if it is a Linux host without PFC in its NIC; raise \
            `peer_response` if it stops late",
    goes_on: "the peer keeps sending while it is paused: run `xoff nic` there if it is a Linux host without PFC in its NIC; raise \
            `peer_response` if it stops late",
    over: "the peer again stops in time when it is paused",
    counted: "frames too late",
    end: End::AfterQuiet,
};
const PAUSE_UNKNOWN: ConditionKind = ConditionKind {
    event: "pause-mismatch",
    is_loss: false,
    began: "the peer sends pause frames that the port does not obey",
    goes_on: "the peer still sends pause frames that the port does not obey",
    over: "the peer has stopped sending pause frames that the port does not obey",
    counted: "pause frames",
    end: End::AfterQuiet,
};
const MALFORMED: ConditionKind = ConditionKind {
    event: "malformed-control",
    is_loss: false,
    began: "malformed MAC control frames arrive, which pause nothing",
    goes_on: "malformed MAC control frames still arrive, which pause nothing",
    over: "malformed MAC control frames no longer arrive",
    counted: "frames",
    end: End::AfterQuiet,
};
const OTHER_CONTROL: ConditionKind = ConditionKind {
    event: "other-control",
    is_loss: false,
    began: "MAC control frames arrive that are neither PFC nor PAUSE; the switch consumes them, and logs this once",
    goes_on: "",
    over: "",
    counted: "frames",
    end: End::LoggedOnce,
};
const PCP_OVERRULED: ConditionKind = ConditionKind {
    event: "pcp-overruled",
    is_loss: false,
    began: "frames with the PCP of a lossless class have a lossy class by DSCP: mark their DSCP, or set trust = \"pcp\"; logged once",
    goes_on: "",
    over: "",
    counted: "flows",
    end: End::LoggedOnce,
};
const CHECKSUM: ConditionKind = ConditionKind {
    event: UNFINISHED_CHECKSUM,
    is_loss: false,
    began: "TCP or UDP frames arrive with unfinished checksums, so their receivers discard them: run `ethtool -K DEVICE tx off` at \
            the host behind this port",
    goes_on: "TCP or UDP frames still arrive with unfinished checksums: run `ethtool -K DEVICE tx off` at the host behind this port",
    over: "TCP and UDP frames arrive with finished checksums again",
    counted: "sampled frames",
    end: End::AfterQuiet,
};
const TOO_LONG: ConditionKind = ConditionKind {
    event: "too-long",
    is_loss: false,
    began: "frames longer than the MTU arrive and are dropped: give the host behind this port the MTU of the port, or turn off its \
            segmentation offload (`ethtool -K DEVICE tso off gso off`)",
    goes_on: "frames longer than the MTU still arrive and are dropped",
    over: "frames longer than the MTU no longer arrive",
    counted: "frames",
    end: End::AfterQuiet,
};
const DCBX_MISMATCH: ConditionKind = ConditionKind {
    event: "dcbx-mismatch",
    is_loss: false,
    began: "the LLDP neighbor's configuration of classes differs from this port's",
    goes_on: "the LLDP neighbor's configuration of classes still differs from this port's",
    over: "the LLDP neighbor's configuration of classes matches this port's again, or is no longer announced",
    counted: "times found",
    end: End::AfterQuiet,
};

const FILTER_DETACHED: ConditionKind = ConditionKind {
    event: "filter-detached",
    is_loss: false,
    began: "another program removed the egress filter of the port, which cannot be attached again: the machine's own stack can send by \
            the port",
    goes_on: "the egress filter of the port still cannot be attached again; the switch tries every second",
    over: "the egress filter of the port is attached again, or its device is gone",
    counted: "times found",
    end: End::AtOnce,
};
#[cfg(test)]
pub(super) const KINDS: [&ConditionKind; 20] = [
    &LOSS,
    &UNSEEN_LOSS,
    &UNSEEN_UNKNOWN,
    &UNSEEN_LOSSY,
    &STALL,
    &STORM,
    &LONG_PAUSES,
    &LOOP,
    &DUPLICATE,
    &PEER_FAST,
    &PEER_EXCESS,
    &PEER_LATE,
    &PAUSE_UNKNOWN,
    &MALFORMED,
    &OTHER_CONTROL,
    &PCP_OVERRULED,
    &CHECKSUM,
    &TOO_LONG,
    &DCBX_MISMATCH,
    &FILTER_DETACHED,
];

impl Condition {
    pub fn new(
        kind: &'static ConditionKind,
        place: Location,
        count: impl Fn(&SwitchView, &KernelLosses) -> u64 + Send + 'static,
    ) -> Condition {
        Condition {
            kind,
            place,
            count: Box::new(count),
            lasts: Box::new(|_| false),
            tests: None,
            detail: Box::new(|_| None),
        }
    }

    pub fn key(&self) -> (&'static str, Location) {
        (self.kind.event, self.place.clone())
    }

    pub fn lasting(self, lasts: impl Fn(&SwitchView) -> bool + Send + 'static) -> Condition {
        Condition { lasts: Box::new(lasts), ..self }
    }

    fn tested_by(self, tests: impl Fn(&SwitchView) -> u64 + Send + 'static) -> Condition {
        Condition { tests: Some(Box::new(tests)), ..self }
    }

    pub fn saying(self, detail: impl Fn(&SwitchView) -> Option<String> + Send + 'static) -> Condition {
        Condition { detail: Box::new(detail), ..self }
    }
}

pub(super) fn all(view: &SwitchView) -> Vec<Condition> {
    let workers = (0..view.workers.len()).map(stall);
    let ports = view.ports().flat_map(|(id, _)| of_port(view, id));
    let classes = view.classes().flat_map(|(port, class, _)| of_class(view, port, class));
    workers.chain(ports).chain(classes).collect()
}

fn stall(worker: usize) -> Condition {
    let place = Location { worker: Some(worker), ..Location::default() };
    Condition::new(&STALL, place, move |view, _| view.workers[worker].facts.stalls.get()).saying(
        move |view| {
            let (longest, budget) = (view.workers[worker].facts.longest_gap.get(), view.stall_budget.0);
            Some(format!(
                "the longest stall took {}; stalls of up to {} cause no loss",
                span(longest),
                span(budget)
            ))
        },
    )
}

fn of_port(view: &SwitchView, id: PortId) -> Vec<Condition> {
    let place = |cause| Location { port: Some(id), cause, ..Location::default() };
    let unseen_of = |kind, frames: fn(&ExternalLosses) -> u64| {
        Condition::new(kind, place(None), move |_, kernel| frames(&kernel.unseen[id.index()]))
            .saying(move |view| counters(&view.ports[id.index()]))
    };
    let unseen = [
        unseen_of(&UNSEEN_LOSS, |unseen| unseen.lossless),
        unseen_of(&UNSEEN_UNKNOWN, |unseen| unseen.unknown),
        unseen_of(&UNSEEN_LOSSY, |unseen| unseen.lossy),
    ];
    let found = Condition::new(&LOOP, place(None), move |view, _| view.counters.port(id).loops.get())
        .lasting(move |view| view.counters.port(id).looped.get() != 0)
        .saying(move |view| {
            let blocked = view.settings().ports[id.index()].loop_detection == LoopDetection::Block;
            let moving = loops::addresses(view, id);
            let moving =
                if moving.is_empty() { String::new() } else { format!(", moving: {}", moving.join(", ")) };
            let other = format!("the other port is {}{moving}", loops::with(view, id)?);
            let seconds = LOOP_HOLD.0 / 1_000_000_000;
            Some(if blocked {
                format!("{other}; this port takes no part in floods for {seconds} s")
            } else {
                other
            })
        });
    let duplicate =
        Condition::new(&DUPLICATE, place(None), move |view, _| view.counters.port(id).duplicates.get())
            .saying(move |view| {
                let (addresses, other) =
                    (loops::duplicates(view, id).join(" and "), loops::duplicate_with(view, id)?);
                Some(format!("{addresses} at {} and {other}", view.name_of(id)))
            });
    let fast =
        Condition::new(&PEER_FAST, place(None), move |view, _| view.ports[id.index()].overspeed_bytes.get());
    let flow_control = view.settings().ports[id.index()].flow_control;
    let unknown = Condition::new(&PAUSE_UNKNOWN, place(None), move |view, _| match flow_control {
        FlowControl::Pfc { .. } | FlowControl::Pause8023x => {
            view.counters.port(id).pause_frames_ignored.get()
        }
        FlowControl::Ignore => 0,
    })
    .saying(move |view| {
        let classes = view.counters.port(id).pfc_classes_ignored.get();
        pause_mismatch(flow_control, ClassSet(u8::try_from(classes).unwrap_or(0)))
    });
    let malformed = MacControlError::ALL.into_iter().filter(|it| *it != MacControlError::UnknownOpcode);
    let malformed = malformed.map(|reason| {
        Condition::new(&MALFORMED, place(Some(reason.name().into())), move |view, _| {
            view.counters.port(id).malformed_control[reason.index()].get()
        })
        .saying(move |_| Some(reason.to_string()))
    });
    let other = Condition::new(&OTHER_CONTROL, place(None), move |view, _| {
        view.counters.port(id).malformed_control[MacControlError::UnknownOpcode.index()].get()
    });
    let overruled = Condition::new(&PCP_OVERRULED, place(None), move |view, _| {
        view.counters.port(id).pcp_overruled.get()
    });
    let checksum = Condition::new(&CHECKSUM, place(None), move |view, _| {
        view.counters.port(id).checksums_unfinished.get()
    })
    .tested_by(move |view| view.counters.port(id).checksums_examined.get());
    let too_long = Condition::new(&TOO_LONG, place(None), move |view, kernel| {
        let of_classes = |class: &ClassCounters| class.drops[DropReason::TooLong.index()].get();
        kernel.too_long[id.index()] + view.counters.port(id).classes.iter().map(of_classes).sum::<u64>()
    });
    let can_lose = MismatchKind::ALL.into_iter().filter(|kind| kind.can_lose());
    let differs = can_lose.map(|kind| {
        let now = move |view: &SwitchView| {
            let ports = view.neighbors.lock();
            let differing = ports[id.index()].mismatches.iter().find(|it| it.kind == kind);
            differing.map(|it| it.detail.clone())
        };
        Condition::new(&DCBX_MISMATCH, place(Some(kind.name().into())), move |view, _| {
            view.neighbors.lock()[id.index()].counts.mismatches[kind.index()]
        })
        .lasting(move |view| now(view).is_some())
        .saying(now)
    });
    let filter = Condition::new(&FILTER_DETACHED, place(None), |_, _| 0)
        .lasting(move |view| view.ports[id.index()].unfiltered.get().is_some())
        .saying(move |view| view.ports[id.index()].unfiltered.get());
    let others = [filter, found, duplicate, fast, unknown, other, overruled, checksum, too_long];
    unseen.into_iter().chain(others).chain(malformed).chain(differs).collect()
}

fn of_class(view: &SwitchView, port: PortId, class: Class) -> Vec<Condition> {
    let settings = &view.settings().ports[port.index()].classes[class.index()];
    let place = |cause| Location { port: Some(port), class: Some(class), cause, ..Location::default() };
    let reasons = DropReason::ALL.into_iter().filter(|reason| reason.kind() == DropKind::Lost);
    let losses = reasons.filter(|_| settings.lossless).map(|reason| {
        Condition::new(&LOSS, place(Some(reason.name().into())), move |view, _| {
            view.counters.class(port, class).drops[reason.index()].get()
        })
    });
    let xoffs = move |view: &SwitchView| view.counters.class(port, class).xoff_sent.get();
    let excess = Condition::new(&PEER_EXCESS, place(None), move |view, _| {
        view.counters.class(port, class).excess_frames.get()
    })
    .tested_by(xoffs)
    .saying(move |view| after_xoff(view, port, class));
    let late = Condition::new(&PEER_LATE, place(None), move |view, _| {
        view.counters.class(port, class).late_frames.get()
    })
    .tested_by(xoffs)
    .saying(move |view| after_xoff(view, port, class));
    let peer = [excess, late].into_iter().filter(|_| settings.lossless);
    let storm = settings.watchdog.map(|watchdog| {
        Condition::new(&STORM, place(None), move |view, _| view.counters.class(port, class).storms.get())
            .lasting(move |view| view.counters.class(port, class).storm_since.get() != 0)
            .saying(move |view| {
                let status = storms::status(view, port, class, watchdog);
                let last = status.last?;
                let part = match watchdog.share {
                    WatchdogSettings::UNBROKEN => String::new(),
                    share => format!(", or after pauses that fill {share} % of that time"),
                };
                let (action, detect) = (&status.action, span(watchdog.detect.0));
                let action =
                    format!("the watchdog takes its action `{action}` after a pause of {detect}{part}");
                let cost = format!(
                    "the last storm took {}, with {} frames dropped and {} forwarded",
                    span(last.nanos),
                    last.dropped,
                    last.forwarded
                );
                Some(if status.storm { action } else { cost })
            })
    });
    let paused = Condition::new(&LONG_PAUSES, place(None), |_, _| 0)
        .lasting(move |view| {
            let is_storm = view.counters.class(port, class).storm_since.get() != 0;
            !is_storm && view.ports[port.index()].paused_percent[class.index()].get() >= PERCENT_MIN
        })
        .saying(move |view| {
            let percent = view.ports[port.index()].paused_percent[class.index()].get();
            Some(format!("paused for {percent} % of the last {}", span(WINDOW.0)))
        });
    let paused = Some(paused).filter(|_| settings.lossless);
    losses.chain(peer).chain(storm).chain(paused).collect()
}

fn after_xoff(view: &SwitchView, port: PortId, class: Class) -> Option<String> {
    let (counters, settings) = (view.counters.class(port, class), &view.settings().ports[port.index()]);
    let (bytes, nanos) = (counters.after_xoff_max.get(), counters.response_max.get());
    Some(format!(
        "after an XOFF, the peer sent up to {} bytes, for up to {}; the headroom allows {} bytes (speed {}, response time {})",
        grouped(bytes),
        span(nanos),
        grouped(settings.past_xoff.0),
        xoff_config::quantity::rate(settings.speed),
        span(settings.peer_response.0)
    ))
}

#[derive(Debug)]
pub(super) struct KernelLosses {
    unseen: Vec<ExternalLosses>,
    /// For each port, frames that the XDP program dropped because they were longer than a memory chunk.
    too_long: Vec<u64>,
}

impl KernelLosses {
    pub fn new(view: &SwitchView) -> KernelLosses {
        let ports = view.ports.len();
        KernelLosses { unseen: vec![ExternalLosses::default(); ports], too_long: vec![0; ports] }
    }

    pub fn read_kernel(&mut self, view: &SwitchView) {
        self.unseen = view.unseen();
        for ((_, port), too_long) in view.places().zip(&mut self.too_long) {
            *too_long = port.xdp_statistics().map_or(*too_long, |xdp| xdp.rx_too_long);
        }
    }
}

fn counters(port: &PortView) -> Option<String> {
    let xdp = port.xdp_statistics().unwrap_or_default();
    let device = port.device_drops().unwrap_or_else(|unread| unread.last);
    let xdp = xdp.drops().into_iter().filter(|(name, _)| *name != "rx_too_long").map(|loss| ("xdp", loss));
    let device = device.losses().into_iter().map(|loss| ("device", loss));
    let counted = xdp.chain(device).filter(|(_, (_, count))| *count > 0);
    let counted: Vec<String> =
        counted.map(|(whose, (name, count))| format!("{whose} {name} {}", grouped(count))).collect();
    (!counted.is_empty())
        .then(|| format!("counters (one frame may be in several of them): {}", counted.join(", ")))
}
