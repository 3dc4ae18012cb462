//! Log on standard error. Its filter is `RUST_LOG`, or else the setting `log`.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::panic::{self, PanicHookInfo};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tracing::Dispatch;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, fmt, reload};
use xoff_config::LogFormat;

use super::log_line::Line;
use super::log_queue::{LogQueue, Recent};
use crate::confine::{ConfineError, Confinement};

const FLUSH_WITHIN: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(100);

static LINES_DROPPED: AtomicU64 = AtomicU64::new(0);
static RECENT: Recent = Recent::new();

#[must_use]
pub fn lines_dropped() -> u64 {
    LINES_DROPPED.load(Relaxed)
}

#[must_use]
pub fn recent() -> String {
    RECENT.text()
}

#[derive(Debug)]
pub struct Log {
    queue: LogQueue,
    stderr: File,
}

impl Log {
    /// Waits until all lines are written, for at most one second; does not wait for a full pipe.
    pub fn flush(&self) {
        let deadline = Instant::now() + FLUSH_WITHIN;
        while !self.queue.flush(LOOK_EVERY) && takes_more(self.stderr.as_fd()) && Instant::now() < deadline {}
    }
}

fn takes_more(out: BorrowedFd<'_>) -> bool {
    let mut out = [PollFd::new(out, PollFlags::POLLOUT)];
    poll(&mut out, PollTimeout::ZERO) != Ok(0)
}

impl Drop for Log {
    fn drop(&mut self) {
        self.flush();
    }
}

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error(
        "{given_as} = {filter:?} is no log filter ({error}); give error, warn, info, debug or trace, or TARGET=LEVEL pairs"
    )]
    Filter {
        /// Name of the setting or environment variable that contains the log filter.
        given_as: &'static str,
        filter: String,
        error: tracing_subscriber::filter::ParseError,
    },
    #[error("cannot start the log: {0}")]
    Confine(#[from] ConfineError),
    #[error("cannot start the log: {0}")]
    System(#[from] io::Error),
    #[error("the process already has a log: {0}")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
}

pub fn start(configured: &str, format: LogFormat, confinement: &Confinement) -> Result<Log, LogError> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(filter) if !parts(&filter).is_empty() => parse("RUST_LOG", &filter)?,
        _ => parse("log", configured)?,
    };
    // Write to a duplicate descriptor, because `io::stderr` holds a lock while a write blocks.
    let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?);
    let line = Line::of(format, &stderr);
    let queue = LogQueue::new(stderr.try_clone()?, &LINES_DROPPED, &RECENT, line, confinement)?;
    let writer = queue.clone();
    let (filter, handle) = reload::Layer::new(filter);
    let filtered = Registry::default().with(filter);
    let lines =
        fmt::layer().with_target(false).with_writer(move || writer.clone()).log_internal_errors(false);
    let lines = lines.with_ansi(io::stderr().is_terminal());
    let dispatch = match format {
        LogFormat::Text => Dispatch::new(filtered.with(lines.map_event_format(|text| line.around(text)))),
        LogFormat::Json => {
            let json = lines.json().flatten_event(true).with_current_span(false).with_span_list(false);
            Dispatch::new(filtered.with(json.map_event_format(|json| line.around(json))))
        }
    };
    dispatch.try_init()?;
    let _ = FILTER.set(handle); // fails for a second log
    panic::set_hook(Box::new(log_panic));
    Ok(Log { queue, stderr })
}

static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

pub(crate) fn set_filter(configured: &str) {
    if std::env::var("RUST_LOG").is_ok_and(|filter| !parts(&filter).is_empty()) {
        tracing::warn!("the changed setting `log` has no effect, because RUST_LOG is set");
        return;
    }
    let Some(log) = FILTER.get() else { return }; // the program has its own log
    let filter = parse("log", configured).map_err(|error| error.to_string());
    if let Err(error) = filter.and_then(|filter| log.reload(filter).map_err(|error| error.to_string())) {
        tracing::error!("cannot change the log filter, the former one stays: {error}");
    }
}

/// Logs a panic. Rust's standard hook could block before a panicking worker sends its last XON.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let backtrace = Backtrace::capture();
    match backtrace.status() {
        BacktraceStatus::Captured => tracing::error!("{panic}\n{backtrace}"),
        _ => tracing::error!("{panic}"),
    }
}

/// Removes spaces and empty entries from a log filter: `Targets` would read an empty entry as level ERROR.
fn parts(filter: &str) -> String {
    let parts: Vec<&str> = filter.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    parts.join(",")
}

fn parse(given_as: &'static str, filter: &str) -> Result<Targets, LogError> {
    parts(filter).parse().map_err(|error| LogError::Filter { given_as, filter: filter.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use nix::fcntl::{FcntlArg, OFlag, fcntl};

    use super::*;

    #[test] // proves: log
    #[allow(clippy::unwrap_used)]
    fn log_recognizes_that_its_pipe_is_full() {
        let (_reader, mut writer) = io::pipe().unwrap();
        fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
        assert!(takes_more(writer.as_fd()));
        while writer.write(&[b'x'; 4096]).is_ok() {}
        assert!(!takes_more(writer.as_fd()));
    }

    #[test]
    fn error_for_invalid_log_filter_names_its_setting() {
        assert!(parse("log", "info,xoff_switch::control=debug").is_ok());
        let spaced = parse("RUST_LOG", "info, xoff=debug,").map(|filter| filter.to_string());
        assert_eq!(spaced.map_err(|error| error.to_string()), Ok("xoff=debug,info".into()));
        let error = parse("log", "xoff=loud").map(|_| ()).map_err(|error| error.to_string());
        assert!(error.is_err_and(|message| message.starts_with(r#"log = "xoff=loud" is no log filter"#)));
    }
}
