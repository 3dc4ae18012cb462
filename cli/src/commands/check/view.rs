use serde_json::{Value, json};
use xoff_config::shell::Chunks;
use xoff_config::{
    Choice as _, Config, Machine, Poll, PortShell, Problem, Queues, Rings, Router, ShellSettings, Worker,
};
use xoff_flow_control::headroom::Headroom;
use xoff_flow_control::settings::{
    Accounting, AutoPeer, ClassSettings, Culprit, EcnSettings, FdbSettings, Flooded, FlowControl,
    GPfcSettings, GfcSettings, GroupSettings, Lacp, Lldp, Member, Memory, MulticastSettings, OfcSettings,
    PPfcSettings, PipelineSettings, PolicyKind, PolicySettings, PortSettings, PuntLimit, QcnSettings,
    Service, SharedMemory, Spread, SwitchSettings, VlanSettings, WatchdogSettings,
};
use xoff_wire::units::{Bytes, Class, ClassSet, ETHERNET_HEADER, Nanos, PortId};

#[must_use]
pub fn view(file: &str, config: &Config, machine: &Machine) -> Value {
    let Config { switch, shell, headroom, cables, warnings, notes } = config;
    let SwitchSettings {
        ports: settings,
        accounting,
        memory,
        lossy_pool,
        when_full,
        pipeline,
        policies: _, // in classes
        shadows,
        policy,
        hash,
        fdb,
        vlans: _, // in ports
        groups,
        routed_vlans,
        multicast: MulticastSettings { vlans: snooped, unknown, querier, groups_max },
        qcn,
    } = switch;
    let ShellSettings {
        name,
        ports: _,   // in ports
        workers: _, // assigned below
        spare_ports,
        poll,
        http,
        http_netns,
        http_hosts,
        user,
        log,
        log_format,
        sighup,
        stall_budget,
        smallest_frame,
        zero_copy,
        chunks: Chunks { bytes: chunk_bytes, receive, multi_buffer },
        router,
        budget,
        lossy_pool: _, // the given value; `lossy_pool` of the switch is the derived one
        pool: _,       // as configured; `shared_memory` has the pool in use
    } = shell;
    let workers = config.with_spare_places().workers(&machine.cores);
    let plan = config.plan(machine);
    let port_name = |port: &PortId| settings.get(port.index()).map(|port| port.name.as_str());
    let names = |ports: &[PortId]| ports.iter().filter_map(port_name).collect::<Vec<_>>();
    let per_port =
        (0..=u8::MAX).map(PortId).zip(settings).zip(cables).zip(headroom).zip(config.queues(machine));
    let ports = per_port.map(|((((id, port), cable), headroom), sockets)| {
        let kernel = &shell.ports[id.index()];
        port_view(id, port, kernel, *cable, headroom, sockets, switch)
    });
    json!({
        "file": file,
        "valid": true,
        "name": name,
        "stall_budget_us": micros(*stall_budget),
        "smallest_frame_bytes": smallest_frame,
        "poll": if *poll == Poll::Busy { "busy" } else { "adaptive" },
        "idle_after_us": match poll {
            Poll::Busy => None,
            Poll::Adaptive { idle_after } => Some(micros(*idle_after)),
        },
        "zero_copy": zero_copy.word(),
        "spare_ports": spare_ports,
        "http": http.as_ref().map(ToString::to_string),
        "http_netns": http_netns,
        "http_hosts": http_hosts,
        "user": user,
        "log": log,
        "log_format": log_format.word(),
        "sighup": sighup.word(),
        "accounting": accounting.word(),
        "memory_model": if *memory == Memory::Dedicated { "dedicated" } else { "shared" },
        "shared_memory": match memory {
            Memory::Dedicated => None,
            Memory::Shared(shared) => Some(shared_view(shared)),
        },
        "budget_bytes": budget.map(|bytes| bytes.0),
        "lossy_pool_bytes": limit(lossy_pool.bytes),
        "when_full": when_full.name(),
        "hash": hash.fields().collect::<Vec<_>>(),
        "shadow": shadows.iter().map(|kind| kind.name()).collect::<Vec<_>>(),
        "policies": policies_view(policy),
        "pipeline": pipeline_view(pipeline),
        "workers": workers.iter().map(|Worker { core, ports }| json!({
            "core": core,
            "ports": names(ports),
        })).collect::<Vec<_>>(),
        "ports": ports.collect::<Vec<_>>(),
        "fdb": fdb_view(fdb, switch),
        "groups": groups.iter().map(|group| group_view(group, switch)).collect::<Vec<_>>(),
        "routed_vlans": routed_vlans.iter().map(|(vid, _)| vid).collect::<Vec<_>>(),
        "multicast": {
            "snooped_vlans": snooped,
            "unknown": unknown.word(),
            "querier": querier,
            "groups_max": groups_max,
        },
        "router": router.as_ref().map(|Router { netns, interfaces, spread }| json!({
            "netns": netns,
            "interfaces": interfaces.iter().map(|interface| &interface.name).collect::<Vec<_>>(),
            "spread": spread_view(*spread),
        })),
        "qcn": qcn_view(qcn),
        "memory": plan.consumers.iter().map(|consumer| json!({
            "what": consumer.what,
            "frames": consumer.frames,
            "bytes": consumer.bytes.0,
        })).collect::<Vec<_>>(),
        "chunk_bytes": chunk_bytes,
        "receive_chunks": receive.word(),
        "multi_buffer": multi_buffer,
        "memory_total_bytes": plan.total.0,
        "spare_memory_bytes": plan.spare.0,
        "kernel_memory_bytes": plan.kernel.0,
        "warnings": problems(warnings),
        "notes": problems(notes),
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

fn shared_view(shared: &SharedMemory) -> Value {
    let SharedMemory {
        pool,
        ingress_limit,
        egress_limit,
        port_limit,
        egress_port_limit,
        egress_limits,
        headroom,
        alpha_log2,
    } = shared;
    json!({
        "pool_bytes": pool.0,
        "ingress_limit_bytes": limit(*ingress_limit),
        "egress_limit_bytes": limit(*egress_limit),
        "port_limit_bytes": limit(*port_limit),
        "egress_port_limit_bytes": limit(*egress_port_limit),
        "egress_limits": egress_limits.word(),
        "headroom": headroom.word(),
        "alpha_log2": alpha_log2,
    })
}

fn policies_view(policies: &PolicySettings) -> Value {
    let PolicySettings { capfc_cut, capfc_count_unit, ofc, p_pfc, g_pfc, gfc, custom } = policies;
    let OfcSettings { alpha, flows, congested_flows, paused_flows } = ofc;
    let PPfcSettings { prediction } = p_pfc;
    let GPfcSettings { pause_lower, resume_lower } = g_pfc;
    let GfcSettings { first, steps } = gfc;
    json!({
        "capfc": { "cut": capfc_cut, "count": capfc_count_unit.word() },
        "ofc": {
            "alpha": alpha,
            "flows": flows,
            "congested_flows": congested_flows,
            "paused_flows": paused_flows,
        },
        "p-pfc": { "prediction_us": prediction.map(micros) },
        "g-pfc": { "pause_lower": pause_lower, "resume_lower": resume_lower },
        "gfc": { "first": first, "steps": steps },
        "custom": custom.as_ref().map(|custom| format!("{:?}", &**custom)), // its only description
    })
}

fn pipeline_view(pipeline: &PipelineSettings) -> Value {
    let PipelineSettings { rate, delay, ingress } = pipeline;
    json!({ "rate_pps": rate.map(|rate| rate.0), "delay_us": micros(*delay), "ingress": ingress.name() })
}

fn fdb_view(fdb: &FdbSettings, switch: &SwitchSettings) -> Value {
    let FdbSettings { capacity, ageing, statics, seed: _ } = fdb;
    let statics = statics.iter().map(|(vid, mac, port)| {
        let is_member = |group: &&GroupSettings| group.members.iter().any(|member| member.port == *port);
        let group = switch.groups.iter().find(is_member).map(|group| &group.name);
        let port = switch.ports.get(port.index()).map(|port| &port.name).filter(|_| group.is_none());
        json!({ "vlan": vid, "mac": mac.to_string(), "port": port, "group": group })
    });
    json!({
        "capacity": capacity,
        "ageing_us": ageing.map(micros),
        "statics": statics.collect::<Vec<_>>(),
    })
}

fn group_view(group: &GroupSettings, switch: &SwitchSettings) -> Value {
    let GroupSettings { name, members, spread, uplinks, lacp, salt: _ } = group;
    let members = members.iter().filter_map(|Member { port, weight }| {
        let port = switch.ports.get(port.index())?;
        Some(json!({ "port": port.name, "weight": weight }))
    });
    json!({
        "name": name,
        "ports": members.collect::<Vec<_>>(),
        "spread": spread_view(*spread),
        "uplinks": uplinks,
        "lacp": lacp.map(|Lacp { active, .. }| if active { "active" } else { "passive" }),
        "lacp_timeout": lacp.map(|Lacp { short_timeout, .. }| if short_timeout { "short" } else { "long" }),
    })
}

fn spread_view(spread: Spread) -> Value {
    let (turns, bounds) = match spread {
        Spread::Flow => (None, None),
        Spread::Frame(turns) => (Some(turns.word()), None),
        Spread::Adaptive { low, high } => (None, Some((low.0, high.0))),
    };
    let (low, high) = bounds.unzip();
    json!({ "by": spread.name(), "turns": turns, "low_bytes": low, "high_bytes": high })
}

fn qcn_view(qcn: &QcnSettings) -> Option<Value> {
    let QcnSettings {
        ingress,
        egress,
        set_point,
        weight,
        sample_every,
        jitter_percent,
        frames_per_cnm,
        culprit,
        flows_max,
        seed,
    } = qcn;
    (!(ingress.is_empty() && egress.is_empty())).then(|| {
        json!({
            "ingress": numbers(*ingress),
            "egress": numbers(*egress),
            "set_point_bytes": set_point.0,
            "weight": weight,
            "sample_every_bytes": sample_every.0,
            "jitter_percent": jitter_percent,
            "frames_per_cnm": frames_per_cnm,
            "culprit": culprit.word(),
            "flows": (*culprit == Culprit::OccupancyDeterministic).then_some(flows_max),
            "seed": seed,
        })
    })
}

fn port_view(
    id: PortId,
    port: &PortSettings,
    shell: &PortShell,
    cable: Nanos,
    headroom: &[Option<Headroom>],
    sockets: Option<u32>,
    switch: &SwitchSettings,
) -> Value {
    let PortShell { device, queues, mode, rings, stall_chunks, transmit_chunks } = shell;
    let Rings { fill, rx, tx, completion } = rings;
    let PortSettings {
        name,
        mac: _, // the device's
        speed,
        max_rate,
        mtu_frame,
        trust,
        default_class,
        pcp_to_class,
        dscp_to_class,
        rewrite_pcp,
        rewrite_dscp,
        pvid,
        learning,
        learn_limit,
        storm_limit,
        loop_detection,
        flood_unknown,
        flood_group,
        multicast_router,
        fast_leave,
        isolated,
        routed,
        flow_control,
        lldp,
        punt_limit: PuntLimit { rate: punt_rate, burst: punt_burst },
        dcbx,
        auto_peer: AutoPeer { flow_lists, rates },
        ofc_peer,
        gfc_peer,
        pause_time,
        refresh,
        burst,
        commit,
        past_xoff,
        peer_response,
        classes: _, // below
    } = port;
    let (pause, obeys, sends) = match *flow_control {
        FlowControl::Pfc { obey, send } if obey == send => ("pfc", obey, send),
        FlowControl::Pfc { obey, send } => ("asymmetric", obey, send),
        FlowControl::Pause8023x => ("802.3x", ClassSet::ALL, port.lossless()),
        FlowControl::Ignore => ("ignore", ClassSet::NONE, ClassSet::NONE),
    };
    let vids = |member: fn(&VlanSettings) -> &[PortId]| -> Value {
        switch.vlans.iter().filter(|vlan| member(vlan).contains(&id)).map(|vlan| vlan.vid).collect()
    };
    let peer = |is_auto: bool, is_peer: bool| if is_auto { "auto".into() } else { Value::Bool(is_peer) };
    let storm_rate = |kind: Flooded| {
        let rate = storm_limit.of(kind).map(|rate| rate.bits_per_second());
        (format!("{}_bps", kind.name()), Value::from(rate))
    };
    let class_numbers = |classes: &[Class]| classes.iter().map(|class| class.get()).collect::<Vec<_>>();
    json!({
        "name": name,
        "device": device,
        "speed_bps": speed.bits_per_second(),
        "max_rate_bps": max_rate.map(|rate| rate.bits_per_second()),
        "mtu": mtu_frame - ETHERNET_HEADER,
        "queues": match queues {
            Queues::All => "all".into(),
            Queues::List(list) => list.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
        },
        "mode": mode.word(),
        "sockets": sockets,
        "fill_ring": fill,
        "rx_ring": rx,
        "tx_ring": tx,
        "completion_ring": completion,
        "stall_chunks": stall_chunks,
        "transmit_chunks": transmit_chunks,
        "burst_bytes": burst.0,
        "commit_bytes": commit.0,
        "pause": pause,
        "obeys": numbers(obeys),
        "sends": numbers(sends),
        "pause_time_us": micros(speed.time_of_quanta(*pause_time)),
        "refresh_us": micros(*refresh),
        "peer_response_us": micros(*peer_response),
        "cable_delay_us": micros(cable),
        "past_xoff_bytes": limit(*past_xoff),
        "lldp": match lldp {
            Lldp::Off => false.into(),
            Lldp::Switch => true.into(),
            Lldp::Kernel => Value::from("kernel"),
        },
        "dcbx": dcbx.word(),
        "ofc_peer": peer(*flow_lists, *ofc_peer),
        "gfc_peer": peer(*rates, *gfc_peer),
        "trust": trust.word(),
        "default_class": default_class.get(),
        "pcp_map": class_numbers(pcp_to_class),
        "dscp_map": class_numbers(dscp_to_class),
        "rewrite_pcp": rewrite_pcp,
        "rewrite_dscp": rewrite_dscp,
        "routed": routed,
        "pvid": pvid,
        "tagged": vids(|vlan| &vlan.tagged),
        "untagged": vids(|vlan| &vlan.untagged),
        "learning": learning,
        "learn_limit": learn_limit,
        "storm_limit": Value::Object(Flooded::ALL.into_iter().map(storm_rate).collect()),
        "loop_detection": loop_detection.word(),
        "flood_unknown": flood_unknown,
        "flood_group": flood_group,
        "multicast_router": multicast_router,
        "fast_leave": fast_leave,
        "isolated": isolated,
        "punt": { "rate_pps": punt_rate, "burst_frames": punt_burst },
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
    let ClassSettings {
        lossless,
        xoff,
        xon,
        headroom: headroom_bytes,
        xoff_frames,
        ingress_reserve,
        ingress_max,
        egress_max,
        egress_max_frames,
        egress_reserve,
        egress_warn,
        egress_xoff,
        egress_xon,
        queue,
        service,
        max_rate,
        ecn,
        watchdog,
    } = settings;
    let policy = switch.policies[class.index()];
    let named = |(name, bytes): (&'static str, Bytes)| (name, bytes.0);
    let thresholds = policy.thresholds(settings, &switch.policy).into_iter();
    json!({
        "class": class.get(),
        "lossless": lossless,
        "xoff_bytes": limit(*xoff),
        "xon_bytes": lossless.then_some(xon.0),
        "headroom_bytes": headroom_bytes.0,
        "headroom_terms": headroom.map(Headroom::terms).into_iter().flatten().map(named).collect::<Value>(),
        "xoff_frames": limit_frames(*xoff_frames),
        "ingress_reserve_bytes": ingress_reserve.0,
        "ingress_max_bytes": limit(*ingress_max),
        "egress_max_bytes": limit(*egress_max),
        "egress_max_frames": limit_frames(*egress_max_frames),
        "egress_reserve_bytes": egress_reserve.0,
        "egress_warn_bytes": egress_warn.0,
        "egress_xoff_bytes": egress_xoff.0,
        "egress_xon_bytes": egress_xon.0,
        "queue": queue.word(),
        "weight": match service {
            Service::Strict => "strict".into(),
            Service::Weighted(weight) => weight.to_string(),
        },
        "max_rate_bps": max_rate.map(|rate| rate.bits_per_second()),
        "policy": policy.name(),
        "policy_thresholds": thresholds.filter(|_| *lossless).map(named).collect::<Value>(),
        "congested": congested(port, class, switch),
        "ecn": ecn.map(|EcnSettings { min, max, probability, wred }| json!({
            "min_bytes": min.0,
            "max_bytes": max.0,
            "probability": probability,
            "wred": wred,
        })),
        "watchdog": watchdog.map(|WatchdogSettings { action, detect, restore, share }| json!({
            "action": action.name(),
            "detect_us": micros(detect),
            "restore_us": micros(restore),
            "share_percent": share,
        })),
    })
}

/// Returns how long a congested line stays busy after XONs to senders, and how long its frames wait.
///
/// Returns `None` if pauses also depend on free shared memory or a policy other than PFC.
fn congested(port: &PortSettings, class: Class, switch: &SwitchSettings) -> Option<Value> {
    let feeding = || {
        let others = switch.ports.iter().filter(|other| other.name != port.name);
        others.filter(|other| other.sends().contains(class)).map(|other| &other.classes[class.index()])
    };
    let time = |bytes: Bytes| micros(port.speed.time_of(bytes));
    let all =
        |of: fn(&ClassSettings) -> Bytes| time(feeding().map(of).fold(Bytes::ZERO, Bytes::saturating_add));
    let decides = switch.accounting == Accounting::UntilTransmitted
        && matches!(switch.memory, Memory::Dedicated)
        && switch.policies[class.index()] == PolicyKind::Pfc
        && port.classes[class.index()].lossless;
    let lowest = feeding().map(|class| class.xon).min().filter(|_| decides)?;
    let highest = feeding().map(|class| class.xoff).max()?;
    Some(json!({
        // Time for which the bytes queued at XON keep the line busy, while the peers resume.
        "covered_us": { "one": time(lowest), "all": all(|class| class.xon) },
        // Queueing delay of a frame that arrives when the queue is as long as XOFF permits.
        "delay_us": { "one": time(highest), "all": all(|class| class.xoff) },
        // Longest stall of the port's worker after which a burst recovers the lost sending time.
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
fn micros(time: Nanos) -> f64 {
    time.0 as f64 / 1_000.0
}
