use std::collections::BTreeMap;

use toml_span::value::{Table, ValueInner};
use toml_span::{Span, Value};
use xoff_config::OwnPolicy;
use xoff_flow_control::congestion::ReactionSettings;
use xoff_wire::units::Bytes;

use crate::raw::Recorder;
use crate::set::Given;
use crate::stall::Stall;

#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    Is(bool),
    Number(i64),
    Part(f64),
    Text(String),
    Classes(Vec<u8>),
}

macro_rules! from {
    ($($type:ty: $value:ident => $setting:expr;)*) => {
        $(impl From<$type> for Setting {
            fn from($value: $type) -> Setting {
                $setting
            }
        })*
    };
}

from! {
    bool: is => Setting::Is(is);
    u64: number => Setting::Number(i64::try_from(number).unwrap_or(i64::MAX));
    Bytes: size => size.0.into();
    f64: part => Setting::Part(part);
    &str: text => Setting::Text(text.to_owned());
    &[u8]: classes => Setting::Classes(classes.to_vec());
}

impl Setting {
    pub(crate) fn value(&self, span: Span) -> Value<'static> {
        let number = |class: &u8| Value::with_span(ValueInner::Integer((*class).into()), span);
        let value = match self {
            Setting::Is(is) => ValueInner::Boolean(*is),
            Setting::Number(number) => ValueInner::Integer(*number),
            Setting::Part(part) => ValueInner::Float(*part),
            Setting::Text(text) => ValueInner::String(text.clone().into()),
            Setting::Classes(classes) => ValueInner::Array(classes.iter().map(number).collect()),
        };
        Value::with_span(value, span)
    }
}

/// Settings of switches by key, such as `port.speed`; the last value of a key applies. Table `trunk` is for ports between
/// switches.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    tables: BTreeMap<String, BTreeMap<String, Setting>>,
    copies: Vec<(String, String)>,
    pub over: Vec<Given>,
    pub reaction: Option<ReactionSettings>,
    pub policy: Option<&'static str>,
    pub own_policy: Option<OwnPolicy>,
    pub seed: u64,
    pub stall: Option<Stall>,
    pub(crate) recorder: Option<Recorder>,
}

impl Settings {
    /// Adds a setting. Panics unless `path` has the form TABLE.KEY.
    pub fn set(&mut self, path: &str, value: impl Into<Setting>) -> &mut Settings {
        let (table, key) = path.rsplit_once('.').expect("a setting's path must be TABLE.KEY");
        self.tables.entry(table.to_owned()).or_default().insert(key.to_owned(), value.into());
        self
    }

    /// Returns the paths that a user setting of `path` changes: `path`, and the same key in each table made by
    /// [`Settings::copy`] that still has the original's value.
    pub fn reach(&self, path: &str) -> Vec<String> {
        let (table, key) = path.rsplit_once('.').unwrap_or(("", path));
        let value = |table: &str| self.tables.get(table).and_then(|keys| keys.get(key));
        let copies = self.copies.iter().filter(|(from, to)| from == table && value(from) == value(to));
        let others = copies.map(|(_, to)| format!("{to}.{key}"));
        let others = others.filter(|other| self.over.iter().all(|over| over.path != *other));
        std::iter::once(path.to_owned()).chain(others).collect()
    }

    /// Copies table `from` into `to`; user settings of `from` also change `to`.
    pub fn copy(&mut self, from: &str, to: &str) -> &mut Settings {
        let keys = self.tables.get(from).cloned().unwrap_or_default();
        self.tables.entry(to.to_owned()).or_default().extend(keys);
        self.copies.push((from.to_owned(), to.to_owned()));
        self
    }

    pub fn extend(&mut self, other: &Settings) -> &mut Settings {
        for (table, keys) in &other.tables {
            let into = self.tables.entry(table.clone()).or_default();
            into.extend(keys.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        self.reaction = other.reaction.or(self.reaction);
        self.own_policy = other.own_policy.clone().or(self.own_policy.take());
        self.over.extend(other.over.iter().cloned());
        self.copies.extend(other.copies.iter().cloned());
        self
    }

    pub(crate) fn has_same_values(&self, other: &Settings) -> bool {
        self.tables == other.tables
    }

    pub(crate) fn document(&self, span: Span) -> Value<'static> {
        let mut root = Value::with_span(ValueInner::Table(Table::new()), span);
        for (table, keys) in &self.tables {
            for (key, setting) in keys {
                let path: Vec<&str> = table.split('.').chain([key.as_str()]).collect();
                crate::set::put(&mut root, &path, setting.value(span))
                    .expect("the path of a setting must begin with a table");
            }
        }
        root
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[(&str, u64)]) -> Settings {
        let mut settings = Settings::default();
        values.iter().for_each(|(path, value)| _ = settings.set(path, *value));
        settings
    }

    #[test]
    fn last_of_several_values_of_a_key_applies() {
        let mut settings = of(&[("class.3.xoff", 50_000), ("switch.log", 1)]);
        settings.extend(&of(&[("switch.log", 2)]));
        assert!(settings.has_same_values(&of(&[("switch.log", 2), ("class.3.xoff", 50_000)])));
    }

    #[test]
    fn table_copied_from_another_keeps_its_own_keys() {
        let mut settings = of(&[("class.3.xoff", 1), ("class.2.xon", 2)]);
        settings.copy("class.3", "class.2");
        assert!(settings.has_same_values(&of(&[
            ("class.3.xoff", 1),
            ("class.2.xon", 2),
            ("class.2.xoff", 1)
        ])));
    }

    #[test]
    fn override_of_table_also_changes_identical_copies() {
        let mut variant = of(&[("class.3.xoff", 1)]);
        variant.copy("class.3", "class.2").copy("class.3", "class.4").set("class.4.weight", "strict");
        let over = ["class.3.xoff=5", "class.3.weight=7", "class.2.weight=9"];
        variant.over.extend(over.iter().filter_map(|text| text.parse::<Given>().ok()));
        assert_eq!(variant.reach("class.3.xoff"), ["class.3.xoff", "class.2.xoff", "class.4.xoff"]);
        assert_eq!(
            variant.reach("class.3.weight"),
            ["class.3.weight"],
            "the override must not change copies that have a value of their own"
        );
        assert_eq!(variant.reach("class.2.xoff"), ["class.2.xoff"]);
        assert_eq!(variant.reach("switch.log"), ["switch.log"]);
    }
}
