use thiserror::Error;
use xoff_wire::units::Class;

use super::{Load, NewFlows};
use crate::flows::{FLOW_BYTES_MAX, FlowPlan};
use crate::permutation::derangement;
use crate::seed::Seed;
use crate::time::Picos;

/// Fixed list of flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed(pub Vec<FlowPlan>);

impl Load for Listed {
    fn begin(&mut self, new_flows: &mut NewFlows) {
        self.0.iter().for_each(|plan| {
            new_flows.add(*plan);
        });
    }

    fn listens(&self) -> bool {
        false
    }
}

/// Returns one flow per host, to the receivers of a random permutation.
#[must_use]
pub fn permutation(hosts: u32, class: Class, bytes: u64, start: Picos, seed: Seed) -> Vec<FlowPlan> {
    let to = derangement(hosts, seed);
    (0..).zip(to).map(|(from, to)| FlowPlan { from, to, class, bytes, start, tag: 0 }).collect()
}

/// Returns one flow per host, to the host `ahead` places further on a ring of switches. Flows over two or more ring
/// links can deadlock.
#[must_use]
pub fn ring(hosts: u32, ahead: u32, class: Class, bytes: u64, start: Picos) -> Vec<FlowPlan> {
    (0..hosts)
        .map(|from| FlowPlan { from, to: (from + ahead) % hosts, class, bytes, start, tag: 0 })
        .collect()
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the names say it
pub enum ParseError {
    #[error(
        "line {line}: {text:?} is not a flow; write sender, receiver, class, bytes and start in ns, such as \"0 5 3 150000 2000\""
    )]
    Line { line: usize, text: String },
    #[error("line {line}: host {host} does not exist; hosts are numbered from 0 to {}", hosts.saturating_sub(1))]
    Host { line: usize, host: u32, hosts: u32 },
    #[error("line {line}: host {host} sends a flow to itself; name another receiver")]
    Itself { line: usize, host: u32 },
    #[error("line {line}: the flow has {bytes} bytes; at most {FLOW_BYTES_MAX} (128 GiB) are allowed")]
    Size { line: usize, bytes: u64 },
}

/// Parses a flow per line: sender, receiver, class, bytes, start in nanoseconds. `#` begins a comment.
///
/// # Errors
/// If a line is malformed, or a host is not below `hosts`.
pub fn parse_flows(text: &str, hosts: u32) -> Result<Vec<FlowPlan>, ParseError> {
    let mut flows = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let content = text.split('#').next().unwrap_or_default().trim();
        if content.is_empty() {
            continue;
        }
        let plan = flow(content).ok_or_else(|| ParseError::Line { line, text: text.to_owned() })?;
        if let Some(host) = [plan.from, plan.to].into_iter().find(|host| *host >= hosts) {
            return Err(ParseError::Host { line, host, hosts });
        }
        if plan.from == plan.to {
            return Err(ParseError::Itself { line, host: plan.from });
        }
        if plan.bytes > FLOW_BYTES_MAX {
            return Err(ParseError::Size { line, bytes: plan.bytes });
        }
        flows.push(plan);
    }
    Ok(flows)
}

fn flow(line: &str) -> Option<FlowPlan> {
    let words: Vec<u64> = line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let [from, to, class, bytes, start] = words[..] else { return None };
    Some(FlowPlan {
        from: from.try_into().ok()?,
        to: to.try_into().ok()?,
        class: Class::new(class.try_into().ok()?)?,
        bytes,
        start: Picos::from_nanos(start),
        tag: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parser_reads_flow_list_with_comments_and_empty_lines() {
        let flows = parse_flows("# from to class bytes start\n0 1 3 1500 20 # the first\n\n1 0 0 0 0\n", 2);
        let plan = |from, to, class: usize, bytes, start| FlowPlan {
            from,
            to,
            class: Class::ALL[class],
            bytes,
            start: Picos(start),
            tag: 0,
        };
        assert_eq!(flows, Ok(vec![plan(0, 1, 3, 1_500, 20_000), plan(1, 0, 0, 0, 0)]));
    }

    #[test] // proves: sim-fabrics
    fn error_for_invalid_flow_of_flow_list_names_the_line() {
        let why = |text: &str| parse_flows(text, 2).expect_err("no flows");
        let text = |text: &str| text.to_owned();
        assert_eq!(why("0 1 3 1500"), ParseError::Line { line: 1, text: text("0 1 3 1500") });
        assert_eq!(why("0 1 8 1500 0"), ParseError::Line { line: 1, text: text("0 1 8 1500 0") });
        assert_eq!(why("\n0 2 3 1500 0"), ParseError::Host { line: 2, host: 2, hosts: 2 });
        assert_eq!(why("1 1 3 1500 0"), ParseError::Itself { line: 1, host: 1 });
        let of = |bytes: u64| parse_flows(&format!("0 1 3 {bytes} 0"), 2);
        assert!(of(FLOW_BYTES_MAX).is_ok());
        assert_eq!(of(FLOW_BYTES_MAX + 1), Err(ParseError::Size { line: 1, bytes: FLOW_BYTES_MAX + 1 }));
        assert!(why("0 2 3 1 0").to_string().contains("from 0 to 1"));
    }
}
