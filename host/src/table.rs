use std::fmt::{self, Display, Formatter};

use comfy_table::{Cell, CellAlignment, Table, presets};

use crate::report::{Distribution, HostReport, ReceivedStream, listed};

#[derive(Debug)]
pub struct Readable<'a>(pub &'a HostReport);

impl Display for Readable<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let report = self.0;
        let seconds = report.elapsed_ns as f64 / 1e9;
        writeln!(
            f,
            "host {} on {} ({}), line {:.0} Mb/s, ran {seconds:.3} s",
            report.sender, report.device, report.address, report.line_mbps
        )?;
        write_sent(f, report)?;
        write_received(f, report)?;
        write_flows(f, report)?;
        write_pauses(f, report)?;
        write_rest(f, report)
    }
}

fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY).set_header(head);
    table
}

fn row<const N: usize>(cells: [String; N]) -> [Cell; N] {
    cells.map(|cell| Cell::new(cell).set_alignment(CellAlignment::Right))
}

fn mbps(rate: f64) -> String {
    format!("{rate:.1}")
}

fn micros(nanos: u64) -> String {
    format!("{:.1}", nanos as f64 / 1e3)
}

fn millis(nanos: u64) -> String {
    format!("{:.3}", nanos as f64 / 1e6)
}

fn write_sent(f: &mut Formatter<'_>, report: &HostReport) -> fmt::Result {
    if report.sent.is_empty() {
        return Ok(());
    }
    let mut table = table(&["sent", "class", "to", "size", "frames", "Mb/s", "CNMs", "limit Mb/s"]);
    for s in &report.sent {
        let limit = s.qcn.as_ref().and_then(|qcn| qcn.rates.last()).map_or("-".into(), |now| mbps(now.mbps));
        table.add_row(row([
            format!("stream {}", s.stream),
            s.class.to_string(),
            s.dst.clone(),
            s.size.to_string(),
            s.frames.to_string(),
            mbps(s.mbps),
            s.qcn.as_ref().map_or("-".into(), |qcn| qcn.cnms.to_string()),
            limit,
        ]));
    }
    writeln!(f, "{table}")
}

fn write_received(f: &mut Formatter<'_>, report: &HostReport) -> fmt::Result {
    if report.received.is_empty() {
        return Ok(());
    }
    let mut table = table(&[
        "received", "class", "frames", "lost", "dup", "reord", "Mb/s", "goodput", "p50 us", "p99 us",
        "max us",
    ]);
    for r in &report.received {
        let latency = &r.latency_ns;
        table.add_row(row([
            format!("{} stream {}", r.sender, r.stream),
            r.class.to_string(),
            r.frames.to_string(),
            lost(r),
            r.duplicated.to_string(),
            (r.reordered + r.beyond_window).to_string(),
            mbps(r.mbps),
            mbps(r.goodput_mbps),
            micros(latency.p50),
            micros(latency.p99),
            micros(latency.max),
        ]));
    }
    writeln!(f, "{table}")?;
    for r in report.received.iter().filter(|r| r.missed_at_start > 0) {
        writeln!(
            f,
            "{} stream {}: {} frames missed at start, not lost: they were sent before this host was ready. Start the host that \
             receives first, and the sender when that says \"ready\"",
            r.sender, r.stream, r.missed_at_start
        )?;
    }
    Ok(())
}

fn lost(received: &ReceivedStream) -> String {
    if received.sent_known { received.lost.to_string() } else { format!(">={}", received.lost) }
}

fn write_flows(f: &mut Formatter<'_>, report: &HostReport) -> fmt::Result {
    let mut table = table(&["flows", "size", "completed", "mean ms", "p50 ms", "p99 ms", "max ms"]);
    for r in &report.received {
        let Some(flows) = &r.flows else { continue };
        let name = format!("{} stream {}", r.sender, r.stream);
        let mut add = |size: String, times: &Distribution| {
            let mean = format!("{:.3}", times.mean / 1e6);
            let [p50, p99, max] = [times.p50, times.p99, times.max].map(millis);
            table.add_row(row([name.clone(), size, times.count.to_string(), mean, p50, p99, max]));
        };
        for bucket in &flows.by_size {
            let size = bucket.below_bytes.map_or("larger".to_owned(), |end| format!("< {} KB", end / 1000));
            add(size, &bucket.completion_ns);
        }
        add(format!("all ({} incomplete)", flows.incomplete), &flows.completion_ns);
    }
    if table.is_empty() { Ok(()) } else { writeln!(f, "{table}") }
}

fn write_pauses(f: &mut Formatter<'_>, report: &HostReport) -> fmt::Result {
    let mut table = table(&["paused by PFC", "XOFF", "XON", "ms"]);
    for class in report.pauses.classes.iter().filter(|class| class.xoff + class.xon > 0) {
        table.add_row(row([
            format!("class {}", class.class),
            class.xoff.to_string(),
            class.xon.to_string(),
            millis(class.paused_ns),
        ]));
    }
    if !table.is_empty() {
        writeln!(f, "{table}")?;
    }
    let refused: u64 = report.pauses.refused.values().sum();
    if refused + report.pauses.pause_frames > 0 {
        writeln!(
            f,
            "MAC control frames without effect: {} PAUSE (802.3x), refused: {}",
            report.pauses.pause_frames,
            listed(&report.pauses.refused)
        )?;
    }
    Ok(())
}

fn write_rest(f: &mut Formatter<'_>, report: &HostReport) -> fmt::Result {
    let rest = &report.unsorted;
    if rest.foreign + rest.corrupt + rest.untracked + rest.other > 0 {
        writeln!(
            f,
            "further received frames: {} to other hosts, {} corrupt, {} of streams beyond the maximum, {} of other kinds",
            rest.foreign, rest.corrupt, rest.untracked, rest.other
        )?;
    }
    if report.drops.total == 0 {
        writeln!(f, "no frame was dropped at this host")
    } else {
        writeln!(f, "dropped at this host, by counter: {}", listed(&report.drops.counters))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{ClassPauseReport, SentStream};

    #[test]
    fn report_table_shows_sent_received_and_lost_frames() {
        let mut report = HostReport { device: "eth0".to_owned(), sender: 7, ..HostReport::default() };
        report.sent = vec![SentStream { frames: 1234, ..SentStream::default() }];
        report.received = vec![ReceivedStream { lost: 56, frames: 789, ..ReceivedStream::default() }];
        report.pauses.classes = vec![ClassPauseReport { class: 3, xoff: 42, ..ClassPauseReport::default() }];
        let text = Readable(&report).to_string();
        for part in ["host 7 on eth0", "1234", "789", ">=56", "class 3", "42", "no frame was dropped"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains("flows"));
    }
}
