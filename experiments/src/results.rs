use std::fmt::Write as _;
use std::str::FromStr;

#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name of the column; its last word may be the unit.
    pub name: &'static str,
    pub unit: &'static str,
    #[cfg(test)]
    pub about: &'static str,
}

#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    pub columns: &'static [Column],
}

pub type Row = Vec<String>;

pub const TEXT: &str = "text";

macro_rules! columns {
    ($($name:literal, $unit:expr, $about:literal;)*) => {
        &[$(crate::results::Column { name: $name, unit: $unit, #[cfg(test)] about: $about },)*]
    };
}
pub(crate) use columns;

impl Table {
    pub fn header(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name).collect();
        names.join(",") + "\n"
    }

    /// Returns the index of a column; panics if there is none.
    pub fn at(&self, name: &str) -> usize {
        self.columns.iter().position(|column| column.name == name).expect("unknown column")
    }

    /// Formats a row as JSON; an empty cell is null.
    pub fn json(&self, row: &[String]) -> String {
        let mut line = String::from("{");
        for (at, (column, cell)) in self.columns.iter().zip(row).enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let value = match cell.as_str() {
                text if column.unit == TEXT => serde_json::Value::from(text).to_string(),
                "" => "null".into(),
                number => number.into(),
            };
            let _ = write!(line, "{comma}\"{}\":{value}", column.name);
        }
        line + "}\n"
    }
}

pub fn value<T: FromStr>(row: &Row, at: usize) -> Option<T> {
    row[at].parse().ok()
}

pub fn csv(row: &[String]) -> String {
    let cell = |cell: &String| match cell.contains([',', '"', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.clone(),
    };
    row.iter().map(cell).collect::<Vec<_>>().join(",") + "\n"
}

pub fn cells(line: &str) -> Row {
    let (mut row, mut cell, mut is_quoted) = (Row::new(), String::new(), false);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if is_quoted && characters.peek() == Some(&'"') => cell.extend(characters.next()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(std::mem::take(&mut cell)),
            other => cell.push(other),
        }
    }
    row.push(cell);
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_line_parses_to_the_written_cells() {
        let row: Row = ["policy=pfc", "k=[1, 2]", "a \"b\"", ""].map(str::to_owned).into();
        let line = csv(&row);
        assert_eq!(line, "policy=pfc,\"k=[1, 2]\",\"a \"\"b\"\"\",\n");
        assert_eq!(cells(line.trim_end()), row);
    }
}
