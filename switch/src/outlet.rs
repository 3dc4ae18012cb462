//! Writes a file or pipe in a separate thread. If the reader makes no progress, the thread is abandoned, because a blocked write cannot
//! be interrupted.

use std::io::{self, Write};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use xoff_flow_control::counter::Counter;

/// Maximum bytes per write: so few that even a slow reader shows progress.
const PIECE: usize = 64 << 10;
const TAKEN_WITHIN: Duration = Duration::from_secs(5);
/// Maximum time for all writes when the switch stops; service managers allow more.
const ALL_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub struct Outlet<W> {
    out: W,
    bytes: Arc<Counter>,
}

#[derive(Debug)]
pub struct Progress {
    bytes: Arc<Counter>,
    taken_within: Duration,
    all_within: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stuck {
    #[error("the reader of the file or pipe has read nothing for {} s", .0.as_secs())]
    Unread(Duration),
    #[error("the reader of the file or pipe has not read everything within {} s", .0.as_secs())]
    Slow(Duration),
    #[error("a second signal ended the switch before everything was read")]
    Hurried,
}

impl<W: Write> Outlet<W> {
    pub fn new(out: W) -> (Outlet<W>, Progress) {
        let bytes = Arc::<Counter>::default();
        let progress =
            Progress { bytes: Arc::clone(&bytes), taken_within: TAKEN_WITHIN, all_within: ALL_WITHIN };
        (Outlet { out, bytes }, progress)
    }
}

impl<W: Write> Write for Outlet<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.out.write(&bytes[..bytes.len().min(PIECE)])?;
        self.bytes.add(taken as u64);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Progress {
    pub fn wait_for<T>(
        &self,
        thread: JoinHandle<T>,
        mut is_hurried: impl FnMut() -> bool,
    ) -> Result<thread::Result<T>, Stuck> {
        let begin = Instant::now();
        let (mut taken, mut since) = (self.bytes.get(), begin);
        while !thread.is_finished() {
            let now = self.bytes.get();
            if now != taken {
                (taken, since) = (now, Instant::now());
            }
            if is_hurried() {
                return Err(Stuck::Hurried);
            }
            if since.elapsed() > self.taken_within {
                return Err(Stuck::Unread(self.taken_within));
            }
            if begin.elapsed() > self.all_within {
                return Err(Stuck::Slow(self.all_within));
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(thread.join())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn full_pipe() -> (io::PipeReader, Progress, JoinHandle<io::Result<()>>) {
        let (reader, writer) = io::pipe().unwrap();
        let (mut outlet, progress) = Outlet::new(writer);
        (reader, progress, thread::spawn(move || outlet.write_all(&vec![7; 4 << 20])))
    }

    #[test]
    fn thread_writing_to_unread_pipe_is_abandoned() {
        let (_unread, progress, thread) = full_pipe();
        let progress = Progress { taken_within: Duration::from_millis(300), ..progress };
        let outcome = progress.wait_for(thread, || false);
        assert_eq!(outcome.unwrap_err(), Stuck::Unread(progress.taken_within));
    }

    #[test]
    fn second_signal_ends_the_wait_for_a_pipe_reader() {
        let (_unread, progress, thread) = full_pipe();
        assert_eq!(progress.wait_for(thread, || true).unwrap_err(), Stuck::Hurried);
    }

    #[test]
    fn writing_thread_ends_if_its_pipe_is_read() {
        let (mut reader, progress, thread) = full_pipe();
        let read = thread::spawn(move || {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).map(|_| bytes.len())
        });
        assert!(progress.wait_for(thread, || false).unwrap().unwrap().is_ok());
        assert_eq!(read.join().unwrap().unwrap(), 4 << 20);
    }

    #[test]
    fn thread_writing_to_slow_pipe_reader_is_abandoned() {
        let (mut reader, progress, thread) = full_pipe();
        let progress = Progress { all_within: Duration::ZERO, taken_within: Duration::MAX, ..progress };
        reader.read_exact(&mut [0; 100]).unwrap();
        assert_eq!(progress.wait_for(thread, || false).unwrap_err(), Stuck::Slow(Duration::ZERO));
    }

    #[test]
    fn thread_writing_to_closed_pipe_returns_an_error() {
        let (reader, progress, thread) = full_pipe();
        drop(reader);
        let written = progress.wait_for(thread, || false).unwrap().unwrap();
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
