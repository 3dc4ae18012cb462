//! Queue of log lines to a writing thread, so that logging never blocks. Dropped lines are counted in a later line.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anstream::adapter::strip_bytes;
use crossbeam::channel::{Receiver, Sender, bounded};

use super::log_line::Line;
use crate::confine::{ConfineError, Confinement, Part};

const LINES_MAX: usize = 1024;
const LINE_BYTES_MAX: usize = 16 << 10;

const KEPT_MAX: usize = 200;
const KEPT_BYTES_MAX: usize = 1 << 10;

#[derive(Debug)]
pub(super) struct Recent(Mutex<VecDeque<String>>);

impl Recent {
    pub const fn new() -> Recent {
        Recent(Mutex::new(VecDeque::new()))
    }

    pub fn text(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(String::as_str).collect()
    }

    fn keep(&self, line: &[u8]) {
        let plain = strip_bytes(&line[..line.len().min(KEPT_BYTES_MAX)]).into_vec();
        let mut text = String::from_utf8_lossy(&plain).into_owned();
        if !text.ends_with('\n') {
            text += "...\n";
        }
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == KEPT_MAX {
            lines.pop_front();
        }
        lines.push_back(text);
    }
}

enum Message {
    Line(Box<[u8]>),
    Flush(Sender<()>),
}

#[derive(Clone, Debug)]
pub(super) struct LogQueue {
    messages: Sender<Message>,
    dropped: &'static AtomicU64,
    recent: &'static Recent,
}

impl LogQueue {
    pub fn new(
        out: impl Write + Send + 'static,
        dropped: &'static AtomicU64,
        recent: &'static Recent,
        line: Line,
        confinement: &Confinement,
    ) -> Result<LogQueue, ConfineError> {
        let (messages, queue) = bounded(LINES_MAX);
        let mut writer = LineWriter { out, dropped, recent, line, reported: 0, is_cut: false };
        confinement.spawn(Part::Log, "xoff-log", move || writer.run(&queue))?;
        Ok(LogQueue { messages, dropped, recent })
    }

    pub fn flush(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        let (done, flushed) = bounded(1);
        self.messages.send_deadline(Message::Flush(done), deadline).is_ok()
            && flushed.recv_deadline(deadline).is_ok()
    }
}

impl Write for LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.recent.keep(line); // at once, because writing the line may block
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

struct LineWriter<W> {
    out: W,
    dropped: &'static AtomicU64,
    recent: &'static Recent,
    line: Line,
    reported: u64,
    is_cut: bool,
}

impl<W: Write> LineWriter<W> {
    fn run(&mut self, queue: &Receiver<Message>) {
        for message in queue {
            self.report_dropped();
            match message {
                Message::Line(line) if !self.put(&line) => drop(self.dropped.fetch_add(1, Relaxed)),
                Message::Line(_) => {}
                Message::Flush(done) => drop(done.send(())),
            }
        }
    }

    fn report_dropped(&mut self) {
        let dropped = self.dropped.load(Relaxed);
        if dropped > self.reported {
            let line = self.line.warning(&format!("{} log lines were dropped", dropped - self.reported));
            if self.put(line.as_bytes()) {
                self.recent.keep(line.as_bytes());
                self.reported = dropped;
            }
        }
    }

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

// Tests for SPECIFICATION.md: log
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    struct ControlledOutput {
        takes: mpsc::Receiver<io::Result<usize>>,
        written: mpsc::Sender<Vec<u8>>,
    }

    impl Write for ControlledOutput {
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
        let recent: &'static Recent = Box::leak(Box::new(Recent::new()));
        let confinement = Confinement::default();
        let queue = LogQueue::new(
            ControlledOutput { takes, written },
            dropped,
            recent,
            Line::default(),
            &confinement,
        );
        (queue.unwrap(), say, read, dropped)
    }

    fn text(read: &mpsc::Receiver<Vec<u8>>) -> String {
        String::from_utf8(read.try_iter().flatten().collect()).unwrap()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn dropped_log_lines_are_counted_in_one_later_warning() {
        let (mut queue, say, read, dropped) = queue();
        say.send(Ok(1)).unwrap();
        queue.write_all(b"first\n").unwrap();
        read.recv().unwrap(); // the thread now waits with the rest of this line
        for number in 0..2 * LINES_MAX {
            queue.write_all(format!("{number}\n").as_bytes()).unwrap();
        }
        let missing = LINES_MAX as u64;
        assert_eq!(dropped.load(Relaxed), missing);
        drop(say);
        assert!(queue.flush(LONG));
        let text = text(&read);
        assert!(text.contains("\n1023\n") && !text.contains("\n1024\n"), "{text}");
        assert_eq!(text.matches(&format!("  WARN {missing} log lines were dropped\n")).count(), 1, "{text}");
        assert_eq!(dropped.load(Relaxed), missing);
    }

    #[test]
    fn log_line_after_partial_write_starts_a_new_line() {
        let (mut queue, say, read, dropped) = queue();
        let full = || Err(io::Error::from(ErrorKind::StorageFull));
        [full(), Ok(3), full(), full()].into_iter().for_each(|it| say.send(it).unwrap());
        drop(say);
        queue.write_all(b"first\n").unwrap();
        assert!(queue.flush(LONG)); // the notice fails after three bytes
        queue.write_all(b"second\n").unwrap();
        assert!(queue.flush(LONG));
        let text = text(&read);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0].len(), lines[1]), (3, 3, "second"), "{text}");
        assert!(lines[2].ends_with("  WARN 1 log lines were dropped"), "{text}");
        assert_eq!(dropped.load(Relaxed), 1);
    }

    #[test]
    fn too_long_log_line_is_cut() {
        let (mut queue, _, read, _) = queue();
        queue.write_all(&[b'x'; LINE_BYTES_MAX + 1]).unwrap();
        assert!(queue.flush(LONG));
        assert_eq!(text(&read).len(), LINE_BYTES_MAX + 4);
    }

    #[test]
    fn recent_log_lines_are_kept_without_colours() {
        let recent: &'static Recent = Box::leak(Box::new(Recent::new()));
        let dropped: &'static AtomicU64 = Box::leak(Box::default());
        let mut queue =
            LogQueue::new(io::empty(), dropped, recent, Line::default(), &Confinement::default()).unwrap();
        for number in 0..=KEPT_MAX {
            queue.write_all(format!("\x1b[33m{number}\x1b[0m\n").as_bytes()).unwrap();
        }
        queue.write_all(&[b'x'; 2 * KEPT_BYTES_MAX]).unwrap();
        let text = recent.text();
        assert!(
            text.starts_with("2\n3\n") && text.contains("\n200\nxxx") && text.ends_with("x...\n"),
            "{text}"
        );
        assert_eq!(text.lines().count(), KEPT_MAX);
    }

    #[test]
    fn recent_log_lines_are_complete_although_output_blocks() {
        let (mut queue, _say, _, _) = queue();
        for number in 0..2 * LINES_MAX {
            queue.write_all(format!("{number}\n").as_bytes()).unwrap();
        }
        let text = queue.recent.text();
        assert!(text.ends_with(&format!("\n{}\n", 2 * LINES_MAX - 1)), "{text}");
        assert_eq!(text.lines().count(), KEPT_MAX);
    }

    #[test]
    fn log_flush_ends_although_no_line_can_be_written() {
        let (mut queue, _say, _, _) = queue();
        queue.write_all(b"x\n").unwrap();
        assert!(!queue.flush(Duration::from_millis(10)));
        for _ in 0..=LINES_MAX {
            queue.write_all(b"x\n").unwrap();
        }
        assert!(!queue.flush(Duration::from_millis(10)));
    }
}
