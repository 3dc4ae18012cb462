//! Experiments `qcn-fanin` and `qcn-shared-input`: Figs. 2 and 3 of the paper that puts QCN's congestion points at switch inputs.
//!
//! Times at the default 100 Mb/s are a hundred times the paper's (10 Gb/s); sizes are equal.

use std::time::Duration;

use serde::Serialize;
use xoff_host::Stream;
use xoff_wire::units::{BitRate, Nanos};

use super::cnms::{self, ReceivedCnm};
use super::report::{add_row, median, number, seconds, table};
use super::series::Series;
use super::{
    Compared, Conduct, Experiment, Findings, Headline, Length, Promises, Request, Tell, Variant, compare,
};
use crate::plot::{Content, Figure, Limits, Panel, Point, nice_top};
use crate::statistics::{Spread, mean, p50};
use crate::{Account, FabricError, HostId, Line, Live, Load, Plan, Setup, jain, lossless};

const POLICIES: &[&str] = &["pfc", "qcn-egress", "qcn-ingress-arrival", "qcn-ingress-occupancy"];

const HEADLINES: &[Headline<QcnResults>] = &[
    Headline::of("congested port\nbefore f5, Mb/s", |of| p50(of.phases.first()?.congested_mbps)),
    Headline::of("congested port\nwith f5, Mb/s", |of| p50(of.phases.get(WITH_FIFTH)?.congested_mbps)),
    Headline::of("fairness\nbefore f5", |of| p50(of.phases.first()?.fairness)),
    Headline::of("fairness\nwith f5", |of| p50(of.phases.get(WITH_FIFTH)?.fairness)),
    Headline::of("f1, Mb/s\nbefore f5", |of| p50(*of.flows.first()?.mbps.first()?)),
    Headline::of("CNMs", |of| Some(of.cnms as f64)),
];

pub(super) const FAN_IN: Experiment = Experiment {
    name: "qcn-fanin",
    about: "four flows into one port, for some time a fifth: rates over time, with QCN's congestion points at inputs or outputs",
    length: Length::Default(30),
    policies: POLICIES,
    settings: Variant::voq_settings,
    plans: |_, line| vec![plan(QcnScene::FanIn, line).0],
    routed: None,
    promises: Promises::Variants,
    measure: |request, tell| measure(QcnScene::FanIn, request, tell),
};

pub(super) const SHARED_INPUT: Experiment = Experiment {
    name: "qcn-shared-input",
    about: "like qcn-fanin, with a flow f6 from f1's input to a free port: which flows the congestion points slow down",
    length: Length::Default(30),
    policies: POLICIES,
    settings: Variant::voq_settings,
    plans: |_, line| vec![plan(QcnScene::SharedInput, line).0],
    routed: None,
    promises: Promises::Variants,
    measure: |request, tell| measure(QcnScene::SharedInput, request, tell),
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QcnScene {
    FanIn,
    SharedInput,
}

const SHARED_PERCENT: [u64; 2] = [30, 70];
const FIFTH: usize = 4;
const SIXTH: usize = 5;
const NAMES: [&str; 6] = ["f1", "f2", "f3", "f4", "f5", "f6"];
const PHASES: u64 = 3;
const WITH_FIFTH: usize = 1;
const POINTS: u64 = 40;
const SAMPLE_EVERY: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(5);

impl QcnScene {
    fn experiment(self) -> &'static Experiment {
        match self {
            QcnScene::FanIn => &FAN_IN,
            QcnScene::SharedInput => &SHARED_INPUT,
        }
    }

    fn flows(self) -> &'static [&'static str] {
        match self {
            QcnScene::FanIn => &NAMES[..SIXTH],
            QcnScene::SharedInput => &NAMES,
        }
    }

    fn offered(self, flow: usize, line: Line) -> Option<BitRate> {
        let percent = match (self, flow) {
            (QcnScene::SharedInput, 0) => SHARED_PERCENT[0],
            (_, SIXTH) => SHARED_PERCENT[1],
            _ => return None,
        };
        BitRate::new(line.bits_per_second() / 100 * percent)
    }
}

/// Phase, a third of a run. Rates are measured in the second half of a phase, when rate limiters have settled.
#[derive(Debug, Serialize)]
struct Phase {
    begin_ms: f64,
    end_ms: f64,
    congested_mbps: Option<Spread>,
    fairness: Option<Spread>,
}

#[derive(Debug, Serialize)]
struct QcnFlow {
    flow: &'static str,
    mbps: Vec<Option<Spread>>,
    cnms: usize,
    feedback: Option<Spread>,
    feedback_mean: Option<f64>,
    rates: Vec<Point>,
}

#[derive(Debug, Serialize)]
struct QcnResults {
    phases: Vec<Phase>,
    flows: Vec<QcnFlow>,
    cnms: u64,
    cnms_malformed: u64,
    captured: Vec<ReceivedCnm>,
}

struct QcnRun {
    account: Account,
    phase: Nanos,
    rates: Vec<Series>,
    cnms: Vec<ReceivedCnm>,
}

fn lasts(request: &Request) -> Nanos {
    request.line.span(Nanos::from_secs(request.seconds.into()))
}

fn measure(scene: QcnScene, request: &Request, tell: &mut Tell<'_>) -> Result<Findings, FabricError> {
    let at_100_mbps = Nanos(Nanos::from_secs(request.seconds.into()).0 / PHASES);
    let phase = request.line.span(at_100_mbps);
    let run = |setup: &Setup<'_>| run(scene, setup, at_100_mbps);
    let conduct = |_: &Variant, runs: &[QcnRun]| Conduct::of(runs.iter().map(|run| &run.account));
    let measured = |runs: &[QcnRun]| QcnResults::of(scene, phase, runs);
    let (findings, all) = compare(scene.experiment(), (request, tell), run, conduct, measured, HEADLINES)?;
    Ok(findings.with(text(scene, request, &all), figure(scene, request, &all)))
}

struct QcnHosts {
    senders: Vec<HostId>,
    congested: HostId,
    free: Option<HostId>,
}

fn plan(scene: QcnScene, line: Line) -> (Plan, QcnHosts) {
    let mut plan = Plan::new(line);
    let switch = plan.switch("switch");
    let senders = (1..=SIXTH).map(|number| plan.host(&format!("input-{number}"), switch)).collect();
    let congested = plan.host("congested", switch);
    let free = (scene == QcnScene::SharedInput).then(|| plan.host("free", switch));
    (plan, QcnHosts { senders, congested, free })
}

fn run(scene: QcnScene, setup: &Setup<'_>, phase: Nanos) -> Result<QcnRun, FabricError> {
    let line = setup.line;
    let limit = Duration::from_nanos(phase.0 * PHASES) + PATIENCE;
    let phase = line.span(phase);
    let (plan, QcnHosts { senders, congested, free }) = plan(scene, line);
    let mut load = Load::default();
    for (flow, &sender) in senders.iter().enumerate() {
        let stream = Stream { rate: scene.offered(flow, line), ..lossless(congested) };
        let (start, thirds) = if flow == FIFTH { (phase, 1) } else { (Nanos::ZERO, PHASES) };
        load.send(sender, Stream { start, duration: Some(Nanos(phase.0 * thirds)), ..stream });
    }
    let mut flows: Vec<cnms::FlowKey> =
        NAMES.iter().zip(&senders).map(|(&name, &sender)| (name, sender, 0)).collect();
    if let Some(free) = free {
        let (rate, duration) = (scene.offered(SIXTH, line), Some(Nanos(phase.0 * PHASES)));
        load.send(senders[0], Stream { rate, duration, ..lossless(free) });
        flows.push((NAMES[SIXTH], senders[0], 1));
    }
    let fabric = setup.build(plan)?;
    let pairs: Vec<(HostId, HostId)> = flows
        .iter()
        .enumerate()
        .map(|(flow, &(_, sender, _))| (sender, free.filter(|_| flow == SIXTH).unwrap_or(congested)))
        .collect();
    let ((begin, rates), account) = fabric.run(&load, PATIENCE, |live| watch(live, &pairs, limit))?;
    let cnms = cnms::received_cnms(&account, begin, &flows);
    Ok(QcnRun { account, phase, rates, cnms })
}

fn watch(live: &Live<'_>, pairs: &[(HostId, HostId)], limit: Duration) -> (Nanos, Vec<Series>) {
    let mut rates = vec![Series::default(); pairs.len()];
    live.every(SAMPLE_EVERY, limit, |now| {
        for (series, &(from, to)) in rates.iter_mut().zip(pairs) {
            series.record(now, live.received_from(from, to));
        }
    });
    (live.begin(), rates)
}

impl QcnRun {
    fn rate(&self, flow: usize, phase: u64) -> Option<f64> {
        let [from, to] = [2 * phase + 1, 2 * phase + 2].map(|half| Nanos(self.phase.0 / 2 * half));
        self.rates[flow].rate(from, to)
    }

    fn congested(&self, phase: u64) -> Option<Vec<f64>> {
        let flows = if phase == 1 { FIFTH + 1 } else { FIFTH };
        (0..flows).map(|flow| self.rate(flow, phase)).collect()
    }
}

impl QcnResults {
    fn of(scene: QcnScene, phase: Nanos, runs: &[QcnRun]) -> QcnResults {
        let ms = |phases: u64| (phase.0 * phases) as f64 / 1e6;
        let phases = (0..PHASES).map(|number| {
            let congested = || runs.iter().filter_map(|run| run.congested(number));
            Phase {
                begin_ms: ms(number),
                end_ms: ms(number + 1),
                congested_mbps: Spread::of(congested().map(|rates| rates.iter().sum())),
                fairness: Spread::of(congested().filter_map(|rates| jain(&rates))),
            }
        });
        let hosts = || runs.iter().flat_map(|run| &run.account.hosts);
        QcnResults {
            phases: phases.collect(),
            flows: scene
                .flows()
                .iter()
                .enumerate()
                .map(|(flow, name)| QcnFlow::of(flow, name, runs))
                .collect(),
            cnms: hosts().map(|host| host.cnms.received).sum(),
            cnms_malformed: hosts().flat_map(|host| host.cnms.refused.values()).sum(),
            captured: runs.first().map(|run| run.cnms.clone()).unwrap_or_default(),
        }
    }
}

impl QcnFlow {
    fn of(flow: usize, name: &'static str, runs: &[QcnRun]) -> QcnFlow {
        let cnms = || runs.iter().flat_map(|run| &run.cnms).filter(|cnm| cnm.flow_index == flow);
        let mbps = |phase| Spread::of(runs.iter().filter_map(|run| run.rate(flow, phase)));
        let rates = runs.first().map(|run| run.rates[flow].points(Nanos(run.phase.0 / POINTS)));
        QcnFlow {
            flow: name,
            mbps: (0..PHASES).map(mbps).collect(),
            cnms: cnms().count(),
            feedback: Spread::of(cnms().map(|cnm| f64::from(cnm.feedback))),
            feedback_mean: mean(cnms().map(|cnm| f64::from(cnm.feedback))),
            rates: rates.unwrap_or_default(),
        }
    }
}

type PolicyResults = [Compared<QcnRun, QcnResults>];

fn title(scene: QcnScene, request: &Request) -> String {
    let line = request.line;
    // Round the title's times to 0.1 s at 100 Mb/s, and in proportion on faster lines.
    let [begin, end] = [1, 2].map(|phases| {
        let step = lasts(request).0 / u64::from(request.seconds).max(1) / 10;
        seconds(Nanos((lasts(request).0 * phases / PHASES + step / 2) / step * step))
    });
    let rest = format!("f5 from {begin} s to {end} s; {line} lines with PFC");
    match scene {
        QcnScene::FanIn => format!("QCN fan-in: flows f1 to f4 from four inputs into one output, {rest}"),
        QcnScene::SharedInput => {
            format!(
                "QCN shared input: flows f1 to f4 into one output, f6 from the input of f1 to a free output, {rest}"
            )
        }
    }
}

fn text(scene: QcnScene, request: &Request, all: &PolicyResults) -> String {
    let flows = scene.flows();
    let mut rates = table(&[&["policy", "time, s"], flows, &["congested\nport", "fairness"]].concat());
    let mut cnms = table(&[&["CNMs (mean feedback)"], flows, &["all", "malformed"]].concat());
    for Compared { name, measured: of, .. } in all {
        for (place, phase) in of.phases.iter().enumerate() {
            let mut row = vec![
                name.clone(),
                format!("{} to {}", number(phase.begin_ms / 1e3, 1), number(phase.end_ms / 1e3, 1)),
            ];
            row.extend(of.flows.iter().map(|flow| median(flow.mbps[place], 1)));
            row.push(median(phase.congested_mbps, 1));
            row.push(median(phase.fairness, 3));
            add_row(&mut rates, row);
        }
        let mut row = vec![name.clone()];
        row.extend(of.flows.iter().map(|flow| match flow.cnms {
            0 => "-".to_owned(),
            count => format!("{count} ({})", number(flow.feedback_mean, 0)),
        }));
        row.extend([of.cnms.to_string(), of.cnms_malformed.to_string()]);
        add_row(&mut cnms, row);
    }
    format!(
        "{}\n\nLayer 1 rates in the second half of each phase{}, Mb/s:\n{rates}\n\nCNMs that hosts received:\n{cnms}",
        title(scene, request),
        if request.runs > 1 { ", median of runs" } else { "" }
    )
}

fn figure(scene: QcnScene, request: &Request, all: &PolicyResults) -> Figure {
    let rates = all.iter().flat_map(|all| &all.measured.flows).flat_map(|flow| &flow.rates);
    let limits = Limits {
        x: Some((0.0, lasts(request).0 as f64 / 1e9)),
        top: Some(nice_top(rates.filter_map(|point| point.1))),
    };
    let panels = |Compared { name, measured: of, .. }: &Compared<_, QcnResults>| {
        let rates = of.flows.iter().map(|flow| (flow.flow.to_owned(), flow.rates.clone())).collect();
        let title = format!("{name}: rates");
        let rates = Panel::new(&title, "time (s)", "used line rate (Mb/s)", Content::Lines(rates));
        let width = f64::from(request.seconds) / 400.0;
        let of_flow = |(place, flow): (usize, &QcnFlow)| {
            let cnms = of.captured.iter().filter(|cnm| cnm.flow_index == place);
            let spans = cnms.map(|cnm| (cnm.at_ms / 1e3, cnm.at_ms / 1e3 + width));
            (flow.flow.to_owned(), spans.collect())
        };
        let spans = Content::Spans(of.flows.iter().enumerate().map(of_flow).collect());
        let cnms = Panel::new(&format!("{name}: CNMs"), "time (s)", "", spans);
        [rates, cnms].map(|panel| panel.within(limits))
    };
    Figure { title: title(scene, request), panels: all.iter().flat_map(panels).collect() }
}

#[cfg(test)]
mod tests {
    use xoff_wire::units::CLASSES;

    use super::*;

    #[test]
    fn qcn_figure_title_shows_when_flow_f5_is_active() {
        let title = |seconds| {
            let line = BitRate::from_mbps(100);
            title(QcnScene::FanIn, &Request { seconds, ..Request::new(Vec::new(), line) })
        };
        assert!(title(30).contains("f5 from 10 s to 20 s;"), "{}", title(30));
        assert!(title(4).contains("f5 from 1.3 s to 2.7 s;"), "{}", title(4));
    }

    #[test]
    fn qcn_phase_without_samples_has_no_rate() {
        let phase = Nanos::from_secs(1);
        let account = Account::of_hosts(Vec::new(), [0; CLASSES]);
        let mut run = QcnRun { account, phase, rates: vec![Series::default(); SIXTH], cnms: Vec::new() };
        // In the first phase all flows but f5 send at 1 Mb/s.
        for series in &mut run.rates[..FIFTH] {
            (0..=1_000).for_each(|ms| series.record(Nanos::from_millis(ms), ms * 125));
        }
        let of = QcnResults::of(QcnScene::FanIn, phase, &[run]);
        let congested = of.phases.iter().map(|phase| phase.congested_mbps.map(|spread| spread.p50.round()));
        assert_eq!(congested.collect::<Vec<_>>(), [Some(4.0), None, None]);
        let f5 = &of.flows[FIFTH];
        assert_eq!((&f5.mbps[..], f5.cnms), (&[None; 3][..], 0));
        assert_eq!((f5.feedback, f5.feedback_mean), (None, None));
    }
}
