use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use miette::miette;
use xoff_config::quantity;
use xoff_dataplane::tap::TapId;
use xoff_flow_control::cause::Trigger;
use xoff_flow_control::counters::ClassCounters;
use xoff_flow_control::drop_reason::DropReason;
use xoff_sim::flows::{FlowHost, FlowRecord, Query};
use xoff_sim::scheduled::AnySwitch;
use xoff_sim::{At, FaultCounts, ImpairmentCounts, Picos};
use xoff_wire::units::{Class, Nanos, PortId};

use super::build::{AnyFabric, Model, model, named};
use super::flow_tables::FlowTables;
use super::hpcc::{self, QueueLengths};
use super::pauses::Pauses;
use super::queue_means::{QueueMeans, StuckQueues};
use super::tables::{
    CLASSES, DROPS, FLOWS, LINKS, LOADS, PAUSES, QUEUES, RUNS, Row, Rows, SWITCHES, THROUGHPUT, decimal,
    nanos,
};
use crate::counted::{dropped, queues};
use crate::scenario::{Scenario, Source};
use crate::statistics::{mean, quantile, sorted};

const SLOW_RECEIVER: &str = "slow_receiver";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Job {
    pub point: usize,
    pub seed: u64,
}

#[derive(Debug, Default)]
pub struct Progress {
    pub done: AtomicU64,
    pub hops: AtomicU64,
}

pub fn label(scenario: &Scenario) -> String {
    let parts: Vec<String> = scenario.point.iter().map(|(key, value)| format!("{key}={value}")).collect();
    parts.join(";")
}

const PARTS: u64 = 1_000;
const PART_MAX: Nanos = Nanos::from_micros(50);

#[derive(Clone, Default)]
struct WarmUpCounts {
    xoffs: u64,
    held: u64,
    lost: u64,
    marked: u64,
    payload: Vec<u64>,
}

pub fn run(source: &Source, path: &Path, job: Job, runs: usize, progress: &Progress) -> miette::Result<Rows> {
    let scenario = source.point(job.point)?;
    let mut model = model(source, job.point, job.seed, path, runs)?;
    let pauses = put_taps(&mut model.fabric, scenario.output.pauses)?;
    let key = [label(&scenario), job.seed.to_string()];
    let mut rows = Rows::default();
    let end = Picos::from(scenario.limit);
    let warm_up = Picos::from(scenario.warm_up);
    let sample = scenario.output.sample.map(Picos::from);
    let part = Picos((end.0 / PARTS).clamp(1, Picos::from(PART_MAX).0));
    let mut before = if warm_up == Picos::ZERO { Some(counted(&model)) } else { None };
    let first_sample =
        |sample: Picos| sample.0 * Picos::from(scenario.output.begin).0.div_ceil(sample.0).max(1);
    let mut next_sample = sample.map_or(Picos::NEVER, |sample| Picos(first_sample(sample)));
    let mut last_bytes = Vec::new();
    let mut waiting = QueueMeans::new(&model);
    let mut flow_tables = FlowTables::default();
    let mut lengths = QueueLengths::default();
    let mut stuck = StuckQueues::new(&model);
    let mut now = Picos::ZERO;
    loop {
        for end in model.schedule.run_due(&mut model.fabric) {
            if let At::Switch(switch, port) = end
                && let Some(pauses) = pauses.get(switch as usize)
            {
                pauses.link_lost(now.floor(), PortId(port));
            }
        }
        let mut until =
            now.after(part).min(next_sample).min(model.schedule.next()).min(stuck.next()).min(end);
        if before.is_none() {
            until = until.min(warm_up);
        }
        let is_done = match scenario.duration {
            Some(_) => {
                model.fabric.run_until(until);
                false
            }
            None => model.fabric.run_to_end(until),
        };
        now = if is_done { model.fabric.fabric().now() } else { until };
        if before.is_none() && now >= warm_up {
            before = Some(counted(&model));
        }
        if now == next_sample {
            sample_queues(&model, &key, now, &mut rows);
            if model.import.is_some() {
                lengths.sample(&model.fabric, now);
            }
            if before.is_some() {
                waiting.sample(&model);
                flow_tables.sample(&model);
            }
            throughput(&model, &scenario, &key, (now, sample.unwrap_or(now)), &mut last_bytes, &mut rows);
            next_sample = now.after(sample.unwrap_or(Picos::NEVER));
        }
        stuck.sample(&model, now);
        report_progress(&model.fabric, scenario.duration, (now, end), progress);
        if is_done || now >= end {
            break;
        }
    }
    let records: Vec<FlowRecord> = model.fabric.records().collect();
    let counts = |start: Picos| (warm_up..now).contains(&start);
    rows[&FLOWS] = records.iter().map(|record| flow(record, &model, counts(record.start), &key)).collect();
    classes(&model, (&waiting, &flow_tables), &key, &mut rows);
    rows[&DROPS] = drops(&model, &key);
    rows[&SWITCHES] = switches(&model, &key);
    rows[&LINKS] = links(&model, &key);
    for (switch, pauses) in pauses.iter().enumerate() {
        rows[&PAUSES].extend(pauses.all().iter().map(|pause| pause_row(switch, pause, &model, &key)));
    }
    if scenario.output.pauses {
        rows[&PAUSES].extend(pauses_of_receivers(&model, &key));
    }
    let before = before.unwrap_or_else(|| counted(&model));
    summary(&model, &records, (warm_up, now), &before, stuck.cells(&model, now), &key, &mut rows);
    if let Some(import) = &model.import {
        rows.texts = hpcc::texts(import, &records, &pauses, &lengths);
    }
    let is_warming_up = warm_up > Picos::ZERO && now <= warm_up;
    let warmth = || format!("the warm-up was to end at {}", quantity::time(scenario.warm_up));
    rows.unreached = model.schedule.unreached().chain(is_warming_up.then(warmth)).collect();
    progress.done.store(PARTS, Ordering::Relaxed);
    Ok(rows)
}

fn put_taps(fabric: &mut AnyFabric, are_wanted: bool) -> miette::Result<Vec<Pauses>> {
    let count = fabric.fabric().switches().len();
    let mut all = Vec::new();
    for switch in (0..).take(if are_wanted { count } else { 0 }) {
        let pauses = Pauses::default();
        let put = fabric.fabric_mut().at_switch(switch, |node, net| {
            let counters = Arc::clone(node.counters());
            node.put_tap(TapId(0), pauses.tap(counters.ports(), counters), net)
        });
        put.map_err(|_| miette!("cannot record pauses: a switch has its maximum of taps (frame observers)"))?;
        all.push(pauses);
    }
    Ok(all)
}

fn report_progress(
    fabric: &AnyFabric,
    duration: Option<Nanos>,
    (now, end): (Picos, Picos),
    progress: &Progress,
) {
    let (part, total) = match duration {
        Some(_) => (u128::from(now.0), u128::from(end.0)),
        None => (fabric.flows() as u128 - u128::from(fabric.open()), fabric.flows() as u128),
    };
    let done = u64::try_from(part * u128::from(PARTS) / total.max(1)).unwrap_or(PARTS);
    progress.done.store(done.min(PARTS - 1), Ordering::Relaxed);
    progress.hops.store(fabric.fabric().tally().hops, Ordering::Relaxed);
}

fn held(counters: &ClassCounters, now: Nanos) -> u64 {
    let since = counters.held_since.get();
    counters.held_nanos.get() + if since > 0 { now.0.saturating_sub(since) } else { 0 }
}

fn counted(model: &Model) -> WarmUpCounts {
    let fabric = &model.fabric;
    let now = fabric.fabric().now().floor();
    let mut sum = WarmUpCounts { payload: vec![0; model.loads.len()], ..WarmUpCounts::default() };
    for record in fabric.records() {
        sum.payload[usize::from(record.tag)] += model.fabric.received_bytes(record.flow);
    }
    let hosts = fabric.fabric().hosts().iter();
    sum.lost = fabric.fabric().fault_counts().lost
        + hosts.flat_map(dropped_by).map(|(_, frames)| frames).sum::<u64>();
    for switch in fabric.fabric().switches() {
        let impairments = switch.impairment_counts();
        sum.lost += impairments.receive_drops + impairments.lost_in_restarts;
        for (_, _, class) in queues(switch.counters()) {
            sum.xoffs += class.xoff_sent.get();
            sum.held += held(class, now);
            sum.lost += dropped(class);
            sum.marked += class.ecn_marked_frames.get();
        }
    }
    sum
}

fn dropped_by(host: &FlowHost) -> impl Iterator<Item = (Class, u64)> {
    Class::ALL.into_iter().map(|class| (class, host.dropped(class)))
}

fn row(key: &[String; 2], cells: impl IntoIterator<Item = String>) -> Row {
    key.iter().cloned().chain(cells).collect()
}

fn sample_queues(model: &Model, key: &[String; 2], now: Picos, rows: &mut Rows) {
    for (number, switch) in model.fabric.fabric().switches().iter().enumerate() {
        for (port, class, counters) in queues(switch.counters()) {
            let (egress, ingress) = (counters.egress_bytes.get(), counters.ingress_bytes.get());
            let headroom = counters.headroom_bytes.get();
            if egress + ingress + headroom > 0 {
                let numbers = [number as u64, port.0.into(), class.get().into(), egress, ingress, headroom];
                let cells = std::iter::once(nanos(now)).chain(numbers.map(|number| number.to_string()));
                rows[&QUEUES].push(row(key, cells));
            }
        }
    }
}

fn throughput(
    model: &Model,
    scenario: &Scenario,
    key: &[String; 2],
    (now, span): (Picos, Picos),
    last: &mut Vec<u64>,
    rows: &mut Rows,
) {
    let most = scenario.output.throughput_flows.min(u32::try_from(model.fabric.flows()).unwrap_or(u32::MAX));
    last.resize(most as usize, 0);
    for flow in 0..most {
        let record = model.fabric.record(flow);
        let bytes = model.fabric.received_bytes(record.flow);
        let since = bytes - last[flow as usize];
        last[flow as usize] = bytes;
        let is_there = record.start < now && record.finish.is_none_or(|finish| finish.after(span) > now);
        if is_there {
            let mbps = since as f64 * 8e6 / span.0 as f64;
            let cells = [nanos(now), flow.to_string(), bytes.to_string(), decimal(mbps)];
            rows[&THROUGHPUT].push(row(key, cells));
        }
    }
}

fn flow(record: &FlowRecord, model: &Model, counts: bool, key: &[String; 2]) -> Row {
    let or_empty = |text: Option<String>| text.unwrap_or_default();
    row(
        key,
        [
            record.flow.to_string(),
            model.loads.get(usize::from(record.tag)).cloned().unwrap_or_default(),
            record.from.to_string(),
            record.to.to_string(),
            record.class.to_string(),
            record.bytes.to_string(),
            nanos(record.start),
            or_empty(record.finish.map(nanos)),
            or_empty(record.acknowledged.map(nanos)),
            or_empty(record.took().map(nanos)),
            nanos(record.ideal),
            or_empty(record.slowdown().map(decimal)),
            record.frames_sent.to_string(),
            record.frames_resent.to_string(),
            record.timeouts.to_string(),
            record.marked.to_string(),
            record.cnps.to_string(),
            record.out_of_order.to_string(),
            u8::from(counts).to_string(),
        ],
    )
}

fn classes(
    model: &Model,
    (waiting, flow_tables): (&QueueMeans, &FlowTables),
    key: &[String; 2],
    rows: &mut Rows,
) {
    let now = model.fabric.fabric().now().floor();
    for (number, switch) in model.fabric.fabric().switches().iter().enumerate() {
        for (port, class, counters) in queues(switch.counters()) {
            let paused_since = counters.paused_since.get();
            let paused = if paused_since > 0 { now.0.saturating_sub(paused_since) } else { 0 };
            let counts = [
                counters.rx_frames.get(),
                counters.rx_bytes.get(),
                counters.tx_frames.get(),
                counters.tx_bytes.get(),
                dropped(counters),
                counters.ecn_marked_frames.get(),
                counters.xoff_sent.get(),
                counters.xon_sent.get(),
                counters.refreshes_sent.get(),
                counters.xoff_received.get(),
                held(counters, now),
                counters.paused_nanos.get() + paused,
                counters.ingress_watermark.get(),
                counters.headroom_watermark.get(),
                counters.egress_watermark.get(),
            ];
            if counts.iter().any(|count| *count > 0) {
                let place = place(model, number, port, class);
                let counts = counts.map(|count| count.to_string()).into_iter();
                let mean = std::iter::once(waiting.mean(number, port, class));
                let tables = flow_tables.cells(number, port, class);
                rows[&CLASSES].push(row(key, place.into_iter().chain(counts).chain(mean).chain(tables)));
            }
        }
    }
}

fn drops(model: &Model, key: &[String; 2]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (number, switch) in model.fabric.fabric().switches().iter().enumerate() {
        for (port, class, counters) in queues(switch.counters()) {
            let counts = DropReason::ALL.into_iter().zip(&counters.drops);
            for (reason, count) in counts.map(|(reason, count)| (reason, count.get())).filter(|of| of.1 > 0) {
                let place = place(model, number, port, class).into_iter();
                rows.push(row(key, place.chain([reason.name().to_owned(), count.to_string()])));
            }
        }
    }
    for (number, host) in (0..).zip(model.fabric.fabric().hosts()) {
        for (class, count) in dropped_by(host).filter(|(_, count)| *count > 0) {
            let (at, none) = (named(At::Host(number, 0)), String::new);
            let place = [none(), "host".to_owned(), none(), at, class.to_string()];
            rows.push(row(key, place.into_iter().chain([SLOW_RECEIVER.to_owned(), count.to_string()])));
        }
    }
    rows
}

fn place(model: &Model, switch: usize, port: PortId, class: Class) -> [String; 5] {
    [
        switch.to_string(),
        model.kinds[switch].to_owned(),
        port.0.to_string(),
        model.peers[switch][port.index()].clone(),
        class.to_string(),
    ]
}

fn switches(model: &Model, key: &[String; 2]) -> Vec<Row> {
    let all = model.fabric.fabric().switches().iter().map(AnySwitch::impairment_counts).enumerate();
    let some = all.filter(|(_, counts)| *counts != ImpairmentCounts::default());
    let cells = |(number, counts): (usize, ImpairmentCounts)| {
        let ImpairmentCounts { stalls, stalled, receive_drops, restarts, lost_in_restarts, .. } = counts;
        let counts = [stalls, stalled.0, receive_drops, restarts, lost_in_restarts];
        let place = [number.to_string(), model.kinds[number].to_owned()];
        row(key, place.into_iter().chain(counts.map(|count| count.to_string())))
    };
    some.map(cells).collect()
}

fn links(model: &Model, key: &[String; 2]) -> Vec<Row> {
    let some =
        model.fabric.fabric().fault_counts_by_end().filter(|(_, counts)| *counts != FaultCounts::default());
    let cells = |(at, FaultCounts { lost, lost_control, late, harmed })| {
        let counts = [lost, lost_control, late, harmed].map(|count: u64| count.to_string());
        row(key, std::iter::once(named(at)).chain(counts))
    };
    some.map(cells).collect()
}

fn pause_row(switch: usize, pause: &super::pauses::Pause, model: &Model, key: &[String; 2]) -> Row {
    let cause = pause.cause;
    let text = |of: Option<String>| of.unwrap_or_default();
    row(
        key,
        [
            pause.start.0.to_string(),
            text(pause.end.map(|end| end.0.to_string())),
            switch.to_string(),
            pause.port.0.to_string(),
            pause.class.to_string(),
            model.peers[switch][pause.port.index()].clone(),
            text(cause.map(|cause| Trigger::NAMES[cause.trigger].to_owned())),
            text(cause.map(|cause| cause.class.to_string())),
            text(cause.and_then(|cause| cause.culprit).map(|port| port.0.to_string())),
            text(cause.map(|cause| u8::from(cause.relayed).to_string())),
            pause.refreshes.to_string(),
        ],
    )
}

fn pauses_of_receivers(model: &Model, key: &[String; 2]) -> Vec<Row> {
    let hosts = (0..).zip(model.fabric.fabric().hosts());
    let links = hosts.flat_map(|(number, host)| {
        (0..=u8::MAX).map(move |link| (At::Host(number, link), host.pauses(link)))
    });
    let all = links.filter(|(_, pauses)| !pauses.is_empty()).flat_map(|(at, pauses)| {
        let peer = switch_port(model, &named(at));
        pauses.iter().map(move |pause| {
            let end = pause.end.map(|end| end.0.to_string()).unwrap_or_default();
            let (class, peer) = (pause.class.to_string(), peer.clone());
            let request = [pause.start.0.to_string(), end, String::new(), String::new(), class.clone(), peer];
            let why = [SLOW_RECEIVER.to_owned(), class, String::new(), "0".to_owned()];
            row(key, request.into_iter().chain(why).chain([pause.refreshes.to_string()]))
        })
    });
    all.collect()
}

fn switch_port(model: &Model, name: &str) -> String {
    let at = |(switch, ports): (u32, &Vec<String>)| {
        let port = (0..=u8::MAX).zip(ports).find(|(_, peer)| *peer == name)?.0;
        Some(named(At::Switch(switch, port)))
    };
    (0..).zip(&model.peers).find_map(at).unwrap_or_default()
}

fn summary(
    model: &Model,
    records: &[FlowRecord],
    (warm_up, now): (Picos, Picos),
    before: &WarmUpCounts,
    stuck: [String; 2],
    key: &[String; 2],
    rows: &mut Rows,
) {
    let after = counted(model);
    let span = now.since(warm_up);
    let counts = |start: &Picos| (warm_up..now).contains(start);
    let flows = || records.iter().filter(|record| counts(&record.start));
    let queries = || {
        let by_load = (0_u16..).zip(model.fabric.loads());
        let all = by_load.flat_map(|(tag, load)| load.queries().iter().map(move |query| (tag, query)));
        all.filter(|(_, query)| counts(&query.start))
    };
    let payload: Vec<u64> =
        after.payload.iter().zip(&before.payload).map(|(after, before)| after - before).collect();
    for ((tag, name), payload) in (0_u16..).zip(&model.loads).zip(&payload) {
        let own = flows().filter(|record| record.tag == tag);
        let own_queries = queries().filter(|(of, _)| *of == tag).map(|(_, query)| query);
        let cells = outcome(own, own_queries, *payload, span);
        rows[&LOADS].push(row(key, std::iter::once(name.clone()).chain(cells)));
    }
    let overall = outcome(flows(), queries().map(|(_, query)| query), payload.iter().sum(), span);
    let most = |of: fn(&ClassCounters) -> u64| {
        let switches = model.fabric.fabric().switches().iter();
        switches.flat_map(|switch| queues(switch.counters())).map(|(.., class)| of(class)).max().unwrap_or(0)
    };
    let sum = |of: fn(&FlowRecord) -> u32| flows().map(|record| u64::from(of(record))).sum::<u64>();
    let kilobytes = |bytes: u64| decimal(bytes as f64 / 1e3);
    let [stuck_kb, stuck_since] = stuck;
    let totals = [
        (after.xoffs - before.xoffs).to_string(),
        decimal((after.held - before.held) as f64 / 1e3),
        (after.lost - before.lost).to_string(),
        (after.marked - before.marked).to_string(),
        sum(|record| record.cnps).to_string(),
        sum(|record| record.frames_resent).to_string(),
        sum(|record| record.timeouts).to_string(),
        kilobytes(most(|class| class.egress_watermark.get())),
        kilobytes(most(|class| class.headroom_watermark.get())),
        stuck_kb,
        stuck_since,
        model.fabric.fabric().tally().hops.to_string(),
        format!("{:016x}", model.fabric.fabric().digest()),
    ];
    let duration = decimal(now.0 as f64 / 1e6);
    rows[&RUNS] = vec![row(key, std::iter::once(duration).chain(overall).chain(totals))];
}

fn outcome<'a>(
    flows: impl Iterator<Item = &'a FlowRecord>,
    queries: impl Iterator<Item = &'a Query>,
    payload: u64,
    span: Picos,
) -> [String; 12] {
    let flows: Vec<&FlowRecord> = flows.collect();
    let queries: Vec<&Query> = queries.collect();
    let ended = || flows.iter().filter(|record| record.finish.is_some());
    let took = sorted(ended().filter_map(|record| Some(record.took()?.0 as f64 / 1e6)));
    let slow = sorted(ended().filter_map(|record| record.slowdown()));
    [
        flows.len().to_string(),
        ended().count().to_string(),
        queries.len().to_string(),
        queries.iter().filter(|query| query.is_met()).count().to_string(),
        cell(mean(took.iter().copied())),
        cell(quantile(&took, 50)),
        cell(quantile(&took, 99)),
        cell(mean(slow.iter().copied())),
        cell(quantile(&slow, 50)),
        cell(quantile(&slow, 95)),
        cell(quantile(&slow, 99)),
        decimal(payload as f64 * 8e3 / span.0.max(1) as f64),
    ]
}

fn cell(number: Option<f64>) -> String {
    number.map_or(String::new(), decimal)
}
