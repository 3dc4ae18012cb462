use std::borrow::Cow;
use std::fmt;

use miette::{Diagnostic, LabeledSpan, NamedSource, Severity};
use toml_span::Span;

use crate::file::Unread;
use crate::visible::{visible, visible_at};

#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum ConfigError {
    #[error(transparent)]
    #[diagnostic(transparent)]
    Read(#[from] Unread),
    #[error(transparent)]
    #[diagnostic(transparent)]
    Invalid(Box<Invalid>),
}

impl ConfigError {
    /// Returns all errors, or the single error of an unreadable file.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        match self {
            ConfigError::Read(unread) => vec![Problem::error(unread.to_string()).help(unread.kind.help)],
            ConfigError::Invalid(invalid) => invalid.problems().to_vec(),
        }
    }
}

#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{name}: {} in the configuration, nothing was started", count(.problems.len()))]
pub struct Invalid {
    name: String,
    #[source_code]
    file: NamedSource<String>,
    #[related]
    problems: Vec<Problem>,
}

fn count(errors: usize) -> String {
    if errors == 1 { "1 error".into() } else { format!("{errors} errors") }
}

impl Invalid {
    /// Returns the errors, sorted by their places in the file.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub message: String,
    pub help: Option<String>,
    /// Line and column from 1; `None` if the problem concerns the whole file.
    pub position: Option<(usize, usize)>,
    severity: Severity,
    labels: Vec<Label>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Label {
    start: usize,
    end: usize,
    text: String,
}

impl Problem {
    #[must_use]
    pub fn missing(heading: &str, key: &str, example: &str, span: Span) -> Problem {
        Problem::error(format!("`{key}` is missing in {heading}"))
            .at(Span::new(span.start, span.end.min(span.start + heading.len())), format!("has no `{key}`"))
            .help(format!("for example: {example}"))
    }

    pub fn error(message: impl Into<String>) -> Problem {
        let message = message.into();
        Problem { message, help: None, position: None, severity: Severity::Error, labels: Vec::new() }
    }

    pub fn warning(message: impl Into<String>) -> Problem {
        Problem { severity: Severity::Warning, ..Problem::error(message) }
    }

    pub(crate) fn note(message: impl Into<String>) -> Problem {
        Problem { severity: Severity::Advice, ..Problem::error(message) }
    }

    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = Some(help.into());
        self
    }

    /// Adds a labelled place in the file. The first one is the position of the problem.
    #[must_use]
    pub fn at(mut self, span: Span, text: impl Into<String>) -> Problem {
        self.labels.push(Label { start: span.start, end: span.end, text: text.into() });
        self
    }

    fn place(&mut self, text: &str) {
        for label in &mut self.labels {
            label.start = boundary(text, label.start);
            label.end = boundary(text, label.end).max(label.start);
        }
        self.position = self.labels.first().map(|label| {
            let before = &text[..label.start];
            let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
            (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
        });
    }

    fn make_visible(&mut self, text: &str, has_signs: bool) {
        show(&mut self.message);
        self.help.iter_mut().for_each(show);
        self.labels.iter_mut().for_each(|label| show(&mut label.text));
        if has_signs {
            for place in self.labels.iter_mut().flat_map(|label| [&mut label.start, &mut label.end]) {
                *place = visible_at(text, *place);
            }
        }
    }
}

fn show(text: &mut String) {
    if let Cow::Owned(printable) = visible(text) {
        *text = printable;
    }
}

fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&index| text.is_char_boundary(index)).unwrap_or(0)
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

impl Diagnostic for Problem {
    fn severity(&self) -> Option<Severity> {
        Some(self.severity)
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span =
            |label: &Label| LabeledSpan::new(Some(label.text.clone()), label.start, label.end - label.start);
        (!self.labels.is_empty()).then(|| Box::new(self.labels.iter().map(span)) as Box<_>)
    }
}

#[derive(Debug, Default)]
pub struct Problems {
    errors: Vec<Problem>,
    warnings: Vec<Problem>,
    notes: Vec<Problem>,
}

#[derive(Debug)]
pub struct Remarks {
    pub warnings: Vec<Problem>,
    pub notes: Vec<Problem>,
}

impl Problems {
    /// Adds a problem, unless another one has the same place and label.
    pub fn push(&mut self, problem: Problem) {
        let list = match problem.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
            Severity::Advice => &mut self.notes,
        };
        let is_listed = problem
            .labels
            .first()
            .is_some_and(|label| list.iter().any(|other| other.labels.first() == Some(label)));
        if !is_listed {
            list.push(problem);
        }
    }

    #[must_use]
    pub fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    pub(crate) fn finish(mut self, name: &str, text: &str) -> Result<Remarks, ConfigError> {
        for list in [&mut self.errors, &mut self.warnings, &mut self.notes] {
            list.iter_mut().for_each(|problem| problem.place(text));
            list.sort_by_key(|problem| problem.position);
        }
        let printable = visible(text);
        let has_signs = matches!(printable, Cow::Owned(_));
        let lists = [&mut self.errors, &mut self.warnings, &mut self.notes].into_iter().flatten();
        lists.for_each(|problem| problem.make_visible(text, has_signs));
        if self.errors.is_empty() {
            return Ok(Remarks { warnings: self.warnings, notes: self.notes });
        }
        let name = visible(name).into_owned();
        let file = NamedSource::new(&name, printable.into_owned()).with_language("TOML");
        let invalid = Invalid { name, file, problems: self.errors };
        Err(ConfigError::Invalid(Box::new(invalid)))
    }
}
