use std::collections::BTreeMap;
use std::time::Duration;

use crate::Promise;
use futures::future::join_all;
use tokio::time::Instant;
use xoff_dataplane::ledger::Ledger;
use xoff_flow_control::cause::{Cause, Causes, Trigger};
use xoff_flow_control::counter::{Counter, Histogram};
use xoff_flow_control::counters::{ClassCounters, CulpritQueue, FlowCounters, FlowRequests};
use xoff_flow_control::drop_reason::DropReason;
use xoff_flow_control::settings::{FlowControl, PolicyKind};
use xoff_wire::CnmError;
use xoff_wire::mac_control::MacControlError;
use xoff_wire::units::{Bytes, Class, MacAddr, Nanos, PortId};

use super::external_losses::ExternalLosses;
use super::mailbox::Answer;
use super::status::{
    Books, CauseCount, CauseStatus, ClassStatus, CulpritStatus, EgressStatus, FlowRequestsStatus, FlowStatus,
    IngressStatus, PauseStatus, PeerStatus, PortStatus, RateRequestsStatus, ResponseStatus, ShadowStatus,
    SocketMemory, Spread, Status, UnseenStatus, Verdict, WorkerState, WorkerStatus, XdpMode,
};
use super::view::{PortView, SwitchView, WorkerView};
use super::{
    addresses, groups, lldp, logging, loops, multicast, notification, pipeline, proof, routes, storms,
};

/// Maximum time to wait for workers, which may stall in virtual machines.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

pub async fn ask(view: &SwitchView) -> Vec<Answer<Ledger>> {
    let deadline = Instant::now() + ANSWER_WITHIN;
    join_all(view.workers.iter().map(|worker| worker.mailbox.ledger(deadline))).await
}

#[must_use]
pub fn snapshot(view: &SwitchView, answers: &[Answer<Ledger>]) -> Status {
    let fdb_total = addresses::address_count(view);
    let unseen = view.unseen();
    let gaps = proof::gaps(view, &unseen);
    let port = |(id, port)| {
        let at = PortId::index(id);
        port_status(view, id, port, unseen[at], !gaps[at].is_empty())
    };
    let ports: Vec<_> = view.ports().map(port).collect();
    let workers: Vec<_> =
        view.workers.iter().zip(answers).enumerate().map(|(n, it)| worker_status(view, n, it)).collect();
    let ledgers: Option<Vec<Books>> = workers.iter().map(|worker| worker.ledger).collect();
    let ledger = ledgers.map(|ledgers| {
        ledgers.into_iter().fold(Books { balanced: true, ..Books::default() }, |sum, next| sum + next)
    });
    let silent = answers.iter().enumerate().filter_map(|(worker, answer)| answer.fault(worker));
    let unproved = silent.chain(proof::with_names(view, &gaps)).collect();
    Status {
        name: view.name.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        process_id: std::process::id(),
        uptime_nanos: uptime(view),
        verdict: verdict(view, ledger, unproved, &unseen, &ports),
        ledger,
        policies: view.policies.names(),
        pipeline: pipeline::status(&view.settings()),
        groups: groups::status(view),
        multicast: multicast::status(view),
        router: routes::status(view),
        ports,
        workers,
        ongoing: view.ongoing.get((view.clock)()),
        log_lines_dropped: logging::lines_dropped(),
        fdb: Vec::new(),
        fdb_total,
        fdb_truncated: fdb_total > 0,
        routes: Vec::new(),
    }
}

fn verdict(
    view: &SwitchView,
    ledger: Option<Books>,
    unproved: Vec<String>,
    unseen: &[ExternalLosses],
    ports: &[PortStatus],
) -> Verdict {
    let settings = view.settings();
    let lossless = view
        .classes()
        .filter(|(port, class, _)| settings.ports[port.index()].classes[class.index()].lossless);
    let since_lossless = lossless.map(|(port, class, _)| view.books.of(&view.counters, port, class));
    let lossless_lost = since_lossless.sum::<u64>() + view.books.closed_ones(&view.counters);
    let sum = |of: fn(&ExternalLosses) -> u64| unseen.iter().map(of).sum::<u64>();
    let lossy_at = |(id, _)| unseen[PortId::index(id)].lossy_in_words(view.name_of(id));
    let unseen_lost = sum(|it| it.lossless);
    let ledger_balanced = ledger.map(|ledger| ledger.balanced);
    let promise = match lossless_lost + unseen_lost {
        0 if ledger_balanced == Some(false) => Promise::NotKept,
        0 if unproved.is_empty() => Promise::Kept,
        0 => Promise::NotProved,
        _ => Promise::NotKept,
    };
    Verdict {
        lossless: promise == Promise::Kept,
        promise,
        unproved,
        acknowledged: proof::acknowledged(view).collect(),
        lossless_lost,
        lossless_flooded_unknown: flooded_unknown(ports),
        unseen_lost,
        unseen_unknown: sum(|it| it.unknown + it.ambiguous),
        unseen_lossy: sum(|it| it.lossy),
        unseen_at_least: unseen.iter().any(|unseen| unseen.at_least),
        unseen_lossy_at: view.places().filter_map(lossy_at).collect(),
        headroom_free_min_bytes: view.headroom_least_free(),
        ledger_balanced,
    }
}

fn flooded_unknown(ports: &[PortStatus]) -> u64 {
    let classes = ports.iter().flat_map(|port| &port.classes).filter(|class| class.lossless);
    classes.map(|class| class.flooded_unknown).sum()
}

fn port_status(
    view: &SwitchView,
    id: PortId,
    port: &PortView,
    unseen: ExternalLosses,
    unproved: bool,
) -> PortStatus {
    let settings = &view.settings().ports[id.index()];
    let counters = view.counters.port(id);
    let (device_drops, device) = (port.device_drops(), port.now());
    PortStatus {
        name: settings.name.clone(),
        device: port.device.get(),
        ifindex: device.ifindex,
        mac: device.mac.to_string(),
        link: port.link.get(),
        worker: port.worker,
        xdp: if device.native { XdpMode::Native } else { XdpMode::Generic },
        memory: if device.zero_copy { SocketMemory::ZeroCopy } else { SocketMemory::Copy },
        xdp_reason: device.fallbacks.generic,
        memory_reason: device.fallbacks.copy,
        queues: device.queues,
        speed_bits_per_second: settings.speed.bits_per_second(),
        flow_control: flow_control(settings.flow_control).into(),
        pause_frames_sent: counters.pause_frames_sent.get(),
        rate_frames_sent: counters.rate_frames_sent.get(),
        rate_frames_received: counters.rate_frames_received.get(),
        pfc_frames_received: counters.pfc_frames_received.get(),
        pause_frames_received: counters.pause_frames_received.get(),
        pause_frames_ignored: counters.pause_frames_ignored.get(),
        malformed_control: by_name(
            MacControlError::ALL.map(MacControlError::name),
            &counters.malformed_control,
        ),
        pause_peer: peer(counters.pause_peer.get()),
        cnms_received: counters.cnms_received.get(),
        malformed_cnms: by_name(CnmError::ALL.map(CnmError::name), &counters.malformed_cnms),
        reserved_frames: counters.reserved_frames.get(),
        control_starved: counters.control_starved.get(),
        unfinished_checksums: counters.checksums_unfinished.get(),
        fdb_entries: counters.fdb_entries.get(),
        station_moves: counters.station_moves.get(),
        learn_refused: counters.learn_refused.get(),
        loops: counters.loops.get(),
        loop_with: loops::with(view, id).map(str::to_owned),
        loop_addresses: loops::addresses(view, id),
        looped: counters.looped.get() != 0,
        duplicates: counters.duplicates.get(),
        duplicate_with: loops::duplicate_with(view, id).map(str::to_owned),
        duplicate_addresses: loops::duplicates(view, id),
        unproved,
        unseen: unseen_status(unseen),
        xdp_statistics: port.xdp_statistics().ok(),
        device_drops: device_drops.as_ref().ok().copied(),
        device_drops_last: device_drops.unwrap_or_else(|unread| unread.last),
        program: port.program.get(),
        program_detached: port.program_detached.get(),
        filter_detached: port.filter_detached.get(),
        returns: port.returns.get(),
        requeued: port.requeued.get(),
        unfollowed: port.unfollowed.get(),
        peer: peer_status(view, id, port),
        lldp: lldp::status(view, id),
        punts: lldp::punts(view, id),
        classes: Class::ALL.map(|class| class_status(view, id, class)).into(),
    }
}

fn unseen_status(unseen: ExternalLosses) -> UnseenStatus {
    let ExternalLosses { lossless, unknown, lossy, ambiguous, at_least } = unseen;
    UnseenStatus { lossless, unknown: unknown + ambiguous, lossy, at_least }
}

fn needed(view: &SwitchView, port: PortId) -> Option<u64> {
    Some(view.settings().ports[port.index()].past_xoff)
        .filter(|bytes| *bytes != Bytes::MAX)
        .map(|bytes| bytes.0)
}

fn peer_status(view: &SwitchView, id: PortId, port: &PortView) -> PeerStatus {
    let frames = |of: fn(&ClassCounters) -> &Counter| {
        Class::ALL.into_iter().map(|class| of(view.counters.class(id, class)).get()).sum::<u64>()
    };
    let overspeed_bytes = port.overspeed_bytes.get();
    let response = view.settings().ports[id.index()].peer_response;
    PeerStatus {
        too_fast: overspeed_bytes + frames(|class| &class.excess_frames) > 0,
        too_late: frames(|class| &class.late_frames) > 0,
        overspeed_bytes,
        pcp_overruled: view.counters.port(id).pcp_overruled.get(),
        response_declared_nanos: (response != Nanos::NEVER).then_some(response.0),
    }
}

fn flow_control(configured: FlowControl) -> &'static str {
    match configured {
        FlowControl::Pfc { .. } => "pfc",
        FlowControl::Pause8023x => "802.3x",
        FlowControl::Ignore => "ignore",
    }
}

fn class_status(view: &SwitchView, port: PortId, class: Class) -> ClassStatus {
    let settings = &view.settings().ports[port.index()].classes[class.index()];
    let counters = view.counters.class(port, class);
    let times = view.pause_times(port, class);
    ClassStatus {
        class: class.get(),
        lossless: settings.lossless,
        rx_frames: counters.rx_frames.get(),
        rx_bytes: counters.rx_bytes.get(),
        tx_frames: counters.tx_frames.get(),
        tx_bytes: counters.tx_bytes.get(),
        drops: by_name(DropReason::ALL.map(DropReason::name), &counters.drops),
        lost: counters.lost(),
        lossless_lost: settings.lossless.then(|| view.books.of(&view.counters, port, class)),
        flooded_unknown: counters.flooded_unknown.get(),
        first_loss_nanos: after_start(view, counters.first_loss.get()),
        pause_sent: PauseStatus {
            xoff: counters.xoff_sent.get(),
            xon: counters.xon_sent.get(),
            now: counters.held_since.get() != 0,
            nanos: times.sent,
            durations: spread(&counters.held_durations),
        },
        cause: cause(view, counters),
        causes: causes(counters),
        culprits: culprits(view, port, class),
        shadows: shadows(view, port, class),
        requested_rate_bits_per_second: nonzero(&counters.rate_requests.now),
        requested_rate_min_bits_per_second: nonzero(&counters.rate_requests.lowest),
        rate_changes: counters.rate_requests.changes.get(),
        rate_obeyed_bits_per_second: nonzero(&counters.rate_obeyed),
        intents_refused: counters.intents_refused.get(),
        refreshes_sent: counters.refreshes_sent.get(),
        response: ResponseStatus {
            after_xoff_max_bytes: counters.after_xoff_max.get(),
            response_max_nanos: counters.response_max.get(),
            excess_frames: counters.excess_frames.get(),
            late_frames: counters.late_frames.get(),
        },
        pause_received: PauseStatus {
            xoff: counters.xoff_received.get(),
            xon: counters.xon_received.get(),
            now: counters.paused_since.get() != 0,
            nanos: times.received,
            durations: spread(&counters.paused_durations),
        },
        flows: flows(view, port, &counters.flows),
        ingress: IngressStatus {
            bytes: counters.ingress_bytes.get(),
            bytes_max: counters.ingress_watermark.get(),
            xoff_bytes: if settings.lossless { settings.xoff.0 } else { 0 },
            xon_bytes: if settings.lossless { settings.xon.0 } else { 0 },
            headroom_bytes: settings.headroom.0,
            headroom_used_max_bytes: counters.headroom_watermark.get(),
            headroom_free_min_bytes: view.headroom_free(port, class),
            headroom_free_recent_bytes: view.headroom_free_recent(port, class),
            headroom_needed_bytes: needed(view, port).filter(|_| settings.lossless),
        },
        egress: EgressStatus {
            bytes: counters.egress_bytes.get(),
            bytes_max: counters.egress_watermark.get(),
            limit_bytes: settings.egress_max.0,
            halts: pipeline::halts(view, port, class),
        },
        congestion_point: notification::status(view, port, class),
        ecn_marked_frames: counters.ecn_marked_frames.get(),
        ecn_marked_bytes: counters.ecn_marked_bytes.get(),
        watchdog: settings.watchdog.map(|settings| storms::status(view, port, class, settings)),
        queueing_delay: spread(&counters.queueing_delay),
    }
}

fn peer(packed: u64) -> Option<String> {
    (packed != 0).then(|| MacAddr::from_number(packed).to_string())
}

fn after_start(view: &SwitchView, at: u64) -> Option<u64> {
    (at != 0).then(|| Nanos(at).since(view.started_at).0)
}

fn uptime(view: &SwitchView) -> u64 {
    (view.clock)().since(view.started_at).0
}

fn cause(view: &SwitchView, counters: &ClassCounters) -> Option<CauseStatus> {
    let cause = Cause::unpack(counters.held_cause.get())?;
    Some(CauseStatus {
        trigger: Trigger::NAMES[cause.trigger].into(),
        class: cause.class.get(),
        culprit: cause.culprit.map(|port| view.name_of(port).to_owned()),
        relayed: cause.relayed,
    })
}

fn causes(counters: &ClassCounters) -> BTreeMap<String, CauseCount> {
    let Causes { own, relayed } = &counters.xoff_causes;
    let counts =
        own.iter().zip(relayed).map(|(own, relayed)| CauseCount { own: own.get(), relayed: relayed.get() });
    Trigger::NAMES.map(String::from).into_iter().zip(counts).collect()
}

fn culprits(view: &SwitchView, ingress: PortId, class: Class) -> Vec<CulpritStatus> {
    let culprits = view.counters.culprits(ingress, class).into_iter();
    let there = culprits.filter(|culprit| view.ports[culprit.egress.index()].is_there());
    let statuses = there.map(|CulpritQueue { egress, class, bytes, held }| CulpritStatus {
        port: view.name_of(egress).to_owned(),
        class: class.get(),
        bytes,
        held,
    });
    statuses.collect()
}

fn shadows(view: &SwitchView, port: PortId, class: Class) -> Vec<ShadowStatus> {
    let shadow = |(number, kind): (usize, &PolicyKind)| {
        let counters = &view.counters.shadow(number)[port.index()][class.index()];
        let running = match counters.held_since.get() {
            0 => 0,
            since => (view.clock)().0.saturating_sub(since),
        };
        ShadowStatus {
            policy: kind.name().into(),
            xoff: counters.xoff.get(),
            now: running > 0,
            nanos: counters.held_nanos.get() + running,
            finished_nanos: counters.held_nanos.get(),
            lost: counters.lost.get(),
            intents_refused: counters.refused.get(),
            first_loss_nanos: after_start(view, counters.first_loss.get()),
            flows: (*kind == PolicyKind::Ofc).then(|| flow_requests(&counters.flows)),
            rate: matches!(kind, PolicyKind::Gfc | PolicyKind::Custom).then(|| RateRequestsStatus {
                changes: counters.rate.changes.get(),
                requested_bits_per_second: nonzero(&counters.rate.now),
                requested_min_bits_per_second: nonzero(&counters.rate.lowest),
            }),
        }
    };
    view.settings().shadows.iter().enumerate().map(shadow).collect()
}

fn flows(view: &SwitchView, port: PortId, flows: &FlowCounters) -> Option<FlowStatus> {
    let status = flow_status(flows);
    let is_peer = view.settings().ports[port.index()].ofc_peer;
    // Show counts even after a reload that sets `ofc_peer` to false.
    (is_peer || status != FlowStatus::default()).then_some(status)
}

fn flow_status(flows: &FlowCounters) -> FlowStatus {
    FlowStatus {
        pause_frames_sent: flows.pause_frames_sent.get(),
        resume_frames_sent: flows.resume_frames_sent.get(),
        pause_frames_received: flows.pause_frames_received.get(),
        resume_frames_received: flows.resume_frames_received.get(),
        requests: flow_requests(&flows.requests),
        paused: flows.paused.get(),
        fallbacks: flows.fallbacks.get(),
    }
}

fn flow_requests(requests: &FlowRequests) -> FlowRequestsStatus {
    FlowRequestsStatus {
        pauses: requests.pauses.get(),
        flow_pauses: requests.flows.get(),
        resumes: requests.resumes.get(),
        requested: requests.now.get(),
    }
}

fn nonzero(counter: &Counter) -> Option<u64> {
    Some(counter.get()).filter(|&value| value > 0)
}

pub fn by_name<const N: usize>(names: [&'static str; N], counters: &[Counter; N]) -> BTreeMap<String, u64> {
    names.into_iter().map(String::from).zip(counters.iter().map(Counter::get)).collect()
}

pub fn spread<const STEPS: usize>(histogram: &Histogram<STEPS>) -> Spread {
    Spread {
        count: histogram.count(),
        sum_nanos: histogram.sum(),
        p50_nanos: histogram.quantile(0.5),
        p99_nanos: histogram.quantile(0.99),
    }
}

fn worker_status(
    view: &SwitchView,
    index: usize,
    (worker, answer): (&WorkerView, &Answer<Ledger>),
) -> WorkerStatus {
    let own = view.ports().filter(|(_, port)| port.worker == index);
    WorkerStatus {
        core: worker.core,
        ports: own.map(|(port, _)| view.name_of(port).to_owned()).collect(),
        state: match answer {
            Answer::Given(_) => WorkerState::Running,
            Answer::Silent => WorkerState::Silent,
            Answer::Ended => WorkerState::Ended,
        },
        loops: worker.facts.loops.get(),
        longest_gap_nanos: worker.facts.longest_gap.get(),
        stalls: worker.facts.stalls.get(),
        stall_budget_nanos: view.stall_budget.0,
        gaps: spread(&worker.facts.gaps),
        send_reaction: spread(&worker.facts.pause_reaction),
        obey_reaction: spread(&worker.facts.obey_reaction),
        frames_free: worker.facts.frames_free.get(),
        cells_free: worker.facts.cells_free.get(),
        frames_missing: worker.facts.frames_missing.get(),
        ledger: match answer {
            Answer::Given(ledger) => Some((*ledger).into()),
            Answer::Silent | Answer::Ended => None,
        },
    }
}
