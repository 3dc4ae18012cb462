use strsim::damerau_levenshtein;
use toml_span::value::ValueInner;
use toml_span::{Span, Spanned, Value};

use super::problem::{Problem, Problems};

/// Parsed value, or a description of the allowed values.
pub type Parsed<T> = Result<T, String>;

#[derive(Clone, Copy, Debug)]
pub struct Table<'a, 'de> {
    name: &'a str,
    entries: &'a toml_span::value::Table<'de>,
    pub span: Span,
}

impl<'a, 'de> Table<'a, 'de> {
    /// Returns `value` as the table `[name]` (empty for the whole document), or reports a wrong type.
    pub fn of(name: &'a str, value: &'a Value<'de>, problems: &mut Problems) -> Option<Self> {
        let Some(entries) = value.as_table() else {
            problems.push(wrong(name, value, &format!("a table: [{name}]")));
            return None;
        };
        Some(Table { name, entries, span: value.span })
    }

    #[must_use]
    pub fn value(&self, key: &str) -> Option<&'a Value<'de>> {
        self.entries.get(key)
    }

    /// Returns the place of `key`, or of the whole table if the table lacks the key.
    #[must_use]
    pub fn key_span(&self, key: &str) -> Span {
        self.entries.get_key_value(key).map_or(self.span, |(key, _)| key.span)
    }

    #[must_use]
    pub fn has_only(&self, keys: &[&str]) -> bool {
        self.entries.keys().all(|key| keys.contains(&key.name.as_ref()))
    }

    pub fn table(&self, key: &'a str, problems: &mut Problems) -> Option<Table<'a, 'de>> {
        Table::of(key, self.value(key)?, problems)
    }

    pub fn tables(&self, key: &'a str, problems: &mut Problems) -> Vec<Table<'a, 'de>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let Some(entries) = value.as_array() else {
            problems.push(
                Problem::error(format!("`{key}` has to be a list of tables"))
                    .at(value.span, "one table")
                    .help(format!("write [[{key}]] with two brackets for each table")),
            );
            return Vec::new();
        };
        entries.iter().filter_map(|entry| Table::of(key, entry, problems)).collect()
    }

    /// Returns the value under `key` with its place; reports an error if `parse` refuses the value.
    pub fn read<T>(
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

    pub fn no_others(&self, valid_keys: &[&[&str]], problems: &mut Problems) {
        let valid_keys: Vec<&str> = valid_keys.concat();
        for (key, _) in self.entries.iter().filter(|(key, _)| !valid_keys.contains(&key.name.as_ref())) {
            let place =
                if self.name.is_empty() { "at the top level".into() } else { format!("in [{}]", self.name) };
            let problem =
                Problem::error(format!("`{}` is not a key {place}", key.name)).at(key.span, "unknown key");
            problems.push(problem.help(match closest(&key.name, &valid_keys) {
                Some(close) => format!("did you mean `{close}`?"),
                None => format!("keys here: {}", valid_keys.join(", ")),
            }));
        }
    }
}

fn wrong(key: &str, value: &Value<'_>, allowed: &str) -> Problem {
    Problem::error(format!("`{key}` is {}, but has to be {allowed}", found(value)))
        .at(value.span, "not allowed here")
}

const FOUND_LEN_MAX: usize = 60;

#[must_use]
pub fn found(value: &Value<'_>) -> String {
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

#[must_use]
pub fn closest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let word: String = word.chars().take(40).collect();
    let distance = |candidate: &&&str| damerau_levenshtein(&word, candidate);
    let most = (word.len().max(3) / 3).min(word.chars().count().saturating_sub(1));
    candidates.iter().min_by_key(distance).filter(|best| distance(best) <= most).copied()
}

/// Declares a struct for a TOML table, with an optional field and a parser for each key.
///
/// `KEYS` lists the keys; `read` reads a [`Table`]. `layered struct A` gets `or`, which takes missing keys from
/// another `A`. `struct A over B` gets `over`: keys of `A` override fields of `B` with the same names.
/// The calling crate must depend on `toml-span`.
///
/// ```
/// use xoff_config::reader::{self, Table, parse};
///
/// xoff_config::keys! {
///     /// `[server]`.
///     struct ServerKeys {
///         name: String = parse::name;
///         port: u16 = parse::integer(1..=65_535);
///     }
/// }
///
/// let read = |text| {
///     reader::read("server.toml", text, |root, problems| {
///         let table = Table::of("", &root, problems)?.table("server", problems)?;
///         table.no_others(&[ServerKeys::KEYS], problems);
///         let keys = ServerKeys::read(&table, problems);
///         Some((reader::value(keys.name.as_ref(), "a".into()), reader::value(keys.port.as_ref(), 80)))
///     })
/// };
/// let (server, _) = read("[server]\nport = 8080").expect("the port is allowed");
/// assert_eq!(server, ("a".to_owned(), 8080));
/// assert!(read("[server]\nport = 0").is_err());
/// ```
#[macro_export]
macro_rules! keys {
    ($(#[$doc:meta])* layered struct $name:ident { $($key:ident: $type:ty = $parse:expr;)* }) => {
        $crate::keys! { $(#[$doc])* struct $name { $($key: $type = $parse;)* } }

        impl $name {
            pub(crate) fn or(&self, below: &Self) -> Self {
                $name { $($key: self.$key.as_ref().or(below.$key.as_ref()).cloned(),)* }
            }

            pub(crate) fn moved_to(mut self, span: toml_span::Span) -> Self {
                $(if let Some(value) = &mut self.$key { value.span = span; })*
                self
            }
        }
    };
    ($(#[$doc:meta])* struct $name:ident over $settings:ty { $($key:ident: $type:ty = $parse:expr;)* }) => {
        $crate::keys! { $(#[$doc])* struct $name { $($key: $type = $parse;)* } }

        impl $name {
            pub(crate) fn over(self, mut settings: $settings) -> $settings {
                $(if let Some(key) = self.$key { settings.$key = key.value; })*
                settings
            }
        }
    };
    ($(#[$doc:meta])* struct $name:ident { $($key:ident: $type:ty = $parse:expr;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub(crate) struct $name { $(pub(crate) $key: Option<toml_span::Spanned<$type>>,)* }

        impl $name {
            pub(crate) const KEYS: &'static [&'static str] = &[$(stringify!($key)),*];

            pub(crate) fn read(table: &$crate::reader::Table<'_, '_>, problems: &mut $crate::reader::Problems) -> Self {
                $name { $($key: table.read(stringify!($key), $parse, problems),)* }
            }
        }
    };
}
