use std::ops::RangeInclusive;
use std::path::PathBuf;

use toml_span::Value;
use toml_span::value::ValueInner;
use xoff_config::reader::Parsed;
use xoff_config::reader::parse;
use xoff_sim::Picos;
use xoff_wire::units::Nanos;

pub(super) const TIME_MAX: Nanos = Nanos::from_secs(3_600);
/// Maximum seed of the first run. Each further run's seed is one higher, and must fit TOML's 64-bit integers.
pub const SEED_MAX: u64 = 1_000_000_000_000_000_000;
pub(super) const HOST_MAX: u32 = 1_000_000;

/// Declares the kinds of a table, each with its value of `kind`, required keys and optional keys.
macro_rules! kinds {
    ($name:ident { $($kind:ident = $word:literal, $required:expr, $optional:expr;)* }) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($kind,)* }

        impl xoff_config::Choice for $name {
            const WORDS: &'static [(&'static str, $name)] = &[$(($word, $name::$kind)),*];
        }

        impl $name {
            const fn keys(self) -> (&'static [&'static str], &'static [&'static str]) {
                match self { $($name::$kind => (&$required, &$optional)),* }
            }
        }
    };
}
pub(super) use kinds;

pub(super) fn time(range: RangeInclusive<Nanos>) -> impl Fn(&Value<'_>) -> Parsed<Picos> {
    move |value| parse::time(range.clone())(value).map(Picos::from)
}

pub(super) fn line(value: &Value<'_>) -> Parsed<String> {
    let line =
        value.as_str().filter(|text| (1..=200).contains(&text.len()) && !text.chars().any(char::is_control));
    line.map(str::to_owned).ok_or_else(|| "a text of one line and up to 200 bytes".into())
}

pub(super) fn positive(value: &Value<'_>) -> Parsed<f64> {
    let number = value.as_float().or_else(|| value.as_integer().map(|number| number as f64));
    number.filter(|number| *number > 0.0 && *number <= 1e6).ok_or_else(|| "a number above 0".into())
}

pub(super) fn hosts(value: &Value<'_>) -> Parsed<Vec<u32>> {
    let range = |entry: &Value<'_>| {
        let range = match entry.as_ref() {
            ValueInner::String(text) => text
                .split_once('-')
                .and_then(|(from, to)| from.trim().parse().ok().zip(to.trim().parse().ok())),
            _ => parse::integer(0..=HOST_MAX)(entry).ok().map(|host| (host, host)),
        };
        range.filter(|(from, to)| from <= to && *to <= HOST_MAX).ok_or_else(String::new)
    };
    let mut hosts: Vec<u32> = parse::list(value, range)
        .filter(|ranges| !ranges.is_empty())
        .ok_or("a list of at least one host by number, such as [0, 1] or [0, \"8-15\"]")?
        .into_iter()
        .flat_map(|(from, to)| from..=to)
        .collect();
    hosts.sort_unstable();
    hosts.dedup();
    Ok(hosts)
}

pub(super) fn file(value: &Value<'_>) -> Parsed<PathBuf> {
    let path = value.as_str().filter(|path| !path.is_empty() && !path.contains('\0'));
    path.map(PathBuf::from).ok_or_else(|| "the path of a file, relative to the scenario's directory".into())
}
