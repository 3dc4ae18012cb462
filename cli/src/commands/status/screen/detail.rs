use xoff_config::written::grouped;

use super::super::layout::has_traffic;
use super::super::tables::{link, mode, pause, unseen, why};
use super::ports::{Row, percent};
use crate::cli::wrapped;
use xoff_config::format::{bytes, scaled, span};
use xoff_switch::control::status::{ClassStatus, PortStatus};

pub(super) fn lines(row: &Row, width: usize) -> Vec<String> {
    let mut lines = vec![heading(row)];
    lines.push(String::new());
    lines.push(format!(
        "{:<10} {:>9} {:>9} {:>15} {:>7} {:>7} {:>7} {:>8}",
        "class", "in", "out", "ingress / XOFF", "egress", "holding", "held by", "headroom"
    ));
    lines.extend(row.port.classes.iter().map(|class| class_line(row, class)));
    let facts = row.port.classes.iter().flat_map(facts);
    for fact in facts.chain(of_port(&row.port)) {
        lines.extend(wrapped(&fact, width));
    }
    lines
}

fn heading(row: &Row) -> String {
    let port = &row.port;
    let speed = scaled(port.speed_bits_per_second as f64, "b/s");
    format!("{} ({}): {}, {speed}, {}", row.name, port.device, link(port.link), mode(port))
}

fn class_line(row: &Row, class: &ClassStatus) -> String {
    let rates = row.rates(std::slice::from_ref(class));
    let rate = |direction: usize| rates.map_or("-".into(), |rates| scaled(rates[direction][0], "b/s"));
    let share = |share: f64| if share > 0.0 { percent(share) } else { "-".into() };
    let ingress = &class.ingress;
    format!(
        "{:<10} {:>9} {:>9} {:>15} {:>7} {:>7} {:>7} {:>8}",
        format!("{}{}", class.class, if class.lossless { " lossless" } else { "" }),
        rate(0),
        rate(1),
        match class.lossless {
            true => format!("{} / {}", bytes(ingress.bytes), bytes(ingress.xoff_bytes)),
            false => bytes(ingress.bytes),
        },
        bytes(class.egress.bytes),
        share(row.share(class, |class| &class.pause_sent)),
        share(row.share(class, |class| &class.pause_received)),
        ingress.headroom_free_recent_bytes.map_or("-".into(), bytes),
    )
}

fn facts(class: &ClassStatus) -> Vec<String> {
    let number = class.class;
    let mut facts = Vec::new();
    if class.pause_sent.xoff > 0 {
        facts.push(format!("class {number} paused its peer: {}{}", pause(&class.pause_sent), why(class)));
    }
    if class.pause_received.xoff > 0 {
        facts.push(format!("class {number} was paused by its peer: {}", pause(&class.pause_received)));
    }
    for culprit in &class.culprits {
        let held = if culprit.held { ", which is paused itself" } else { "" };
        facts.push(format!(
            "class {number}: {} queued for egress {}{held}",
            bytes(culprit.bytes),
            culprit.port
        ));
    }
    if let Some(flows) = class.flows.filter(|flows| flows.requests.requested + flows.paused > 0) {
        let (requested, paused) = (grouped(flows.requests.requested), grouped(flows.paused));
        facts.push(format!(
            "class {number}: the peer is asked to pause {requested} flows, and itself pauses {paused}"
        ));
    }
    for (what, rate) in [
        ("the peer is asked to send at most", class.requested_rate_bits_per_second),
        ("as the peer asks, this port sends at most", class.rate_obeyed_bits_per_second),
    ] {
        facts.extend(rate.map(|rate| format!("class {number}: {what} {}", scaled(rate as f64, "b/s"))));
    }
    if let Some(watchdog) = class.watchdog.as_ref().filter(|watchdog| watchdog.storms > 0) {
        let now = if watchdog.storm { ", NOW" } else { "" };
        let (storms, lasted) = (grouped(watchdog.storms), span(watchdog.nanos));
        facts.push(format!(
            "class {number}: {storms} pause storms, {lasted}{now}, action {}",
            watchdog.action
        ));
    }
    if has_traffic(class) {
        let drops = class.drops.iter().filter(|(_, frames)| **frames > 0);
        facts.extend(
            drops.map(|(reason, frames)| format!("class {number} dropped {} {reason}", grouped(*frames))),
        );
        let time = |nanos: Option<u64>| nanos.map_or("-".into(), span);
        let delay = &class.queueing_delay;
        if delay.count > 0 {
            facts.push(format!(
                "class {number} queueing delay: p50 up to {}, p99 up to {}",
                time(delay.p50_nanos),
                time(delay.p99_nanos)
            ));
        }
    }
    facts
}

fn of_port(port: &PortStatus) -> Vec<String> {
    let mut facts = vec![format!(
        "pause frames: {} received, {} sent, {} ignored; flow control {}",
        grouped(port.pfc_frames_received + port.pause_frames_received),
        grouped(port.pause_frames_sent),
        grouped(port.pause_frames_ignored),
        port.flow_control
    )];
    facts.extend(port.pause_peer.as_ref().map(|peer| format!("the last pause obeyed came from {peer}")));
    if port.peer.too_fast {
        facts.push("PEER TOO FAST: the peer sends faster than the port's speed".into());
    }
    if port.peer.too_late {
        facts.push("PEER TOO LATE: the peer has sent while paused; on a Linux host, run `xoff nic`".into());
    }
    if let (Some(other), true) = (&port.loop_with, port.looped) {
        facts.push(format!("LOOP: this port and {other} are connected outside the switch"));
    }
    facts.push(format!("dropped by the kernel: {}", unseen(port)));
    facts.push(format!(
        "{} addresses learned, device came back {} times, worker {}",
        grouped(port.fdb_entries),
        port.returns,
        port.worker
    ));
    facts
}
