//! A report as tables. Classes of a port that are alike share a row.

use std::fmt::Write;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use xoff_config::quantity;
use xoff_config::written::{grouped, ranges};
use xoff_dataplane::units::BitRate;

use super::report::{
    ClassReport, EcnReport, PipelineReport, PortReport, ProblemReport, QcnReport, Report, RouterReport,
    WatchdogReport,
};
use xoff_dataplane::settings::IngressOrder;

/// The whole report.
#[must_use]
pub fn print(report: &Report) -> String {
    let mut text = String::new();
    let sections = [
        ("", summary(report)),
        ("Ports", ports_table(report).to_string()),
        ("Router", report.router.as_ref().map(router_line).unwrap_or_default()),
        ("Classes (bytes)", classes_table(report).to_string()),
        ("Policies beside PFC, thresholds of lossless classes (bytes)", policies_table(report)),
        ("Thresholds, what they do for a congested line, and cost it (us)", congested_table(report)),
        ("Headroom, what may still arrive after XOFF was due (bytes)", headroom_table(report).to_string()),
        ("Congestion points", report.qcn.as_ref().map(qcn_line).unwrap_or_default()),
        ("Pipeline", pipeline_line(&report.pipeline)),
        ("Memory", memory_table(report).to_string() + &assumed(report)),
        ("Warnings", warnings(&report.file, &report.warnings)),
        ("Notes", warnings(&report.file, &report.notes)),
    ];
    for (title, section) in sections.iter().filter(|(_, section)| !section.is_empty()) {
        let heading = if title.is_empty() { String::new() } else { format!("\n{title}\n") };
        writeln!(text, "{heading}{section}").expect("a String takes everything");
    }
    text
}

fn summary(report: &Report) -> String {
    let core = |core: Option<u16>| core.map_or("any core (not pinned)".into(), |core| format!("core {core}"));
    let workers: Vec<String> = report
        .workers
        .iter()
        .map(|worker| format!("{} on {}", worker.ports.join(" "), core(worker.core)))
        .collect();
    format!(
        "{}: valid\nswitch {:?}: {} {}, {} memory, {} until a frame is {}, full queues {}\n\
         stall budget {} us with frames of {} bytes or more on average; {} polling; workers: {}; http: {}",
        report.file,
        report.name,
        report.ports.len(),
        if report.ports.len() == 1 { "port" } else { "ports" },
        report.memory_model,
        "ingress counts",
        report.accounting.trim_start_matches("until-"),
        report.when_full,
        micros(report.stall_budget_us),
        report.smallest_frame_bytes,
        report.poll,
        workers.join("; "),
        report.http.as_deref().unwrap_or("off"),
    )
}

/// Nothing where frames pass it at once, as in a switch that is fast enough.
fn pipeline_line(pipeline: &PipelineReport) -> String {
    let PipelineReport { rate_pps, delay_us, ingress } = pipeline;
    if rate_pps.is_none() && *delay_us == 0.0 && *ingress == IngressOrder::default().name() {
        return String::new();
    }
    let rate =
        rate_pps.map_or("as they come".into(), |rate| format!("{} frames a second", grouped(rate.into())));
    let order = match *ingress {
        "fifo" => "one queue for all classes",
        _ => "a queue for each class",
    };
    format!("{rate}, from the ports in turn; {} us of delay; at ingress {order}", micros(*delay_us))
}

fn router_line(router: &RouterReport) -> String {
    let netns = router.netns.as_ref().map_or("the switch's own".into(), |netns| netns.display().to_string());
    format!("host interfaces {} in the network namespace {netns}", router.interfaces.join(", "))
}

fn qcn_line(qcn: &QcnReport) -> String {
    let at = |place: &str, classes: &[u8]| {
        let list: Vec<String> = classes.iter().map(u8::to_string).collect();
        if list.is_empty() { String::new() } else { format!("classes {} at {place}; ", list.join(", ")) }
    };
    format!(
        "{}{}set point {}, weight {}, a sample every {} bytes +-{} %, a CNM for {} frames at most, culprit by {}{}",
        at("ingress", &qcn.ingress),
        at("egress", &qcn.egress),
        grouped(qcn.set_point_bytes),
        qcn.weight,
        grouped(qcn.sample_every_bytes),
        qcn.jitter_percent,
        grouped(qcn.frames_per_cnm.into()),
        qcn.culprit,
        qcn.flows.map_or(String::new(), |flows| format!(" of {flows} flows")),
    )
}

fn ports_table(report: &Report) -> Table {
    let mut table = table(&[
        "port",
        "device",
        "speed",
        "MTU",
        "queues",
        "fill, rx",
        "tx, compl.",
        "burst",
        "commit",
        "pause",
        "pause us",
        "refresh us",
        "trust",
        "VLANs",
    ]);
    for port in &report.ports {
        table.add_row([
            port.name.clone(),
            port.device.clone(),
            BitRate::new(port.speed_bps).map(quantity::rate).unwrap_or_default(),
            port.mtu.to_string(),
            queues(port),
            port.rx_ring.to_string(),
            port.tx_ring.to_string(),
            grouped(port.burst_bytes),
            grouped(port.commit_bytes),
            port.pause.to_owned(),
            micros(port.pause_time_us),
            micros(port.refresh_us),
            port.trust.to_owned(),
            vlans(port),
        ]);
    }
    align_right(table, &[2, 3, 5, 6, 7, 8, 10, 11])
}

fn queues(port: &PortReport) -> String {
    match port.sockets {
        Some(sockets) if port.queues == "all" => format!("all {sockets}"),
        _ => port.queues.clone(),
    }
}

fn vlans(port: &PortReport) -> String {
    if port.routed {
        return "routed".into();
    }
    let tag = |vid: &u16| format!("{vid}t");
    let plain = |vid: &u16| if port.pvid == Some(*vid) { format!("{vid}*") } else { vid.to_string() };
    let all: Vec<String> = port.untagged.iter().map(plain).chain(port.tagged.iter().map(tag)).collect();
    all.join(" ")
}

fn classes_table(report: &Report) -> Table {
    let mut table = table(&[
        "port",
        "classes",
        "",
        "XOFF",
        "XON",
        "headroom",
        "XOFF frames",
        "ingress max",
        "egress max",
        "egress frames",
        "queue",
        "weight",
        "max rate",
        "ECN",
        "watchdog",
    ]);
    for port in &report.ports {
        for (classes, class) in alike(&port.classes) {
            table.add_row([
                port.name.clone(),
                classes,
                if class.lossless { "lossless".into() } else { "lossy".into() },
                or_dash(class.xoff_bytes),
                or_dash(class.xon_bytes),
                or_dash(class.lossless.then_some(class.headroom_bytes)),
                or_dash(class.xoff_frames.map(u64::from)),
                or_dash(class.ingress_max_bytes),
                or_dash(class.egress_max_bytes),
                or_dash(class.egress_max_frames.map(u64::from)),
                class.queue.to_owned(),
                class.weight.clone(),
                class.max_rate_bps.and_then(BitRate::new).map_or("-".into(), quantity::rate),
                class.ecn.as_ref().map_or("off".into(), ecn),
                class.watchdog.as_ref().map_or("off".into(), watchdog),
            ]);
        }
    }
    align_right(table, &[3, 4, 5, 6, 7, 8, 9, 11, 12])
}

fn ecn(ecn: &EcnReport) -> String {
    let EcnReport { min_bytes, max_bytes, probability, wred } = ecn;
    let or_drop = if *wred { ", or dropped" } else { "" };
    format!("{} to {}, up to {probability}{or_drop}", grouped(*min_bytes), grouped(*max_bytes))
}

fn watchdog(watchdog: &WatchdogReport) -> String {
    let millis = |us: f64| micros(us / 1_000.0);
    let WatchdogReport { action, detect_us, restore_us } = watchdog;
    format!("{action} after {} ms, until {} ms without", millis(*detect_us), millis(*restore_us))
}

/// One row for each policy and threshold; nothing where all lossless classes have plain PFC.
fn policies_table(report: &Report) -> String {
    let mut table = table(&["port", "classes", "policy", "threshold", "bytes"]);
    for port in &report.ports {
        for (classes, class) in alike(&port.classes) {
            for (name, bytes) in &class.policy_thresholds {
                let cells = [&port.name, &classes, class.policy, name].map(str::to_owned);
                table.add_row(cells.into_iter().chain([grouped(*bytes)]));
            }
        }
    }
    if table.is_empty() { String::new() } else { align_right(table, &[4]).to_string() }
}

/// One row for each port and lossless class that others feed; nothing where there is none.
fn congested_table(report: &Report) -> String {
    let mut table = table(&[
        "line of",
        "classes",
        "busy after XON\none port feeds it",
        "all do",
        "delay up to\none port feeds it",
        "all do",
        "own stalls\nmade up for",
    ]);
    for port in &report.ports {
        for (classes, class) in alike(&port.classes) {
            let Some(congested) = &class.congested else { continue };
            let (covered, delay) = (congested.covered_us, congested.delay_us);
            let times = [covered.one, covered.all, delay.one, delay.all, congested.made_up_us];
            table.add_row([port.name.clone(), classes].into_iter().chain(times.map(micros)));
        }
    }
    if table.is_empty() { String::new() } else { align_right(table, &[2, 3, 4, 5, 6]).to_string() }
}

/// Classes with the same settings, as "0-2, 4".
fn alike(classes: &[ClassReport]) -> Vec<(String, &ClassReport)> {
    let same = |a: &ClassReport, b: &ClassReport| ClassReport { class: b.class, ..a.clone() } == *b;
    let mut groups: Vec<(Vec<u8>, &ClassReport)> = Vec::new();
    for class in classes {
        match groups.iter_mut().find(|(_, first)| same(first, class)) {
            Some((members, _)) => members.push(class.class),
            None => groups.push((vec![class.class], class)),
        }
    }
    groups.into_iter().map(|(members, first)| (ranges(&members), first)).collect()
}

fn headroom_table(report: &Report) -> String {
    let mut table = table(&[]);
    let mut columns: Vec<String> = Vec::new();
    for port in &report.ports {
        let lossless: Vec<&ClassReport> = port.classes.iter().filter(|class| class.lossless).collect();
        let Some(first) = lossless.first() else { continue };
        let classes: Vec<u8> = lossless.iter().map(|class| class.class).collect();
        let sum = first.headroom_terms.iter().map(|(_, bytes)| bytes).sum();
        let terms = first.headroom_terms.iter().map(|(_, bytes)| grouped(*bytes));
        if columns.is_empty() {
            columns = ["port", "each of"]
                .into_iter()
                .chain(first.headroom_terms.iter().map(|(name, _)| *name))
                .chain(["sum"])
                .map(str::to_owned)
                .collect();
            table.set_header(&columns);
        }
        table.add_row([port.name.clone(), ranges(&classes)].into_iter().chain(terms).chain([grouped(sum)]));
    }
    let right: Vec<usize> = (2..columns.len()).collect();
    if columns.is_empty() { String::new() } else { align_right(table, &right).to_string() }
}

/// What takes how much memory.
#[must_use]
pub fn memory_table(report: &Report) -> Table {
    let mut table = table(&["what", "frames", "bytes"]);
    for line in &report.memory {
        table.add_row([
            line.what.to_owned(),
            or_dash((line.chunks > 0).then_some(line.chunks)),
            grouped(line.bytes),
        ]);
    }
    let chunks = report.memory.iter().map(|line| line.chunks).sum();
    let sum = |bytes: u64| format!("{} ({} MiB)", grouped(bytes), bytes >> 20);
    let several = if report.multi_buffer { ", several for a large frame" } else { "" };
    table.add_row([
        format!("all, in chunks of {}{several}", report.chunk_bytes),
        grouped(chunks),
        sum(report.memory_total_bytes),
    ]);
    table.add_row(["beside them, in the kernel".to_owned(), or_dash(None), sum(report.kernel_memory_bytes)]);
    align_right(table, &[1, 2])
}

/// Whose queues were not counted.
fn assumed(report: &Report) -> String {
    let unknown = report.ports.iter().filter(|port| port.sockets.is_none());
    let devices: Vec<&str> = unknown.map(|port| port.device.as_str()).collect();
    if devices.is_empty() {
        return String::new();
    }
    format!("\none queue is assumed of each device that was not asked: {}", devices.join(", "))
}

/// Warnings as lines: place, message, what to do.
#[must_use]
pub fn warnings(file: &str, warnings: &[ProblemReport]) -> String {
    let line = |warning: &ProblemReport| {
        let place = warning
            .line
            .zip(warning.column)
            .map_or(String::new(), |(line, column)| format!("{file}:{line}:{column}: "));
        let help = warning.help.as_ref().map_or(String::new(), |help| format!("\n    {help}"));
        format!("  {place}{}{help}", warning.message)
    };
    warnings.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
    if !header.is_empty() {
        table.set_header(header);
    }
    table
}

fn align_right(mut table: Table, columns: &[usize]) -> Table {
    for &column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn or_dash(value: Option<u64>) -> String {
    value.map_or("-".into(), grouped)
}

fn micros(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_read_them() {
        assert_eq!((micros(33_553.92), micros(5.12)), ("33554".into(), "5.12".into()));
    }
}
