//! `xoff run --record FILE`: the thread that writes what a worker [records](xoff_recording).

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xoff_config::Config;
use xoff_dataplane::counter::Counter;
use xoff_dataplane::settings::SwitchSettings;
use xoff_recording::{Ending, FileWriter, Head, Ring, write};

use crate::confine::{ConfineError, Part, Privileges};
use crate::outlet::{Outlet, Progress};
use xoff_xdp::clock;

/// What records wait in until they are written: a fifth of a second of a port of 1 Gb/s with the shortest frames.
const RING_BYTES: usize = 64 << 20;

/// A recording that a switch is to make from its start on.
#[derive(Debug)]
pub struct Wanted {
    file: File,
    path: PathBuf,
    /// What the configuration is called, and its text.
    text: (String, String),
}

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
pub enum CannotRecord {
    /// The file.
    #[error("cannot write {}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Several workers.
    #[error(
        "--record is for a switch of one worker, and this one has {0}: what several of them hand to each other depends on how fast each \
         is; write `workers = 1`"
    )]
    Workers(usize),
    /// Routes.
    #[error(
        "--record is for a switch that bridges: the kernel's routes, which a router follows, are not recorded"
    )]
    Router,
    /// The thread that writes.
    #[error("cannot start the thread that writes the recording: {0}")]
    Thread(#[from] ConfineError),
}

impl Wanted {
    /// Into this file, which is made, or emptied; `text` is the configuration, and its name.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path, (name, text): (&str, &str)) -> Result<Wanted, CannotRecord> {
        let file = File::create(path).map_err(|error| CannotRecord::File { path: path.to_owned(), error })?;
        Ok(Wanted { file, path: path.to_owned(), text: (name.to_owned(), text.to_owned()) })
    }

    /// Whether a switch that is configured so can be recorded.
    ///
    /// # Errors
    /// Why not.
    pub fn check(config: &Config, workers: usize) -> Result<(), CannotRecord> {
        let routes = config.shell.router.is_some() || !config.switch.routed_vlans.is_empty();
        match workers {
            1 if routes => Err(CannotRecord::Router),
            1 => Ok(()),
            _ => Err(CannotRecord::Workers(workers)),
        }
    }

    /// Starts to write it, of a switch that is told these settings and has so many slots: where its worker puts records, and what ends it.
    ///
    /// # Errors
    /// There is no thread.
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
        tracing::info!(file = path, "what passes between the worker and its dataplane is recorded");
        let (outlet, progress) = Outlet::new(self.file);
        let writer = FileWriter::new(outlet, &head, settings, zero);
        let extent = Extent { path, put: ring.records(), written: writer.written() };
        let told = extent.clone();
        let work = move || match write(records, writer, &ended) {
            Ok((Ending::Stopped, count)) => {
                tracing::info!(file = told.path, records = count, "the recording is complete")
            }
            Ok((why, count)) => tracing::warn!(
                file = told.path,
                records = count,
                "the recording has ended before the switch: {}; what it has until then can be replayed",
                why.describe()
            ),
            Err(error) => told.cut(&error),
        };
        let thread = privileges.spawn(Part::Log, "xoff-recorder", work)?;
        Ok((ring, Recording { end, thread, progress, extent }))
    }
}

/// How much of a recording there is, and in which file.
#[derive(Clone, Debug)]
struct Extent {
    path: String,
    /// Records of the worker. Written by the worker.
    put: Arc<Counter>,
    /// Records in the file. Written by the recorder.
    written: Arc<Counter>,
}

impl Extent {
    /// Logs that the recording is cut off.
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

/// A recording that is being made.
#[derive(Debug)]
pub struct Recording {
    end: Sender<Option<String>>,
    thread: JoinHandle<()>,
    progress: Progress,
    extent: Extent,
}

impl Recording {
    /// The switch has stopped, with these books unless a thread of it did not end as it should.
    pub fn stop(&self, books: Option<String>) {
        let _ = self.end.send(books); // it may have ended before
    }

    /// Waits until all is written, as long as somebody reads it and `is_hurried` does not say that somebody is in a hurry. What has
    /// been written by then is logged.
    pub fn wait(self, is_hurried: impl FnMut() -> bool) {
        match self.progress.wait_for(self.thread, is_hurried) {
            Ok(_) => {} // a panic of its own stands on standard error
            Err(stuck) => self.extent.cut(&stuck),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_made_is_told() {
        let error = Wanted::create("/nowhere/at/all".as_ref(), ("a", "b")).unwrap_err();
        assert!(error.to_string().starts_with("cannot write /nowhere/at/all: "), "{error}");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.pcapng");
        Wanted::create(&path, ("a", "b")).unwrap();
        assert_eq!(std::fs::read(&path).unwrap().len(), 0);
    }
}
