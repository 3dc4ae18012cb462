//! `xoff demo`: congests a switch in namespaces, and accounts for every frame.

use std::fmt::{self, Display};
use std::time::Duration;

use comfy_table::{Cell, CellAlignment};
use serde::Serialize;
use xoff_host::Stream;
use xoff_switch::Promise;
use xoff_wire::units::{BitRate, Class, Nanos};

use super::report::{add_row, table};
use super::series::Series;
use super::{Conduct, machine};
use crate::counted::dropped;
use crate::{FabricError, HostId, LOSSLESS, Live, Load, Plan, Settings, Setup, Totals, jain, lossless};

const RATES_MBPS: [u64; 5] = [1000, 500, 200, 100, 50];
/// Share of its line rate that the congested port must carry; with less, the machine is too slow.
const CARRIED: f64 = 0.97;
const PROBE: Nanos = Nanos::from_millis(1500);

const LOSSY: Class = Class::ALL[0];
const SENDERS: usize = 4;
/// Each sender's load in the lossy class, in percent of its line. The four loads exceed this class's share of the
/// congested port.
const LOSSY_PERCENT: u64 = 20;
const VICTIM_PERCENT: u64 = 40;
const HEAD_START: Nanos = Nanos::from_millis(100);
const RAMP: Nanos = Nanos::from_millis(200);
const FALL: Nanos = Nanos::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(3);
const SAMPLE_EVERY: Duration = Duration::from_millis(10);
const TICK: Nanos = Nanos::from_secs(1);

/// Runs the demo for `seconds` at the highest sustainable line rate; `tell` gets progress lines.
///
/// # Errors
/// If the demo cannot run. Lost frames are no error; the report shows them.
pub fn run(seconds: u64, tell: &mut dyn FnMut(&str)) -> Result<DemoReport, FabricError> {
    let rate = probe(tell)?;
    tell(&format!("running for {seconds} s with lines of {rate} Mb/s"));
    once(rate, Nanos::from_secs(seconds), tell)
}

fn probe(tell: &mut dyn FnMut(&str)) -> Result<u64, FabricError> {
    let (&last, higher) = RATES_MBPS.split_last().expect("there are rates");
    for &rate in higher {
        let report = once(rate, PROBE, &mut |_| ())?;
        let of = &report.conduct;
        if report.promise() == Promise::Kept && of.xdp_drops == 0 && report.goodput_ratio >= CARRIED {
            return Ok(rate);
        }
        tell(&format!(
            "this machine does not sustain {rate} Mb/s per port ({:.0} % of the congested line used, {} frames \
             dropped by the kernel): trying a lower rate",
            100.0 * report.goodput_ratio,
            of.xdp_drops
        ));
    }
    Ok(last)
}

fn once(rate_mbps: u64, span: Nanos, tell: &mut dyn FnMut(&str)) -> Result<DemoReport, FabricError> {
    let mut plan = Plan::new(BitRate::from_mbps(rate_mbps));
    let line = plan.line();
    let switch = plan.switch("demo");
    let senders: Vec<HostId> = (1..=SENDERS).map(|n| plan.host(&format!("sender-{n}"), switch)).collect();
    let [receiver, victim, bystander] =
        ["receiver", "victim", "bystander"].map(|name| plan.host(name, switch));
    let share = |percent: u64| BitRate::new(line.bits_per_second() / 100 * percent);
    let stream = |stream: Stream| Stream { start: HEAD_START, duration: Some(span), ..stream };
    let mut load = Load::default();
    for &sender in &senders {
        load.send(sender, stream(lossless(receiver)));
        let lossy = Stream { dst: receiver.address(), rate: share(LOSSY_PERCENT), ..Stream::default() };
        load.send(sender, stream(lossy));
    }
    load.send(victim, stream(Stream { rate: share(VICTIM_PERCENT), ..lossless(bystander) }));
    let fabric = Setup { line, settings: &Settings::default(), machine: &machine() }.build(plan)?;
    let (mbps, account) =
        fabric.run(&load, PATIENCE, |live| watch(live, [receiver, bystander], span, tell))?;
    let got = |from: HostId, to| account.stream(from, to, 0);
    let shares = senders.iter().map(|&sender| got(sender, receiver).map_or(0.0, |of| of.bytes as f64));
    Ok(DemoReport {
        conduct: Conduct::of([&account]),
        lossy: LossyTotals {
            totals: Totals::of(account.received(LOSSY)),
            dropped_by_switch: account.dropped(LOSSY),
        },
        victim: Victim {
            offered_mbps: (rate_mbps * VICTIM_PERCENT) as f64 / 100.0,
            received_mbps: got(victim, bystander).map_or(0.0, |stream| stream.mbps),
        },
        goodput_ratio: mbps.unwrap_or(0.0) / rate_mbps as f64,
        fairness: jain(&shares.collect::<Vec<_>>()),
        headroom: Headroom { least_free_bytes: account.least_headroom() },
        line_mbps: rate_mbps,
        seconds: span.0 as f64 / 1e9,
    })
}

fn watch(
    live: &Live<'_>,
    [receiver, bystander]: [HostId; 2],
    span: Nanos,
    tell: &mut dyn FnMut(&str),
) -> Option<f64> {
    let [begin, end] = [HEAD_START.after(RAMP), HEAD_START.after(span).since(FALL)];
    let [mut congested, mut victim] = [Series::default(), Series::default()];
    let mut seconds = 0;
    live.every(SAMPLE_EVERY, Duration::from_nanos(end.0), |now| {
        if now < begin {
            return;
        }
        congested.record(now, live.received(receiver));
        victim.record(now, live.received(bystander));
        let before = begin.after(Nanos(TICK.0 * seconds));
        if now.since(before) >= TICK {
            seconds += 1;
            let mbps = |of: &Series| of.rate(before, now).unwrap_or(0.0);
            let dropped = live.sum(LOSSY, dropped);
            tell(&format!(
                "{seconds:>3} s   congested port {:6.1} Mb/s   victim {:6.1} Mb/s   XOFF sent {:>6}   lossy dropped {dropped:>8}",
                mbps(&congested),
                mbps(&victim),
                live.sum(LOSSLESS, |class| class.xoff_sent.get()),
            ));
        }
    });
    congested.rate(begin, end)
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DemoReport {
    #[serde(flatten)]
    pub conduct: Conduct,
    pub lossy: LossyTotals,
    pub victim: Victim,
    pub goodput_ratio: f64,
    /// Jain's fairness index of lossless streams; `None` if no frame arrived.
    pub fairness: Option<f64>,
    pub headroom: Headroom,
    /// Line rate in Mb/s; below 1000 on a slow machine.
    pub line_mbps: u64,
    pub seconds: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LossyTotals {
    #[serde(flatten)]
    pub totals: Totals,
    pub dropped_by_switch: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Victim {
    pub offered_mbps: f64,
    pub received_mbps: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Headroom {
    /// Smallest unused headroom of a port, in bytes; `None` if no port has headroom.
    pub least_free_bytes: Option<u64>,
}

impl DemoReport {
    #[must_use]
    pub const fn promise(&self) -> Promise {
        match self.conduct.lossless.is_clean() && self.conduct.ledger_balanced {
            true if self.conduct.unproved.is_empty() => Promise::Kept,
            true => Promise::NotProved,
            false => Promise::NotKept,
        }
    }

    fn facts(&self) -> [(&'static str, String, &'static str); 9] {
        let kept = 100.0 * self.victim.received_mbps / self.victim.offered_mbps;
        let fairness = self.fairness.map_or_else(|| "-".to_owned(), |index| format!("{index:.3}"));
        let of = &self.conduct;
        [
            (
                "goodput",
                format!("{:.1} %", 100.0 * self.goodput_ratio),
                "share of the congested port's line rate, all classes",
            ),
            ("fairness", fairness, "Jain's index over the four senders; 1 is fair"),
            ("victim", format!("{kept:.1} %"), "share of the victim's offered rate that arrived"),
            (
                "longest stall",
                format!("{:.1} ms", of.longest_stall_ms),
                "longest time for which the machine did not run the switch",
            ),
            ("XOFF sent", of.pfc.xoff_sent.to_string(), "pauses of class 3 that the switch sent"),
            ("XON sent", of.pfc.xon_sent.to_string(), "ends of such pauses"),
            ("paused", format!("{:.0} ms", of.pfc.paused_ms), "sum over all senders"),
            (
                "kernel drops",
                of.xdp_drops.to_string(),
                "sum of all XDP and veth drop counters, of ports and hosts",
            ),
            (
                "ledger",
                of.ledger().to_owned(),
                "received = sent + queued + dropped, where every drop has a reason",
            ),
        ]
    }
}

impl Display for DemoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.line_mbps;
        writeln!(
            f,
            "\n4 senders of {rate} Mb/s each into one port of {rate} Mb/s for {:.0} s; class 3 is lossless, class 0 lossy;\n\
             a victim sends in class 3 between two uncongested ports.\n",
            self.seconds
        )?;
        let mut frames = table(&["frames", "sent", "received", "lost", "duplicated", "reordered"]);
        let rows = [("lossless (class 3)", self.conduct.lossless), ("lossy (class 0)", self.lossy.totals)];
        for (name, totals) in rows {
            let numbers = totals.numbers().map(|number| number.to_string());
            add_row(&mut frames, [name.to_owned()].into_iter().chain(numbers));
        }
        writeln!(f, "{frames}")?;
        writeln!(
            f,
            "  lossy frames that the switch dropped and counted: {}\n",
            self.lossy.dropped_by_switch
        )?;
        let mut facts = table(&["measured", "", "what it means"]);
        for (name, value, meaning) in self.facts() {
            let value = Cell::new(value).set_alignment(CellAlignment::Right);
            facts.add_row([Cell::new(name), value, Cell::new(meaning)]);
        }
        writeln!(f, "{facts}\n")?;
        match self.promise() {
            Promise::Kept => writeln!(
                f,
                "0 lost, 0 duplicated, 0 reordered in the lossless class; smallest unused headroom: {} bytes.",
                self.headroom.least_free_bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string())
            ),
            Promise::NotProved => writeln!(
                f,
                "No loss is known, but a loss CANNOT be excluded: {}.",
                self.conduct.unproved.join("; ")
            ),
            Promise::NotKept => {
                writeln!(
                    f,
                    "The guarantee for the lossless class was NOT kept: see rows `lossless` and `ledger`."
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // proves: verdict
    fn demo_never_reports_unproved_losslessness_as_proved() {
        let lossless = Totals { sent: 5, received: 5, ..Totals::default() };
        let clean = Conduct { lossless, ledger_balanced: true, ..Conduct::default() };
        let unproved = Conduct { unproved: vec!["demo: its device is gone".into()], ..clean.clone() };
        let lost = Conduct { lossless: Totals { lost: 1, ..lossless }, ..unproved.clone() };
        let reports = [clean, unproved, lost].map(|conduct| DemoReport { conduct, ..DemoReport::default() });
        let promises = reports.each_ref().map(DemoReport::promise);
        assert_eq!(promises, [Promise::Kept, Promise::NotProved, Promise::NotKept]);
        let words = ["0 lost, 0 duplicated", "CANNOT be excluded: demo: its device is gone.", "NOT kept"];
        for (text, words) in reports.map(|report| report.to_string()).iter().zip(words) {
            assert!(text.contains(words), "{text}");
        }
    }
}
