//! `xoff sim`: runs each point of a scenario's sweep with each seed. The numbers of threads and shards do not change
//! results.

mod build;
mod files;
mod flow_tables;
mod hpcc;
mod import;
mod job;
mod mean;
mod pauses;
mod plots;
mod queue_means;
mod run_jobs;
mod steps;
mod store;
mod summary;
mod tables;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::scenario::Source;
use miette::miette;
use xoff_config::ConfigError;

use job::Job;
use store::{RunMetadata, Store};
use tables::{LOADS, RUNS, Row};

pub use import::import;
pub use mean::{CellCondition, Condition, Statistic, StatisticQuery, mean};
pub use summary::Summary;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    pub number: u64,
    pub count: u64,
}

#[derive(Debug)]
pub struct Request<'a> {
    pub source: &'a Source,
    pub path: &'a Path,
    /// First and last seed; `None` means the scenario's seed.
    pub seeds: Option<(u64, u64)>,
    pub shard: Option<Shard>,
    pub threads: usize,
    pub out: Option<&'a Path>,
}

pub fn run(request: &Request<'_>, tell: &mut dyn FnMut(String)) -> miette::Result<Summary> {
    let source = request.source;
    let scenarios = (0..source.points()).map(|point| source.point(point)).collect::<Result<Vec<_>, _>>()?;
    let first = &scenarios[0];
    let (from, to) = request.seeds.unwrap_or((first.seed, first.seed));
    let seeds: Vec<u64> = (from..=to).collect();
    let about = RunMetadata {
        scenario: first.name.clone(),
        about: first.about.clone(),
        points: scenarios.iter().map(job::label).collect(),
        seeds: seeds.clone(),
    };
    let is_own = |place: &u64| request.shard.is_none_or(|of| place % of.count == of.number - 1);
    let own: Vec<u64> = (0..).zip(&seeds).filter(|(place, _)| is_own(place)).map(|(_, seed)| *seed).collect();
    let jobs: Vec<Job> =
        (0..scenarios.len()).flat_map(|point| own.iter().map(move |&seed| Job { point, seed })).collect();
    let threads = request.threads.clamp(1, jobs.len().max(1));
    // Find errors of all sweep points before running any point.
    let mut warnings = BTreeSet::new();
    for (point, label) in about.points.iter().enumerate() {
        let model = build::model(source, point, from, request.path, threads);
        warnings.extend(model.map_err(|error| with_place(error, source.name(), label))?.warnings);
    }
    warnings.into_iter().for_each(|warning| tell(format!("warning: {warning}")));
    let mut store = request.out.map(|out| Store::create(out, &about, source.text())).transpose()?;
    let (mut runs, mut loads): (Vec<Row>, Vec<Row>) = Default::default();
    let mut unreached: BTreeMap<String, usize> = BTreeMap::new();
    run_jobs::run(source, request.path, &jobs, threads, |job, rows| {
        rows.unreached.iter().for_each(|what| *unreached.entry(what.clone()).or_default() += 1);
        runs.extend(rows[&RUNS].iter().cloned());
        loads.extend(rows[&LOADS].iter().cloned());
        store.as_mut().map_or(Ok(()), |store| store.write(job, &rows))
    })?;
    for (what, count) in unreached {
        tell(format!("warning: {what}, but {count} of {} runs ended earlier", jobs.len()));
    }
    let summary = summary::summary(&about, &runs, &loads);
    if let Some(store) = store {
        let directory = store.close()?;
        if request.shard.is_none() {
            finish(&about, &summary, &directory)?;
        }
        tell(format!("results of {} runs are in {}", jobs.len(), directory.display()));
    }
    Ok(summary)
}

fn with_place(error: miette::Report, name: &str, point: &str) -> miette::Report {
    let at = if point.is_empty() { String::new() } else { format!(" at {point}") };
    if error.is::<ConfigError>() {
        return error;
    }
    match error.help() {
        Some(help) => miette!(help = help.to_string(), "{name}{at}: {error}"),
        None => miette!("{name}{at}: {error}"),
    }
}

pub fn merge(parts: &[PathBuf], out: &Path, tell: &mut dyn FnMut(String)) -> miette::Result<Summary> {
    let (about, directory) = store::merge(parts, out)?;
    let (mut runs, mut loads): (Vec<Row>, Vec<Row>) = Default::default();
    store::rows(&directory, &RUNS, |row| runs.push(row))?;
    store::rows(&directory, &LOADS, |row| loads.push(row))?;
    let summary = summary::summary(&about, &runs, &loads);
    finish(&about, &summary, &directory)?;
    tell(format!(
        "results of {} runs from {} directories are in {}",
        runs.len(),
        parts.len(),
        directory.display()
    ));
    Ok(summary)
}

fn finish(about: &RunMetadata, summary: &Summary, directory: &Path) -> miette::Result<()> {
    let json = serde_json::to_string_pretty(summary).expect("the summary must have a JSON form") + "\n";
    for (name, text) in [("summary.json", json), ("summary.txt", summary.text())] {
        let path = directory.join(name);
        fs::write(&path, text).map_err(|error| store::cannot(&path, &error))?;
    }
    plots::draw(about, directory)?;
    Ok(())
}
