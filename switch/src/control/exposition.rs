//! Writes metrics in the text formats of Prometheus and OpenMetrics, without the recorder of
//! metrics-exporter-prometheus, which stores each sample of a histogram.

use std::fmt::{Display, Write as _};
use std::ops::RangeInclusive;

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use metrics::{Key, Label};
use metrics_exporter_prometheus::LabelSet;
use metrics_exporter_prometheus::formatting::{write_help_line, write_metric_line, write_type_line};
use xoff_flow_control::counter::Histogram;

/// Upper bounds of histogram buckets: powers of two minus one nanosecond, from about 1 µs to 1 s.
const BOUNDS: RangeInclusive<u64> = (1 << 10) - 1..=(1 << 30) - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text format, version 0.0.4.
    Prometheus,
    /// OpenMetrics, version 1.0.
    OpenMetrics,
}

impl Format {
    #[must_use]
    pub fn accepted(headers: &HeaderMap) -> Format {
        let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let mut types = accepted.flat_map(|value| value.split(',')).map(|one| {
            let mut parts = one.split(';').map(str::trim);
            let is_refusal = |part: &str| {
                let (key, value) = part.split_once('=').unwrap_or_default();
                key.trim().eq_ignore_ascii_case("q") && value.trim().parse() == Ok(0.0_f32)
            };
            (parts.next().unwrap_or_default(), parts.any(is_refusal))
        });
        let wanted = "application/openmetrics-text";
        match types.any(|(name, refused)| name.eq_ignore_ascii_case(wanted) && !refused) {
            true => Format::OpenMetrics,
            false => Format::Prometheus,
        }
    }

    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

#[derive(Clone, Copy)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

pub type Labels<'a> = &'a [(&'static str, &'a str)];

pub struct Exposition {
    format: Format,
    text: String,
    everywhere: Vec<Label>,
}

impl Exposition {
    pub fn new(format: Format, everywhere: Labels<'_>) -> Exposition {
        Exposition { format, text: String::new(), everywhere: owned(everywhere).collect() }
    }

    /// Begins a metric family. All its samples must be added before the next family begins.
    pub fn family<'a>(&'a mut self, name: &'a str, kind: Kind, help: &str) -> Family<'a> {
        let family = match self.format {
            Format::Prometheus => name,
            Format::OpenMetrics => name.strip_suffix("_total").unwrap_or(name),
        };
        match self.format {
            Format::Prometheus => write_help_line(&mut self.text, family, None, None, help),
            // Only OpenMetrics escapes double quotes.
            Format::OpenMetrics => {
                let help = help.replace('\\', r"\\").replace('\n', r"\n").replace('"', r#"\""#);
                let _ = writeln!(self.text, "# HELP {family} {help}");
            }
        }
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        write_type_line(&mut self.text, family, None, None, kind);
        Family { text: &mut self.text, everywhere: &self.everywhere, name }
    }

    pub fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text += "# EOF\n";
        }
        self.text
    }
}

pub struct Family<'a> {
    text: &'a mut String,
    everywhere: &'a [Label],
    name: &'a str,
}

impl Family<'_> {
    pub fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.line(None, &self.labels(labels), None::<(_, f64)>, value);
    }

    pub fn histogram<const STEPS: usize>(&mut self, labels: Labels<'_>, histogram: &Histogram<STEPS>) {
        let labels = self.labels(labels);
        let mut count = 0;
        for (bound, counted) in histogram.buckets() {
            count += counted;
            if let Some(bound) = bound.filter(|bound| BOUNDS.contains(bound)) {
                self.line(Some("bucket"), &labels, Some(("le", seconds(bound))), count);
            }
        }
        self.line(Some("bucket"), &labels, Some(("le", "+Inf")), count);
        self.line(Some("sum"), &labels, None::<(_, f64)>, seconds(histogram.sum()));
        self.line(Some("count"), &labels, None::<(_, f64)>, count);
    }

    fn labels(&self, labels: Labels<'_>) -> LabelSet {
        let labels: Vec<Label> = self.everywhere.iter().cloned().chain(owned(labels)).collect();
        LabelSet::from_key_and_global(&Key::from_parts("", labels), &Default::default())
    }

    fn line<L: Display>(
        &mut self,
        suffix: Option<&'static str>,
        labels: &LabelSet,
        more: Option<(&'static str, L)>,
        value: impl Display,
    ) {
        write_metric_line(self.text, self.name, suffix, labels, more, value, None);
    }
}

fn owned(labels: Labels<'_>) -> impl Iterator<Item = Label> {
    labels.iter().map(|&(name, value)| Label::new(name, value.to_owned()))
}

pub fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn exposed_histogram_has_exact_counts_and_sum() {
        let histogram: Histogram = Histogram::default();
        for nanos in [0, 1023, 1024, 5_000_000_000] {
            histogram.record(nanos);
        }
        let mut exposition = Exposition::new(Format::Prometheus, &[("switch", "s")]);
        exposition
            .family("wait_seconds", Kind::Histogram, "Waits.")
            .histogram(&[("port", "p\"1")], &histogram);
        let text = exposition.finish();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["# HELP wait_seconds Waits.", "# TYPE wait_seconds histogram"]);
        assert_eq!(lines[2], r#"wait_seconds_bucket{switch="s",port="p\"1",le="0.000001023"} 2"#);
        assert_eq!(lines[3], r#"wait_seconds_bucket{switch="s",port="p\"1",le="0.000002047"} 3"#);
        let last = &lines[lines.len() - 4..];
        assert_eq!(last[0], r#"wait_seconds_bucket{switch="s",port="p\"1",le="1.073741823"} 3"#);
        assert_eq!(last[1], r#"wait_seconds_bucket{switch="s",port="p\"1",le="+Inf"} 4"#);
        assert_eq!(last[2], r#"wait_seconds_sum{switch="s",port="p\"1"} 5.000002047"#);
        assert_eq!(last[3], r#"wait_seconds_count{switch="s",port="p\"1"} 4"#);
    }

    #[test]
    fn openmetrics_ends_with_eof_and_omits_total_in_family_names() {
        let mut exposition = Exposition::new(Format::OpenMetrics, &[]);
        exposition.family("sent_bytes_total", Kind::Counter, "Bytes with \"FCS\".").sample(&[], 7);
        exposition.family("queued_bytes", Kind::Gauge, "Queue.").sample(&[], 8);
        let expected = "# HELP sent_bytes Bytes with \\\"FCS\\\".\n# TYPE sent_bytes counter\nsent_bytes_total 7\n\
                        # HELP queued_bytes Queue.\n# TYPE queued_bytes gauge\nqueued_bytes 8\n# EOF\n";
        assert_eq!(exposition.finish(), expected);
    }

    #[test]
    fn openmetrics_is_sent_only_to_clients_that_accept_it() {
        let format =
            |accept| Format::accepted(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]));
        assert_eq!(Format::accepted(&HeaderMap::new()), Format::Prometheus);
        assert_eq!(format("*/*"), Format::Prometheus);
        assert_eq!(
            format("text/plain;version=0.0.4, application/openmetrics-text; Q=0.0"),
            Format::Prometheus
        );
        assert_eq!(format("application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1"), Format::OpenMetrics);
    }

    #[test]
    fn exposed_counters_beyond_53_bits_are_exact() {
        let mut exposition = Exposition::new(Format::Prometheus, &[("switch", "s")]);
        exposition.family("bytes_total", Kind::Counter, "Bytes.").sample(&[], u64::MAX);
        assert!(exposition.finish().ends_with("bytes_total{switch=\"s\"} 18446744073709551615\n"));
    }
}
