use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};

use miette::miette;
use serde::{Deserialize, Serialize};
use xoff_config::file::read_text;
use xoff_config::visible;

use super::job::Job;
use super::tables::{RUNS, Row, Rows, TABLES, Table};
use super::{files, hpcc};
use crate::results::{cells, csv};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunMetadata {
    pub scenario: String,
    pub about: String,
    /// Names of the sweep's points, the control point first.
    pub points: Vec<String>,
    pub seeds: Vec<u64>,
}

impl RunMetadata {
    pub fn runs(&self) -> usize {
        self.points.len() * self.seeds.len()
    }

    pub fn job(&self, row: &Row) -> Option<Job> {
        let point = self.points.iter().position(|point| *point == row[RUNS.at("point")])?;
        let seed = row[RUNS.at("seed")].parse().ok()?;
        self.seeds.contains(&seed).then_some(Job { point, seed })
    }

    fn file(&self, name: &str, Job { point, seed }: Job) -> String {
        match self.runs() {
            1 => format!("{name}.txt"),
            _ => format!("{name}_point{point}_seed{seed}.txt"),
        }
    }
}

const ROW_MAX: u64 = 1 << 20;
const ABOUT: &str = "run.json";
const SCENARIO: &str = "scenario.toml";

pub(super) fn cannot(path: &Path, error: &dyn std::fmt::Display) -> miette::Report {
    miette!("cannot write {}: {error}", path.display())
}

pub struct Store {
    directory: PathBuf,
    about: RunMetadata,
    files: Vec<[BufWriter<File>; 2]>,
}

impl Store {
    /// Creates the result files.
    ///
    /// # Errors
    /// If the directory is not empty.
    pub fn create(directory: &Path, about: &RunMetadata, scenario: &str) -> miette::Result<Store> {
        let holds = fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some());
        if holds {
            return Err(miette!(
                help = "give --out another directory, or empty this one: a directory has the results of one run only",
                "directory {} is not empty",
                directory.display()
            ));
        }
        if directory.exists() && !directory.is_dir() {
            return Err(miette!(
                help = "give --out a directory, because results are several files",
                "{} is not a directory",
                directory.display()
            ));
        }
        fs::create_dir_all(directory).map_err(|error| cannot(directory, &error))?;
        let text = serde_json::to_string_pretty(about)
            .expect("the description of the run must have a JSON form")
            + "\n";
        for (name, text) in [(ABOUT, text.as_str()), (SCENARIO, scenario)] {
            let path = directory.join(name);
            fs::write(&path, text).map_err(|error| cannot(&path, &error))?;
        }
        let open = |table: &&Table, ending: &str| {
            let path = directory.join(format!("{}.{ending}", table.name));
            File::create(&path).map(BufWriter::new).map_err(|error| cannot(&path, &error))
        };
        let mut files = Vec::new();
        for table in TABLES {
            let [mut csv, json] = [open(&table, "csv")?, open(&table, "jsonl")?];
            csv.write_all(table.header().as_bytes()).map_err(|error| cannot(directory, &error))?;
            files.push([csv, json]);
        }
        Ok(Store { directory: directory.to_owned(), about: about.clone(), files })
    }

    /// Writes a run's rows to all tables. Rows of table [`RUNS`] come last, because they mark the run as complete.
    pub fn write(&mut self, job: Job, rows: &Rows) -> miette::Result<()> {
        for (name, text) in &rows.texts {
            let path = self.directory.join(self.about.file(name, job));
            fs::write(&path, text).map_err(|error| cannot(&path, &error))?;
        }
        for (table, files) in TABLES.iter().zip(&mut self.files).rev() {
            for row in &rows[table] {
                let lines = [csv(row), table.json(row)];
                for (file, line) in files.iter_mut().zip(lines) {
                    file.write_all(line.as_bytes()).map_err(|error| cannot(&self.directory, &error))?;
                }
            }
            files.iter_mut().try_for_each(Write::flush).map_err(|error| cannot(&self.directory, &error))?;
        }
        Ok(())
    }

    pub fn close(self) -> miette::Result<PathBuf> {
        for file in self.files.into_iter().flatten() {
            file.into_inner().map_err(|error| cannot(&self.directory, &error))?;
        }
        Ok(self.directory)
    }
}

pub fn about(directory: &Path) -> miette::Result<(RunMetadata, String)> {
    let read = |name: &str| read_text(&directory.join(name), files::ABOUT);
    let about = serde_json::from_str(&read(ABOUT)?)
        .map_err(|error| miette!("{}: {error}", directory.join(ABOUT).display()))?;
    Ok((about, read(SCENARIO)?))
}

/// Reads a table's rows, but not an incomplete last row, which an interrupted run leaves.
pub fn rows(directory: &Path, table: &Table, mut take: impl FnMut(Row)) -> miette::Result<()> {
    let path = directory.join(format!("{}.csv", table.name));
    let failed = |error: &dyn std::fmt::Display| miette!("cannot read {}: {error}", path.display());
    let file = File::open(&path).map_err(|error| failed(&error))?;
    let (mut file, mut line) = (BufReader::new(file), Vec::new());
    for number in 0.. {
        line.clear();
        let len = file.by_ref().take(ROW_MAX).read_until(b'\n', &mut line).map_err(|error| failed(&error))?;
        let Some(whole) = line.strip_suffix(b"\n") else {
            match len as u64 == ROW_MAX {
                true => {
                    return Err(failed(&format!("row {number} is longer than {ROW_MAX} bytes, the maximum")));
                }
                false => break,
            }
        };
        let row = cells(str::from_utf8(whole).map_err(|error| failed(&error))?);
        if row.len() != table.columns.len() {
            return Err(failed(&format!(
                "a row has {} columns instead of {}",
                row.len(),
                table.columns.len()
            )));
        }
        if number > 0 {
            take(row);
        }
    }
    Ok(())
}

pub fn merge(parts: &[PathBuf], out: &Path) -> miette::Result<(RunMetadata, PathBuf)> {
    let Some(first) = parts.first() else { return Err(miette!("no directory to merge was given")) };
    let (metadata, scenario) = about(first)?;
    let mut found: BTreeMap<Job, Rows> = BTreeMap::new();
    for part in parts {
        if about(part)? != (metadata.clone(), scenario.clone()) {
            return Err(miette!(
                help = "merge only shards of one run, which have the same scenario, --set and --seeds",
                "{} and {} have results of different runs",
                part.display(),
                first.display()
            ));
        }
        let mut own: BTreeMap<Job, Rows> = BTreeMap::new();
        let mut stray = None;
        for table in TABLES {
            rows(part, table, |row| match metadata.job(&row) {
                Some(job) => own.entry(job).or_default()[table].push(row),
                None => stray = Some(row),
            })?;
        }
        if let Some(row) = stray {
            return Err(miette!(
                "{} has a row that belongs to no run of its scenario: {}",
                part.display(),
                visible(csv(&row).trim_end())
            ));
        }
        for (job, mut rows) in own {
            if rows[&RUNS].is_empty() {
                continue; // the run was interrupted
            }
            for name in hpcc::NAMES {
                let path = part.join(metadata.file(name, job));
                if path.exists() {
                    rows.texts.push((name, read_text(&path, files::RESULTS)?));
                }
            }
            if found.insert(job, rows).is_some() {
                let (point, seed) = (&metadata.points[job.point], job.seed);
                return Err(miette!(
                    "{} has a run that another directory also has: point {point:?}, seed {seed}",
                    part.display()
                ));
            }
        }
    }
    let all = (0..metadata.points.len())
        .flat_map(|point| metadata.seeds.iter().map(move |&seed| Job { point, seed }));
    let missing: Vec<String> = all
        .filter(|job| !found.contains_key(job))
        .map(|Job { point, seed }| format!("{} seed {seed}", metadata.points[point]).trim().to_owned())
        .collect();
    if !missing.is_empty() {
        return Err(miette!(
            help = "give the directories of all shards, from --shard 1/N to --shard N/N",
            "{} runs are missing: {}{}",
            missing.len(),
            missing[..missing.len().min(5)].join(", "),
            if missing.len() > 5 { ", ..." } else { "" }
        ));
    }
    let mut store = Store::create(out, &metadata, &scenario)?;
    for (job, rows) in &found {
        store.write(*job, rows)?;
    }
    Ok((metadata, store.close()?))
}
