//! The metric families of `/metrics`: names, help, and where each value is read.

mod drops;
mod flows;
mod halts;
mod lldp;
mod notification;
mod policies;
pub mod rates;
mod router;
mod storms;

use std::time::UNIX_EPOCH;

use xoff_dataplane::counter::{Counter, FineHistogram, Histogram};
use xoff_dataplane::counters::{ClassCounters, PortCounters};
use xoff_dataplane::settings::ClassSettings;
use xoff_dataplane::units::{Class, PortId};
use xoff_dataplane::wire::mac_control::MacControlError;

use super::exposition::{Exposition, Kind, seconds};
use super::unseen::Unseen;
use super::view::{Link, PortView, ProgramState, SwitchView, WorkerFacts};
use super::{logging, process, proof};

/// The text of `/metrics`, read without any worker's help.
pub(super) fn render(view: &SwitchView) -> String {
    let mut text = Exposition::with(&[("switch", &view.name)]);
    write_switch(&mut text, view);
    process::write(&mut text);
    let unseen = view.unseen();
    write_ports(&mut text, view, &unseen);
    write_drivers(&mut text, view, &unseen);
    write_classes(&mut text, view);
    drops::write(&mut text, view);
    write_pauses(&mut text, view);
    policies::write(&mut text, view);
    rates::write(&mut text, view);
    flows::write(&mut text, view);
    notification::write(&mut text, view);
    router::write(&mut text, view);
    storms::write(&mut text, view);
    halts::write(&mut text, view);
    lldp::write(&mut text, view);
    write_histograms(&mut text, view);
    write_workers(&mut text, view);
    text.finish()
}

fn write_switch(text: &mut Exposition, view: &SwitchView) {
    text.family("xoff_build_info", Kind::Gauge, "Version of the program; always 1.")
        .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let started = view.started.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    text.family("xoff_start_time_seconds", Kind::Gauge, "When the switch was started, in Unix time.")
        .sample(&[], started);
    text.family("xoff_stall_budget_seconds", Kind::Gauge, "Longest stall of a worker that its memory bears.")
        .sample(&[], seconds(view.stall_budget.0));
    let help = "Log lines that could not be written, or came faster than they could be.";
    text.family("xoff_log_lines_dropped_total", Kind::Counter, help).sample(&[], logging::lines_dropped());
    if let Some(free) = view.headroom_least_free() {
        let help = "Least headroom that any lossless class of any port had left.";
        text.family("xoff_headroom_least_free_bytes", Kind::Gauge, help).sample(&[], free);
    }
}

/// A family with a sample for each port: name, kind, help, and where its value is.
pub type OfPort = (&'static str, Kind, &'static str, fn(&PortCounters) -> &Counter);

/// Families with a sample for each port.
pub const PORT_FAMILIES: [OfPort; 13] = [
    ("xoff_rate_frames_sent_total", Kind::Counter, "PFC frames with rates (GFC) sent.", |port| {
        &port.rate_frames_sent
    }),
    (
        "xoff_rate_frames_received_total",
        Kind::Counter,
        "PFC frames with rates (GFC) received and obeyed.",
        |port| &port.rate_frames_received,
    ),
    ("xoff_pause_frames_sent_total", Kind::Counter, "PFC and 802.3x PAUSE frames sent.", |port| {
        &port.pause_frames_sent
    }),
    ("xoff_pfc_frames_received_total", Kind::Counter, "Well-formed PFC frames received.", |port| {
        &port.pfc_frames_received
    }),
    (
        "xoff_pause_frames_received_total",
        Kind::Counter,
        "Well-formed 802.3x PAUSE frames received.",
        |port| &port.pause_frames_received,
    ),
    (
        "xoff_pause_frames_ignored_total",
        Kind::Counter,
        "Well-formed pause frames received and not obeyed, by configuration.",
        |port| &port.pause_frames_ignored,
    ),
    (
        "xoff_reserved_frames_total",
        Kind::Counter,
        "Frames to 01:80:c2:00:00:00..0f received and not forwarded, MAC control excepted.",
        |port| &port.reserved_frames,
    ),
    (
        "xoff_control_starved_total",
        Kind::Counter,
        "Pause frames that had to wait because all reserved frames were in flight.",
        |port| &port.control_starved,
    ),
    ("xoff_fdb_entries", Kind::Gauge, "Addresses learned on the port now.", |port| &port.fdb_entries),
    ("xoff_fdb_moves_total", Kind::Counter, "Addresses that moved to the port from another.", |port| {
        &port.station_moves
    }),
    (
        "xoff_fdb_refused_total",
        Kind::Counter,
        "Frames whose source was not learned for the port's limit or the table's capacity.",
        |port| &port.learn_refused,
    ),
    (
        "xoff_loops_total",
        Kind::Counter,
        "Loops found: the port was the higher of two between which stations moved to and fro.",
        |port| &port.loops,
    ),
    ("xoff_looped", Kind::Gauge, "1 for a while after a loop was found at the port.", |port| &port.looped),
];

fn write_ports(text: &mut Exposition, view: &SwitchView, unseen: &[Unseen]) {
    let mut family = text.family("xoff_port_info", Kind::Gauge, "What a port is made of; always 1.");
    for (id, port) in view.ports() {
        let mac = port.now().mac.to_string();
        let labels = [
            ("port", name(view, id)),
            ("device", &port.device.get()),
            ("mac", &mac),
            ("xdp", if port.now().native { "native" } else { "generic" }),
            ("memory", if port.now().zero_copy { "zero-copy" } else { "copy" }),
            ("worker", &port.worker.to_string()),
        ];
        family.sample(&labels, 1);
    }
    let mut family = text.family("xoff_port_up", Kind::Gauge, "1 while the port's link is up.");
    for (id, port) in view.ports() {
        family.sample(&[("port", name(view, id))], u8::from(port.link.get() == Link::Up));
    }
    let help = "1 while the port's device is gone: until one of its name is there.";
    let mut family = text.family("xoff_port_gone", Kind::Gauge, help);
    for (id, port) in view.ports() {
        family.sample(&[("port", name(view, id))], u8::from(port.link.get() == Link::Gone));
    }
    let help = "Times that the port's device had gone and came back.";
    let mut family = text.family("xoff_port_returns_total", Kind::Counter, help);
    for (id, port) in view.ports() {
        family.sample(&[("port", name(view, id))], port.returns.get());
    }
    let help = "Times that the device had another number of receive queues than the port has sockets.";
    let mut family = text.family("xoff_port_requeues_total", Kind::Counter, help);
    for (id, port) in view.ports() {
        family.sample(&[("port", name(view, id))], port.requeued.get());
    }
    let help = "1 where what the port lost cannot be told: a counter cannot be read, or frames went past it.";
    let mut family = text.family("xoff_port_unproved", Kind::Gauge, help);
    for (id, _) in view.ports() {
        family.sample(&[("port", name(view, id))], u8::from(proof::has_gaps(view, id, unseen[id.index()])));
    }
    let help = "1 while the port's XDP program is on its device.";
    let mut family = text.family("xoff_xdp_program_attached", Kind::Gauge, help);
    for (id, port) in view.ports() {
        let attached = port.program.get() == ProgramState::Attached && port.link.get() != Link::Gone;
        family.sample(&[("port", name(view, id))], u8::from(attached));
    }
    let help = "Times that the port's XDP program was found off its device.";
    let mut family = text.family("xoff_xdp_program_detached_total", Kind::Counter, help);
    for (id, port) in view.ports() {
        family.sample(&[("port", name(view, id))], port.program_detached.get());
    }
    let help = "Bytes that the peer sent beyond what the port's line rate allows, as the line counts them.";
    let mut family = text.family("xoff_peer_overspeed_bytes_total", Kind::Counter, help);
    for (id, port) in view.ports() {
        family.sample(&[("port", name(view, id))], port.overspeed_bytes.get());
    }
    let help = "Line rate of the port, layer 1.";
    let mut family = text.family("xoff_port_speed_bytes_per_second", Kind::Gauge, help);
    for (id, _) in view.ports() {
        family.sample(
            &[("port", name(view, id))],
            view.settings().ports[id.index()].speed.bits_per_second() as f64 / 8.0,
        );
    }
    for (metric, kind, help, counter) in PORT_FAMILIES {
        let mut family = text.family(metric, kind, help);
        for (id, _) in view.ports() {
            family.sample(&[("port", name(view, id))], counter(view.counters.port(id)).get());
        }
    }
    let help = "MAC control frames received that paused nothing, by what is wrong with them.";
    let mut family = text.family("xoff_mac_control_malformed_total", Kind::Counter, help);
    for (id, _) in view.ports() {
        let counters = &view.counters.port(id).malformed_control;
        for (error, counter) in MacControlError::ALL.into_iter().zip(counters) {
            family.sample(&[("port", name(view, id)), ("reason", error.name())], counter.get());
        }
    }
}

/// What the kernel dropped before or behind the switch.
fn write_drivers(text: &mut Exposition, view: &SwitchView, unseen: &[Unseen]) {
    let xdp = |port: &PortView| port.xdp_statistics().ok().map(|statistics| statistics.drops());
    let device = |port: &PortView| port.device_drops().ok().map(|drops| drops.losses());
    let help = "Frames that the port's XDP sockets dropped, by their statistics; the switch never saw them.";
    write_losses(text, view, "xoff_xdp_drops_total", help, xdp);
    let help = "Times that the kernel refused to send for a reason that xoff does not know.";
    let mut family = text.family("xoff_xdp_failed_kicks_total", Kind::Counter, help);
    for (id, port) in view.ports() {
        if let Ok(statistics) = port.xdp_statistics() {
            family.sample(&[("port", name(view, id))], statistics.tx_failed_kicks);
        }
    }
    let help = "Frames that the machine's own stack wanted to send on the port, and was not let.";
    let mut family = text.family("xoff_xdp_held_back_total", Kind::Counter, help);
    for (id, port) in view.ports() {
        if let Ok(statistics) = port.xdp_statistics() {
            family.sample(&[("port", name(view, id))], statistics.tx_held_back);
        }
    }
    let help = "Frames that the port's device dropped, by its own link statistics.";
    write_losses(text, view, "xoff_device_drops_total", help, device);
    let help = "Frames lost unseen before or behind the switch, each counted once, by what is known of their classes.";
    let mut family = text.family("xoff_unseen_lost_frames_total", Kind::Counter, help);
    for (id, _) in view.ports() {
        let Unseen { lossless, unknown, lossy, ambiguous, .. } = unseen[id.index()];
        let unknown = unknown + ambiguous;
        for (classes, frames) in [("lossless", lossless), ("unknown", unknown), ("lossy", lossy)] {
            family.sample(&[("port", name(view, id)), ("classes", classes)], frames);
        }
    }
}

fn write_losses<const N: usize>(
    text: &mut Exposition,
    view: &SwitchView,
    metric: &'static str,
    help: &str,
    losses: impl Fn(&PortView) -> Option<[(&'static str, u64); N]>,
) {
    let mut family = text.family(metric, Kind::Counter, help);
    for (id, port) in view.ports() {
        for (reason, frames) in losses(port).into_iter().flatten() {
            family.sample(&[("port", name(view, id)), ("reason", reason)], frames);
        }
    }
}

/// A family with a sample for each class of each port.
pub type OfClass = (&'static str, Kind, &'static str, fn(&ClassCounters) -> &Counter);

/// Families with a sample for each class of each port.
pub const CLASS_FAMILIES: [OfClass; 17] = [
    (
        "xoff_ecn_marked_frames_total",
        Kind::Counter,
        "Frames sent with a mark that they met congestion here (ECN).",
        |class| &class.ecn_marked_frames,
    ),
    ("xoff_ecn_marked_bytes_total", Kind::Counter, "Bytes of frames marked (ECN), FCS included.", |class| {
        &class.ecn_marked_bytes
    }),
    (
        "xoff_rate_changes_total",
        Kind::Counter,
        "Times that the rate changed that the peer is asked to keep (GFC).",
        |class| &class.rate_asked.changes,
    ),
    (
        "xoff_frames_received_total",
        Kind::Counter,
        "Frames received, those dropped later included.",
        |class| &class.rx_frames,
    ),
    ("xoff_bytes_received_total", Kind::Counter, "Bytes of frames received, FCS included.", |class| {
        &class.rx_bytes
    }),
    ("xoff_frames_sent_total", Kind::Counter, "Frames sent.", |class| &class.tx_frames),
    ("xoff_bytes_sent_total", Kind::Counter, "Bytes of frames sent, FCS included.", |class| &class.tx_bytes),
    ("xoff_pfc_xoff_sent_total", Kind::Counter, "Times that the peer was told to stop.", |class| {
        &class.xoff_sent
    }),
    ("xoff_pfc_xon_sent_total", Kind::Counter, "Times that the peer was told to resume.", |class| {
        &class.xon_sent
    }),
    ("xoff_pfc_refreshes_sent_total", Kind::Counter, "Times that a held XOFF was repeated.", |class| {
        &class.refreshes_sent
    }),
    (
        "xoff_pfc_xoff_received_total",
        Kind::Counter,
        "Pause times above zero received and obeyed, refreshes included.",
        |class| &class.xoff_received,
    ),
    ("xoff_pfc_xon_received_total", Kind::Counter, "Pause times of zero received and obeyed.", |class| {
        &class.xon_received
    }),
    (
        "xoff_ingress_occupancy_bytes",
        Kind::Gauge,
        "Bytes that came in on the port and still count against its thresholds.",
        |class| &class.ingress_bytes,
    ),
    ("xoff_ingress_occupancy_max_bytes", Kind::Gauge, "Most ingress occupancy since the start.", |class| {
        &class.ingress_watermark
    }),
    (
        "xoff_egress_occupancy_bytes",
        Kind::Gauge,
        "Bytes that wait to be sent on the port, those committed to the driver included.",
        |class| &class.egress_bytes,
    ),
    ("xoff_egress_occupancy_max_bytes", Kind::Gauge, "Most egress occupancy since the start.", |class| {
        &class.egress_watermark
    }),
    (
        "xoff_headroom_used_max_bytes",
        Kind::Gauge,
        "Most headroom used at a time since the start; zero for a lossy class.",
        |class| &class.headroom_watermark,
    ),
];

/// Of lossless classes: what came after XOFF.
const PEER_FAMILIES: [OfClass; 3] = [
    (
        "xoff_peer_excess_frames_total",
        Kind::Counter,
        "Frames that came in time after an XOFF, and were more than a peer as fast as declared sends.",
        |class| &class.excess_frames,
    ),
    (
        "xoff_peer_late_frames_total",
        Kind::Counter,
        "Frames that came after an XOFF later than a peer that stops as declared sends.",
        |class| &class.late_frames,
    ),
    (
        "xoff_peer_after_xoff_max_bytes",
        Kind::Gauge,
        "Most bytes that came in one pause after XOFF, since the start.",
        |class| &class.after_xoff_max,
    ),
];

type OfSettings = (&'static str, &'static str, fn(&ClassSettings) -> u64);

const LOSSLESS_FAMILIES: [OfSettings; 3] = [
    ("xoff_xoff_threshold_bytes", "Ingress occupancy at which XOFF is sent.", |class| class.xoff.0),
    ("xoff_xon_threshold_bytes", "Ingress occupancy below which XON is sent.", |class| class.xon.0),
    ("xoff_headroom_bytes", "Room beyond XOFF for what still arrives.", |class| class.headroom.0),
];

fn write_classes(text: &mut Exposition, view: &SwitchView) {
    for (metric, kind, help, counter) in CLASS_FAMILIES {
        let mut family = text.family(metric, kind, help);
        for (port, class, counters) in view.classes() {
            family.sample(&of_class(view, port, class), counter(counters).get());
        }
    }
    let mut family =
        text.family("xoff_class_lossless", Kind::Gauge, "1 for a lossless class, 0 for a lossy one.");
    for (port, class, _) in view.classes() {
        family.sample(&of_class(view, port, class), u8::from(settings(view, port, class).lossless));
    }
    for (metric, help, value) in LOSSLESS_FAMILIES {
        let mut family = text.family(metric, Kind::Gauge, help);
        for (port, class, _) in
            view.classes().filter(|&(port, class, _)| settings(view, port, class).lossless)
        {
            family.sample(&of_class(view, port, class), value(&settings(view, port, class)));
        }
    }
    for (metric, kind, help, counter) in PEER_FAMILIES {
        let mut family = text.family(metric, kind, help);
        for (port, class, counters) in
            view.classes().filter(|&(port, class, _)| settings(view, port, class).lossless)
        {
            family.sample(&of_class(view, port, class), counter(counters).get());
        }
    }
    let help = "The longest after an XOFF was told that a frame of its class was found to have come, since the start.";
    let mut family = text.family("xoff_peer_response_max_seconds", Kind::Gauge, help);
    for (port, class, counters) in
        view.classes().filter(|&(port, class, _)| settings(view, port, class).lossless)
    {
        family.sample(&of_class(view, port, class), seconds(counters.response_max.get()));
    }
    let help = "Least headroom left at a time in the last five minutes, to the minute.";
    let mut family = text.family("xoff_headroom_free_recent_bytes", Kind::Gauge, help);
    for (port, class, _) in view.classes() {
        if let Some(free) = view.headroom_free_recent(port, class) {
            family.sample(&of_class(view, port, class), free);
        }
    }
    let help = "Least headroom left at a time since the start.";
    let mut family = text.family("xoff_headroom_free_min_bytes", Kind::Gauge, help);
    for (port, class, _) in view.classes() {
        if let Some(free) = view.headroom_free(port, class) {
            family.sample(&of_class(view, port, class), free);
        }
    }
}

/// Label of what a port asks its peer.
pub const SENT: (&str, &str) = ("direction", "sent");
/// Label of what a peer asks.
pub const RECEIVED: (&str, &str) = ("direction", "received");

fn write_pauses(text: &mut Exposition, view: &SwitchView) {
    let help = "Time in pause, the running one included. direction: sent (the peer was held), received (the \
                peer held this port).";
    let mut family = text.family("xoff_pfc_pause_seconds_total", Kind::Counter, help);
    for (port, class, _) in view.classes() {
        let times = view.pause_times(port, class);
        let [port, class] = of_class(view, port, class);
        family.sample(&[port, class, SENT], seconds(times.sent));
        family.sample(&[port, class, RECEIVED], seconds(times.received));
    }
    let mut family = text.family("xoff_pfc_paused", Kind::Gauge, "1 while a pause holds.");
    for (port, class, counters) in view.classes() {
        let [port, class] = of_class(view, port, class);
        family.sample(&[port, class, SENT], u8::from(counters.held_since.get() != 0));
        family.sample(&[port, class, RECEIVED], u8::from(counters.paused_since.get() != 0));
    }
}

fn write_histograms(text: &mut Exposition, view: &SwitchView) {
    let help = "From receive to transmit, on the port of egress. Appears with the first frame.";
    let mut family = text.family("xoff_queueing_delay_seconds", Kind::Histogram, help);
    for (port, class, counters) in view.classes().filter(|(_, _, counters)| used(&counters.queueing_delay)) {
        family.histogram(&of_class(view, port, class), &counters.queueing_delay);
    }
    let help = "Lengths of finished pauses. Appears with the first pause.";
    let mut family = text.family("xoff_pfc_pause_duration_seconds", Kind::Histogram, help);
    for (port, class, counters) in view.classes() {
        let [port, class] = of_class(view, port, class);
        for (direction, durations) in
            [(SENT, &counters.held_durations), (RECEIVED, &counters.paused_durations)]
        {
            if used(durations) {
                family.histogram(&[port, class, direction], durations);
            }
        }
    }
}

/// Empty histograms of classes without traffic are left out: there are many.
fn used(histogram: &Histogram) -> bool {
    histogram.count() > 0
}

type OfWorker = (&'static str, Kind, &'static str, fn(&WorkerFacts) -> &Counter);

const WORKER_FAMILIES: [OfWorker; 4] = [
    ("xoff_worker_loops_total", Kind::Counter, "Loops of a forwarding thread.", |worker| &worker.loops),
    (
        "xoff_worker_stalls_total",
        Kind::Counter,
        "Times between two loops beyond the stall budget.",
        |worker| &worker.stalls,
    ),
    (
        "xoff_worker_frames_missing",
        Kind::Gauge,
        "Frames missing from the ledger: zero unless the switch has a bug.",
        |worker| &worker.frames_missing,
    ),
    (
        "xoff_worker_free_chunks",
        Kind::Gauge,
        "Chunks of packet memory that hold no frame; falls for good only if the switch has a bug.",
        |worker| &worker.chunks_free,
    ),
];

type OfWorkerTimes = (&'static str, &'static str, fn(&WorkerFacts) -> &FineHistogram);

const WORKER_HISTOGRAMS: [OfWorkerTimes; 3] = [
    ("xoff_worker_loop_gap_seconds", "Time between two loops of an awake forwarding thread.", |worker| {
        &worker.gaps
    }),
    (
        "xoff_pfc_send_reaction_seconds",
        "From a threshold crossed to the pause frame handed to the kernel; an upper bound.",
        |worker| &worker.pause_reaction,
    ),
    (
        "xoff_pfc_obey_reaction_seconds",
        "From a pause frame received to the last frame of its class handed to the kernel; an upper bound.",
        |worker| &worker.obey_reaction,
    ),
];

fn write_workers(text: &mut Exposition, view: &SwitchView) {
    let workers = || view.workers.iter().enumerate().map(|(n, worker)| (n.to_string(), &worker.facts));
    for (metric, kind, help, counter) in WORKER_FAMILIES {
        let mut family = text.family(metric, kind, help);
        for (worker, facts) in workers() {
            family.sample(&[("worker", &worker)], counter(facts).get());
        }
    }
    let help = "Longest time between two loops since the start.";
    let mut family = text.family("xoff_worker_loop_gap_max_seconds", Kind::Gauge, help);
    for (worker, facts) in workers() {
        family.sample(&[("worker", &worker)], seconds(facts.longest_gap.get()));
    }
    for (metric, help, histogram) in WORKER_HISTOGRAMS {
        let mut family = text.family(metric, Kind::Histogram, help);
        for (worker, facts) in workers() {
            family.histogram(&[("worker", &worker)], histogram(facts));
        }
    }
}

pub(super) fn name(view: &SwitchView, port: PortId) -> &str {
    view.name_of(port)
}

fn settings(view: &SwitchView, port: PortId, class: Class) -> ClassSettings {
    view.settings().ports[port.index()].classes[class.index()]
}

/// Label values of classes.
pub const DIGITS: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];

pub(super) fn of_class(view: &SwitchView, port: PortId, class: Class) -> [(&'static str, &str); 2] {
    [("port", name(view, port)), ("class", DIGITS[class.index()])]
}
