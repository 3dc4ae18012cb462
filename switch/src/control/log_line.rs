use std::fmt;
use std::os::fd::AsFd;

use nix::sys::stat::fstat;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;
use xoff_config::LogFormat;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    format: LogFormat,
    /// True if the systemd journal reads the log. Each line then begins with a priority (`sd-daemon(3)`).
    journal: bool,
}

impl Line {
    pub fn of(format: LogFormat, out: &impl AsFd) -> Line {
        let place = fstat(out.as_fd()).map(|stat| format!("{}:{}", stat.st_dev, stat.st_ino));
        let journal = std::env::var("JOURNAL_STREAM").ok();
        Line { format, journal: journal.is_some() && journal == place.ok() }
    }

    pub fn around<F>(self, inner: F) -> LineFormatter<F> {
        LineFormatter { line: self, inner }
    }

    pub fn warning(self, message: &str) -> String {
        let mut time = String::new();
        let _ = SystemTime.format_time(&mut Writer::new(&mut time));
        let priority = self.priority(Level::WARN);
        match self.format {
            LogFormat::Text => format!("{priority}{time}  WARN {message}\n"),
            LogFormat::Json => {
                let line = serde_json::json!({ "timestamp": time, "level": "WARN", "message": message });
                format!("{priority}{line}\n")
            }
        }
    }

    fn priority(self, level: Level) -> &'static str {
        match level {
            _ if !self.journal => "",
            Level::ERROR => "<3>",
            Level::WARN => "<4>",
            Level::INFO => "<6>",
            _ => "<7>",
        }
    }
}

#[derive(Debug)]
pub(super) struct LineFormatter<F> {
    line: Line,
    inner: F,
}

impl<S, N, F> FormatEvent<S, N> for LineFormatter<F>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut to: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        to.write_str(self.line.priority(*event.metadata().level()))?;
        self.inner.format_event(context, to, event)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use super::*;

    fn logged(line: Line, log: impl FnOnce()) -> String {
        let mut file = tempfile::tempfile().unwrap();
        let to = file.try_clone().unwrap();
        let lines = tracing_subscriber::fmt().with_ansi(false).with_target(false).with_writer(to);
        let dispatch = match line.format {
            LogFormat::Text => {
                tracing::Dispatch::new(lines.map_event_format(|text| line.around(text)).finish())
            }
            LogFormat::Json => {
                let json = lines.json().flatten_event(true);
                tracing::Dispatch::new(json.map_event_format(|json| line.around(json)).finish())
            }
        };
        tracing::dispatcher::with_default(&dispatch, log);
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    }

    #[test] // proves: log
    fn only_log_lines_for_the_journal_have_priority_prefix() {
        let say = || {
            tracing::error!("bad");
            tracing::warn!("odd");
            tracing::info!("fine");
        };
        let journal = Line { journal: true, ..Line::default() };
        let log = logged(journal, say);
        let fronts: Vec<&str> = log.lines().map(|line| &line[..3]).collect();
        assert_eq!(fronts, ["<3>", "<4>", "<6>"], "{log}");
        assert!(!logged(Line::default(), say).contains('<'));
        assert!(
            journal.warning("x").starts_with("<4>") && Line::default().warning("x").ends_with("  WARN x\n")
        );
    }

    #[test]
    fn plain_log_file_is_not_taken_for_the_journal() {
        let file = tempfile::tempfile().unwrap();
        assert!(
            !Line::of(LogFormat::Text, &file).journal,
            "a plain file must not be taken for the systemd journal"
        );
    }

    #[test] // proves: log
    fn json_log_line_is_object_with_fields() {
        let json = Line { format: LogFormat::Json, ..Line::default() };
        let log =
            logged(json, || tracing::warn!(port = %"p\"1", count = 3, "lost")) + &json.warning("2 \"lines\"");
        let lines: Vec<serde_json::Value> =
            log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(
            (&lines[0]["message"], &lines[0]["port"], &lines[0]["count"]),
            (&"lost".into(), &"p\"1".into(), &3.into())
        );
        assert_eq!((&lines[1]["message"], &lines[1]["level"]), (&"2 \"lines\"".into(), &"WARN".into()));
        assert!(lines.iter().all(|line| line["timestamp"].is_string()));
    }
}
