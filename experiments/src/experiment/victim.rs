//! Experiment `victim`: heavy and light senders of one class.
//!
//! Light senders send messages to the congested port and to a free one; messages to the free port are the victims.

use std::time::Duration;

use serde::Serialize;
use xoff_flow_control::counter::Counter;
use xoff_host::Stream;
use xoff_wire::units::{Bytes, Nanos};

use super::report::{NONE_COMPLETED, NOTHING_ARRIVED, median, ms, number, table_of};
use super::series::Series;
use super::variant::ON_ONE_SWITCH;
use super::{
    Compared, Conduct, Experiment, Findings, Headline, Length, Promises, Request, Tell, Variant, compare,
    named,
};
use crate::plot::{Content, Figure, Panel};
use crate::statistics::Spread;
use crate::statistics::p50;
use crate::{
    Account, FabricError, HostId, LOSSLESS, Line, Live, Load, Plan, PortOf, Setup, lossless, settled,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "victim",
    about: "heavy and light senders to a congested and a free port: which senders are paused, and how long messages of light senders take",
    length: Length::Fixed(20),
    policies: ON_ONE_SWITCH,
    settings: Variant::settings,
    plans: |_, line| vec![plan(line).0],
    routed: None,
    promises: Promises::Variants,
    measure,
};

const HEADLINES: &[Headline<VictimResults>] = &[
    Headline::of("victim, ms\n64 KB, 10 %", |of| p50(of.at(10)[0]?.victim.completion_ms)),
    Headline::of("64 KB, 15 %", |of| p50(of.at(15)[0]?.victim.completion_ms)),
    Headline::of("small, 10 %", |of| p50(of.at(10)[1]?.victim.completion_ms)),
    Headline::of("light, ms\n64 KB, 10 %", |of| p50(of.at(10)[0]?.light_messages.completion_ms)),
    Headline::of("64 KB, 15 %", |of| p50(of.at(15)[0]?.light_messages.completion_ms)),
    Headline::of("small, 10 %", |of| p50(of.at(10)[1]?.light_messages.completion_ms)),
    Headline::of("victim, Mb/s\n64 KB, 15 %", |of| p50(of.at(15)[0]?.victim.mbps)),
];

const HEAVY: usize = 6;
const LIGHT: usize = 2;
/// Loads of each light sender to the congested port, in percent of a line; the fair share is 12.5 %.
const LOADS: [u64; 4] = [5, 10, 15, 20];
const VICTIM: u64 = 30;
#[derive(Clone, Copy, Debug)]
struct Sizes {
    light: u64,
    victim: u64,
    loads: &'static [u64],
}

/// Frames per message: 64 KB, the size of short flows in CaPFC's Table I.
const LONG: Sizes = Sizes { light: 45, victim: 45, loads: &LOADS };
/// Frames per message; light senders' messages are about half as long as in `LONG`. A load of 20 % would need too many
/// streams.
const SMALL: Sizes = Sizes { light: 24, victim: 48, loads: &[5, 10, 15] };
const ALONE: Nanos = Nanos::from_millis(600);
const RAMP: Nanos = Nanos::from_millis(100);
const END: Nanos = Nanos::from_millis(2200);
const SAMPLE_EVERY: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(10);

fn frames(at_100_mbps: u64, line: Line) -> u64 {
    line.size(Bytes(at_100_mbps)).0.max(at_100_mbps)
}

fn message_interval(line: Line, frames: u64, percent: u64) -> Nanos {
    let frame = line.time_of(Bytes::on_line(Stream::default().frame_len()));
    Nanos(frame.0 * frames * 100 / percent)
}

#[derive(Debug, Serialize)]
struct Senders {
    xoff_sent: u64,
    paused_percent: f64,
    first_xoff_ms: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Delivery {
    solo_mbps: Option<Spread>,
    mbps: Option<Spread>,
    solo_completion_ms: Option<Spread>,
    completion_ms: Option<Spread>,
    broken: u64,
}

#[derive(Debug, Serialize)]
struct VictimPoint {
    light_percent: u64,
    message_frames: [u64; 2],
    heavy: Senders,
    light: Senders,
    light_messages: Delivery,
    victim: Delivery,
}

#[derive(Debug, Serialize)]
struct VictimResults {
    sweep: Vec<VictimPoint>,
    small: Vec<VictimPoint>,
}

struct VictimRun {
    load: Load,
    scene: VictimScene,
    account: Account,
    samples: Observations,
}

struct Observations {
    light: Series,
    victim: Series,
    first_xoff: Vec<Option<Nanos>>,
    held: Vec<Option<[(Nanos, u64); 2]>>,
}

struct VictimScene {
    heavy: Vec<HostId>,
    light: Vec<HostId>,
    congested: HostId,
    free: HostId,
    ports: Vec<PortOf>,
    line: Line,
}

fn measure(request: &Request, tell: &mut Tell<'_>) -> Result<Findings, FabricError> {
    let run = |setup: &Setup<'_>| {
        let run = |sizes: Sizes| {
            let runs = sizes.loads.iter().map(move |&percent| run(setup, sizes, percent));
            runs.collect::<Result<Vec<VictimRun>, _>>()
        };
        Ok([run(LONG)?, run(SMALL)?])
    };
    let conduct = |_: &Variant, runs: &[[Vec<VictimRun>; 2]]| {
        Conduct::of(runs.iter().flatten().flatten().map(|run| &run.account))
    };
    let measured = |runs: &[[Vec<VictimRun>; 2]]| VictimResults::of(runs, request.line);
    let (findings, all) = compare(&EXPERIMENT, (request, tell), run, conduct, measured, HEADLINES)?;
    Ok(findings.with(text(request, &all), figure(request, &all)))
}

fn run(setup: &Setup<'_>, sizes: Sizes, light_percent: u64) -> Result<VictimRun, FabricError> {
    let line = setup.line;
    let (plan, scene) = plan(line);
    let plan = plan.at_point(format!("light={light_percent}% message={}", frames(sizes.light, line)));
    let load = scene.load(sizes, light_percent);
    let fabric = setup.build(plan)?;
    let (samples, account) = fabric.run(&load, PATIENCE, |live| scene.watch(live))?;
    Ok(VictimRun { load, scene, account, samples })
}

fn plan(line: Line) -> (Plan, VictimScene) {
    let mut plan = Plan::new(line);
    let switch = plan.switch("switch");
    let heavy: Vec<HostId> = (1..=HEAVY).map(|n| plan.host(&format!("heavy-{n}"), switch)).collect();
    let light: Vec<HostId> = (1..=LIGHT).map(|n| plan.host(&format!("light-{n}"), switch)).collect();
    let [congested, free] = ["congested", "free"].map(|name| plan.host(name, switch));
    let ports = heavy.iter().chain(&light).map(|&host| plan.port_of(host)).collect();
    (plan, VictimScene { heavy, light, congested, free, ports, line })
}

impl VictimScene {
    fn load(&self, sizes: Sizes, light_percent: u64) -> Load {
        let (mut load, end) = (Load::default(), self.line.span(END));
        for &heavy in &self.heavy {
            let start = self.line.span(ALONE);
            let duration = Some(end.since(start));
            load.send(heavy, Stream { start, duration, ..lossless(self.congested) });
        }
        for (place, &light) in self.light.iter().enumerate() {
            let kinds = [(sizes.light, light_percent, self.congested), (sizes.victim, VICTIM, self.free)];
            for (length, percent, to) in kinds {
                let length = frames(length, self.line);
                let every = message_interval(self.line, length, percent);
                let shift = every.0 * place as u64 / self.light.len() as u64;
                let starts = (0..).map(|n| Nanos(shift + n * every.0)).take_while(|&start| start < end);
                for start in starts {
                    load.send(light, Stream { start, count: Some(length), ..lossless(to) });
                }
            }
        }
        load
    }

    fn watch(&self, live: &Live<'_>) -> Observations {
        let mut samples = Observations {
            light: Series::default(),
            victim: Series::default(),
            first_xoff: vec![None; self.ports.len()],
            held: vec![None; self.ports.len()],
        };
        let mut before = vec![0; self.ports.len()];
        let [begin, end] = [ALONE, END].map(|time| self.line.span(time));
        live.every(SAMPLE_EVERY, PATIENCE, |now| {
            let received = |to| self.light.iter().map(|&light| live.received_from(light, to)).sum();
            samples.victim.record(now, received(self.free));
            samples.light.record(now, received(self.congested));
            let observed = samples.first_xoff.iter_mut().zip(&mut samples.held).zip(&mut before);
            for (&port, ((first, held), before)) in self.ports.iter().zip(observed) {
                let class = live.class(port, LOSSLESS);
                let counters = [&class.xoff_sent, &class.held_since, &class.held_nanos];
                let [xoffs, since, ended] = settled(|| counters.map(Counter::get));
                if (begin..=end).contains(&now) {
                    let goes_on = if since == 0 { 0 } else { live.begin().after(now).since(Nanos(since)).0 };
                    let sample = (now, ended + goes_on);
                    held.get_or_insert([sample; 2])[1] = sample;
                }
                if now < begin {
                    *before = xoffs;
                } else if first.is_none() && xoffs > *before {
                    *first = Some(if since == 0 { now } else { Nanos(since).since(live.begin()) });
                }
            }
        });
        samples
    }
}

impl VictimRun {
    /// Returns three sums over the senders (XOFFs sent to them, paused time in ns, observed time in ns), and the time
    /// of the first XOFF.
    fn senders(&self, range: std::ops::Range<usize>) -> (u64, u64, u64, Option<Nanos>) {
        let classes =
            || self.scene.ports[range.clone()].iter().map(|&port| self.account.class(port, LOSSLESS));
        let xoff = classes().map(|class| class.xoff_sent.get()).sum();
        let held = || self.samples.held[range.clone()].iter().flatten();
        let paused = held().map(|[first, last]| last.1.saturating_sub(first.1)).sum();
        let time = held().map(|[first, last]| last.0.since(first.0).0).sum();
        (xoff, paused, time, self.samples.first_xoff[range].iter().copied().flatten().min())
    }

    /// Returns completion times (ms) before and during congestion, and how many messages are incomplete.
    fn completion(&self, to: HostId) -> (Vec<f64>, Vec<f64>, u64) {
        let (mut solo, mut congested, mut broken) = (Vec::new(), Vec::new(), 0);
        for &light in &self.scene.light {
            let streams = self.account.host(to).received.iter().filter(|got| got.sender == light.number());
            let Some(began) = self.load.due(&self.account, light, 0) else { continue };
            for message in streams {
                let Some(due) = self.load.due(&self.account, light, message.stream) else { continue };
                broken += u64::from(message.lost > 0);
                let Some(taken) = self.load.completion(&self.account, light, to, message.stream) else {
                    continue;
                };
                let taken = taken.0 as f64 / 1e6;
                let [alone, ramp] = [ALONE, RAMP].map(|time| self.scene.line.span(time));
                match due.since(began) {
                    due if due < alone.since(ramp) => solo.push(taken),
                    due if due >= alone.after(ramp) => congested.push(taken),
                    _ => {}
                }
            }
        }
        (solo, congested, broken)
    }
}

impl VictimResults {
    fn of(runs: &[[Vec<VictimRun>; 2]], line: Line) -> VictimResults {
        let of = |place: usize, sizes: Sizes| {
            let runs_with = move |load: usize| runs.iter().map(|run| &run[place][load]).collect::<Vec<_>>();
            let message_frames = [sizes.light, sizes.victim].map(|of| frames(of, line));
            let point = |(load, &percent)| VictimPoint::of(percent, message_frames, &runs_with(load));
            sizes.loads.iter().enumerate().map(point).collect()
        };
        VictimResults { sweep: of(0, LONG), small: of(1, SMALL) }
    }

    fn at(&self, percent: u64) -> [Option<&VictimPoint>; 2] {
        [&self.sweep, &self.small].map(|of| of.iter().find(|point| point.light_percent == percent))
    }
}

impl VictimPoint {
    fn of(light_percent: u64, message_frames: [u64; 2], runs: &[&VictimRun]) -> VictimPoint {
        VictimPoint {
            light_percent,
            message_frames,
            heavy: Senders::of(runs, 0..HEAVY),
            light: Senders::of(runs, HEAVY..HEAVY + LIGHT),
            light_messages: Delivery::of(runs, |run| run.scene.congested, |run| &run.samples.light),
            victim: Delivery::of(runs, |run| run.scene.free, |run| &run.samples.victim),
        }
    }
}

impl Senders {
    fn of(runs: &[&VictimRun], range: std::ops::Range<usize>) -> Senders {
        let each: Vec<_> = runs.iter().map(|run| run.senders(range.clone())).collect();
        let paused: u64 = each.iter().map(|run| run.1).sum();
        let time: u64 = each.iter().map(|run| run.2).sum();
        let after = |first: Nanos, run: &VictimRun| first.since(run.scene.line.span(ALONE));
        let first = each.iter().zip(runs).filter_map(|(each, run)| Some(after(each.3?, run))).min();
        Senders {
            xoff_sent: each.iter().map(|run| run.0).sum(),
            // The clock is read before the counters of paused time, so the result could slightly exceed 100 %.
            paused_percent: (100.0 * paused as f64 / time.max(1) as f64).min(100.0),
            first_xoff_ms: first.map(|first| first.0 as f64 / 1e6),
        }
    }
}

impl Delivery {
    fn of(
        runs: &[&VictimRun],
        to: impl Fn(&VictimRun) -> HostId,
        series: impl Fn(&VictimRun) -> &Series,
    ) -> Delivery {
        let each: Vec<_> = runs.iter().map(|run| run.completion(to(run))).collect();
        let rate = |from, to| {
            Spread::of(runs.iter().filter_map(|run| {
                let [from, to] = [from, to].map(|time: Nanos| run.scene.line.span(time));
                series(run).rate(from, to)
            }))
        };
        Delivery {
            solo_mbps: rate(RAMP, ALONE),
            mbps: rate(ALONE.after(RAMP), END),
            solo_completion_ms: Spread::of(each.iter().flat_map(|run| run.0.iter().copied())),
            completion_ms: Spread::of(each.iter().flat_map(|run| run.1.iter().copied())),
            broken: each.iter().map(|run| run.2).sum(),
        }
    }
}

type PolicyResults = [Compared<[Vec<VictimRun>; 2], VictimResults>];

const LOAD_X: &str = "load of each light sender to the congested port (% of a line)";

fn title(request: &Request) -> String {
    let line = request.line;
    format!("Victim: {HEAVY} heavy and {LIGHT} light senders, a congested and a free port, {line} lines")
}

fn text(request: &Request, all: &PolicyResults) -> String {
    let first = |senders: &Senders| {
        senders.first_xoff_ms.map_or_else(|| "never".to_owned(), |first| number(first, 1))
    };
    let rate = |of: &Delivery| format!("{} / {}", median(of.solo_mbps, 1), median(of.mbps, 1));
    let completion = |of: &Delivery| {
        let congested = of.completion_ms.map_or_else(
            || NONE_COMPLETED.to_owned(),
            |Spread { p50, p75, max, .. }| [p50, p75, max].map(|ms| number(ms, 1)).join(" / "),
        );
        format!("{} / {congested}", median(of.solo_completion_ms, 1))
    };
    let paused = |of: &Senders| number(of.paused_percent, 0);
    let points = all.iter().flat_map(|Compared { name, measured: of, .. }| {
        of.sweep.iter().chain(&of.small).map(move |point| (name.as_str(), point))
    });
    let table = table_of(
        points,
        &[
            ("light\noffer, % / frames", &|of| format!("{} / {}", of.light_percent, of.message_frames[0])),
            ("first XOFF, ms\nheavy / light", &|of| format!("{} / {}", first(&of.heavy), first(&of.light))),
            ("pause time, %\nheavy / light", &|of| format!("{} / {}", paused(&of.heavy), paused(&of.light))),
            ("victim Mb/s\nalone / congested", &|of| rate(&of.victim)),
            ("victim's messages, ms\nalone p50 / p50 / p75 / max", &|of| completion(&of.victim)),
            ("light Mb/s\nalone / congested", &|of| rate(&of.light_messages)),
            ("light messages, ms\nalone p50 / p50 / p75 / max", &|of| completion(&of.light_messages)),
            ("broken\nmessages", &|of| (of.victim.broken + of.light_messages.broken).to_string()),
        ],
    );
    format!(
        "{}\n\n{table}\nRates count received frames. The light senders are alone for {} ms; then the heavy ones send for {} ms. Times of \
         XOFF count from the start of the heavy senders. A fair share of the congested port is {:.1} %.",
        title(request),
        ms(request.line.span(ALONE)),
        ms(request.line.span(END.since(ALONE))),
        100.0 / (HEAVY + LIGHT) as f64
    )
}

fn figure(request: &Request, all: &PolicyResults) -> Figure {
    let through = |points: &[VictimPoint], of: &PointValue| {
        points.iter().map(|point| (point.light_percent as f64, of(point))).collect::<Vec<_>>()
    };
    let over_load = |title: &str, y: &str, of: &PointValue, alone: Option<&PointValue>| {
        let through = |measured: &VictimResults, of: &PointValue| through(&measured.sweep, of);
        let alone =
            all.first().zip(alone).map(|(first, of)| ("alone".to_owned(), through(&first.measured, of)));
        let lines = named(all, |of_policy| through(&of_policy.measured, of));
        Panel::new(title, LOAD_X, y, Content::Lines(alone.into_iter().chain(lines).collect()))
    };
    let rate = |title: &str, of: fn(&VictimPoint) -> &Delivery| {
        let [alone, congested]: [&PointValue; 2] = [&|p| p50(of(p).solo_mbps), &|p| p50(of(p).mbps)];
        let panel = over_load(title, "received line rate (Mb/s)", congested, Some(alone));
        panel.absent(NOTHING_ARRIVED)
    };
    let completion_y = "median completion time (ms)";
    let completion = |title: &str, of: fn(&VictimPoint) -> &Delivery| {
        over_load(title, completion_y, &|p| p50(of(p).completion_ms), None).absent(NONE_COMPLETED)
    };
    let small = |title: &str, of: fn(&VictimPoint) -> &Delivery| {
        let lines = named(all, |all| through(&all.measured.small, &|p| p50(of(p).completion_ms)));
        Panel::new(title, LOAD_X, completion_y, Content::Lines(lines)).absent(NONE_COMPLETED)
    };
    let pause = |title: &str, of: fn(&VictimPoint) -> &Senders| {
        over_load(title, "pause time (%)", &|p| Some(of(p).paused_percent), None)
    };
    Figure {
        title: title(request),
        panels: vec![
            rate("Victim, to the free port", |p| &p.victim),
            rate("Light senders, to the congested port", |p| &p.light_messages),
            completion("Victim's messages, 64 KB", |p| &p.victim),
            completion("Light senders' messages, 64 KB", |p| &p.light_messages),
            small("Victim's messages beside light senders' small ones", |p| &p.victim),
            small("Light senders' small messages", |p| &p.light_messages),
            pause("Heavy senders", |p| &p.heavy),
            pause("Light senders", |p| &p.light),
        ],
    }
}

type PointValue<'a> = dyn Fn(&VictimPoint) -> Option<f64> + 'a;

#[cfg(test)]
mod tests;
