use xoff_flow_control::settings::{
    Accounting, AutoPeer, CountUnit, Dcbx, EcnSettings, Flooded, FlowControl, GPfcSettings, GfcSettings,
    GroupSettings, Lacp, Lldp, LoopDetection, LossyPool, Member, Memory, OfcSettings, PPfcSettings,
    PipelineSettings, PolicyKind, PortSettings, PuntLimit, QcnSettings, QueueKind, Service, SharedMemory,
    Spread, StormLimit, Trust, UnknownGroups, WatchdogSettings, WhenFull,
};
use xoff_wire::PathHash;
use xoff_wire::units::{BitRate, Bytes, Class, ClassSet, Nanos, Quanta};

use crate::choices::Choice as _;
use crate::quantity;
use crate::shell::{
    Chunks, HttpAt, LogFormat, Mode, Poll, Queues, ReceiveChunks, Rings, Router, Sighup, Workers, ZeroCopy,
};
use crate::written::ranges;

pub(super) trait Notation {
    fn notation(&self) -> String;
}

pub(super) fn absent() -> String {
    "none".to_owned()
}

macro_rules! notation_by_display {
    ($($type:ty),*) => { $(impl Notation for $type {
        fn notation(&self) -> String {
            self.to_string()
        }
    })* };
}
notation_by_display!(bool, u8, u16, u32, usize, f64, String, Class, HttpAt, std::net::Ipv4Addr);

macro_rules! notation_by_word {
    ($($type:ty),*) => { $(impl Notation for $type {
        fn notation(&self) -> String {
            self.word().into()
        }
    })* };
}
notation_by_word!(
    Accounting,
    Dcbx,
    LogFormat,
    LoopDetection,
    Mode,
    QueueKind,
    ReceiveChunks,
    Sighup,
    Trust,
    CountUnit,
    UnknownGroups,
    ZeroCopy
);

macro_rules! notation_by {
    ($($type:ty: $how:expr),* $(,)?) => { $(impl Notation for $type {
        fn notation(&self) -> String {
            let how: fn(&$type) -> String = $how;
            how(self)
        }
    })* };
}

notation_by! {
    Lldp: |lldp| match lldp {
        Lldp::Off => "false".into(),
        Lldp::Switch => "true".into(),
        Lldp::Kernel => "kernel".into(),
    },
    Bytes: |bytes| if *bytes == Bytes::MAX { "no limit".into() } else { quantity::bytes(*bytes) },
    Nanos: |time| quantity::time(*time),
    BitRate: |rate| quantity::rate(*rate),
    AutoPeer: |AutoPeer { flow_lists, rates }| match (flow_lists, rates) {
        (false, false) => "nothing".into(),
        (true, false) => "ofc_peer".into(),
        (false, true) => "gfc_peer".into(),
        (true, true) => "ofc_peer, gfc_peer".into(),
    },
    PuntLimit: |PuntLimit { rate, burst }| format!("{rate} frames a second, bursts of {burst}"),
    PathHash: |hash| ["addresses"].into_iter().chain(hash.fields()).collect::<Vec<_>>().join(", "),
    Quanta: |quanta| format!("{} quanta", quanta.0),
    ClassSet: |classes| ranges(&classes.iter().map(Class::get).collect::<Vec<u8>>()),
    Router: |Router { netns, interfaces, spread }| {
        let names: Vec<&str> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
        let netns = netns.as_ref().map_or_else(|| "of the switch".into(), |path| path.display().to_string());
        let spread = match spread {
            Spread::Frame(_) => "frame".into(), // `turns` is not a key of a router
            Spread::Flow | Spread::Adaptive { .. } => spread.notation(),
        };
        format!("{}, namespace {netns}, spread {spread}", names.join(", "))
    },
    Spread: |spread| match *spread {
        Spread::Flow => "flow".into(),
        Spread::Frame(turns) => format!("frame, turns {}", turns.word()),
        Spread::Adaptive { low, high } => format!("adaptive, low {}, high {}", low.notation(), high.notation()),
    },
    Vec<(u16, xoff_wire::units::MacAddr)>: |vlans| {
        ranges(&vlans.iter().map(|(vid, _)| *vid).collect::<Vec<u16>>())
    },
    std::path::PathBuf: |path| path.display().to_string(),
    PolicyKind: |kind| kind.name().into(),
    WhenFull: |when| when.name().into(),
    Service: |service| match service {
        Service::Strict => "strict".into(),
        Service::Weighted(weight) => weight.to_string(),
    },
    Poll: |poll| match poll {
        Poll::Busy => "busy".into(),
        Poll::Adaptive { idle_after } => format!("adaptive, idle_after {}", idle_after.notation()),
    },
    Queues: |queues| match queues {
        Queues::All => "all".into(),
        Queues::List(list) => ranges(list),
    },
    Rings: |Rings { fill, rx, tx, completion }| format!("fill {fill}, rx {rx}, tx {tx}, completion {completion}"),
    Chunks: |Chunks { bytes, receive, multi_buffer }| {
        let several = if *multi_buffer { ", several chunks for a long frame" } else { "" };
        format!("{bytes} bytes, receive chunks {}{several}", receive.notation())
    },
    Workers: |workers| match workers {
        Workers::Auto => "auto".into(),
        Workers::Count(count) => count.to_string(),
        Workers::List(list) => format!("a list of {}", list.len()),
    },
    StormLimit: |limit| {
        let rates = Flooded::ALL.map(|kind| limit.of(kind).map(|rate| format!("{} {}", kind.name(), rate.notation())));
        let rates: Vec<String> = rates.into_iter().flatten().collect();
        if rates.is_empty() { absent() } else { rates.join(", ") }
    },
    EcnSettings: |EcnSettings { min, max, probability, wred }| {
        let wred = if *wred { ", wred" } else { "" };
        format!("from {} to {}, probability {probability}{wred}", min.notation(), max.notation())
    },
    WatchdogSettings: |WatchdogSettings { action, detect, restore, share }| {
        let detect = detect.notation();
        let part = if *share < WatchdogSettings::UNBROKEN { format!(", or if paused for {share} % of {detect}") } else { String::new() };
        format!("{} after {detect} of pause{part}, ends after {} without pause", action.name(), restore.notation())
    },
    FlowControl: |flow_control| match flow_control {
        FlowControl::Pfc { obey, send } => format!("pfc, obeyed in classes {}, sent in classes {}", some(obey), some(send)),
        FlowControl::Pause8023x => "802.3x".into(),
        FlowControl::Ignore => "ignore".into(),
    },
    OfcSettings: |OfcSettings { alpha, flows, congested_flows, paused_flows }| {
        format!("alpha {alpha}, flows {flows}, congested_flows {congested_flows}, paused_flows {paused_flows}")
    },
    PPfcSettings: |PPfcSettings { prediction }| {
        format!("prediction {}", prediction.map_or("off".into(), quantity::time))
    },
    GPfcSettings: |GPfcSettings { pause_lower, resume_lower }| {
        format!("pause_lower {pause_lower}, resume_lower {resume_lower}")
    },
    GfcSettings: |GfcSettings { first, steps }| format!("first {first}, steps {steps}"),
    PipelineSettings: |PipelineSettings { rate, delay, ingress }| {
        let rate = rate.map_or("none".into(), quantity::frame_rate);
        format!("rate {rate}, delay {}, ingress {}", delay.notation(), ingress.name())
    },
    Memory: |memory| match memory {
        Memory::Dedicated => "dedicated".into(),
        Memory::Shared(shared) => shared.notation(),
    },
    LossyPool: |pool| match *pool {
        LossyPool::UNLIMITED => "none".into(),
        LossyPool { bytes, .. } => bytes.notation(),
    },
    SharedMemory: |shared| {
        let SharedMemory {
            pool, ingress_limit, egress_limit, port_limit, egress_port_limit, egress_limits, headroom, alpha_log2
        } = shared;
        let limits = [
            ("pool", pool),
            ("ingress_limit", ingress_limit),
            ("egress_limit", egress_limit),
            ("port_limit", port_limit),
            ("egress_port_limit", egress_port_limit),
        ];
        let limits = limits.map(|(name, bytes)| format!("{name} {}", bytes.notation())).join(", ");
        let (of_egress, headroom) = (egress_limits.word(), headroom.word());
        let alpha = alpha_log2.map_or_else(absent, |alpha| alpha.to_string());
        format!("shared, {limits}, egress_limits {of_egress}, headroom {headroom}, alpha_log2 {alpha}")
    },
    QcnSettings: |qcn| {
        let QcnSettings {
            ingress, egress, set_point, weight, sample_every, jitter_percent, frames_per_cnm, culprit, flows_max, seed,
        } = qcn;
        let culprit = culprit.word();
        format!(
            "ingress {}, egress {}, set_point {}, weight {weight}, sample_every {}, jitter {jitter_percent}, \
             frames_per_cnm {frames_per_cnm}, culprit {culprit}, flows {flows_max}, seed {seed}",
            some(ingress), some(egress), set_point.notation(), sample_every.notation(),
        )
    },
}

pub(super) fn group(group: &GroupSettings, ports: &[PortSettings]) -> String {
    let GroupSettings { name: _, members, spread, uplinks, lacp, salt: _ } = group;
    let member = |member: &Member| {
        let name = ports.get(member.port.index()).map_or("", |port| &port.name);
        if member.weight == 1 { name.to_owned() } else { format!("{name} (weight {})", member.weight) }
    };
    let members: Vec<String> = members.iter().map(member).collect();
    let spread = spread.notation();
    let of_uplinks = if *uplinks { ", uplinks" } else { "" };
    let lacp = lacp.map_or_else(String::new, |Lacp { active, short_timeout }| {
        let timeout = if short_timeout { "short" } else { "long" };
        format!(", lacp {}, lacp_timeout {timeout}", if active { "active" } else { "passive" })
    });
    format!("ports {}, spread {spread}{of_uplinks}{lacp}", members.join(", "))
}

fn some(classes: &ClassSet) -> String {
    if classes.is_empty() { absent() } else { classes.notation() }
}

impl<T: Notation> Notation for Option<T> {
    fn notation(&self) -> String {
        self.as_ref().map_or_else(absent, Notation::notation)
    }
}

impl<T: Notation> Notation for Vec<T> {
    fn notation(&self) -> String {
        let all: Vec<String> = self.iter().map(Notation::notation).collect();
        if all.is_empty() { absent() } else { all.join(", ") }
    }
}

impl<T: Notation + PartialEq, const N: usize> Notation for [T; N] {
    fn notation(&self) -> String {
        let runs = self.chunk_by(|left, right| left == right).scan(0, |from, run| {
            let (first, last) = (*from, *from + run.len() - 1);
            *from = last + 1;
            Some(match first == last {
                true => format!("{first} = {}", run[0].notation()),
                false => format!("{first}-{last} = {}", run[0].notation()),
            })
        });
        runs.collect::<Vec<_>>().join(", ")
    }
}
