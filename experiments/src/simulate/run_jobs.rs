use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::job::{self, Job, Progress};
use super::tables::Rows;
use crate::scenario::Source;
use xoff_config::format::{scaled, span};

const REPORT_EVERY: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(15)];

/// Runs all jobs on several threads; `take` gets their rows in the order of jobs.
pub fn run(
    source: &Source,
    path: &Path,
    jobs: &[Job],
    threads: usize,
    mut take: impl FnMut(Job, Rows) -> miette::Result<()>,
) -> miette::Result<()> {
    let progress: Vec<Progress> = jobs.iter().map(|_| Progress::default()).collect();
    let next = AtomicUsize::new(0);
    let stop = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (sender, results) = mpsc::channel();
        for _ in 0..threads {
            let (sender, next, progress, stop) = (sender.clone(), &next, &progress, &stop);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if stop.load(Ordering::Relaxed) > 0 {
                        break;
                    }
                    let Some(&at) = jobs.get(number) else { break };
                    let _ = sender.send((number, job::run(source, path, at, threads, &progress[number])));
                }
            });
        }
        drop(sender);
        let mut reporter = Reporter::new();
        let (mut waiting, mut due) = (BTreeMap::new(), 0);
        while due < jobs.len() {
            match results.recv_timeout(REPORT_EVERY[0]) {
                Ok((number, made)) => _ = waiting.insert(number, made),
                Err(RecvTimeoutError::Timeout) => {}
                // The channel is disconnected only after a panic of a thread, which the thread scope then passes on.
                Err(RecvTimeoutError::Disconnected) => break,
            }
            reporter.report(&progress);
            while let Some(made) = waiting.remove(&due) {
                let done = made.and_then(|rows| take(jobs[due], rows));
                if done.is_err() {
                    stop.store(1, Ordering::Relaxed);
                    reporter.end();
                    return done;
                }
                due += 1;
            }
        }
        reporter.end();
        Ok(())
    })
}

struct Reporter {
    began: Instant,
    last_report: Option<Instant>,
    is_terminal: bool,
    hops: (Instant, u64),
}

impl Reporter {
    fn new() -> Reporter {
        let now = Instant::now();
        Reporter { began: now, last_report: None, is_terminal: io::stderr().is_terminal(), hops: (now, 0) }
    }

    fn report(&mut self, progress: &[Progress]) {
        let every = REPORT_EVERY[usize::from(!self.is_terminal)];
        let now = Instant::now();
        if now.duration_since(self.last_report.unwrap_or(self.began)) < every {
            return;
        }
        self.last_report = Some(now);
        let parts: u64 = progress.iter().map(|of| of.done.load(Ordering::Relaxed)).sum();
        let hops: u64 = progress.iter().map(|of| of.hops.load(Ordering::Relaxed)).sum();
        let ended = progress.iter().filter(|of| of.done.load(Ordering::Relaxed) == 1_000).count();
        let share = parts as f64 / (1_000.0 * progress.len().max(1) as f64);
        let rate =
            hops.saturating_sub(self.hops.1) as f64 / now.duration_since(self.hops.0).as_secs_f64().max(1e-3);
        self.hops = (now, hops);
        let left = match share {
            share if share > 0.01 => {
                let seconds = self.began.elapsed().as_secs_f64() * (1.0 - share) / share;
                let nanos = Duration::from_secs_f64(seconds.min(1e9)).as_nanos();
                format!("about {} left", span(u64::try_from(nanos).unwrap_or(u64::MAX)))
            }
            _ => "remaining time unknown".into(),
        };
        let line = format!(
            "{ended} of {} runs, {:.0} %, {}, {left}",
            progress.len(),
            100.0 * share,
            scaled(rate, "hops/s")
        );
        let text = if self.is_terminal { format!("\r\x1b[K{line}") } else { line + "\n" };
        let _ = io::stderr().write_all(text.as_bytes());
    }

    fn end(&self) {
        if self.is_terminal && self.last_report.is_some() {
            let _ = io::stderr().write_all(b"\r\x1b[K");
        }
    }
}
