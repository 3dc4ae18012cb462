use std::fmt;
use std::str::FromStr;

use xoff_wire::units::Class;

use super::tokens::is_entry;
use super::{ImportError, Name, Nodes, no_node};
use crate::flows::{BYTES_LIKELY, FLOW_BYTES_MAX, FlowPlan};
use crate::plan::At;
use crate::time::Picos;

const SECONDS_MAX: f64 = 3_600.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct ImportedFlow {
    pub plan: FlowPlan,
    /// Receiver's UDP port: copied to the results, and not used otherwise; 0 if the file has none.
    pub port: u16,
}

/// Flows of a file, with messages about doubtful parts of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub struct ImportedFlows {
    pub flows: Vec<ImportedFlow>,
    pub notes: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Hpcc,
    ConWeave,
}

impl Form {
    fn of(words: usize) -> Result<Form, String> {
        match words {
            6 => Ok(Form::Hpcc),
            5 => Ok(Form::ConWeave),
            _ => Err(format!(
                "a flow has {words} columns; allowed: 6 (HPCC: {}), or 5 (ConWeave: {})",
                Form::Hpcc,
                Form::ConWeave
            )),
        }
    }

    const fn columns(self) -> usize {
        match self {
            Form::Hpcc => 6,
            Form::ConWeave => 5,
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Form::Hpcc => "sender, receiver, class, port, bytes, start",
            Form::ConWeave => "sender, receiver, class, bytes, start",
        })
    }
}

/// Reads a file of flows between the hosts of a topology.
///
/// # Errors
/// Names the first invalid line.
pub fn flows(text: &str, nodes: &Nodes) -> Result<ImportedFlows, ImportError> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let (line, first) = lines.next().unwrap_or((1, ""));
    let count: usize =
        number(first.trim(), "the number of flows").map_err(|what| ImportError { line, what })?;
    let (mut flows, mut form) = (Vec::new(), None::<Form>);
    for (line, text) in lines.by_ref().take(count) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let read = || {
            let of_line = Form::of(words.len())?;
            match form.filter(|form| *form != of_line) {
                None => Ok((of_line, flow(&words, of_line, nodes)?)),
                Some(form) => {
                    let (own, first) = (words.len(), form.columns());
                    Err(format!(
                        "a flow has {own} columns, but the first flow has {first}; all must have equally many"
                    ))
                }
            }
        };
        let (of_line, flow) = read().map_err(|what| ImportError { line, what })?;
        form = Some(of_line);
        flows.push(flow);
    }
    let mut notes = Vec::new();
    let Some(form) = form else { return Ok(ImportedFlows { flows, notes }) };
    let more = lines.filter(|(_, line)| is_entry(line, form.columns())).count();
    if flows.len() < count || more > 0 {
        let (read, all) = (flows.len(), flows.len() + more);
        notes
            .push(format!("the first line announces {count} flows, but the file has {all}; {read} are read"));
    }
    if flows.iter().all(|flow| flow.plan.bytes < BYTES_LIKELY) {
        notes.push(format!(
            "all flows have less than {BYTES_LIKELY} bytes; if the file has other columns than {form}, or packets \
             instead of bytes, the results are wrong"
        ));
    }
    Ok(ImportedFlows { flows, notes })
}

fn flow(words: &[&str], form: Form, nodes: &Nodes) -> Result<ImportedFlow, String> {
    let host = |word: &str, what: &str| {
        let id: u32 = number(word, what)?;
        match nodes.names.get(id as usize) {
            Some(Some(Name::Host(host))) => Ok(*host),
            Some(_) => Err(format!("node {id} is a switch; only hosts send and receive flows")),
            None => Err(no_node(id, u32::try_from(nodes.names.len()).unwrap_or(u32::MAX))),
        }
    };
    let (from, to) = (
        host(words[0], "the node number of a flow's sender")?,
        host(words[1], "the node number of a flow's receiver")?,
    );
    let group: u8 = number(words[2], "the priority group of a flow")?;
    let class = Class::new(group)
        .ok_or_else(|| format!("the priority group of a flow is {group}; allowed: 0 to 7"))?;
    let port = match form {
        Form::Hpcc => number(words[3], "the port of a flow's receiver")?,
        Form::ConWeave => 0,
    };
    let last = words.len() - 1;
    let bytes: u64 = number(words[last - 1], "the size of a flow in bytes")?;
    let start: f64 = number(words[last], "the start of a flow in seconds")?;
    if from == to {
        let id = nodes.id(At::Host(from, 0));
        return Err(format!("node {id} sends a flow to itself; name another receiver"));
    }
    if !(1..=FLOW_BYTES_MAX).contains(&bytes) || !(0.0..=SECONDS_MAX).contains(&start) {
        return Err("a flow must have 1 byte to 128 GiB and start within the first hour".into());
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within SECONDS_MAX
    let start = Picos((start * 1e12).round() as u64);
    Ok(ImportedFlow { plan: FlowPlan { from, to, class, bytes, start, tag: 0 }, port })
}

fn number<T: FromStr>(word: &str, wanted: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{word:?} is not {wanted}"))
}

// Tests for SPECIFICATION.md: sim-fabrics
#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Build;

    fn nodes() -> Nodes {
        let links: String = (0..32).map(|host| format!("{host} 32 100Gbps 1us 0\n")).collect();
        super::super::topology(&format!("33 1 32\n32\n{links}"), &Build::ideal())
            .expect("a star is valid")
            .nodes
    }

    fn read(text: &str) -> Result<ImportedFlows, String> {
        flows(text, &nodes()).map_err(|error| error.to_string())
    }

    #[test]
    fn hpcc_and_simai_flow_files_are_read() {
        let flow = |from, to, bytes, start, port| {
            let class = Class::ALL[3];
            ImportedFlow { plan: FlowPlan { from, to, class, bytes, start: Picos(start), tag: 0 }, port }
        };
        let hpcc = "2\n0 3 3 100 1000 2.000001\n\n3 2 3 200 5\t2\n0 1 nobody reads this\n";
        assert_eq!(
            read(hpcc).expect("the flows must be valid"),
            ImportedFlows {
                flows: vec![flow(0, 3, 1_000, 2_000_001_000_000, 100), flow(3, 2, 5, 2_000_000_000_000, 200)],
                notes: Vec::new(),
            }
        );
        let conweave =
            read(include_str!("../../tests/field/conweave-flow-5columns.txt")).expect("ConWeave's flows");
        assert_eq!(conweave.flows[1], flow(5, 3, 65_536, 2_000_002_345_000, 0));
        assert_eq!((conweave.flows.len(), conweave.notes.len()), (3, 0));
    }

    /// HPCC's generator overwrites a longer estimate with the final count of flows, so that a digit is left over.
    #[test]
    fn hpcc_flow_file_with_wrong_count_is_read_and_causes_a_note() {
        let noted = |text: &str| {
            let ImportedFlows { flows, notes } = read(text).expect("the flows must be valid");
            let [note] = &notes[..] else { panic!("{notes:?}") };
            (flows.len(), note.clone())
        };
        assert_eq!(
            noted(include_str!("../../tests/field/count-leftover-digit.txt")),
            (3, "the first line announces 982 flows, but the file has 3; 3 are read".to_owned())
        );
        let (count, note) = noted("1\n0 1 3 100 1000 2\n1 2 3 100 1000 2\nFirst line: # of flows\n");
        assert_eq!(
            (count, &note[..]),
            (1, "the first line announces 1 flows, but the file has 2; 1 are read")
        );
        let (_, note) = noted("2\n0 1 3 10000 2 2.5\n1 0 3 1000 63 2.5\n");
        assert!(note.starts_with("all flows have less than 64 bytes"), "{note}");
        assert!(read("2\n0 1 3 100 64 2\n1 0 3 100 1 2\n").expect("valid flows").notes.is_empty());
    }

    #[test]
    fn error_for_invalid_hpcc_flow_names_the_line() {
        let why = |text: &str| read(text).expect_err("the flows are valid");
        assert_eq!(why(""), "line 1: \"\" is not the number of flows");
        assert_eq!(why("0 3 3 100 9 2"), "line 1: \"0 3 3 100 9 2\" is not the number of flows");
        let forms = "allowed: 6 (HPCC: sender, receiver, class, port, bytes, start), or 5 (ConWeave: sender, \
                     receiver, class, bytes, start)";
        assert_eq!(why("1\n0 3 3 100 9 2 3"), format!("line 2: a flow has 7 columns; {forms}"));
        let cut = "line 3: a flow has 5 columns, but the first flow has 6; all must have equally many";
        assert_eq!(why("2\n0 3 3 100 9 2\n0 3 3 100 9\n"), cut);
        assert_eq!(
            why("1\n32 1 3 100 9 2"),
            "line 2: node 32 is a switch; only hosts send and receive flows"
        );
        assert_eq!(why("1\n0 33 3 9 2"), "line 2: node 33 does not exist; nodes are numbered from 0 to 32");
        assert_eq!(why("1\n0 0 3 100 9 2"), "line 2: node 0 sends a flow to itself; name another receiver");
        assert_eq!(why("1\n\n0 3 8 100 9 2"), "line 3: the priority group of a flow is 8; allowed: 0 to 7");
        assert_eq!(why("1\n0 3 3 65536 9 2"), "line 2: \"65536\" is not the port of a flow's receiver");
        for wrong in ["0 2", "9 -1", "9 3601"] {
            let why = why(&format!("1\n0 3 3 100 {wrong}"));
            assert_eq!(why, "line 2: a flow must have 1 byte to 128 GiB and start within the first hour");
        }
        let of = |bytes: u64| read(&format!("1\n0 3 3 {bytes} 2"));
        assert!(of(FLOW_BYTES_MAX).is_ok() && of(FLOW_BYTES_MAX + 1).is_err());
    }
}
