//! User settings by `--set KEY=VALUE`. They are first appended to the configuration text as tables `[[set]]`, so that
//! errors can show them.

use std::fmt::{self, Display, Write as _};
use std::str::FromStr;

use toml_span::Value;
use toml_span::value::{Key, Table, ValueInner};
use xoff_config::Problem;
use xoff_config::reader::Problems;

pub(crate) const SET: &str = "set";
const MARK: &str = "\n# From the command line:\n";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    pub path: String,
    pub value: String,
}

impl FromStr for Given {
    type Err = String;

    fn from_str(text: &str) -> Result<Given, String> {
        let pair = text.split_once('=').map(|(path, value)| (path.trim(), value.trim()));
        let (path, value) = pair.filter(|(path, value)| !path.is_empty() && !value.is_empty()).ok_or(
            "--set has to be KEY=VALUE, with the key's table, as in class.3.xoff=80KB or topology.k=8",
        )?;
        let is_name = |part: &str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
        };
        if !path.split('.').all(is_name) {
            return Err(format!(
                "`{path}` does not have the form TABLE.KEY: write for example class.3.xoff or topology.k"
            ));
        }
        if value.chars().any(char::is_control) {
            return Err("the value of --set has several lines: write it in one line".into());
        }
        Ok(Given { path: path.to_owned(), value: value.to_owned() })
    }
}

impl Given {
    #[must_use]
    pub fn parts(&self) -> Vec<&str> {
        self.path.split('.').collect()
    }

    fn toml(&self) -> String {
        let stands = toml_span::parse(&format!("v = {}", self.value)).is_ok();
        if stands { self.value.clone() } else { format!("{:?}", self.value) }
    }
}

impl Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.path, self.value)
    }
}

pub(crate) fn written(text: &str, given: &[Given]) -> String {
    let mut whole = text.to_owned();
    if !given.is_empty() {
        whole += MARK;
    }
    for of in given {
        let _ = writeln!(whole, "[[{SET}]]\n{} = {}", of.path, of.toml());
    }
    whole
}

pub(crate) fn checked_values<'a, 'de>(
    root: &'a Value<'de>,
    meant: impl Fn(&[String]) -> Vec<&str>,
    problems: &mut Problems,
) -> Vec<(Vec<String>, &'a Value<'de>)> {
    let mut checked: Vec<(Vec<String>, &Value<'_>)> = Vec::new();
    for (path, value) in values(root) {
        if checked.iter().any(|(other, _)| meant(other) == meant(&path)) {
            problems.push(
                Problem::error(format!("--set gives `{}` twice", path.join(".")))
                    .at(value.span, "given again")
                    .help("give each key once; for several values use several runs, or in a scenario a [[sweep]]"),
            );
        }
        checked.push((path, value));
    }
    checked
}

pub(crate) fn values<'a, 'de>(root: &'a Value<'de>) -> Vec<(Vec<String>, &'a Value<'de>)> {
    let mut found = Vec::new();
    for set in list(root, SET) {
        leaves(set, &mut Vec::new(), &mut found);
    }
    found
}

pub(crate) fn list<'a, 'de>(root: &'a Value<'de>, key: &str) -> &'a [Value<'de>] {
    root.as_table().and_then(|table| table.get(key)?.as_array()).map_or(&[], Vec::as_slice)
}

pub(crate) fn leaves<'a, 'de>(
    value: &'a Value<'de>,
    path: &mut Vec<String>,
    found: &mut Vec<(Vec<String>, &'a Value<'de>)>,
) {
    match value.as_table() {
        Some(entries) => {
            for (key, entry) in entries {
                path.push(key.name.clone().into_owned());
                leaves(entry, path, found);
                path.pop();
            }
        }
        None => found.push((path.clone(), value)),
    }
}

pub(crate) fn put<'de>(
    at: &mut Value<'de>,
    path: &[impl AsRef<str>],
    value: Value<'de>,
) -> Result<(), String> {
    let Some((first, rest)) = path.split_first() else {
        *at = value;
        return Ok(());
    };
    let (first, span) = (first.as_ref(), value.span);
    match at.take() {
        ValueInner::Table(mut table) => {
            if !table.contains_key(first) {
                let key = Key { name: first.to_owned().into(), span };
                table.insert(key, Value::with_span(ValueInner::Table(Table::new()), span));
            }
            let done = table.get_mut(first).map_or(Ok(()), |below| put(below, rest, value));
            at.set(ValueInner::Table(table));
            done
        }
        ValueInner::Array(mut list) => {
            let count = list.len();
            let entry = first.parse().ok().and_then(|number: usize| list.get_mut(number));
            let done = match entry {
                Some(entry) => put(entry, rest, value),
                None => Err(format!(
                    "entry {first} does not exist; the list has {count} entries, numbered from 0"
                )),
            };
            at.set(ValueInner::Array(list));
            done
        }
        other => {
            at.set(other);
            Err(format!("`{first}` cannot be set, because the key before it has a value that is no table"))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn set_option_accepts_text_value_without_quotes() {
        for (text, expected) in [
            ("class.3.xoff=80KB", "\"80KB\""),
            ("class.3.xoff = 80000", "80000"),
            ("policy.ofc.alpha=0.5", "0.5"),
            ("defaults.ofc_peer=true", "true"),
            ("qcn.egress=[3]", "[3]"),
            ("class.3={ xoff = 80000 }", "{ xoff = 80000 }"),
            ("switch.when_full=stop", "\"stop\""),
            ("switch.when_full=\"stop\"", "\"stop\""),
            ("switch.name=a\"b\\", "\"a\\\"b\\\\\""),
            ("pipeline.rate=1Mpps", "\"1Mpps\""),
        ] {
            assert_eq!(text.parse::<Given>().unwrap().toml(), expected, "{text}");
        }
    }

    #[test]
    fn set_option_refuses_malformed_key_or_value() {
        for text in ["class.3.xoff", "=80KB", "class.3.xoff=", "class..xoff=1", "a]b.c=1", "a.b=1\n2"] {
            assert!(text.parse::<Given>().is_err(), "{text}");
        }
    }
}
