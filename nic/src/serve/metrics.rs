//! An agent's `/metrics`: the families of a switch's port as far as a host has them, written from the same tables, and what only a
//! host has.

use std::sync::atomic::Ordering::Relaxed;
use std::time::UNIX_EPOCH;

use crate::NicView;
use xoff_dataplane::drop_reason::DropReason;
use xoff_dataplane::units::{Class, Nanos, PortId};
use xoff_dataplane::wire::{CnmError, MacControlError};

use xoff_switch::control::exposition::{Exposition, Kind, seconds};
use xoff_switch::control::metrics::rates::{OBEYED, bytes};
use xoff_switch::control::metrics::{CLASS_FAMILIES, DIGITS, PORT_FAMILIES, RECEIVED, SENT};
use xoff_switch::control::{logging, process};

/// Families of a port that a host has.
const OF_PORT: [&str; 5] = [
    "xoff_rate_frames_received_total",
    "xoff_pause_frames_sent_total",
    "xoff_pfc_frames_received_total",
    "xoff_pause_frames_received_total",
    "xoff_pause_frames_ignored_total",
];

/// Families of a class that a host has.
const OF_CLASS: [&str; 9] = [
    "xoff_frames_sent_total",
    "xoff_bytes_sent_total",
    "xoff_pfc_xoff_sent_total",
    "xoff_pfc_xon_sent_total",
    "xoff_pfc_refreshes_sent_total",
    "xoff_pfc_xoff_received_total",
    "xoff_pfc_xon_received_total",
    "xoff_egress_occupancy_bytes",
    "xoff_egress_occupancy_max_bytes",
];

pub(super) fn render(view: &NicView) -> String {
    let mut text = Exposition::with(&[("switch", &view.settings.device)]);
    write_agent(&mut text, view);
    write_port(&mut text, view);
    write_classes(&mut text, view);
    text.finish()
}

fn write_agent(text: &mut Exposition, view: &NicView) {
    let device = view.settings.device.as_str();
    text.family("xoff_build_info", Kind::Gauge, "Version of the program; always 1.")
        .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    process::write(text);
    let started = view.started.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    text.family("xoff_start_time_seconds", Kind::Gauge, "When the agent was started, in Unix time.")
        .sample(&[], started);
    let help = "Log lines that could not be written, or came faster than they could be.";
    text.family("xoff_log_lines_dropped_total", Kind::Counter, help).sample(&[], logging::lines_dropped());
    let labels = [
        ("port", device),
        ("device", device),
        ("mac", &view.address().to_string()),
        ("leaf", view.leaf),
        ("real_time", if view.real_time.load(Relaxed) { "yes" } else { "no" }),
    ];
    text.family("xoff_nic_info", Kind::Gauge, "What a host's queues are made of; always 1.")
        .sample(&labels, 1);
    let help =
        "The peer_response that the switch's port needs: by what was measured, or expected before that.";
    text.family("xoff_nic_peer_response_seconds", Kind::Gauge, help)
        .sample(&[("port", device)], seconds(view.peer_response().0));
    let help = "From a pause frame received to its class stopped.";
    text.family("xoff_pfc_obey_reaction_seconds", Kind::Histogram, help)
        .histogram(&[("port", device)], view.response.times());
    let help = "Changes of queues that the kernel refused.";
    text.family("xoff_nic_changes_refused_total", Kind::Counter, help)
        .sample(&[("port", device)], view.refused.get());
    let help = "Repairs of queues that somebody else had changed.";
    text.family("xoff_nic_queue_repairs_total", Kind::Counter, help)
        .sample(&[("port", device)], view.repairs.get());
    let help = "Missing or changed queues that could not be repaired: 1 while there are any.";
    text.family("xoff_nic_queues_broken", Kind::Gauge, help)
        .sample(&[("port", device)], u8::from(!view.defects().is_empty()));
    let help = "MAC control frames and CNMs that came faster than they were read, and were lost.";
    text.family("xoff_nic_control_missed_total", Kind::Counter, help)
        .sample(&[("port", device)], view.missed.get());
    let help = "Times that the process had ended that guards the queues.";
    text.family("xoff_nic_guards_lost_total", Kind::Counter, help)
        .sample(&[("port", device)], view.guards_lost.get());
    if view.settings.pause_above.is_some() {
        let help = "What waits in the fullest UDP socket of the host.";
        text.family("xoff_nic_receive_backlog_bytes", Kind::Gauge, help)
            .sample(&[("port", device)], view.receive_backlog.get());
    }
}

fn write_port(text: &mut Exposition, view: &NicView) {
    let (device, port) = (view.settings.device.as_str(), view.counters.port(PortId(0)));
    let help = "Line rate of the port, layer 1.";
    text.family("xoff_port_speed_bytes_per_second", Kind::Gauge, help)
        .sample(&[("port", device)], view.settings.speed.bits_per_second() as f64 / 8.0);
    for (metric, kind, help, counter) in
        PORT_FAMILIES.into_iter().filter(|family| OF_PORT.contains(&family.0))
    {
        text.family(metric, kind, help).sample(&[("port", device)], counter(port).get());
    }
    let help = "MAC control frames received that paused nothing, by what is wrong with them.";
    let mut family = text.family("xoff_mac_control_malformed_total", Kind::Counter, help);
    for (error, counter) in MacControlError::ALL.into_iter().zip(&port.malformed_control) {
        family.sample(&[("port", device), ("reason", error.name())], counter.get());
    }
    text.family("xoff_cnms_received_total", Kind::Counter, "Well-formed CNMs received.")
        .sample(&[("port", device)], port.cnms_received.get());
    let mut family = text.family(
        "xoff_cnms_malformed_total",
        Kind::Counter,
        "Malformed CNMs received, by what is wrong with them.",
    );
    for (error, counter) in CnmError::ALL.into_iter().zip(&port.malformed_cnms) {
        family.sample(&[("port", device), ("reason", error.name())], counter.get());
    }
}

fn write_classes(text: &mut Exposition, view: &NicView) {
    let device = view.settings.device.as_str();
    let classes =
        || Class::ALL.into_iter().map(|class| (class, [("port", device), ("class", DIGITS[class.index()])]));
    for (metric, kind, help, counter) in
        CLASS_FAMILIES.into_iter().filter(|family| OF_CLASS.contains(&family.0))
    {
        let mut family = text.family(metric, kind, help);
        for (class, labels) in classes() {
            family.sample(&labels, counter(view.counters.class(PortId(0), class)).get());
        }
    }
    let (metric, help, rate) = OBEYED;
    let mut family = text.family(metric, Kind::Gauge, help);
    for (class, labels) in classes() {
        family.sample(&labels, bytes(rate(view.counters.class(PortId(0), class))));
    }
    let mut family =
        text.family("xoff_class_lossless", Kind::Gauge, "1 for a lossless class, 0 for a lossy one.");
    for (class, labels) in classes() {
        family.sample(&labels, u8::from(view.settings.lossless.contains(class)));
    }
    let full = DropReason::EgressFull;
    let mut family =
        text.family("xoff_drops_total", Kind::Counter, "Frames that the host's own queues had no room for.");
    for (class, [port, of_class]) in classes() {
        let labels = [port, of_class, ("reason", full.name()), ("kind", full.kind().name())];
        family.sample(&labels, view.dropped[class.index()].get());
    }
    let help =
        "Time in which frames of a paused class may have left, because somebody had changed the queues.";
    let mut family = text.family("xoff_nic_disobeyed_seconds_total", Kind::Counter, help);
    for (class, labels) in classes() {
        family.sample(&labels, seconds(view.disobeyed[class.index()].get()));
    }
    let help = "Times that somebody else had deleted the queue of the class, with the frames in it.";
    let mut family = text.family("xoff_nic_queues_deleted_total", Kind::Counter, help);
    for (class, labels) in classes() {
        family.sample(&labels, view.deleted[class.index()].get());
    }
    write_pauses(text, view);
}

fn write_pauses(text: &mut Exposition, view: &NicView) {
    let (device, now) = (view.settings.device.as_str(), crate::guard::now());
    let both = |class: Class| {
        let counters = view.counters.class(PortId(0), class);
        let sent = (SENT, counters.held_nanos.get(), counters.held_since.get());
        [sent, (RECEIVED, counters.paused_nanos.get(), counters.paused_since.get())]
    };
    let labels = |class: Class, direction| [("port", device), ("class", DIGITS[class.index()]), direction];
    let help = "Time in pause, the running one included. direction: sent (the peer was held), received (the \
                peer held this port).";
    let mut family = text.family("xoff_pfc_pause_seconds_total", Kind::Counter, help);
    for class in Class::ALL {
        for (direction, finished, since) in both(class) {
            let running = if since == 0 { 0 } else { now.since(Nanos(since)).0 };
            family.sample(&labels(class, direction), seconds(finished + running));
        }
    }
    let mut family = text.family("xoff_pfc_paused", Kind::Gauge, "1 while a pause holds.");
    for class in Class::ALL {
        for (direction, _, since) in both(class) {
            family.sample(&labels(class, direction), u8::from(since != 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_has_is_in_the_tables_of_a_switch() {
        let ports: Vec<&str> = PORT_FAMILIES.iter().map(|family| family.0).collect();
        let classes: Vec<&str> = CLASS_FAMILIES.iter().map(|family| family.0).collect();
        assert!(OF_PORT.iter().all(|name| ports.contains(name)));
        assert!(OF_CLASS.iter().all(|name| classes.contains(name)));
    }
}
