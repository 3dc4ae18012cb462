use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread;
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};
use xoff_flow_control::counter::Counter;

use crate::{Ending, FileWriter, Sink};

const RECORD_MAX: usize = 8 << 10;

const NAP: Duration = Duration::from_millis(2);

/// End of the ring into which the worker writes records.
#[derive(Debug)]
pub struct Ring {
    bytes: Producer<u8>,
    scratch: Vec<u8>,
    put: Arc<Counter>,
    /// Reason why the recording ended: 1 plus the index of an [`Ending`]; 0 before the end.
    ended: Arc<AtomicU8>,
}

/// End of the ring from which the writer thread reads records.
#[derive(Debug)]
pub struct Records {
    bytes: Consumer<u8>,
    ended: Arc<AtomicU8>,
}

impl Ring {
    #[must_use]
    pub fn new(room: usize) -> (Ring, Records) {
        let (mut producer, mut consumer) = RingBuffer::new(room);
        // Touch every page now, so that the worker never waits for a page fault.
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

    /// Returns the counter of records written to the ring, which the worker updates.
    #[must_use]
    pub fn records(&self) -> Arc<Counter> {
        Arc::clone(&self.put)
    }
}

impl Sink for Ring {
    fn put(&mut self, record: &[u8]) -> bool {
        let Ok(len) = u16::try_from(record.len()) else { return false };
        self.put.add(1);
        self.scratch.clear();
        self.scratch.extend(len.to_le_bytes());
        self.scratch.extend_from_slice(record);
        // Push each record in one piece, so that the reader never sees part of one.
        !self.bytes.is_abandoned() && self.bytes.push_entire_slice(&self.scratch).is_ok()
    }

    fn end(&mut self, why: Ending) {
        self.ended.store(1 + u8::try_from(why.index()).unwrap_or(0), Ordering::Release);
    }
}

impl Records {
    /// Returns why the recording ended; `None` before the end. After the end, this thread sees all records (acquire load).
    fn ended(&self) -> Option<Ending> {
        let number = self.ended.load(Ordering::Acquire);
        Ending::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// Passes all available records to `each`. Returns false if there were none.
    pub fn take(&mut self, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<bool> {
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

/// Writes records until the recording ends. Returns the reason and the number of records. `stopped` returns the final
/// counts; `None` if a thread of the switch failed.
pub fn write<W: io::Write>(
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
