//! Splits a file into one document for each switch. Values keep their places in the file.

use std::borrow::Cow;

use toml_span::value::{Key, Table, ValueInner};
use toml_span::{Span, Value};

/// Adds to `over` the entries of `below` that it lacks; merges tables that both have.
pub fn lay_below<'de>(over: &mut Table<'de>, below: Table<'de>) {
    for (key, mut value) in below {
        match over.get_mut(key.name.as_ref()) {
            None => _ = over.insert(key, value),
            Some(common) if common.as_table().is_some() && value.as_table().is_some() => {
                if let (Some(mut merged), Some(below)) = (table(common.take()), table(value.take())) {
                    lay_below(&mut merged, below);
                    common.set(ValueInner::Table(merged));
                }
            }
            Some(_) => {}
        }
    }
}

/// Splits the value of a key `policy`: names of policies go to the table `[switch]`, their parameters to the
/// table `[policy]`.
pub fn policies<'de>(key: Key<'de>, mut value: Value<'de>, switch: &mut Table<'de>, root: &mut Table<'de>) {
    let (span, inner) = (value.span, value.take());
    let ValueInner::Table(entries) = inner else {
        switch.insert(key, Value::with_span(inner, span));
        return;
    };
    let (chosen, common): (Table<'de>, Table<'de>) =
        entries.into_iter().partition(|(_, entry)| entry.as_table().is_none());
    let mut chosen = chosen;
    if let Some(mut all) = chosen.remove("all").filter(|_| chosen.is_empty()) {
        let span = all.span;
        switch.insert(key.clone(), Value::with_span(all.take(), span));
    } else if !chosen.is_empty() {
        switch.insert(key.clone(), Value::with_span(ValueInner::Table(chosen), span));
    }
    if !common.is_empty() {
        root.insert(key, Value::with_span(ValueInner::Table(common), span));
    }
}

pub fn entry<'de>(key: &'static str, value: ValueInner<'de>, span: Span) -> (Key<'de>, Value<'de>) {
    (Key { name: Cow::Borrowed(key), span }, Value::with_span(value, span))
}

#[must_use]
pub fn text<'de>(text: String, span: Span) -> Value<'de> {
    Value::with_span(ValueInner::String(text.into()), span)
}

#[must_use]
pub fn table(value: ValueInner<'_>) -> Option<Table<'_>> {
    match value {
        ValueInner::Table(table) => Some(table),
        _ => None,
    }
}

#[must_use]
pub fn array(value: ValueInner<'_>) -> Option<Vec<Value<'_>>> {
    match value {
        ValueInner::Array(array) => Some(array),
        _ => None,
    }
}

#[must_use]
pub fn copied<'de>(value: &Value<'de>) -> Value<'de> {
    let inner = match value.as_ref() {
        ValueInner::String(text) => ValueInner::String(text.clone()),
        ValueInner::Integer(number) => ValueInner::Integer(*number),
        ValueInner::Float(number) => ValueInner::Float(*number),
        ValueInner::Boolean(yes) => ValueInner::Boolean(*yes),
        ValueInner::Array(entries) => ValueInner::Array(entries.iter().map(copied).collect()),
        ValueInner::Table(entries) => {
            ValueInner::Table(entries.iter().map(|(key, value)| (key.clone(), copied(value))).collect())
        }
    };
    Value::with_span(inner, value.span)
}
