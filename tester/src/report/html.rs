//! Formats a report as one HTML file, without scripts and references to other files so that it can be mailed or printed.

use std::fmt::Write as _;

use xoff_config::format::span;
use xoff_config::visible;

use super::runs::{Runs, Values};
use super::text::share;
use super::values::{limits, range};
use super::{Report, Verdict};

impl Report {
    #[must_use]
    pub fn to_html(&self) -> String {
        let mut html = include_str!("head.html").to_owned();
        let _ = write!(
            html,
            "<title>{0}: {1}</title>\n<style>\n{2}</style>\n</head>\n<body>\n<header>\n<h1>{0}</h1>\n<p>{3} · {4}</p>\n<p class=\"quiet\">{5}</p>\n</header>\n<main>\n",
            escaped(&self.device.name),
            self.verdict(),
            include_str!("report.css"),
            badge(self.verdict()),
            self.summary(),
            escaped(&self.origin())
        );
        let all = self.runs();
        self.write_tallies(&mut html);
        write_verdicts(&mut html, &all);
        self.write_conditions(&mut html);
        let mut group = "";
        for runs in &all {
            if runs.group() != group {
                group = runs.group();
                let _ = writeln!(html, "<h2>{}</h2>", escaped(group));
            }
            write_case(&mut html, runs);
        }
        html + "</main>\n</body>\n</html>\n"
    }

    fn summary(&self) -> String {
        let part = |verdict: Verdict| match self.count(verdict) {
            0 => None,
            count => Some(format!("{count} {verdict}")),
        };
        let parts: Vec<String> = Verdict::ALL.into_iter().filter_map(part).collect();
        match parts.is_empty() {
            true => "no case was run".into(),
            false => format!("{} of {} cases", parts.join(", "), self.runs().len()),
        }
    }

    fn write_tallies(&self, html: &mut String) {
        let heads: String = Verdict::ALL
            .iter()
            .map(|verdict| format!("<th class=\"n\" scope=\"col\">{verdict}</th>"))
            .collect();
        let _ = writeln!(
            html,
            "<h2>Summary</h2>\n<table class=\"tally\"><thead><tr><th scope=\"col\">group</th>{heads}</tr></thead>\n<tbody>"
        );
        for tally in self.tallies() {
            let cell = |(count, verdict): (usize, Verdict)| match count {
                0 => "<td class=\"n quiet\">0</td>".to_owned(),
                count => format!("<td class=\"n {}\">{count}</td>", class(verdict)),
            };
            let cells: String = tally.counts.into_iter().zip(Verdict::ALL).map(cell).collect();
            let _ = writeln!(html, "<tr><th scope=\"row\">{}</th>{cells}</tr>", escaped(tally.group));
        }
        *html += "</tbody></table>\n";
    }

    fn write_conditions(&self, html: &mut String) {
        let accuracy = &self.accuracy;
        let of_tester = [
            ("time stamps", accuracy.clock.clone()),
            ("error, half of frames", format!("below {}", span(accuracy.error_p50_ns))),
            ("error, 99 % of frames", format!("below {}", span(accuracy.error_p99_ns))),
            ("longest stall", span(accuracy.longest_stall_ns)),
            ("method", accuracy.method.clone()),
        ];
        let row = |label: &str, value: &str| {
            format!("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", escaped(label), escaped(value))
        };
        let device: String = self.device.settings.iter().map(|(label, value)| row(label, value)).collect();
        let tester: String = of_tester.iter().map(|(label, value)| row(label, value)).collect();
        let _ = writeln!(
            html,
            "<div class=\"pair\">\n<section><h2>Device</h2>\n<table>{device}</table></section>\n\
             <section><h2>Accuracy of the tester</h2>\n<table>{tester}</table></section>\n</div>"
        );
    }
}

fn write_verdicts(html: &mut String, all: &[Runs<'_>]) {
    if all.is_empty() {
        return;
    }
    *html += "<h2>Verdicts</h2>\n<table class=\"verdicts\"><thead><tr><th scope=\"col\">verdict</th><th scope=\"col\">case</th></tr></thead>\n<tbody>\n";
    for runs in all {
        let (worst, id) = (runs.worst(), escaped(runs.id));
        let reason = match worst.verdict {
            Verdict::Pass => String::new(),
            _ => format!("<br>{}", escaped(&worst.reason)),
        };
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td><a href=\"#{id}\">{id}</a>{} <span class=\"quiet\">{}</span>{reason}</td></tr>",
            badge(worst.verdict),
            share(runs),
            escaped(&worst.title)
        );
    }
    *html += "</tbody></table>\n";
}

fn write_case(html: &mut String, runs: &Runs<'_>) {
    let worst = runs.worst();
    let reason = match worst.reason.as_str() {
        "" => String::new(),
        reason => format!(": {}", escaped(reason)),
    };
    let _ = writeln!(
        html,
        "<article id=\"{0}\" class=\"{1}\">\n<h3>{2}</h3>\n<p class=\"quiet\"><code>{0}</code> · {3}</p>\n<p>{4}{5}{6}</p>",
        escaped(runs.id),
        class(worst.verdict),
        escaped(&worst.title),
        escaped(&worst.source),
        badge(worst.verdict),
        share(runs),
        reason
    );
    if worst.attempts > 1 {
        let _ = writeln!(html, "<p class=\"quiet\">The case needed {} attempts.</p>", worst.attempts);
    }
    let values = runs.values();
    if !values.is_empty() {
        *html += "<table><thead><tr><th scope=\"col\">measurement</th><th scope=\"col\" class=\"n\">value</th><th scope=\"col\">limit</th></tr></thead>\n<tbody>\n";
        values.iter().for_each(|values| write_values(html, values));
        *html += "</tbody></table>\n";
    }
    if !worst.figures.is_empty() {
        *html += "<div class=\"figures\">\n";
        for figure in &worst.figures {
            let caption = escaped(&figure.title);
            let _ =
                writeln!(html, "<figure><figcaption>{caption}</figcaption>\n{}</figure>", figure.to_svg());
        }
        *html += "</div>\n";
    }
    *html += "</article>\n";
}

fn write_values(html: &mut String, values: &Values<'_>) {
    let first = values.first();
    let (class, mark) = match values.are_within() {
        Some(true) => (" pass", " ✓"),
        Some(false) => (" fail", " ✗"),
        None => ("", ""),
    };
    let _ = writeln!(
        html,
        "<tr><th scope=\"row\">{}</th><td class=\"n{class}\">{}{mark}</td><td>{}</td></tr>",
        escaped(&first.name),
        escaped(&range(values)),
        escaped(&limits(first))
    );
}

fn badge(verdict: Verdict) -> String {
    let mark = match verdict {
        Verdict::Pass => "✓",
        Verdict::Fail => "✗",
        Verdict::CannotTell => "?",
        Verdict::NotRun => "–",
    };
    format!("<strong class=\"badge {}\">{mark} {verdict}</strong>", class(verdict))
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "fail",
        Verdict::CannotTell => "unclear",
        Verdict::NotRun => "absent",
    }
}

pub(super) fn escaped(text: &str) -> String {
    let text = visible(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::fixture::report;
    use super::*;

    #[test]
    fn html_report_contains_all_data_of_its_cases() {
        let report = report();
        let html = report.to_html();
        for case in &report.cases {
            for text in [&case.title, &case.source] {
                assert!(html.contains(&escaped(text)), "{text}");
            }
            assert!(html.contains(&format!("<article id=\"{}\"", case.id)));
            assert!(
                case.verdict == Verdict::Pass || html.contains(&escaped(&case.reason)),
                "{}",
                case.reason
            );
            for figure in &case.figures {
                assert!(html.contains(&figure.to_svg()), "{}", figure.title);
            }
            for measurement in &case.measurements {
                assert!(html.contains(&escaped(&limits(measurement))), "{measurement:?}");
            }
        }
        for (label, value) in &report.device.settings {
            let row = format!("<tr><th scope=\"row\">{}</th><td>{}</td>", escaped(label), escaped(value));
            assert!(html.contains(&row), "{row}");
        }
        assert!(html.contains("in 1 of 3 runs"));
        let text = report.to_text();
        for of in [&html, &text] {
            assert!(of.contains("ended early: interrupted, after isolation.other-ingress"), "{of}");
        }
        assert!(text.contains("cannot tell") && text.contains("source: IEEE 802.1Q"), "{text}");
    }

    #[test]
    fn report_text_is_escaped_in_html() {
        let evil = "<script>alert(\"1\")</script>&\u{1b}[2J";
        let json = report().to_json();
        // Replace each string by `evil`, except verdicts, which are keywords.
        let mut json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        replace(&mut json, evil);
        let report: Report = serde_json::from_value(json).expect("a report");
        let (html, text) = (report.to_html(), report.to_text());
        assert!(!html.contains("<script") && !html.contains("alert(\"") && !html.contains('\u{1b}'));
        assert!(html.contains("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;␛[2J"));
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    fn replace(json: &mut serde_json::Value, by: &str) {
        match json {
            serde_json::Value::String(text) => by.clone_into(text),
            serde_json::Value::Array(values) => values.iter_mut().for_each(|value| replace(value, by)),
            serde_json::Value::Object(values) => {
                let texts = values.iter_mut().filter(|(key, _)| *key != "verdict");
                texts.for_each(|(_, value)| replace(value, by));
            }
            _ => {}
        }
    }

    #[test]
    fn html_report_refers_to_no_other_file() {
        let html = report().to_html().replace("http://www.w3.org/2000/svg", "");
        for reference in ["http:", "https:", "src=", "url(", "@import", "<link", "<script"] {
            assert!(!html.contains(reference), "{reference}");
        }
        let anchors = html.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next());
        anchors.for_each(|id| assert!(html.contains(&format!("id=\"{id}\"")), "{id}"));
    }

    #[test]
    fn report_without_cases_states_that_none_was_run() {
        let empty = Report { cases: vec![], ..report() };
        assert!(empty.to_html().contains("no case was run") && empty.to_text().contains("no case was run"));
        assert_eq!(empty.verdict(), Verdict::NotRun);
    }
}
