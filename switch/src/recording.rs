use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xoff_config::Config;
use xoff_flow_control::counter::Counter;
use xoff_flow_control::settings::SwitchSettings;
use xoff_recording::{Ending, FileWriter, Head, Ring, write};

use crate::confine::{ConfineError, Part, Privileges};
use crate::outlet::{Outlet, Progress};
use xoff_xdp::clock;

/// Size of the ring in bytes; holds the records of 0.2 s of minimum-size frames at 1 Gb/s.
const RING_BYTES: usize = 64 << 20;

#[derive(Debug)]
pub struct RecordingFile {
    file: File,
    path: PathBuf,
    text: (String, String),
}

#[derive(Debug, thiserror::Error)]
pub enum CannotRecord {
    #[error("cannot write {}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error(
        "--record needs a switch with one worker, and this switch has {0}: what several workers hand to each other depends on how \
         fast each is; write `workers = 1`"
    )]
    Workers(usize),
    #[error(
        "--record needs a switch that does not route, because a recording does not contain the kernel's routes"
    )]
    Router,
    #[error(
        "--record needs a switch without IGMP and MLD snooping, because a recording does not contain its groups: leave `snooping` out"
    )]
    Snooping,
    #[error("cannot start the thread that writes the recording: {0}")]
    Thread(#[from] ConfineError),
}

impl RecordingFile {
    /// Creates or truncates the file, and stores `name` and `text` of the configuration in it.
    pub fn create(path: &Path, (name, text): (&str, &str)) -> Result<RecordingFile, CannotRecord> {
        let file = File::create(path).map_err(|error| CannotRecord::File { path: path.to_owned(), error })?;
        Ok(RecordingFile { file, path: path.to_owned(), text: (name.to_owned(), text.to_owned()) })
    }

    pub fn check(config: &Config, workers: usize) -> Result<(), CannotRecord> {
        let routes = config.shell.router.is_some() || !config.switch.routed_vlans.is_empty();
        match workers {
            1 if routes => Err(CannotRecord::Router),
            1 if !config.switch.multicast.vlans.is_empty() => Err(CannotRecord::Snooping),
            1 => Ok(()),
            _ => Err(CannotRecord::Workers(workers)),
        }
    }

    pub fn begin(
        self,
        settings: &SwitchSettings,
        slots: u32,
        privileges: &Privileges,
    ) -> Result<(Ring, Recording), CannotRecord> {
        let (name, text) = &self.text;
        let head = Head::new((name, text), settings, slots);
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let zero = wall.saturating_sub(Duration::from_nanos(clock::now().0));
        let (ring, records) = Ring::new(RING_BYTES);
        let (end, ended) = mpsc::channel();
        let path = self.path.display().to_string();
        tracing::info!(file = path, "recording the calls between the worker and its dataplane");
        let (outlet, progress) = Outlet::new(self.file);
        let writer = FileWriter::new(outlet, &head, settings, zero);
        let extent = Extent { path, put: ring.records(), written: writer.written() };
        let reporter = extent.clone();
        let work = move || match write(records, writer, &ended) {
            Ok((Ending::Stopped, count)) => {
                tracing::info!(file = reporter.path, records = count, "the recording is complete")
            }
            Ok((why, count)) => tracing::warn!(
                file = reporter.path,
                records = count,
                "the recording ended earlier than the switch: {}; the recorded part can be replayed",
                why.describe()
            ),
            Err(error) => reporter.cut(&error),
        };
        let thread = privileges.spawn(Part::Log, "xoff-recorder", work)?;
        Ok((ring, Recording { end, thread, progress, extent }))
    }
}

#[derive(Clone, Debug)]
struct Extent {
    path: String,
    put: Arc<Counter>,
    written: Arc<Counter>,
}

impl Extent {
    fn cut(&self, why: &dyn fmt::Display) {
        let (written, put) = (self.written.get(), self.put.get());
        tracing::error!(
            file = self.path,
            records = written,
            missing = put.saturating_sub(written),
            "the recording is cut off, and cannot be replayed: {why}"
        );
    }
}

#[derive(Debug)]
pub struct Recording {
    end: Sender<Option<String>>,
    thread: JoinHandle<()>,
    progress: Progress,
    extent: Extent,
}

impl Recording {
    pub fn stop(&self, books: Option<String>) {
        let _ = self.end.send(books); // fails if the recorder has ended
    }

    /// Waits until the recording is written, its reader makes no progress, or `is_hurried` returns true.
    pub fn wait(self, is_hurried: impl FnMut() -> bool) {
        match self.progress.wait_for(self.thread, is_hurried) {
            Ok(_) => {} // its panic is on standard error
            Err(stuck) => self.extent.cut(&stuck),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn recording_to_uncreatable_file_is_an_error() {
        let error = RecordingFile::create("/nowhere/at/all".as_ref(), ("a", "b")).unwrap_err();
        assert!(error.to_string().starts_with("cannot write /nowhere/at/all: "), "{error}");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.pcapng");
        RecordingFile::create(&path, ("a", "b")).unwrap();
        assert_eq!(std::fs::read(&path).unwrap().len(), 0);
    }
}
