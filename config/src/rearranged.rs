//! Tables of a file that holds several switches, put together as if one of them stood in a file of its own. Values keep the places at
//! which they stand.

use std::borrow::Cow;

use toml_span::value::{Key, Table, ValueInner};
use toml_span::{Span, Value};

/// What `below` says where `over` says nothing; tables are merged.
pub(crate) fn lay_below<'de>(over: &mut Table<'de>, below: Table<'de>) {
    for (key, mut value) in below {
        match over.get_mut(key.name.as_ref()) {
            None => _ = over.insert(key, value),
            Some(said) if said.as_table().is_some() && value.as_table().is_some() => {
                if let (Some(mut merged), Some(below)) = (table(said.take()), table(value.take())) {
                    lay_below(&mut merged, below);
                    said.set(ValueInner::Table(merged));
                }
            }
            Some(_) => {}
        }
    }
}

/// What chooses policies goes to `[switch]`, what they are told to `[policy]`.
pub(crate) fn policies<'de>(
    key: Key<'de>,
    mut value: Value<'de>,
    switch: &mut Table<'de>,
    root: &mut Table<'de>,
) {
    let (span, inner) = (value.span, value.take());
    let ValueInner::Table(entries) = inner else {
        switch.insert(key, Value::with_span(inner, span));
        return;
    };
    let (chosen, told): (Table<'de>, Table<'de>) =
        entries.into_iter().partition(|(_, entry)| entry.as_table().is_none());
    let mut chosen = chosen;
    if let Some(mut all) = chosen.remove("all").filter(|_| chosen.is_empty()) {
        let span = all.span;
        switch.insert(key.clone(), Value::with_span(all.take(), span));
    } else if !chosen.is_empty() {
        switch.insert(key.clone(), Value::with_span(ValueInner::Table(chosen), span));
    }
    if !told.is_empty() {
        root.insert(key, Value::with_span(ValueInner::Table(told), span));
    }
}

pub(crate) fn entry<'de>(key: &'static str, value: ValueInner<'de>, span: Span) -> (Key<'de>, Value<'de>) {
    (Key { name: Cow::Borrowed(key), span }, Value::with_span(value, span))
}

pub(crate) fn text<'de>(text: String, span: Span) -> Value<'de> {
    Value::with_span(ValueInner::String(text.into()), span)
}

pub(crate) fn table(value: ValueInner<'_>) -> Option<Table<'_>> {
    match value {
        ValueInner::Table(table) => Some(table),
        _ => None,
    }
}

pub(crate) fn array(value: ValueInner<'_>) -> Option<Vec<Value<'_>>> {
    match value {
        ValueInner::Array(array) => Some(array),
        _ => None,
    }
}
