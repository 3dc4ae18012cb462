//! `--csv DIR`: what an experiment saw, unweighed, one row for each flow, look and pause. Columns and units stand in
//! docs/experiments.md.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use xoff_wire::units::Nanos;

use crate::{Completion, FabricError, PauseEvent, QueueLook, Record};

/// A directory with the raw data of one experiment.
#[derive(Clone, Debug)]
pub struct RawData {
    directory: PathBuf,
}

const COMPLETIONS: &str = "completions.csv";
const QUEUES: &str = "queues.csv";
const PAUSES: &str = "pauses.csv";

/// The files, and the names of their columns.
const FILES: [(&str, &str); 3] = [
    (
        COMPLETIONS,
        "policy,run,point,sender,receiver,stream,class,sent_frames,lost_frames,due_ns,completion_ns\n",
    ),
    (QUEUES, "policy,run,point,at_ns,switch,port,class,bytes\n"),
    (PAUSES, "policy,run,point,at_ns,switch,port,class,event,count\n"),
];

/// Raw data have no place.
#[derive(Debug, thiserror::Error, miette::Diagnostic)]
pub enum RawError {
    /// There are some already.
    #[error("{path} exists: it has the raw data of another run, and is left as it is", path = .0.display())]
    #[diagnostic(help("give --csv another directory, or move that file away"))]
    Taken(PathBuf),
    /// The directory or a file cannot be made.
    #[error("cannot write raw data to {path}: {error}", path = .path.display())]
    #[diagnostic(help("--csv takes a directory, which is made if there is none"))]
    Refused {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

impl RawData {
    /// The directory, made where there is none, with files that have names of columns and no rows yet. Where
    /// one of them has anything else nothing is touched.
    ///
    /// # Errors
    /// See [`RawError`].
    pub fn create(directory: &Path) -> Result<RawData, RawError> {
        let refused = |path: &Path| {
            let path = path.to_owned();
            move |error| RawError::Refused { path, error }
        };
        fs::create_dir_all(directory).map_err(refused(directory))?;
        let paths = FILES.map(|(name, header)| (directory.join(name), header));
        // One that could not begin leaves the names of columns.
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

    /// Adds what one fabric of a run of a policy saw: a row for each.
    pub(super) fn append(&self, policy: &str, run: u32, record: &Record) -> Result<(), FabricError> {
        let begin = format!("{policy},{run},{}", record.point);
        self.add(COMPLETIONS, &begin, record.completions.iter().map(completion))?;
        self.add(QUEUES, &begin, record.queues.iter().map(queue))?;
        self.add(PAUSES, &begin, record.pauses.iter().map(pause))
    }

    /// Adds rows that begin alike. No name in them has a comma or a quote.
    fn add(
        &self,
        name: &str,
        begin: &str,
        mut rows: impl Iterator<Item = String>,
    ) -> Result<(), FabricError> {
        let path = self.directory.join(name);
        let write = |file: File| {
            let mut file = BufWriter::new(file);
            rows.try_for_each(|row| writeln!(file, "{begin},{row}"))?;
            file.flush()
        };
        let written = File::options().append(true).open(&path).and_then(write);
        written.map_err(|error| FabricError::Raw { path, error })
    }
}

/// Empty where there is none.
fn time(of: Option<Nanos>) -> String {
    of.map_or_else(String::new, |time| time.0.to_string())
}

fn completion(of: &Completion) -> String {
    let (due, completion) = (time(of.due), time(of.completion));
    let (stream, class) = (of.stream, of.class.get());
    format!("{},{},{stream},{class},{},{},{due},{completion}", of.sender, of.receiver, of.sent, of.lost)
}

fn queue(of: &QueueLook) -> String {
    format!("{},{},{},{},{}", of.at.0, of.switch, of.port, of.class.get(), of.bytes)
}

fn pause(of: &PauseEvent) -> String {
    let (class, event) = (of.class.get(), of.event.name());
    format!("{},{},{},{class},{event},{}", of.at.0, of.switch, of.port, of.count)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_wire::units::Class;

    use super::*;
    use crate::Told;

    fn record() -> Record {
        let class = Class::ALL[3];
        let [switch, port] = ["switch", "receiver"].map(str::to_owned);
        let flow = |completion: Option<Nanos>| Completion {
            sender: "sender-1".into(),
            receiver: "receiver".into(),
            stream: 2,
            class,
            sent: 256,
            lost: u64::from(completion.is_none()),
            due: Some(Nanos(40)),
            completion,
        };
        let (at, count) = (Nanos(7), 1);
        Record {
            point: "senders=2".into(),
            completions: vec![flow(Some(Nanos(5_000_000))), flow(None)],
            queues: vec![QueueLook { at, switch: switch.clone(), port: port.clone(), class, bytes: 1518 }],
            pauses: vec![PauseEvent { at, switch, port, class, event: Told::Xoff, count }],
        }
    }

    #[test]
    fn each_file_has_a_header_and_as_many_cells_in_every_row() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("made/here");
        RawData::create(&place).unwrap();
        let raw = RawData::create(&place).unwrap(); // what could not begin before is in nobody's way
        raw.append("pfc", 1, &record()).unwrap();
        raw.append("pfc", 2, &record()).unwrap();
        let rows = |name: &str| {
            let text = fs::read_to_string(place.join(name)).unwrap();
            let rows: Vec<Vec<String>> =
                text.lines().map(|row| row.split(',').map(str::to_owned).collect()).collect();
            assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
            rows
        };
        let completions = rows(COMPLETIONS);
        assert_eq!(completions[0].last().unwrap(), "completion_ns");
        assert_eq!(completions[1].join(","), "pfc,1,senders=2,sender-1,receiver,2,3,256,0,40,5000000");
        assert_eq!(completions[2].join(","), "pfc,1,senders=2,sender-1,receiver,2,3,256,1,40,");
        assert_eq!((completions.len(), &*completions[3][1]), (5, "2"));
        assert_eq!(rows(QUEUES)[1].join(","), "pfc,1,senders=2,7,switch,receiver,3,1518");
        assert_eq!(rows(PAUSES)[1].join(","), "pfc,1,senders=2,7,switch,receiver,3,xoff,1");
    }

    #[test]
    fn data_of_another_run_are_left_as_they_are() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(QUEUES), "mine").unwrap();
        let refused = RawData::create(directory.path()).unwrap_err();
        assert!(matches!(&refused, RawError::Taken(path) if path.ends_with(QUEUES)), "{refused}");
        let entries = fs::read_dir(directory.path()).unwrap().count();
        assert_eq!((entries, fs::read_to_string(directory.path().join(QUEUES)).unwrap()), (1, "mine".into()));
        let file = directory.path().join(QUEUES);
        assert!(matches!(RawData::create(&file), Err(RawError::Refused { .. })), "a file is no directory");
    }
}
