use xoff_config::written::grouped;

use super::layout::{has_traffic, table};
use super::pipeline::{halt_table, pipeline};
use super::policies::{congestion_table, flow_table, lists, rate_table, shadow_table};
use super::summary::{heading, ledger, policies, verdict};
use xoff_config::format::{bytes, scaled, span};
use xoff_switch::control::status::{
    ClassStatus, PauseStatus, PortStatus, SocketMemory, Spread, Status, WatchdogStatus, WorkerState,
    WorkerStatus, XdpMode,
};
use xoff_switch::control::{Link, ProgramState};

/// Returns a switch's status as text.
///
/// Traffic is shown as rates since `before`, or as totals without `before`.
pub(super) fn render(now: &Status, before: Option<&Status>) -> String {
    let ports: Vec<&PortStatus> = now.ports.iter().collect();
    let mut parts = vec![heading(now), policies(now), pipeline(now), verdict(now), ledger(now)];
    parts.push(port_table(&ports, now, before));
    parts.push(class_table(&ports, now, before));
    parts.push(rate_table(&ports));
    parts.push(flow_table(&ports, |flows| lists(flows).iter().sum::<u64>() + flows.fallbacks > 0));
    parts.push(shadow_table(&ports, |_| true));
    parts.push(congestion_table(&ports));
    parts.push(storm_table(&ports));
    parts.push(halt_table(&ports));
    parts.push(worker_table(&now.workers));
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

#[derive(Clone, Copy, Default)]
pub(super) struct Traffic {
    pub frames: u64,
    pub bytes: u64,
}

pub(super) fn sums<'a>(classes: impl Iterator<Item = &'a ClassStatus>) -> [Traffic; 2] {
    classes.fold(<[Traffic; 2]>::default(), |[rx, tx], class| {
        [
            Traffic { frames: rx.frames + class.rx_frames, bytes: rx.bytes + class.rx_bytes },
            Traffic { frames: tx.frames + class.tx_frames, bytes: tx.bytes + class.tx_bytes },
        ]
    })
}

impl Traffic {
    pub fn rate(self, before: Traffic, seconds: f64) -> [f64; 2] {
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        [8.0 * rate(self.bytes, before.bytes), rate(self.frames, before.frames)]
    }

    fn cell(self, before: Option<(Traffic, f64)>) -> String {
        let Some((before, seconds)) = before else {
            return format!("{} ({})", grouped(self.frames), bytes(self.bytes));
        };
        let [bits, frames] = self.rate(before, seconds);
        format!("{} ({})", scaled(bits, "b/s"), scaled(frames, "pps"))
    }
}

#[derive(Clone, Copy)]
pub(super) struct Before<'a> {
    pub port: &'a PortStatus,
    pub seconds: f64,
}

impl<'a> Before<'a> {
    pub fn of(port: &PortStatus, now: &Status, before: Option<&'a Status>) -> Option<Before<'a>> {
        let before = before?;
        let port = before.ports.iter().find(|it| it.name == port.name)?;
        Some(Before { port, seconds: (now.uptime_nanos - before.uptime_nanos) as f64 / 1e9 })
    }

    pub fn classes(self, now: &[ClassStatus]) -> impl Iterator<Item = &'a ClassStatus> {
        self.port.classes.iter().filter(|class| now.iter().any(|it| it.class == class.class))
    }
}

fn traffic(classes: &[ClassStatus], before: Option<Before<'_>>) -> [String; 2] {
    let [rx, tx] = sums(classes.iter());
    match before.map(|before| (sums(before.classes(classes)), before.seconds)) {
        None => [rx.cell(None), tx.cell(None)],
        Some(([rx_before, tx_before], seconds)) => {
            [rx.cell(Some((rx_before, seconds))), tx.cell(Some((tx_before, seconds)))]
        }
    }
}

pub(super) fn port_table(ports: &[&PortStatus], now: &Status, before: Option<&Status>) -> String {
    let header = [
        "port",
        "device",
        "link",
        "speed",
        "XDP",
        "received",
        "sent",
        "PFC in / out",
        "lost",
        "kernel drops",
    ];
    let rows = ports.iter().map(|port| {
        let before = Before::of(port, now, before);
        let [received, sent] = traffic(&port.classes, before);
        let pauses_in = port.pfc_frames_received + port.pause_frames_received;
        vec![
            port.name.clone(),
            port.device.clone(),
            link(port.link).into(),
            scaled(port.speed_bits_per_second as f64, "b/s"),
            mode(port),
            received,
            sent,
            format!("{} / {}", grouped(pauses_in), grouped(port.pause_frames_sent)),
            grouped(port.classes.iter().map(|class| class.lost).sum()),
            unseen(port),
        ]
    });
    table(&header, rows)
}

pub(super) fn link(link: Link) -> &'static str {
    match link {
        Link::Up => "up",
        Link::Down => "DOWN",
        Link::Gone => "GONE",
    }
}

pub(super) fn mode(port: &PortStatus) -> String {
    let mode = match port.xdp {
        XdpMode::Native => "native",
        XdpMode::Generic => "generic",
    };
    let memory = match port.memory {
        SocketMemory::ZeroCopy => "zero-copy",
        SocketMemory::Copy => "copy",
    };
    let state = match port.program {
        ProgramState::Attached => "",
        ProgramState::Detached => ", TAKEN OFF",
        ProgramState::Replaced => ", REPLACED",
    };
    format!("{mode}, {memory}{state}")
}

pub(super) fn losses(port: &PortStatus) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
    let xdp = port
        .xdp_statistics
        .iter()
        .flat_map(|xdp| xdp.drops())
        .map(|(reason, frames)| ("xdp", reason, frames));
    let device =
        port.device_drops_last.losses().into_iter().map(|(reason, frames)| ("device", reason, frames));
    xdp.chain(device).filter(|(_, _, frames)| *frames > 0).collect::<Vec<_>>().into_iter()
}

pub(super) fn unseen(port: &PortStatus) -> String {
    let kicks = port.xdp_statistics.iter().filter(|xdp| xdp.tx_failed_kicks > 0).map(|xdp| {
        format!("transmission refused {} times (error {})", grouped(xdp.tx_failed_kicks), xdp.tx_failed_errno)
    });
    let losses: Vec<String> = losses(port)
        .map(|(whose, reason, frames)| format!("{whose} {reason} {}", grouped(frames)))
        .chain(kicks)
        .collect();
    if losses.is_empty() { "0".into() } else { losses.join(", ") }
}

pub(super) fn class_table(ports: &[&PortStatus], now: &Status, before: Option<&Status>) -> String {
    let header = [
        "port",
        "class",
        "received",
        "sent",
        "ingress now / max",
        "egress now / max",
        "peer held",
        "held by peer",
        "headroom left",
        "delay p50 / p99 up to",
        "dropped",
    ];
    let rows = ports.iter().flat_map(|port| {
        let before = Before::of(port, now, before);
        let used = port.classes.iter().filter(|class| has_traffic(class));
        used.map(move |class| class_row(port, class, before)).collect::<Vec<_>>()
    });
    table(&header, rows)
}

fn class_row(port: &PortStatus, class: &ClassStatus, before: Option<Before<'_>>) -> Vec<String> {
    let [received, sent] = traffic(std::slice::from_ref(class), before);
    vec![
        port.name.clone(),
        format!("{}{}", class.class, if class.lossless { " lossless" } else { "" }),
        received,
        sent,
        format!("{} / {}", bytes(class.ingress.bytes), bytes(class.ingress.bytes_max)),
        format!("{} / {}", bytes(class.egress.bytes), bytes(class.egress.bytes_max)),
        pause(&class.pause_sent) + &why(class),
        pause(&class.pause_received),
        class.ingress.headroom_free_min_bytes.map_or("-".into(), bytes),
        quantiles(&class.queueing_delay),
        drops(class),
    ]
}

pub(super) fn quantiles(times: &Spread) -> String {
    let quantile = |nanos: Option<u64>| nanos.map_or("-".into(), span);
    format!("{} / {}", quantile(times.p50_nanos), quantile(times.p99_nanos))
}

pub(super) fn pause(pause: &PauseStatus) -> String {
    if pause.xoff == 0 {
        return "-".into();
    }
    let now = if pause.now { ", NOW" } else { "" };
    format!("{} x, {}{now}", grouped(pause.xoff), span(pause.nanos))
}

pub(super) fn why(class: &ClassStatus) -> String {
    let Some(cause) = class.cause.as_ref().filter(|_| class.pause_sent.now) else { return String::new() };
    let trigger = match cause.class == class.class {
        true => cause.trigger.clone(),
        false => format!("{} {}:", cause.trigger, cause.class),
    };
    match (&cause.culprit, cause.relayed) {
        (Some(port), true) => format!(" ({trigger} {port}, which is paused itself)"),
        (Some(port), false) => format!(" ({trigger} {port})"),
        (None, _) => format!(" ({trigger})"),
    }
}

pub(super) fn drops(class: &ClassStatus) -> String {
    let drops = class.drops.iter().filter(|(_, frames)| **frames > 0);
    let drops: Vec<String> = drops.map(|(reason, frames)| format!("{reason} {}", grouped(*frames))).collect();
    if drops.is_empty() { "-".into() } else { drops.join(", ") }
}

fn storm_table(ports: &[&PortStatus]) -> String {
    let header = ["port", "class", "watchdog", "storms", "dropped", "forwarded", "last storm"];
    let rows = ports.iter().flat_map(|port| {
        let stormed_watchdog =
            |class: &ClassStatus| class.watchdog.clone().filter(|watchdog| watchdog.storms > 0);
        let stormed =
            port.classes.iter().filter_map(move |class| Some((class.class, stormed_watchdog(class)?)));
        stormed.map(|(class, watchdog)| storm_row(&port.name, class, &watchdog)).collect::<Vec<_>>()
    });
    table(&header, rows)
}

fn storm_row(port: &str, class: u8, watchdog: &WatchdogStatus) -> Vec<String> {
    let last = watchdog.last.map_or("-".into(), |last| {
        let lasted = if watchdog.storm { "STILL ON".into() } else { format!("took {}", span(last.nanos)) };
        format!(
            "{} ago, {lasted}, {} dropped, {} forwarded",
            span(last.began_nanos_ago),
            grouped(last.dropped),
            grouped(last.forwarded)
        )
    });
    vec![
        port.into(),
        class.to_string(),
        watchdog.action.clone(),
        format!("{}, {}", grouped(watchdog.storms), span(watchdog.nanos)),
        grouped(watchdog.dropped),
        grouped(watchdog.forwarded),
        last,
    ]
}

fn worker_table(workers: &[WorkerStatus]) -> String {
    let header = [
        "worker",
        "core",
        "ports",
        "state",
        "longest gap",
        "stalls beyond budget",
        "XOFF delay p50 / p99 up to",
    ];
    let rows = workers.iter().enumerate().map(|(index, worker)| {
        let state = match worker.state {
            WorkerState::Running => "running",
            WorkerState::Silent => "SILENT",
            WorkerState::Ended => "ENDED",
        };
        vec![
            index.to_string(),
            worker.core.map_or("any".into(), |core| core.to_string()),
            worker.ports.join(" "),
            state.into(),
            span(worker.longest_gap_nanos),
            format!("{} (> {})", grouped(worker.stalls), span(worker.stall_budget_nanos)),
            quantiles(&worker.send_reaction),
        ]
    });
    table(&header, rows)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::*;
    use xoff_switch::control::status::{FlowRequestsStatus, FlowStatus};
    use xoff_switch::control::{Answer, snapshot, testing::view};

    pub(in super::super) fn status() -> Status {
        let (view, _inbox) = view();
        let mut status = snapshot(&view, &[Answer::Given(Default::default())]);
        status.uptime_nanos = 10_000_000_000;
        status
    }

    pub(in super::super) fn line<'a>(text: &'a str, words: &[&str]) -> &'a str {
        let mut lines = text.lines().filter(|line| words.iter().all(|word| line.contains(word)));
        lines.next().unwrap_or_else(|| panic!("no line with {words:?} in:\n{text}"))
    }

    #[test]
    fn status_prints_totals_pauses_drops_and_headroom() {
        let text = render(&status(), None);
        line(
            &text,
            &[
                "lossless classes: 71 lost, 6 frames that may be lossless were lost outside the switch",
                "least headroom left 17,655 bytes",
            ],
        );
        line(&text, &["NOT PROVED: left: the device's drop counters cannot be read: nobody knows"]);
        line(
            &text,
            &["LOOP NOW: ports right and left seem to be connected outside the switch (detected 2 times)"],
        );
        line(&text, &["ledger: balanced; 0 received = 0 sent"]);
        line(&text, &["left", "l0", "up", "1.00 Gb/s", "generic, copy", "xdp rx_ring_full 2"]);
        let class = line(
            &text,
            &["left", "3 lossless", "1,000 (64.0 kB)", "2 x, 1.25 s, NOW (egress right)", "17.7 kB"],
        );
        line(&text, &["policies: class 3 pfc"]);
        line(&text, &["left", "capfc-stop-max", "1 x, 500.0 ms", "2, first after"]);
        line(&text, &["left", "ofc", "pause of 12 flows (3 requests), NOW 4 flows"]);
        line(&text, &["left", "gfc", "5 rates, lowest 250 Mb/s, NOW 500 Mb/s"]);
        assert!(class.contains("hairpin 3") && class.contains("headroom_exhausted 1"), "{class}");
        line(&text, &["running", "11.0 ms", "1 (> 10.0 ms)"]);
        line(&text, &["right", "drop", "2, 2.50 s", "70", "2.00 s ago, STILL ON, 50 dropped, 0 forwarded"]);
        assert!(!text.contains("right  0"), "classes without traffic must not be shown:\n{text}");
    }

    #[test]
    fn gfc_table_is_printed_only_after_rate_frames() {
        let mut status = status();
        assert!(!render(&status, None).contains("rate frames"));
        status.ports[0].rate_frames_sent = 1_200;
        status.ports[0].classes[3].requested_rate_bits_per_second = Some(250_000_000);
        status.ports[0].classes[4].requested_rate_bits_per_second = Some(62_500_000);
        status.ports[1].rate_frames_received = 7;
        status.ports[1].classes[3].rate_obeyed_bits_per_second = Some(500_000_000);
        let text = render(&status, None);
        line(&text, &["left", "class 3 250 Mb/s, class 4 62.5 Mb/s", "no limit", "0 / 1,200"]);
        line(&text, &["right", "no limit", "class 3 500 Mb/s", "7 / 0"]);
    }

    #[test]
    fn ofc_table_is_printed_only_after_flow_lists_or_fallbacks() {
        let mut status = status();
        let head = "flow pauses requested";
        for port in &mut status.ports {
            port.classes[3].flows = Some(FlowStatus::default());
        }
        assert!(
            !render(&status, None).contains(head),
            "the OFC table must need flow lists, or class pauses in their place"
        );
        let requests = FlowRequestsStatus { flow_pauses: 1_012, requested: 5, ..Default::default() };
        status.ports[0].classes[3].flows = Some(FlowStatus {
            pause_frames_sent: 1_200,
            resume_frames_sent: 34,
            requests,
            ..Default::default()
        });
        let received = FlowStatus {
            pause_frames_received: 40,
            resume_frames_received: 2,
            paused: 6,
            ..Default::default()
        };
        status.ports[1].classes[3].flows = Some(received);
        status.ports[1].classes[4].flows = Some(FlowStatus { fallbacks: 1, ..Default::default() });
        let text = render(&status, None);
        line(&text, &[head, "paused by peer", "lists in / out", "fallbacks"]);
        line(&text, &["left", "3", "5 now, 1,012 in total", "0 now", "0 / 1,234"]);
        line(&text, &["right", "3", "0 now, 0 in total", "6 now", "42 / 0"]);
        assert!(line(&text, &["right", "4", "0 / 0"]).trim_end().ends_with('1'));
    }

    #[test]
    fn status_shows_rates_if_an_earlier_status_is_given() {
        let (before, mut now) = (status(), status());
        now.uptime_nanos += 2_000_000_000;
        now.ports[0].classes[3].rx_frames += 2000;
        now.ports[0].classes[3].rx_bytes += 250_000;
        let text = render(&now, Some(&before));
        line(&text, &["3 lossless", "1.00 Mb/s (1.00 kpps)"]);
        now.ports[0].classes.retain(|class| class.class == 5);
        let text = render(&now, Some(&before));
        line(&text, &["left", "l0", "0 b/s (0 pps)"]);
    }
}
