use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde_json::Value;
use xoff_config::quantity;
use xoff_config::written::{follows, grouped, names};
use xoff_wire::units::BitRate;

pub struct Rows {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Rows {
    /// Creates a row for each object, and a column for each of the space-separated `keys`.
    ///
    /// An object as value has a column for each of its own keys instead.
    pub fn of(keys: &str, objects: &[Value]) -> Rows {
        let cells = |object: &Value| -> Vec<(String, String)> {
            let cells = keys.split(' ').flat_map(|key| match &object[key] {
                Value::Object(fields) => fields.iter().flat_map(|(key, value)| columns(key, value)).collect(),
                value => columns(key, value),
            });
            cells.collect()
        };
        let all: Vec<Vec<(String, String)>> = objects.iter().map(cells).collect();
        let mut headings: Vec<String> = Vec::new();
        for (heading, _) in all.iter().flatten() {
            if !headings.contains(heading) {
                headings.push(heading.clone());
            }
        }
        let cell = |row: &[(String, String)], heading: &String| {
            row.iter().find(|(of, _)| of == heading).map_or("-".into(), |(_, text)| text.clone())
        };
        let rows = all.iter().map(|row| headings.iter().map(|heading| cell(row, heading)).collect());
        Rows { rows: rows.collect(), headings }
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Merges rows that differ only in column `class`, then those that differ only in port and device.
    ///
    /// With a column `device`, only ports and devices with consecutive numbers merge.
    #[must_use]
    pub fn fold(self, class: &str) -> Rows {
        let column = |key: &str| self.headings.iter().position(|heading| heading == key);
        let [class, port, device] = [class, "port", "device"].map(column);
        let by_class = self.merge(class.as_slice(), |_, _| true);
        match (port, device) {
            (Some(port), Some(device)) => by_class.merge(&[port, device], follows),
            _ => by_class.merge(port.as_slice(), |_, _| true),
        }
    }

    /// Merges rows that are equal except in columns `folded`, if `joins` accepts their cells there.
    fn merge(self, folded: &[usize], joins: fn(&str, &str) -> bool) -> Rows {
        let mut groups: Vec<Vec<Vec<String>>> = Vec::new();
        for row in self.rows {
            let fits = |group: &&mut Vec<Vec<String>>| {
                let last = &group[group.len() - 1];
                let of = |at: usize| {
                    if folded.contains(&at) { joins(&last[at], &row[at]) } else { last[at] == row[at] }
                };
                (0..row.len()).all(of)
            };
            match groups.iter_mut().find(fits) {
                Some(group) => group.push(row),
                None => groups.push(vec![row]),
            }
        }
        let joined = |group: Vec<Vec<String>>| {
            let cell = |at| {
                if folded.contains(&at) {
                    names(group.iter().map(|row| &*row[at]))
                } else {
                    group[0][at].clone()
                }
            };
            (0..group[0].len()).map(cell).collect()
        };
        Rows { rows: groups.into_iter().map(joined).collect(), ..self }
    }

    pub fn text(self, preset: &str, width: Option<usize>) -> String {
        let mut table = Table::new();
        table.load_preset(preset).set_header(self.headings).add_rows(&self.rows);
        table.set_content_arrangement(ContentArrangement::Disabled);
        if let Some(width) = width.and_then(|width| u16::try_from(width).ok()) {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        for (at, column) in table.column_iter_mut().enumerate() {
            if self.rows.iter().all(|row| row[at].starts_with(|c: char| c == '-' || c.is_ascii_digit())) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.trim_fmt()
    }
}

/// Returns a key as a heading with one word per line, without the unit `_bps`, which the cells contain.
fn heading(key: &str) -> String {
    key.trim_end_matches("_bps").replace(['_', ' '], "\n")
}

fn columns(key: &str, value: &Value) -> Vec<(String, String)> {
    match value {
        Value::Object(fields) => {
            fields.iter().flat_map(|(name, value)| columns(&format!("{key} {name}"), value)).collect()
        }
        _ => vec![(heading(key), cell(key, value))],
    }
}

fn cell(key: &str, value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::Bool(value) => if *value { "yes" } else { "no" }.into(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_u64() {
            Some(rate) if key.ends_with("_bps") => BitRate::new(rate).map(quantity::rate).unwrap_or_default(),
            Some(whole) => grouped(whole),
            None => decimal(number.as_f64().unwrap_or_default()),
        },
        Value::Array(list) if list.is_empty() => "-".into(),
        Value::Array(list) => {
            let list: Vec<String> = list.iter().map(|value| cell("", value)).collect();
            names(list.iter().map(String::as_str))
        }
        Value::Object(_) => String::new(),
    }
}

fn decimal(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_tables_show_long_times_without_fraction() {
        assert_eq!([33_553.92, 5.12].map(decimal), ["33554", "5.12"]);
    }
}
