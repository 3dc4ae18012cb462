use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;
use xoff_wire::units::BitRate;

use super::graph::{Build, Graph};
use crate::ends::Line;
use crate::plan::Plan;
use crate::time::Picos;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the names say it
pub enum EdgeError {
    #[error(
        "line {line}: {text:?} is not a link; write two ends, rate in Gb/s (0.001 to 1600) \
         and delay in ns (at most 5 ms), such as \"h0 s0 100 500\""
    )]
    Line { line: usize, text: String },
    #[error(
        "line {line}: the link connects two hosts, or a switch with itself; \
         a link must connect two switches (s0, s1, ..), or a switch and a host (h0, h1, ..)"
    )]
    Ends { line: usize },
    #[error("{kind}{number} has no link; number switches and hosts from 0 without gaps")]
    Missing {
        /// Kind of the missing node: `s` (switch) or `h` (host).
        kind: char,
        /// Lowest number without a link.
        number: u32,
    },
    #[error("line {line}: {node} has more than {max} links", max = node.links_max())]
    Ports { line: usize, node: Name },
}

/// Name of a node: its kind, and its number within the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // the names say it
pub enum Name {
    Switch(u32),
    Host(u32),
}

impl Name {
    pub(crate) const fn links_max(self) -> usize {
        match self {
            Name::Switch(_) => xoff_wire::units::PORTS_MAX,
            Name::Host(_) => u8::MAX as usize,
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Switch(number) => write!(f, "s{number}"),
            Name::Host(number) => write!(f, "h{number}"),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Edges {
    hosts: BTreeMap<u32, Vec<(u32, Line)>>,
    links: Vec<(u32, u32, Line)>,
    ports: BTreeMap<u32, usize>,
}

impl Edges {
    pub(crate) fn add(&mut self, number: usize, a: Name, b: Name, line: Line) -> Result<(), EdgeError> {
        let switches: &[u32] = match (a, b) {
            (Name::Switch(a), Name::Switch(b)) if a != b => {
                self.links.push((a, b, line));
                &[a, b]
            }
            (Name::Switch(switch), Name::Host(host)) | (Name::Host(host), Name::Switch(switch)) => {
                let links = self.hosts.entry(host).or_default();
                links.push((switch, line));
                let node = Name::Host(host);
                if links.len() > node.links_max() {
                    return Err(EdgeError::Ports { line: number, node });
                }
                &[switch]
            }
            _ => return Err(EdgeError::Ends { line: number }),
        };
        for &switch in switches {
            let ports = self.ports.entry(switch).or_default();
            *ports += 1;
            let node = Name::Switch(switch);
            if *ports > node.links_max() {
                return Err(EdgeError::Ports { line: number, node });
            }
        }
        Ok(())
    }

    pub(crate) fn graph(&self) -> Result<Graph, EdgeError> {
        let Edges { hosts, links, ports } = self;
        all_there('s', ports.keys())?;
        all_there('h', hosts.keys())?;
        let mut graph = Graph::default();
        layers(ports.len(), hosts, links).into_iter().for_each(|layer| _ = graph.add_switch(layer));
        for own in hosts.values() {
            let mut host = None;
            for &(switch, line) in own {
                match host {
                    None => host = Some(graph.add_host(switch, line)),
                    Some(host) => graph.attach(host, switch, line),
                }
            }
        }
        links.iter().for_each(|&(a, b, line)| graph.link(a, b, line));
        Ok(graph)
    }
}

/// Parses one link per line: two ends (`s` or `h` with a number), rate in Gb/s, delay in nanoseconds. `#` begins a
/// comment.
///
/// A switch's first ports lead to hosts, by host number; others follow in the text's order. A switch's layer is its
/// distance from the nearest switch with hosts.
///
/// # Errors
/// If a line is malformed, a node has too many links, or a number is missing.
pub fn edge_list(text: &str, build: &Build) -> Result<Plan, EdgeError> {
    let mut edges = Edges::default();
    for (number, text) in (1..).zip(text.lines()) {
        let content = text.split('#').next().unwrap_or_default().trim();
        if content.is_empty() {
            continue;
        }
        let (a, b, line) =
            link(content).ok_or_else(|| EdgeError::Line { line: number, text: text.to_owned() })?;
        edges.add(number, a, b, line)?;
    }
    Ok(edges.graph()?.plan(build))
}

fn layers(switches: usize, hosts: &BTreeMap<u32, Vec<(u32, Line)>>, links: &[(u32, u32, Line)]) -> Vec<u8> {
    let mut layers = vec![u8::MAX; switches];
    hosts.values().flatten().for_each(|(switch, _)| layers[*switch as usize] = 0);
    loop {
        let mut has_changed = false;
        for &(a, b, _) in links {
            for (one, other) in [(a as usize, b as usize), (b as usize, a as usize)] {
                let next = layers[one].saturating_add(1);
                if next < layers[other] {
                    layers[other] = next;
                    has_changed = true;
                }
            }
        }
        if !has_changed {
            return layers;
        }
    }
}

fn all_there<'a>(kind: char, numbers: impl Iterator<Item = &'a u32>) -> Result<(), EdgeError> {
    let first = (0..).zip(numbers).find(|(expected, number)| expected != *number);
    first.map_or(Ok(()), |(number, _)| Err(EdgeError::Missing { kind, number }))
}

const RATE_MIN: u64 = 1_000_000;
const DELAY_MAX: Picos = Picos::from_micros(5_000);

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // not negative, and a cast saturates
pub(crate) fn line_of(rate: f64, delay: f64) -> Option<Line> {
    let delay = Some(delay).filter(|delay| *delay >= 0.0).map(|delay| Picos((delay * 1e12).round() as u64));
    let (rate, delay) = (BitRate::new(rate.round() as u64)?, delay?);
    (rate.bits_per_second() >= RATE_MIN && delay <= DELAY_MAX).then_some(Line { rate, delay })
}

fn link(line: &str) -> Option<(Name, Name, Line)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [a, b, rate, delay] = words[..] else { return None };
    let (rate, delay): (f64, f64) = (rate.parse().ok()?, delay.parse().ok()?);
    Some((name(a)?, name(b)?, line_of(rate * 1e9, delay / 1e9)?))
}

fn name(word: &str) -> Option<Name> {
    match word.split_at_checked(1)? {
        ("s", number) => number.parse().ok().map(Name::Switch),
        ("h", number) => number.parse().ok().map(Name::Host),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(text: &str) -> EdgeError {
        edge_list(text, &Build::ideal()).expect_err("no fabric")
    }

    #[test] // proves: sim-fabrics
    fn error_for_invalid_edge_list_names_the_line() {
        let line = |line, text: &str| EdgeError::Line { line, text: text.to_owned() };
        assert_eq!(why("h0 s0 100"), line(1, "h0 s0 100"));
        assert_eq!(why("# fine\nh0 x0 100 1"), line(2, "h0 x0 100 1"));
        assert_eq!(why("h0 s0 0 1"), line(1, "h0 s0 0 1"));
        assert_eq!(why("h0 s0 1 -1"), line(1, "h0 s0 1 -1"));
        for (fine, wrong) in
            [("1600 1", "1601 1"), ("0.001 1", "0.00099 1"), ("1 5e6", "1 5000000.01"), ("1 0", "1 nan")]
        {
            assert!(edge_list(&format!("h0 s0 {fine}\nh1 s0 1 1"), &Build::ideal()).is_ok(), "{fine}");
            assert_eq!(why(&format!("h0 s0 {wrong}")), line(1, &format!("h0 s0 {wrong}")));
        }
        assert_eq!(why("h0 h1 100 1"), EdgeError::Ends { line: 1 });
        assert_eq!(why("s0 s0 100 1"), EdgeError::Ends { line: 1 });
        assert_eq!(why("h0 s1 100 1"), EdgeError::Missing { kind: 's', number: 0 });
        assert_eq!(why("h0 s0 100 1\nh2 s0 100 1"), EdgeError::Missing { kind: 'h', number: 1 });
    }
}
