//! From a worker to a file: a ring of bytes, and the thread that writes what is in it.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rtrb::{Consumer, Producer, RingBuffer};
use xoff_config::Config;
use xoff_dataplane::counter::Counter;
use xoff_dataplane::settings::SwitchSettings;
use xoff_sim::recording::{Ending, Sink};

use super::file::{FileWriter, Head};
use crate::confine::{ConfineError, Part, Privileges};
use crate::outlet::{Outlet, Progress};
use xoff_xdp::clock;

/// What records wait in until they are written: a fifth of a second of a port of 1 Gb/s with the shortest frames.
const RING_BYTES: usize = 64 << 20;

/// More than any record has.
const RECORD_MAX: usize = 8 << 10;

/// How long the writer sleeps where there is nothing to write.
const NAP: Duration = Duration::from_millis(2);

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
        let extent = Extent { path, put: Arc::clone(&ring.put), written: writer.written() };
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

/// A worker's end of the ring.
#[derive(Debug)]
pub struct Ring {
    bytes: Producer<u8>,
    /// A record, with its length before it.
    scratch: Vec<u8>,
    /// Records so far.
    put: Arc<Counter>,
    /// Why nothing more comes: the place of an [`Ending`], and one.
    ended: Arc<AtomicU8>,
}

/// The writer's.
#[derive(Debug)]
pub(super) struct Records {
    bytes: Consumer<u8>,
    ended: Arc<AtomicU8>,
}

impl Ring {
    /// With room for so many bytes.
    pub(super) fn new(room: usize) -> (Ring, Records) {
        let (mut producer, mut consumer) = RingBuffer::new(room);
        // Every page is there before the worker writes to the first.
        if let Ok(all) = producer.write_chunk(room) {
            all.commit_all();
        }
        if let Ok(all) = consumer.read_chunk(room) {
            all.commit_all();
        }
        let ended = Arc::new(AtomicU8::new(0));
        let scratch = Vec::with_capacity(RECORD_MAX);
        let ring = Ring { bytes: producer, scratch, put: Arc::default(), ended: Arc::clone(&ended) };
        (ring, Records { bytes: consumer, ended })
    }
}

impl Sink for Ring {
    fn put(&mut self, record: &[u8]) -> bool {
        let Ok(len) = u16::try_from(record.len()) else { return false };
        self.put.add(1);
        self.scratch.clear();
        self.scratch.extend(len.to_le_bytes());
        self.scratch.extend_from_slice(record);
        // In one piece, so that the reader sees whole records only.
        !self.bytes.is_abandoned() && self.bytes.push_entire_slice(&self.scratch).is_ok()
    }

    fn end(&mut self, why: Ending) {
        self.ended.store(1 + u8::try_from(why.index()).unwrap_or(0), Ordering::Release);
    }
}

impl Records {
    /// Why nothing more comes. What came before is there to be taken when this has been asked.
    fn ended(&self) -> Option<Ending> {
        let number = self.ended.load(Ordering::Acquire);
        Ending::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// Takes what is there, and gives each record to `each`. False where that was nothing.
    pub(super) fn take(&mut self, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<bool> {
        let Ok(chunk) = self.bytes.read_chunk(self.bytes.slots()) else { return Ok(false) };
        let (first, second) = chunk.as_slices();
        let bytes = [first, second].concat();
        chunk.commit_all();
        let mut rest = &bytes[..];
        while let Some((len, behind)) = rest.split_first_chunk() {
            let (record, behind) = behind.split_at(u16::from_le_bytes(*len).into());
            each(record)?;
            rest = behind;
        }
        Ok(!bytes.is_empty())
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

/// Writes until the recording is over, and says why it is and how many records there are.
pub(super) fn write<W: io::Write>(
    mut records: Records,
    mut writer: FileWriter<W>,
    stopped: &Receiver<Option<String>>,
) -> io::Result<(Ending, u64)> {
    loop {
        let (ended, stop) = (records.ended(), stopped.try_recv());
        let some = records.take(|record| writer.record(record))?;
        if let Some(why) = ended {
            return Ok((why, writer.end(why, None)?.1));
        }
        match stop {
            Ok(books) => return Ok((Ending::Stopped, writer.end(Ending::Stopped, books.as_deref())?.1)),
            Err(TryRecvError::Disconnected) => {
                return Ok((Ending::Stopped, writer.end(Ending::Stopped, None)?.1));
            }
            Err(TryRecvError::Empty) if some => (),
            Err(TryRecvError::Empty) => {
                writer.flush()?;
                thread::sleep(NAP);
            }
        }
    }
}
