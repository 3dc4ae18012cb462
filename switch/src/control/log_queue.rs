//! Log lines on their way to where they are written.
//!
//! Whoever logs neither waits nor fails: a pipe that nobody reads would hold the control thread, and with
//! it HTTP, links and the end of the switch; a full disk would end it. Lines go through a bounded queue
//! to a thread of its own. One that finds no room there, or cannot be written, is dropped and counted, and
//! when writing works again a line says how many were.

use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, Sender, bounded};
use tracing_subscriber::fmt::format::Writer as Text;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

use super::privileges;

/// Most lines that wait.
const LINES_MAX: usize = 1024;
/// Most bytes of a line; what is longer is cut.
const LINE_BYTES_MAX: usize = 16 << 10;

enum Message {
    Line(Box<[u8]>),
    /// Say so when all that came before is written or dropped.
    Flush(Sender<()>),
}

/// The end that lines are put into, one with each `write`.
#[derive(Clone, Debug)]
pub(super) struct LogQueue {
    messages: Sender<Message>,
    dropped: &'static AtomicU64,
}

impl LogQueue {
    /// A queue whose lines are written to `out`. Those that are not are counted in `dropped`.
    ///
    /// # Errors
    /// Where the system has no thread for it.
    pub fn new(out: impl Write + Send + 'static, dropped: &'static AtomicU64) -> io::Result<LogQueue> {
        let (messages, queue) = bounded(LINES_MAX);
        let mut writer = LineWriter { out, dropped, told: 0, is_cut: false };
        thread::Builder::new().name("xoff-log".into()).spawn(move || {
            // Where this fails it does so for the whole switch, which then does not start.
            let _ = privileges::drop_all_but_network_administration();
            writer.run(&queue);
        })?;
        Ok(LogQueue { messages, dropped })
    }

    /// Waits until what is in it is written or dropped, but no longer than `within`. True where that was enough.
    pub fn flush(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        let (done, flushed) = bounded(1);
        self.messages.send_deadline(Message::Flush(done), deadline).is_ok()
            && flushed.recv_deadline(deadline).is_ok()
    }
}

impl Write for LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let kept = match line.len() > LINE_BYTES_MAX {
            true => [&line[..LINE_BYTES_MAX], b"...\n"].concat(),
            false => line.to_vec(),
        };
        if self.messages.try_send(Message::Line(kept.into())).is_err() {
            self.dropped.fetch_add(1, Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The end that they are written from.
struct LineWriter<W> {
    out: W,
    dropped: &'static AtomicU64,
    /// How many of those dropped the log has been told of.
    told: u64,
    /// The last line was written in part.
    is_cut: bool,
}

impl<W: Write> LineWriter<W> {
    fn run(&mut self, queue: &Receiver<Message>) {
        for message in queue {
            self.tell_dropped();
            match message {
                Message::Line(line) if !self.put(&line) => drop(self.dropped.fetch_add(1, Relaxed)),
                Message::Line(_) => {}
                Message::Flush(done) => drop(done.send(())), // whoever waited may have given up
            }
        }
    }

    fn tell_dropped(&mut self) {
        let dropped = self.dropped.load(Relaxed);
        let mut line = String::new();
        if dropped > self.told && SystemTime.format_time(&mut Text::new(&mut line)).is_ok() {
            line += &format!("  WARN {} log lines were dropped\n", dropped - self.told);
            if self.put(line.as_bytes()) {
                self.told = dropped;
            }
        }
    }

    /// Writes a line; true where all of it was.
    fn put(&mut self, line: &[u8]) -> bool {
        let whole = if self.is_cut { &[b"\n", line].concat() } else { line };
        let mut rest = whole;
        while !rest.is_empty() {
            match self.out.write(rest) {
                Ok(0) => break,
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        if rest.len() < whole.len() {
            self.is_cut = !rest.is_empty();
        }
        rest.is_empty()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Takes a line when the test says what shall become of it: so many bytes of it are written, or none.
    struct Sink {
        takes: mpsc::Receiver<io::Result<usize>>,
        written: mpsc::Sender<Vec<u8>>,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = self.takes.recv().unwrap_or(Ok(usize::MAX))?.min(bytes.len());
            self.written.send(bytes[..taken].to_vec()).unwrap();
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    type Takes = mpsc::Sender<io::Result<usize>>;

    fn queue() -> (LogQueue, Takes, mpsc::Receiver<Vec<u8>>, &'static AtomicU64) {
        let (say, takes) = mpsc::channel();
        let (written, read) = mpsc::channel();
        let dropped: &'static AtomicU64 = Box::leak(Box::default());
        (LogQueue::new(Sink { takes, written }, dropped).unwrap(), say, read, dropped)
    }

    fn text(read: &mpsc::Receiver<Vec<u8>>) -> String {
        String::from_utf8(read.try_iter().flatten().collect()).unwrap()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn lines_beyond_the_queue_are_dropped_and_told_when_writing_works_again() {
        let (mut queue, say, read, dropped) = queue();
        for number in 0..2 * LINES_MAX {
            queue.write_all(format!("{number}\n").as_bytes()).unwrap(); // nobody takes them, and it does not wait
        }
        // One may be with the writer already.
        let missing = dropped.load(Relaxed);
        assert!([LINES_MAX, LINES_MAX - 1].map(|it| it as u64).contains(&missing), "{missing}");
        drop(say);
        assert!(queue.flush(LONG));
        let text = text(&read);
        assert!(text.contains("\n1000\n"), "{text}");
        assert_eq!(text.matches(&format!("  WARN {missing} log lines were dropped\n")).count(), 1, "{text}");
        assert_eq!(dropped.load(Relaxed), missing);
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_the_next_line_begins_a_line() {
        let (mut queue, say, read, dropped) = queue();
        let full = || Err(io::Error::from(ErrorKind::StorageFull));
        [full(), Ok(3), full(), full()].into_iter().for_each(|it| say.send(it).unwrap());
        drop(say);
        queue.write_all(b"first\n").unwrap();
        assert!(queue.flush(LONG)); // the notice comes to nothing after three bytes, and to nothing at all
        queue.write_all(b"second\n").unwrap();
        assert!(queue.flush(LONG));
        let text = text(&read);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0].len(), lines[1]), (3, 3, "second"), "{text}");
        assert!(lines[2].ends_with("  WARN 1 log lines were dropped"), "{text}");
        assert_eq!(dropped.load(Relaxed), 1);
    }

    #[test]
    fn a_line_is_cut_where_it_is_too_long() {
        let (mut queue, _, read, _) = queue();
        queue.write_all(&[b'x'; LINE_BYTES_MAX + 1]).unwrap();
        assert!(queue.flush(LONG));
        assert_eq!(text(&read).len(), LINE_BYTES_MAX + 4);
    }

    #[test]
    fn a_flush_ends_though_nobody_writes() {
        let (mut queue, _say, _, _) = queue();
        queue.write_all(b"x\n").unwrap();
        assert!(!queue.flush(Duration::from_millis(10)));
        for _ in 0..=LINES_MAX {
            queue.write_all(b"x\n").unwrap();
        }
        assert!(!queue.flush(Duration::from_millis(10)));
    }
}
