//! What a run answers: the rows of each table, and files beside them.

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

use super::tables::{Row, TABLES, Table};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    tables: [Vec<Row>; TABLES.len()],
    /// What is written in the form of another simulator: names without `.txt`, and texts.
    pub texts: Vec<(&'static str, String)>,
    /// What was to happen, and the run ended before.
    pub to_come: BTreeSet<String>,
}

fn place(table: &Table) -> usize {
    TABLES.iter().position(|of| of.name == table.name).expect("rows are of one of TABLES")
}

impl Index<&Table> for Rows {
    type Output = Vec<Row>;

    fn index(&self, table: &Table) -> &Vec<Row> {
        &self.tables[place(table)]
    }
}

impl IndexMut<&Table> for Rows {
    fn index_mut(&mut self, table: &Table) -> &mut Vec<Row> {
        &mut self.tables[place(table)]
    }
}
