//! JSON description of a checked configuration, also the source of `xoff check`'s tables.
//!
//! Suffixes of keys are units; `null` is "no limit", "off" or "unknown".

use serde_json::{Value, json};
use xoff_config::{Choice as _, Config, Machine, Poll, PortShell, Problem, Queues, Rings};
use xoff_flow_control::headroom::Headroom;
use xoff_flow_control::settings::{
    Accounting, ClassSettings, Culprit, FlowControl, Memory, PolicyKind, PortSettings, QcnSettings, Service,
    SwitchSettings, VlanSettings,
};
use xoff_wire::units::{Bytes, Class, ClassSet, ETHERNET_HEADER, PortId};

#[must_use]
pub fn view(file: &str, config: &Config, machine: &Machine) -> Value {
    let (switch, shell) = (&config.switch, &config.shell);
    let workers = config.with_spare_places().workers(&machine.cores);
    let plan = config.plan(machine);
    let name = |port: &PortId| switch.ports.get(port.index()).map(|port| port.name.as_str());
    let per_port = switch.ports.iter().zip(&shell.ports).zip(&config.headroom).zip(config.queues(machine));
    let ports =
        (0..=u8::MAX).map(PortId).zip(per_port).map(|(id, (((settings, shell), headroom), sockets))| {
            port_view(id, settings, shell, headroom, sockets, switch)
        });
    json!({
        "file": file,
        "valid": true,
        "name": shell.name,
        "stall_budget_us": micros(shell.stall_budget.0),
        "smallest_frame_bytes": shell.smallest_frame,
        "poll": if shell.poll == Poll::Busy { "busy" } else { "adaptive" },
        "http": shell.http.as_ref().map(ToString::to_string),
        "accounting": switch.accounting.word(),
        "memory_model": if switch.memory == Memory::Dedicated { "dedicated" } else { "shared" },
        "when_full": switch.when_full.name(),
        "pipeline": {
            "rate_pps": switch.pipeline.rate.map(|rate| rate.0),
            "delay_us": micros(switch.pipeline.delay.0),
            "ingress": switch.pipeline.ingress.name(),
        },
        "workers": workers.iter().map(|worker| json!({
            "core": worker.core,
            "ports": worker.ports.iter().filter_map(name).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "ports": ports.collect::<Vec<_>>(),
        "router": shell.router.as_ref().map(|router| json!({
            "netns": router.netns,
            "interfaces": router.interfaces.iter().map(|interface| &interface.name).collect::<Vec<_>>(),
        })),
        "qcn": qcn_view(&switch.qcn),
        "memory": plan.consumers.iter().map(|consumer| json!({
            "what": consumer.what,
            "frames": consumer.frames,
            "bytes": consumer.bytes.0,
        })).collect::<Vec<_>>(),
        "chunk_bytes": shell.chunks.bytes,
        "receive_chunks": shell.chunks.receive.word(),
        "multi_buffer": shell.chunks.multi_buffer,
        "memory_total_bytes": plan.total.0,
        "spare_memory_bytes": plan.spare.0,
        "kernel_memory_bytes": plan.kernel.0,
        "warnings": problems(&config.warnings),
        "notes": problems(&config.notes),
    })
}

#[must_use]
pub fn problems(problems: &[Problem]) -> Value {
    let problem = |Problem { message, help, position, .. }: &Problem| {
        let (line, column) = position.unzip();
        json!({ "message": message, "help": help, "line": line, "column": column })
    };
    problems.iter().map(problem).collect()
}

fn qcn_view(qcn: &QcnSettings) -> Option<Value> {
    (!(qcn.ingress.is_empty() && qcn.egress.is_empty())).then(|| {
        json!({
            "ingress": numbers(qcn.ingress),
            "egress": numbers(qcn.egress),
            "set_point_bytes": qcn.set_point.0,
            "weight": qcn.weight,
            "sample_every_bytes": qcn.sample_every.0,
            "jitter_percent": qcn.jitter_percent,
            "frames_per_cnm": qcn.frames_per_cnm,
            "culprit": qcn.culprit.word(),
            "flows": (qcn.culprit == Culprit::OccupancyDeterministic).then_some(qcn.flows_max),
        })
    })
}

fn port_view(
    id: PortId,
    port: &PortSettings,
    shell: &PortShell,
    headroom: &[Option<Headroom>],
    sockets: Option<u32>,
    switch: &SwitchSettings,
) -> Value {
    let (pause, obeys, sends) = match port.flow_control {
        FlowControl::Pfc { obey, send } if obey == send => ("pfc", obey, send),
        FlowControl::Pfc { obey, send } => ("asymmetric", obey, send),
        FlowControl::Pause8023x => ("802.3x", ClassSet::ALL, port.lossless()),
        FlowControl::Ignore => ("ignore", ClassSet::NONE, ClassSet::NONE),
    };
    let Rings { fill, rx, tx, completion } = shell.rings;
    let vids = |member: fn(&VlanSettings) -> &[PortId]| -> Value {
        switch.vlans.iter().filter(|vlan| member(vlan).contains(&id)).map(|vlan| vlan.vid).collect()
    };
    json!({
        "name": port.name,
        "device": shell.device,
        "speed_bps": port.speed.bits_per_second(),
        "mtu": port.mtu_frame - ETHERNET_HEADER,
        "queues": match &shell.queues {
            Queues::All => "all".into(),
            Queues::List(list) => list.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
        },
        "sockets": sockets,
        "fill_ring": fill,
        "rx_ring": rx,
        "tx_ring": tx,
        "completion_ring": completion,
        "stall_chunks": shell.stall_chunks,
        "burst_bytes": port.burst.0,
        "commit_bytes": port.commit.0,
        "pause": pause,
        "obeys": numbers(obeys),
        "sends": numbers(sends),
        "pause_time_us": micros(port.speed.time_of_quanta(port.pause_time).0),
        "refresh_us": micros(port.refresh.0),
        "trust": port.trust.word(),
        "routed": port.routed,
        "pvid": port.pvid,
        "tagged": vids(|vlan| &vlan.tagged),
        "untagged": vids(|vlan| &vlan.untagged),
        "classes": Class::ALL
            .map(|class| class_view(class, port, headroom[class.index()].as_ref(), switch)),
    })
}

fn class_view(
    class: Class,
    port: &PortSettings,
    headroom: Option<&Headroom>,
    switch: &SwitchSettings,
) -> Value {
    let settings = &port.classes[class.index()];
    let policy = switch.policies[class.index()];
    let named = |(name, bytes): (&'static str, Bytes)| (name, bytes.0);
    let thresholds = policy.thresholds(settings, &switch.policy).into_iter();
    json!({
        "class": class.get(),
        "lossless": settings.lossless,
        "xoff_bytes": limit(settings.xoff),
        "xon_bytes": settings.lossless.then_some(settings.xon.0),
        "headroom_bytes": settings.headroom.0,
        "headroom_terms": headroom.map(Headroom::terms).into_iter().flatten().map(named).collect::<Value>(),
        "xoff_frames": limit_frames(settings.xoff_frames),
        "ingress_max_bytes": limit(settings.ingress_max),
        "egress_max_bytes": limit(settings.egress_max),
        "egress_max_frames": limit_frames(settings.egress_max_frames),
        "queue": settings.queue.word(),
        "weight": match settings.service {
            Service::Strict => "strict".into(),
            Service::Weighted(weight) => weight.to_string(),
        },
        "max_rate_bps": settings.max_rate.map(|rate| rate.bits_per_second()),
        "policy": policy.name(),
        // Thresholds of the policy other than XOFF and XON.
        "policy_thresholds": thresholds.filter(|_| settings.lossless).map(named).collect::<Value>(),
        "congested": congested(port, class, switch),
        "ecn": settings.ecn.map(|ecn| json!({
            "min_bytes": ecn.min.0,
            "max_bytes": ecn.max.0,
            "probability": ecn.probability,
            "wred": ecn.wred,
        })),
        "watchdog": settings.watchdog.map(|watchdog| json!({
            "action": watchdog.action.name(),
            "detect_us": micros(watchdog.detect.0),
            "restore_us": micros(watchdog.restore.0),
        })),
    })
}

/// Returns how long thresholds of other ports keep a congested line busy.
/// Also returns how long they delay frames.
///
/// Returns `None` if this depends on more than thresholds: on free shared memory, or on another policy than PFC.
fn congested(port: &PortSettings, class: Class, switch: &SwitchSettings) -> Option<Value> {
    let feeding = || {
        let others = switch.ports.iter().filter(|other| other.name != port.name);
        others.filter(|other| other.sends().contains(class)).map(|other| &other.classes[class.index()])
    };
    let time = |bytes: Bytes| micros(port.speed.time_of(bytes).0);
    let all =
        |of: fn(&ClassSettings) -> Bytes| time(feeding().map(of).fold(Bytes::ZERO, Bytes::saturating_add));
    let decides = switch.accounting == Accounting::UntilTransmitted
        && matches!(switch.memory, Memory::Dedicated)
        && switch.policies[class.index()] == PolicyKind::Pfc
        && port.classes[class.index()].lossless;
    let lowest = feeding().map(|class| class.xon).min().filter(|_| decides)?;
    let highest = feeding().map(|class| class.xoff).max()?;
    Some(json!({
        // Time for which the bytes queued below XON keep the line busy until peers resume.
        "covered_us": { "one": time(lowest), "all": all(|class| class.xon) },
        // Queueing delay of a frame that finds as many bytes queued as XOFF allows.
        "delay_us": { "one": time(highest), "all": all(|class| class.xoff) },
        // Longest stall of the port's worker that the line makes up for afterwards, by a burst.
        "made_up_us": time(port.burst),
    }))
}

fn numbers(classes: ClassSet) -> Vec<u8> {
    classes.iter().map(Class::get).collect()
}

fn limit(bytes: Bytes) -> Option<u64> {
    (bytes != Bytes::MAX).then_some(bytes.0)
}

fn limit_frames(frames: u32) -> Option<u32> {
    (frames != u32::MAX).then_some(frames)
}

#[allow(clippy::cast_precision_loss)] // display only
fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1_000.0
}
