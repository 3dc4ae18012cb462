//! Raw observations of a run (`--out DIR`); docs/experiments.md explains them.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use crate::error::FabricError;
use crate::results::{Row, TEXT, Table, csv};

macro_rules! columns {
    ($($rest:tt)*) => {
        crate::results::columns! {
            "policy", TEXT, "name of the policy";
            "run", "", "number of the run, from 1";
            "point", TEXT, "fabric of the experiment, such as senders=8; empty if the experiment has one fabric";
            $($rest)*
        }
    };
}

const COMPLETIONS: Table = Table {
    name: "completions",
    columns: columns! {
        "sender", TEXT, "sending host";
        "receiver", TEXT, "receiving host";
        "stream", "", "number of the stream at its sender";
        "class", "", "class of the stream";
        "sent_frames", "frames", "frames sent";
        "lost_frames", "frames", "frames that never arrived";
        "due_ns", "ns", "due time of the first frame; empty: no frame was sent";
        "completion_ns", "ns", "time from due_ns to the arrival of the last frame; empty: frames are missing, or the stream is limited by time";
    },
};

const QUEUES: Table = Table {
    name: "queues",
    columns: columns! {
        "at_ns", "ns", "time of the sample";
        "switch", TEXT, "name of the switch";
        "port", TEXT, "name of the port";
        "class", "", "class of the queue";
        "bytes", "bytes", "queued bytes, including frames in the driver";
    },
};

const PAUSES: Table = Table {
    name: "pauses",
    columns: columns! {
        "at_ns", "ns", "time of the sample; for a pause that has not ended by then, its exact start; rows of one queue are in order of time";
        "switch", TEXT, "name of the switch";
        "port", TEXT, "name of the port";
        "class", "", "class of the pause";
        "event", TEXT, "xoff or xon";
        "count", "frames", "number of frames since the previous sample";
    },
};

const TABLES: [&Table; 3] = [&COMPLETIONS, &QUEUES, &PAUSES];

pub(crate) type RawRows = [Vec<Row>; TABLES.len()];

fn file(table: &Table) -> String {
    format!("{}.csv", table.name)
}

#[derive(Clone, Debug)]
pub struct RawData {
    directory: PathBuf,
}

#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum RawError {
    #[error("{path} contains raw data of another run, and was not changed", path = .0.display())]
    #[diagnostic(help("give --out another directory, or remove that file"))]
    Taken(PathBuf),
    #[error("cannot write raw data to {path}: {error}", path = .path.display())]
    #[diagnostic(help("give --out a directory; a missing directory is created"))]
    Refused { path: PathBuf, error: io::Error },
}

impl RawData {
    pub fn create(directory: &Path) -> Result<RawData, RawError> {
        let refused = |path: &Path| {
            let path = path.to_owned();
            move |error| RawError::Refused { path, error }
        };
        fs::create_dir_all(directory).map_err(refused(directory))?;
        let paths = TABLES.map(|table| (directory.join(file(table)), table.header()));
        // Files with only column names may be replaced: their experiment could not begin.
        let is_taken = |path: &Path, header: &str| {
            let has_more = fs::metadata(path).is_ok_and(|file| file.len() > header.len() as u64);
            has_more || path.exists() && !fs::read(path).is_ok_and(|bytes| bytes == header.as_bytes())
        };
        if let Some((path, _)) = paths.iter().find(|(path, header)| is_taken(path, header)) {
            return Err(RawError::Taken(path.clone()));
        }
        for (path, header) in &paths {
            fs::write(path, header).map_err(refused(path))?;
        }
        Ok(RawData { directory: directory.to_owned() })
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    pub(crate) raw: RawData,
    pub(crate) policy: &'static str,
    pub(crate) run: u32,
}

impl Recorder {
    pub(crate) fn take(&self, point: &str, rows: RawRows) -> Result<(), FabricError> {
        let key = [self.policy, &self.run.to_string(), point].map(str::to_owned);
        for (table, rows) in TABLES.iter().zip(rows) {
            let path = self.raw.directory.join(file(table));
            let write = |file: File| {
                let mut file = BufWriter::new(file);
                for row in rows {
                    file.write_all(csv(&[&key[..], &row].concat()).as_bytes())?;
                }
                file.flush()
            };
            let written = File::options().append(true).open(&path).and_then(write);
            written.map_err(|error| FabricError::Raw { path, error })?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn raw_data_rows_have_as_many_cells_as_header() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("made/here");
        RawData::create(&place).unwrap();
        let raw = RawData::create(&place).unwrap(); // empty files of an earlier failed start do not matter
        let cells = |text: &str| text.split(',').map(str::to_owned).collect::<Row>();
        for run in [1, 2] {
            let completion = cells("sender-1,receiver,2,3,256,0,40,5000000");
            let rows = [
                vec![completion.clone(), completion],
                vec![cells("7,switch,receiver,3,1518")],
                vec![cells("7,switch,receiver,3,xoff,1")],
            ];
            Recorder { raw: raw.clone(), policy: "pfc", run }.take("senders=2", rows).unwrap();
        }
        let rows = |table: &Table| {
            let text = fs::read_to_string(place.join(file(table))).unwrap();
            let rows: Vec<Row> = text.lines().map(cells).collect();
            assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
            rows
        };
        let completions = rows(&COMPLETIONS);
        assert_eq!(completions[0].last().unwrap(), "completion_ns");
        assert_eq!(completions[1].join(","), "pfc,1,senders=2,sender-1,receiver,2,3,256,0,40,5000000");
        assert_eq!((completions.len(), &*completions[3][1]), (5, "2"));
        assert_eq!(rows(&QUEUES)[1].join(","), "pfc,1,senders=2,7,switch,receiver,3,1518");
        assert_eq!(rows(&PAUSES)[1].join(","), "pfc,1,senders=2,7,switch,receiver,3,xoff,1");
    }

    #[test] // proves: experiments
    fn raw_data_never_overwrites_files_of_another_run() {
        let directory = tempfile::tempdir().unwrap();
        let queues = directory.path().join(file(&QUEUES));
        fs::write(&queues, "mine").unwrap();
        let refused = RawData::create(directory.path()).unwrap_err();
        assert!(matches!(&refused, RawError::Taken(path) if *path == queues), "{refused}");
        let entries = fs::read_dir(directory.path()).unwrap().count();
        assert_eq!((entries, fs::read_to_string(&queues).unwrap()), (1, "mine".into()));
        assert!(
            matches!(RawData::create(&queues), Err(RawError::Refused { .. })),
            "a file must not be accepted as directory"
        );
    }
}
