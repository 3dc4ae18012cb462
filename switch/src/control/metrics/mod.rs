mod labelled;
mod times;

use std::sync::LazyLock;

use xoff_flow_control::settings::{PolicyKind, WhenFull};
use xoff_wire::units::{Class, PortId};
use xoff_xdp::XdpStatistics;

pub use labelled::write_neighbors;

use super::exposition::{Exposition, Format, Kind, seconds};
use super::mailbox::Answer;
use super::notification::CongestionPointStatus;
use super::pipeline::HaltStatus;
use super::process;
use super::routes::{InterfaceStatus, RouterStatus};
use super::series::{Part, Prefix, Table, series};
use super::snapshot::snapshot;
use super::status::{
    ClassStatus, FlowRequestsStatus, FlowStatus, MulticastStatus, PauseStatus, PortStatus,
    RateRequestsStatus, ShadowStatus, Status, Verdict, WatchdogStatus, WorkerStatus,
};
use super::view::SwitchView;

pub const PREFIX: Prefix = Prefix { name: "xoff_", help: "" };
const SHADOW_PREFIX: Prefix = Prefix { name: "xoff_shadow_", help: "Shadow policy: " };

pub const DIGITS: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];
pub const SENT: (&str, &str) = ("direction", "sent");
pub const RECEIVED: (&str, &str) = ("direction", "received");

static SWITCH: LazyLock<Table<Status>> = LazyLock::new(|| {
    series! { "log_lines_dropped_total" Counter log_lines_dropped; }
});

static VERDICT: LazyLock<Table<Verdict>> = LazyLock::new(|| {
    series! { "headroom_least_free_bytes" Gauge headroom_free_min_bytes; }
});

static PORTS: LazyLock<Table<PortStatus>> = LazyLock::new(|| {
    series! {
        "port_speed_bytes_per_second" Gauge speed_bits_per_second;
        "port_returns_total" Counter returns;
        "port_requeues_total" Counter requeued;
        "port_unproved" Gauge unproved;
        "xdp_program_detached_total" Counter program_detached;
        "egress_filter_detached_total" Counter filter_detached;
        "sent_pause_frames_total" Counter pause_frames_sent;
        "received_pfc_frames_total" Counter pfc_frames_received;
        "received_pause_frames_total" Counter pause_frames_received;
        "ignored_pause_frames_total" Counter pause_frames_ignored;
        "sent_rate_frames_total" Counter rate_frames_sent;
        "received_rate_frames_total" Counter rate_frames_received;
        "cnms_received_total" Counter cnms_received;
        "reserved_frames_total" Counter reserved_frames;
        "control_starved_total" Counter control_starved;
        "peer_overspeed_bytes_total" Counter peer.overspeed_bytes;
        "unfinished_checksums_total" Counter unfinished_checksums;
        "fdb_entries" Gauge fdb_entries;
        "fdb_moves_total" Counter station_moves;
        "fdb_refused_total" Counter learn_refused;
        "loops_total" Counter loops;
        "looped" Gauge looped;
        "duplicate_addresses_total" Counter duplicates;
        "lldp_sent_frames_total" Counter lldp.frames_sent;
        "lldp_unsent_frames_total" Counter lldp.frames_not_sent;
        "lldp_received_frames_total" Counter lldp.frames_received;
        "lldp_neighbors_refused_total" Counter lldp.too_many;
        "lldp_neighbors_aged_total" Counter lldp.aged_out;
        "lldp_shortened_total" Counter lldp.shortened;
    }
});

static SOCKETS: LazyLock<Table<XdpStatistics>> = LazyLock::new(|| {
    series! {
        "xdp_failed_kicks_total" Counter tx_failed_kicks;
        "xdp_held_back_total" Counter tx_held_back;
    }
});

static CLASSES: LazyLock<Table<ClassStatus>> = LazyLock::new(|| {
    series! {
        "class_lossless" Gauge lossless;
        "received_frames_total" Counter rx_frames;
        "received_bytes_total" Counter rx_bytes;
        "sent_frames_total" Counter tx_frames;
        "sent_bytes_total" Counter tx_bytes;
        "lossless_lost_frames_total" Counter lossless_lost;
        "flooded_unknown_frames_total" Counter flooded_unknown;
        "pfc_xoff_sent_total" Counter pause_sent.xoff = "XOFFs sent, without refreshes.";
        "pfc_xon_sent_total" Counter pause_sent.xon = "XONs sent.";
        "pfc_refreshes_sent_total" Counter refreshes_sent;
        "pfc_xoff_received_total" Counter pause_received.xoff = "XOFFs received and obeyed, refreshes included.";
        "pfc_xon_received_total" Counter pause_received.xon = "XONs received and obeyed.";
        "rate_changes_total" Counter rate_changes;
        "requested_rate_bytes_per_second" Gauge requested_rate_bits_per_second;
        "requested_rate_min_bytes_per_second" Gauge requested_rate_min_bits_per_second;
        "rate_obeyed_bytes_per_second" Gauge rate_obeyed_bits_per_second;
        "ingress_occupancy_bytes" Gauge ingress.bytes;
        "ingress_occupancy_max_bytes" Gauge ingress.bytes_max;
        "headroom_used_max_bytes" Gauge ingress.headroom_used_max_bytes;
        "headroom_free_min_bytes" Gauge ingress.headroom_free_min_bytes;
        "headroom_free_recent_bytes" Gauge ingress.headroom_free_recent_bytes;
        "egress_occupancy_bytes" Gauge egress.bytes;
        "egress_occupancy_max_bytes" Gauge egress.bytes_max;
        "ecn_marked_frames_total" Counter ecn_marked_frames;
        "ecn_marked_bytes_total" Counter ecn_marked_bytes;
    }
});

static LOSSLESS_CLASSES: LazyLock<Table<ClassStatus>> = LazyLock::new(|| {
    series! {
        "xoff_threshold_bytes" Gauge ingress.xoff_bytes;
        "xon_threshold_bytes" Gauge ingress.xon_bytes;
        "headroom_bytes" Gauge ingress.headroom_bytes;
        "peer_excess_frames_total" Counter response.excess_frames;
        "peer_late_frames_total" Counter response.late_frames;
        "peer_after_xoff_max_bytes" Gauge response.after_xoff_max_bytes;
        "peer_response_max_seconds" Gauge response.response_max_nanos;
    }
});

pub static PAUSES: LazyLock<Table<PauseStatus>> = LazyLock::new(|| {
    series! {
        "pfc_pause_seconds_total" Counter nanos;
        "pfc_paused" Gauge now;
    }
});

static HALTS: LazyLock<Table<HaltStatus>> = LazyLock::new(|| {
    series! {
        "pipeline_halted" Gauge now;
        "pipeline_halts_total" Counter count;
        "pipeline_halted_seconds_total" Counter nanos;
    }
});

static FLOWS: LazyLock<Table<FlowStatus>> = LazyLock::new(|| {
    series! {
        "ofc_sent_pause_frames_total" Counter pause_frames_sent;
        "ofc_sent_resume_frames_total" Counter resume_frames_sent;
        "ofc_received_pause_frames_total" Counter pause_frames_received;
        "ofc_received_resume_frames_total" Counter resume_frames_received;
        "ofc_flows_paused" Gauge paused;
        "ofc_fallbacks_total" Counter fallbacks;
    }
});

static FLOW_REQUESTS: LazyLock<Table<FlowRequestsStatus>> = LazyLock::new(|| {
    series! {
        "ofc_pauses_total" Counter pauses;
        "ofc_flow_pauses_total" Counter flow_pauses;
        "ofc_resumes_total" Counter resumes;
        "ofc_requested_flows" Gauge requested;
    }
});

static CONGESTION_POINTS: LazyLock<Table<CongestionPointStatus>> = LazyLock::new(|| {
    series! {
        "qcn_samples_total" Counter samples;
        "qcn_feedback" Gauge feedback_last;
        "qcn_cnms_sent_total" Counter cnms_sent;
        "qcn_cnm_feedback_total" Counter feedback_sum;
        "qcn_cnms_not_sent_total" Counter cnms_not_sent;
    }
});

static WATCHDOGS: LazyLock<Table<WatchdogStatus>> = LazyLock::new(|| {
    series! {
        "watchdog_storm" Gauge storm;
        "watchdog_storms_total" Counter storms;
        "watchdog_storm_seconds_total" Counter nanos;
        "watchdog_forwarded_frames_total" Counter forwarded;
    }
});

static CUSTOM_POLICIES: LazyLock<Table<ClassStatus>> = LazyLock::new(|| {
    series! { "policy_intents_refused_total" Counter intents_refused; }
});

static SHADOWS: LazyLock<Table<ShadowStatus>> = LazyLock::new(|| {
    series! {
        "xoff_total" Counter xoff;
        "pause_seconds_total" Counter finished_nanos;
        "lost_total" Counter lost;
    }
});

static CUSTOM_SHADOWS: LazyLock<Table<ShadowStatus>> = LazyLock::new(|| {
    series! { "intents_refused_total" Counter intents_refused; }
});

static SHADOW_RATES: LazyLock<Table<RateRequestsStatus>> = LazyLock::new(|| {
    series! {
        "rate_changes_total" Counter changes;
        "requested_rate_bytes_per_second" Gauge requested_bits_per_second;
        "requested_rate_min_bytes_per_second" Gauge requested_min_bits_per_second;
    }
});

static ROUTER: LazyLock<Table<RouterStatus>> = LazyLock::new(|| {
    series! {
        "router_tables_total" Counter tables;
        "router_table_seconds" Gauge table_nanos;
        "router_resyncs_total" Counter resyncs;
    }
});

static MULTICAST: LazyLock<Table<MulticastStatus>> = LazyLock::new(|| {
    series! {
        "multicast_groups" Gauge groups;
        "multicast_groups_max" Gauge groups_max;
        "multicast_joins_refused_total" Counter joins_refused;
        "multicast_reports_received_total" Counter reports_received;
        "multicast_queries_received_total" Counter queries_received;
        "multicast_queries_sent_total" Counter queries_sent;
    }
});

static INTERFACES: LazyLock<Table<InterfaceStatus>> = LazyLock::new(|| {
    series! {
        "router_to_host_frames_total" Counter to_host;
        "router_refused_frames_total" Counter refused;
        "router_from_host_frames_total" Counter from_host;
    }
});

static WORKERS: LazyLock<Table<WorkerStatus>> = LazyLock::new(|| {
    series! {
        "worker_loops_total" Counter loops;
        "worker_stalls_total" Counter stalls;
        "worker_loop_gap_max_seconds" Gauge longest_gap_nanos;
        "worker_frames_missing" Gauge frames_missing;
        "worker_free_frames" Gauge frames_free;
        "worker_free_cells" Gauge cells_free;
    }
});

pub(super) fn render(view: &SwitchView, format: Format, only: Option<PortId>) -> String {
    let no_answers: Vec<_> = view.workers.iter().map(|_| Answer::Silent).collect();
    let mut status = snapshot(view, &no_answers);
    if let Some(only) = only {
        status.ports.retain(|port| port.name == view.name_of(only));
    }
    let mut text = Exposition::new(format, &[("switch", &view.name)]);
    write_switch(&mut text, view, &status);
    process::write(&mut text);
    let ports: Vec<Part<'_, _>> =
        status.ports.iter().map(|port| (vec![("port", &port.name[..])], port)).collect();
    PORTS.write(&mut text, PREFIX, &ports);
    SOCKETS.write(&mut text, PREFIX, &inner(&ports, |port| port.xdp_statistics.as_ref()));
    labelled::write_ports(&mut text, &PORTS, &status);
    write_classes(&mut text, view, &status);
    labelled::write_classes(&mut text, view, &CLASSES, &status, only);
    if let Some(multicast) = &status.multicast {
        MULTICAST.write(&mut text, PREFIX, &[(Vec::new(), multicast)]);
        labelled::write_multicast(&mut text, &MULTICAST, multicast);
    }
    if let Some(router) = &status.router {
        ROUTER.write(&mut text, PREFIX, &[(Vec::new(), router)]);
        let interfaces = router.interfaces.iter().map(|it| (vec![("interface", &it.name[..])], it));
        INTERFACES.write(&mut text, PREFIX, &interfaces.collect::<Vec<_>>());
        labelled::write_routes(&mut text, router);
    }
    let numbers: Vec<String> = (0..status.workers.len()).map(|worker| worker.to_string()).collect();
    let workers = numbers.iter().zip(&status.workers).map(|(number, it)| (vec![("worker", &number[..])], it));
    WORKERS.write(&mut text, PREFIX, &workers.collect::<Vec<_>>());
    times::write(&mut text, view, &CLASSES, &WORKERS, only);
    text.finish()
}

fn write_switch(text: &mut Exposition, view: &SwitchView, status: &Status) {
    text.family("xoff_build_info", Kind::Gauge, "Version of the program as label; value 1.")
        .sample(&[("version", &status.version)], 1);
    text.family(
        "xoff_stall_budget_seconds",
        Kind::Gauge,
        "Longest stall of a worker that causes no loss in a lossless class.",
    )
    .sample(&[], seconds(view.stall_budget.0));
    SWITCH.write(text, PREFIX, &[(Vec::new(), status)]);
    VERDICT.write(text, PREFIX, &[(Vec::new(), &status.verdict)]);
}

fn write_classes(text: &mut Exposition, view: &SwitchView, status: &Status) {
    let classes: Vec<Part<'_, _>> = classes(status).collect();
    CLASSES.write(text, PREFIX, &classes);
    let lossless = inner(&classes, |class| class.lossless.then_some(class));
    LOSSLESS_CLASSES.write(text, PREFIX, &lossless);
    let directions = classes.iter().flat_map(|(labels, class)| {
        [(SENT, &class.pause_sent), (RECEIVED, &class.pause_received)]
            .map(|(direction, pauses)| (with(labels, direction), pauses))
    });
    PAUSES.write(text, PREFIX, &directions.collect::<Vec<_>>());
    let settings = view.settings();
    let halting = settings.when_full == WhenFull::Stop;
    HALTS.write(text, PREFIX, &inner(&classes, |class| halting.then_some(&class.egress.halts)));
    let flows = inner(&classes, |class| class.flows.as_ref());
    FLOWS.write(text, PREFIX, &flows);
    FLOW_REQUESTS.write(text, PREFIX, &inner(&flows, |flows| Some(&flows.requests)));
    CONGESTION_POINTS.write(text, PREFIX, &inner(&classes, |class| class.congestion_point.as_ref()));
    WATCHDOGS.write(text, PREFIX, &inner(&classes, |class| class.watchdog.as_ref()));
    let custom = settings.policy.custom.is_some();
    CUSTOM_POLICIES.write(text, PREFIX, &inner(&classes, |class| custom.then_some(class)));
    let shadows = lossless.iter().flat_map(|(labels, class)| {
        class.shadows.iter().map(move |shadow| (with(labels, ("policy", &shadow.policy)), shadow))
    });
    let shadows: Vec<Part<'_, _>> = shadows.collect();
    SHADOWS.write(text, SHADOW_PREFIX, &shadows);
    let is_custom = |shadow: &ShadowStatus| custom && shadow.policy == PolicyKind::Custom.name();
    CUSTOM_SHADOWS.write(text, SHADOW_PREFIX, &inner(&shadows, |shadow| is_custom(shadow).then_some(shadow)));
    FLOW_REQUESTS.write(text, SHADOW_PREFIX, &inner(&shadows, |shadow| shadow.flows.as_ref()));
    SHADOW_RATES.write(text, SHADOW_PREFIX, &inner(&shadows, |shadow| shadow.rate.as_ref()));
}

fn classes(status: &Status) -> impl Iterator<Item = Part<'_, ClassStatus>> {
    status.ports.iter().flat_map(|port| {
        let labels =
            |class: &ClassStatus| vec![("port", &port.name[..]), ("class", DIGITS[usize::from(class.class)])];
        port.classes.iter().map(move |class| (labels(class), class))
    })
}

fn inner<'a, T, U>(parts: &[Part<'a, T>], of: impl Fn(&'a T) -> Option<&'a U>) -> Vec<Part<'a, U>> {
    parts.iter().filter_map(|(labels, part)| Some((labels.clone(), of(part)?))).collect()
}

fn with<'a>(
    labels: &[(&'static str, &'a str)],
    label: (&'static str, &'a str),
) -> Vec<(&'static str, &'a str)> {
    labels.iter().copied().chain([label]).collect()
}

fn of_class(view: &SwitchView, port: PortId, class: Class) -> [(&'static str, &str); 2] {
    [("port", view.name_of(port)), ("class", DIGITS[class.index()])]
}
