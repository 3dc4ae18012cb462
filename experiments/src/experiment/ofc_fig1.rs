//! Experiment `ofc-fig1`: the incast of Fig. 1 in the OFC paper, over three switches.

use std::time::Duration;

use serde::Serialize;
use xoff_host::Stream;
use xoff_wire::units::{BitRate, Bytes, Nanos};

use super::report::{
    NONE_COMPLETED, completion, median, median_and_least, median_completion, ms, seconds, table_of,
};
use super::series::Series;
use super::variant::PLAIN_MIDDLE;
use super::{
    Compared, Conduct, Experiment, Findings, Headline, Length, Promises, Request, Tell, Variant, compare,
    named,
};
use crate::plot::{Content, Figure, Panel};
use crate::statistics::Spread;
use crate::statistics::p50;
use crate::{Account, FabricError, HostId, Line, Load, Plan, Setup, lossless};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "ofc-fig1",
    about: "three switches, ten hosts: what congestion at the last switch costs a flow that does not contribute to it",
    length: Length::Fixed(5),
    policies: &["pfc", "capfc-stop-max", "capfc-stop-calibrate", "ofc", PLAIN_MIDDLE],
    settings: Variant::roomy_settings,
    plans: |variant, line| vec![plan(Some(variant.name), line).0],
    routed: None,
    promises: Promises::Variants,
    measure,
};

const HEADLINES: &[Headline<Fig1Results>] = &[
    Headline::of("F0, share\nof solo rate", |of| p50(of.f0.share_of_solo)),
    Headline::of("F0 complete, ms", |of| p50(of.f0.completion_ms)),
    Headline::of("F1 complete, ms", |of| p50(of.f1.completion_ms)),
    Headline::of("bursts, ms", |of| p50(of.burst_completion_ms)),
];

const BURSTS: usize = 6;
const LONG_PERCENT: u64 = 40;
/// Frames in a burst: 150 KB, the paper's longest (30 us at 40 Gb/s).
const BURST_FRAMES: u64 = 100;
/// Interval between a sender's bursts, in percent of the line time of six bursts, one per sender.
const BURST_EVERY_PERCENT: u64 = 135;
const BEGIN: Nanos = Nanos::from_millis(600);
const END: Nanos = Nanos::from_millis(2200);
const RAMP: Nanos = Nanos::from_millis(100);
const STEP: Nanos = Nanos::from_millis(50);
const SAMPLE_EVERY: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(6);

#[derive(Debug, Serialize)]
struct LongFlow {
    solo_mbps: Option<Spread>,
    mbps: Option<Spread>,
    share_of_solo: Option<Spread>,
    completion_ms: Option<Spread>,
}

#[derive(Debug, Serialize)]
struct Fig1Results {
    f0: LongFlow,
    f1: LongFlow,
    burst_completion_ms: Option<Spread>,
    bursts_broken: usize,
}

struct Fig1Run {
    account: Account,
    load: Load,
    hosts: Fig1Hosts,
    rates: [Series; 2],
    line: Line,
}

struct Fig1Hosts {
    long: [HostId; 2],
    bursts: Vec<HostId>,
    receivers: [HostId; 2],
}

fn measure(request: &Request, tell: &mut Tell<'_>) -> Result<Findings, FabricError> {
    let conduct = |_: &Variant, runs: &[Fig1Run]| Conduct::of(runs.iter().map(|run| &run.account));
    let (findings, all) = compare(&EXPERIMENT, (request, tell), run, conduct, Fig1Results::of, HEADLINES)?;
    Ok(findings.with(text(request, &all), figure(request, &all)))
}

fn plan(policy: Option<&str>, line: Line) -> (Plan, Fig1Hosts) {
    let mut plan = Plan::new(line);
    let [a, b, c] = ["sa", "sb", "sc"].map(|name| plan.switch(name));
    let long = ["f0-sender", "f1-sender"].map(|name| plan.host(name, a));
    let bursts = (2..BURSTS + 2).map(|flow| plan.host(&format!("f{flow}-sender"), c)).collect();
    let receivers = ["f0-receiver", "receiver"].map(|name| plan.host(name, c));
    plan.trunk(a, b);
    plan.trunk(b, c);
    if policy == Some(PLAIN_MIDDLE) {
        plan.settings_of(b).set("switch.policy", "pfc");
    }
    (plan, Fig1Hosts { long, bursts, receivers })
}

fn run(setup: &Setup<'_>) -> Result<Fig1Run, FabricError> {
    let line = setup.line;
    let (plan, hosts) = plan(setup.settings.policy, line);
    let load = hosts.load(line);
    let fabric = setup.build(plan)?;
    let (rates, account) = fabric.run(&load, PATIENCE, |live| {
        let mut rates = [Series::default(), Series::default()];
        live.every(SAMPLE_EVERY, PATIENCE, |now| {
            for (series, (&from, &to)) in rates.iter_mut().zip(hosts.long.iter().zip(&hosts.receivers)) {
                series.record(now, live.received_from(from, to));
            }
        });
        rates
    })?;
    Ok(Fig1Run { account, load, hosts, rates, line })
}

fn frame_time(line: Line) -> Nanos {
    line.time_of(Bytes::on_line(Stream::default().frame_len()))
}

impl Fig1Hosts {
    fn load(&self, line: Line) -> Load {
        let mut load = Load::default();
        let rate = BitRate::new(line.bits_per_second() / 100 * LONG_PERCENT);
        let frame = frame_time(line).0;
        let [begin, end] = [BEGIN, END].map(|time| line.span(time));
        let count = Some(end.0 * LONG_PERCENT / 100 / frame);
        for (sender, receiver) in self.long.into_iter().zip(self.receivers) {
            load.send(sender, Stream { rate, count, ..lossless(receiver) });
        }
        let every = frame * BURST_FRAMES * BURSTS as u64 * BURST_EVERY_PERCENT / 100;
        let starts = (0..).map(|number| Nanos(begin.0 + number * every)).take_while(|&start| start < end);
        for start in starts {
            for &sender in &self.bursts {
                let burst = Stream { start, count: Some(BURST_FRAMES), ..lossless(self.receivers[1]) };
                load.send(sender, burst);
            }
        }
        load
    }
}

impl Fig1Run {
    fn completion(&self, from: HostId, to: HostId, stream: u8) -> Option<f64> {
        let completion = self.load.completion(&self.account, from, to, stream);
        completion.map(|completion| completion.0 as f64 / 1e6)
    }

    fn bursts(&self) -> impl Iterator<Item = Option<f64>> {
        let streams = move |&sender: &HostId| {
            let count = u8::try_from(self.account.host(sender).sent.len()).unwrap_or(u8::MAX);
            (0..count).map(move |stream| self.completion(sender, self.hosts.receivers[1], stream))
        };
        self.hosts.bursts.iter().flat_map(streams)
    }
}

impl Fig1Results {
    fn of(runs: &[Fig1Run]) -> Fig1Results {
        Fig1Results {
            f0: LongFlow::of(runs, 0),
            f1: LongFlow::of(runs, 1),
            burst_completion_ms: Spread::of(runs.iter().flat_map(Fig1Run::bursts).flatten()),
            bursts_broken: runs.iter().flat_map(Fig1Run::bursts).filter(Option::is_none).count(),
        }
    }
}

impl LongFlow {
    fn of(runs: &[Fig1Run], flow: usize) -> LongFlow {
        let rate =
            |run: &Fig1Run, from: Nanos, to| run.rates[flow].rate(run.line.span(from), run.line.span(to));
        let solo = |run: &Fig1Run| rate(run, RAMP, BEGIN);
        let congested = |run: &Fig1Run| rate(run, BEGIN.after(RAMP), END);
        let share = |run: &Fig1Run| Some(congested(run)? / solo(run).filter(|&solo| solo > 0.0)?);
        LongFlow {
            solo_mbps: Spread::of(runs.iter().filter_map(solo)),
            mbps: Spread::of(runs.iter().filter_map(congested)),
            share_of_solo: Spread::of(runs.iter().filter_map(share)),
            completion_ms: Spread::of(
                runs.iter()
                    .filter_map(|run| run.completion(run.hosts.long[flow], run.hosts.receivers[flow], 0)),
            ),
        }
    }
}

type PolicyResults = [Compared<Fig1Run, Fig1Results>];

fn title(request: &Request) -> String {
    let line = request.line;
    format!(
        "OFC, Fig. 1: the bursts of flows F2 to F7 meet F1, but not F0; {line} lines, runs: {}",
        request.runs
    )
}

fn text(request: &Request, all: &PolicyResults) -> String {
    let rates = |flow: &LongFlow| format!("{} / {}", median(flow.solo_mbps, 1), median(flow.mbps, 1));
    let percent = |of: Option<Spread>| of.map(|share| share.in_units_of(0.01));
    let table = table_of(
        all.iter().map(Compared::row),
        &[
            ("F0 Mb/s\nsolo / congested", &|of| rates(&of.f0)),
            ("F0, % of solo\nmedian (least)", &|of| median_and_least(percent(of.f0.share_of_solo), 1)),
            ("F0 complete\nms", &|of| median_completion(of.f0.completion_ms)),
            ("F1 Mb/s\nsolo / congested", &|of| rates(&of.f1)),
            ("F1 complete\nms", &|of| median_completion(of.f1.completion_ms)),
            ("bursts, ms\nmin / p25 / p50 / p75 / max", &|of| completion(of.burst_completion_ms, 0)),
            ("broken\nbursts", &|of| of.bursts_broken.to_string()),
        ],
    );
    format!(
        "{}\n\n{table}\nBursts begin after {} ms. Without pauses the flows F0 and F1 would be complete after {} ms.",
        title(request),
        ms(request.line.span(BEGIN)),
        ms(request.line.span(END))
    )
}

fn figure(request: &Request, all: &PolicyResults) -> Figure {
    let points = |run: Option<&Fig1Run>, flow: usize| {
        run.map(|run| run.rates[flow].points(request.line.span(STEP))).unwrap_or_default()
    };
    let over_time = |title: &str, flow: usize| {
        let lines = named(all, |of| points(of.runs.first(), flow));
        Panel::new(title, "time (s)", "used line rate (Mb/s)", Content::Lines(lines))
    };
    let spreads = |title: &str, of: fn(&Fig1Results) -> Option<Spread>| {
        let content = Content::Spreads(named(all, |all| of(&all.measured)));
        Panel::new(title, "completion time (ms)", "", content).absent(NONE_COMPLETED)
    };
    Figure {
        title: title(request),
        panels: vec![
            over_time(
                &format!(
                    "F0, outside the congestion; bursts from {} s on",
                    seconds(request.line.span(BEGIN))
                ),
                0,
            ),
            over_time("F1, which is", 1),
            spreads("F0", |of| of.f0.completion_ms),
            spreads("Bursts F2 to F7", |of| of.burst_completion_ms),
        ],
    }
}
