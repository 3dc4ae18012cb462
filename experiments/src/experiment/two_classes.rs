//! Experiment `two-classes`: two lossless classes of the same senders share a congested port.

use std::time::Duration;

use serde::Serialize;
use xoff_host::Stream;
use xoff_wire::units::{BitRate, Class, Nanos};

use super::report::{median, median_and_least, number, seconds, table_of};
use super::series::Series;
use super::{
    Compared, Conduct, Experiment, Findings, Headline, Length, Promises, Request, Tell, Variant, compare,
    named,
};
use crate::plot::{Content, Figure, Limits, Panel};
use crate::statistics::Spread;
use crate::statistics::p50;
use crate::{Account, FabricError, HostId, LOSSLESS, Line, Load, Plan, Settings, Setup, lossless};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "two-classes",
    about: "two lossless classes share one port: which rate the higher class keeps, and which senders are paused",
    length: Length::Fixed(3),
    policies: &["pfc", "g-pfc"],
    settings,
    plans: |_, line| vec![plan(line).0],
    routed: None,
    promises: Promises::Variants,
    measure,
};

const HEADLINES: &[Headline<TwoClassesResults>] = &[
    Headline::of("class 3 alone\nMb/s", |of| p50(of.higher_alone_mbps)),
    Headline::of("class 3\nMb/s", |of| p50(of.higher.mbps)),
    Headline::of("class 2\nMb/s", |of| p50(of.lower.mbps)),
    Headline::of("class 3\nXOFF", |of| Some(of.higher.xoff_sent as f64)),
];

const LOWER: Class = Class::ALL[2];
const LOWER_DSCP: u8 = 16;
const SENDERS: u64 = 4;
const HIGHER_PERCENT: u64 = 60;
const BEGIN: Nanos = Nanos::from_millis(600);
const END: Nanos = Nanos::from_millis(2200);
const RAMP: Nanos = Nanos::from_millis(100);
const STEP: Nanos = Nanos::from_millis(50);
const SAMPLE_EVERY: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize)]
struct ClassResults {
    mbps: Option<Spread>,
    xoff_sent: u64,
    paused_ms: f64,
}

#[derive(Debug, Serialize)]
struct TwoClassesResults {
    higher_alone_mbps: Option<Spread>,
    higher: ClassResults,
    lower: ClassResults,
}

struct TwoClassesRun {
    account: Account,
    rates: [Series; 2],
    line: Line,
}

impl TwoClassesRun {
    fn rate(&self, place: usize, from: Nanos, to: Nanos) -> Option<f64> {
        self.rates[place].rate(self.line.span(from), self.line.span(to))
    }
}

fn measure(request: &Request, tell: &mut Tell<'_>) -> Result<Findings, FabricError> {
    let conduct = |_: &Variant, runs: &[TwoClassesRun]| -> Conduct {
        runs.iter().map(|run| Conduct::of_classes(&run.account, &[LOSSLESS, LOWER])).sum()
    };
    let (findings, all) =
        compare(&EXPERIMENT, (request, tell), run, conduct, TwoClassesResults::of, HEADLINES)?;
    Ok(findings.with(text(request, &all), figure(request, &all)))
}

fn settings(variant: &Variant, line: Line) -> Settings {
    let mut settings = Settings::default();
    settings.set("defaults.lossless", &[2, 3][..]).extend(&variant.settings(line)).copy("class.3", "class.2");
    settings
}

fn plan(line: Line) -> (Plan, Vec<HostId>, HostId) {
    let mut plan = Plan::new(line);
    let switch = plan.switch("switch");
    let senders = (1..=SENDERS).map(|n| plan.host(&format!("sender-{n}"), switch)).collect();
    let receiver = plan.host("receiver", switch);
    (plan, senders, receiver)
}

fn run(setup: &Setup<'_>) -> Result<TwoClassesRun, FabricError> {
    let line = setup.line;
    let (plan, senders, receiver) = plan(line);
    let load = load(line, &senders, receiver);
    let fabric = setup.build(plan)?;
    let (rates, account) = fabric.run(&load, PATIENCE, |live| {
        let mut rates = [Series::default(), Series::default()];
        live.every(SAMPLE_EVERY, PATIENCE, |now| {
            for (series, class) in rates.iter_mut().zip([LOSSLESS, LOWER]) {
                series.record(now, live.progress(receiver).received[class.index()].line_bytes.get());
            }
        });
        rates
    })?;
    Ok(TwoClassesRun { account, rates, line })
}

fn load(line: Line, senders: &[HostId], receiver: HostId) -> Load {
    let mut load = Load::default();
    let rate = BitRate::new(line.bits_per_second() / 100 * HIGHER_PERCENT / SENDERS);
    let [start, end] = [BEGIN, END].map(|time| line.span(time));
    for &sender in senders {
        let higher = lossless(receiver);
        let lower = Stream { class: LOWER, dscp: LOWER_DSCP, ..higher.clone() };
        load.send(sender, Stream { rate, duration: Some(end), ..higher });
        load.send(sender, Stream { start, duration: Some(end.since(start)), ..lower });
    }
    load
}

impl TwoClassesResults {
    fn of(runs: &[TwoClassesRun]) -> TwoClassesResults {
        let alone = runs.iter().filter_map(|run| run.rate(0, RAMP, BEGIN));
        TwoClassesResults {
            higher_alone_mbps: Spread::of(alone),
            higher: ClassResults::of(runs, 0, LOSSLESS),
            lower: ClassResults::of(runs, 1, LOWER),
        }
    }
}

impl ClassResults {
    fn of(runs: &[TwoClassesRun], place: usize, class: Class) -> ClassResults {
        let rates = runs.iter().filter_map(|run| run.rate(place, BEGIN.after(RAMP), END));
        let paused = runs.iter().map(|run| run.account.sum(class, |class| &class.held_nanos));
        ClassResults {
            mbps: Spread::of(rates),
            xoff_sent: runs.iter().map(|run| run.account.sum(class, |class| &class.xoff_sent)).sum(),
            paused_ms: paused.sum::<u64>() as f64 / 1e6,
        }
    }
}

type PolicyResults = [Compared<TwoClassesRun, TwoClassesResults>];

fn title(request: &Request) -> String {
    let line = request.line;
    format!(
        "Two lossless classes, {SENDERS} senders, one {line} port that serves both classes equally; class 3 offers \
         {HIGHER_PERCENT} % of the port's rate, class 2 more than all of it from {} s on",
        seconds(line.span(BEGIN))
    )
}

fn text(request: &Request, all: &PolicyResults) -> String {
    let both = |of: &TwoClassesResults, text: fn(&ClassResults) -> String| {
        format!("{} / {}", text(&of.higher), text(&of.lower))
    };
    let table = table_of(
        all.iter().map(Compared::row),
        &[
            ("class 3, Mb/s\nalone / with class 2 (least)", &|of| {
                format!("{} / {}", median(of.higher_alone_mbps, 1), median_and_least(of.higher.mbps, 1))
            }),
            ("class 2\nMb/s", &|of| median(of.lower.mbps, 1)),
            ("XOFF\nclass 3 / class 2", &|of| both(of, |of| of.xoff_sent.to_string())),
            ("senders paused, ms\nclass 3 / class 2", &|of| both(of, |of| number(of.paused_ms, 0))),
        ],
    );
    format!("{}\n\n{table}\nThe totals below cover both classes.", title(request))
}

fn figure(request: &Request, all: &PolicyResults) -> Figure {
    let top = Some(request.line.bits_per_second() as f64 * 1.08 / 1e6);
    let over_time = |title: &str, place: usize| {
        let points = |run: &TwoClassesRun| run.rates[place].points(request.line.span(STEP));
        let lines = named(all, |of| of.runs.first().map(points).unwrap_or_default());
        Panel::new(title, "time (s)", "used line rate (Mb/s)", Content::Lines(lines))
            .within(Limits { x: None, top })
    };
    let held = |title: &str, of: fn(&TwoClassesResults) -> &ClassResults| {
        let rows = named(all, |all| vec![(0.0, of(&all.measured).paused_ms / f64::from(request.runs))]);
        Panel::new(title, "pause time, all senders, mean of runs (ms)", "", Content::Spans(rows))
    };
    Figure {
        title: title(request),
        panels: vec![
            over_time("Class 3, the higher class, first run", 0),
            over_time("Class 2, first run", 1),
            held("Class 3: pause time of senders", |of| &of.higher),
            held("Class 2: pause time of senders", |of| &of.lower),
        ],
    }
}
