//! Reading tables: every key is looked for by name, a value of the wrong kind is a problem with the
//! place where it stands and what is allowed there, and a key that nobody looked for is one too.

use strsim::damerau_levenshtein;
use toml_span::value::ValueInner;
use toml_span::{Span, Spanned, Value};

use crate::problem::{Problem, Problems};

/// What a value means, or else what is allowed in its place ("a string such as ...").
pub(crate) type Parsed<T> = Result<T, String>;

/// A TOML table under the name that the documentation gives it.
#[derive(Clone, Copy)]
pub(crate) struct Table<'a, 'de> {
    name: &'a str,
    entries: &'a toml_span::value::Table<'de>,
    /// Where it stands.
    pub(crate) span: Span,
}

impl<'a, 'de> Table<'a, 'de> {
    /// `value` as a table; a problem if it is something else.
    pub(crate) fn of(name: &'a str, value: &'a Value<'de>, problems: &mut Problems) -> Option<Self> {
        let Some(entries) = value.as_table() else {
            problems.push(wrong(name, value, &format!("a table: [{name}]")));
            return None;
        };
        Some(Table { name, entries, span: value.span })
    }

    pub(crate) fn value(&self, key: &str) -> Option<&'a Value<'de>> {
        self.entries.get(key)
    }

    /// Where `key` itself stands, or else the table.
    pub(crate) fn key_span(&self, key: &str) -> Span {
        self.entries.get_key_value(key).map_or(self.span, |(key, _)| key.span)
    }

    /// Whether it has no keys but these.
    pub(crate) fn has_only(&self, keys: &[&str]) -> bool {
        self.entries.keys().all(|key| keys.contains(&key.name.as_ref()))
    }

    /// The table under `key`.
    pub(crate) fn table(&self, key: &'a str, problems: &mut Problems) -> Option<Table<'a, 'de>> {
        Table::of(key, self.value(key)?, problems)
    }

    /// What stands under `key`; `None` where nothing does, or (and a problem then) what cannot be.
    pub(crate) fn read<T>(
        &self,
        key: &str,
        parse: impl FnOnce(&Value<'de>) -> Parsed<T>,
        problems: &mut Problems,
    ) -> Option<Spanned<T>> {
        let value = self.value(key)?;
        match parse(value) {
            Ok(parsed) => Some(Spanned::with_span(parsed, value.span)),
            Err(allowed) => {
                problems.push(wrong(key, value, &allowed));
                None
            }
        }
    }

    /// A problem for every key that is not in one of the lists.
    pub(crate) fn no_others(&self, known: &[&[&str]], problems: &mut Problems) {
        let known: Vec<&str> = known.concat();
        for (key, _) in self.entries.iter().filter(|(key, _)| !known.contains(&key.name.as_ref())) {
            let place =
                if self.name.is_empty() { "at the top level".into() } else { format!("in [{}]", self.name) };
            let problem =
                Problem::error(format!("`{}` is not a key {place}", key.name)).at(key.span, "unknown key");
            problems.push(problem.help(match closest(&key.name, &known) {
                Some(close) => format!("did you mean `{close}`?"),
                None => format!("keys here: {}", known.join(", ")),
            }));
        }
    }
}

fn wrong(key: &str, value: &Value<'_>, allowed: &str) -> Problem {
    Problem::error(format!("`{key}` is {}, but has to be {allowed}", found(value)))
        .at(value.span, "not allowed here")
}

/// Most characters of a value that are shown.
const FOUND_LEN_MAX: usize = 60;

/// A value as it is shown to whoever wrote it.
pub(crate) fn found(value: &Value<'_>) -> String {
    let whole = written(value);
    match whole.char_indices().nth(FOUND_LEN_MAX) {
        Some((end, _)) => format!("{}...", &whole[..end]),
        None => whole,
    }
}

fn written(value: &Value<'_>) -> String {
    match value.as_ref() {
        ValueInner::String(text) => format!("{:?}", text.chars().take(FOUND_LEN_MAX).collect::<String>()),
        ValueInner::Integer(number) => number.to_string(),
        ValueInner::Float(number) => number.to_string(),
        ValueInner::Boolean(yes) => yes.to_string(),
        ValueInner::Array(entries) => {
            format!("[{}]", entries.iter().map(written).collect::<Vec<_>>().join(", "))
        }
        ValueInner::Table(entries) => {
            let entry =
                |(key, value): (&toml_span::value::Key<'_>, _)| format!("{} = {}", key.name, written(value));
            format!("{{ {} }}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    }
}

/// The candidate that was probably meant; it has at least something in common with `word`.
pub(crate) fn closest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let word: String = word.chars().take(40).collect();
    let distance = |candidate: &&&str| damerau_levenshtein(&word, candidate);
    let most = (word.len().max(3) / 3).min(word.chars().count().saturating_sub(1));
    candidates.iter().min_by_key(distance).filter(|best| distance(best) <= most).copied()
}

/// A struct of optional values with their places in the file, one for each key of a table: the
/// list of keys and how each is read stand in one place. A `layered` one can stand over another.
macro_rules! keys {
    ($(#[$doc:meta])* layered struct $name:ident { $($key:ident: $type:ty = $parse:expr;)* }) => {
        $crate::read::keys! { $(#[$doc])* struct $name { $($key: $type = $parse;)* } }

        impl $name {
            /// Each value of `self`, or where it has none that of `below`.
            pub(crate) fn or(&self, below: &Self) -> Self {
                $name { $($key: self.$key.as_ref().or(below.$key.as_ref()).cloned(),)* }
            }

            /// As if all of it stood at `span`.
            pub(crate) fn moved_to(mut self, span: toml_span::Span) -> Self {
                $(if let Some(value) = &mut self.$key { value.span = span; })*
                self
            }
        }
    };
    ($(#[$doc:meta])* struct $name:ident { $($key:ident: $type:ty = $parse:expr;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub(crate) struct $name { $(pub(crate) $key: Option<toml_span::Spanned<$type>>,)* }

        impl $name {
            pub(crate) const KEYS: &'static [&'static str] = &[$(stringify!($key)),*];

            pub(crate) fn read(table: &$crate::read::Table<'_, '_>, problems: &mut $crate::problem::Problems) -> Self {
                $name { $($key: table.read(stringify!($key), $parse, problems),)* }
            }
        }
    };
}
pub(crate) use keys;
