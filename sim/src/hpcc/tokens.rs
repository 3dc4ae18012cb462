use std::fmt;
use std::str::{FromStr, Lines, SplitWhitespace};

use super::ImportError;

pub(super) const RATE: &str = "the rate of a link, such as 100Gbps";
pub(super) const DELAY: &str = "the delay of a link, such as 1us or 0.001ms";

pub(super) const RATES: [(&str, f64); 24] = [
    ("", 1.0),
    ("bps", 1.0),
    ("b/s", 1.0),
    ("Bps", 8.0),
    ("B/s", 8.0),
    ("kbps", 1e3),
    ("kb/s", 1e3),
    ("Kbps", 1e3),
    ("Kb/s", 1e3),
    ("kBps", 8e3),
    ("kB/s", 8e3),
    ("KBps", 8e3),
    ("KB/s", 8e3),
    ("Kib/s", 1024.0),
    ("Mbps", 1e6),
    ("Mb/s", 1e6),
    ("MBps", 8e6),
    ("MB/s", 8e6),
    ("Mib/s", 1_048_576.0),
    ("Gbps", 1e9),
    ("Gb/s", 1e9),
    ("GBps", 8e9),
    ("GB/s", 8e9),
    ("Gib/s", 1_073_741_824.0),
];
pub(super) const TIMES: [(&str, f64); 7] =
    [("", 1.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("ps", 1e-12), ("fs", 1e-15)];

pub(super) struct Tokens<'a> {
    lines: Lines<'a>,
    rest: SplitWhitespace<'a>,
    line: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Tokens<'a> {
        Tokens { lines: text.lines(), rest: "".split_whitespace(), line: 0 }
    }

    pub(super) fn next(&mut self, wanted: &dyn fmt::Display) -> Result<&'a str, ImportError> {
        loop {
            if let Some(word) = self.rest.next() {
                return Ok(word);
            }
            let Some(line) = self.lines.next() else {
                return Err(ImportError {
                    line: self.line.max(1),
                    what: format!("the file ends too early: {wanted} is missing"),
                });
            };
            self.line += 1;
            self.rest = line.split_whitespace();
        }
    }

    pub(super) fn number<T: FromStr>(&mut self, wanted: &str) -> Result<T, ImportError> {
        let word = self.next(&wanted)?;
        word.parse().map_err(|_| self.wrong(format!("{word:?} is not {wanted}")))
    }

    pub(super) fn quantity(&mut self, units: &[(&str, f64)], wanted: &str) -> Result<f64, ImportError> {
        let word = self.next(&wanted)?;
        let number = word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic() || letter == '/');
        let unit = units.iter().find(|(unit, _)| *unit == &word[number.len()..]);
        let quantity = unit.and_then(|(_, factor)| Some(number.parse::<f64>().ok()? * factor));
        quantity.ok_or_else(|| self.wrong(format!("{word:?} is not {wanted}")))
    }

    pub(super) fn next_line(&self) -> Vec<&'a str> {
        let words = |line: &'a str| line.split_whitespace().collect::<Vec<_>>();
        self.lines.clone().map(words).find(|words| !words.is_empty()).unwrap_or_default()
    }

    pub(super) fn following(&self, words: usize) -> usize {
        self.lines.clone().filter(|line| is_entry(line, words)).count()
    }

    pub(super) const fn line(&self) -> usize {
        self.line
    }

    pub(super) fn wrong(&self, what: String) -> ImportError {
        ImportError { line: self.line, what }
    }
}

pub(super) fn is_entry(line: &str, words: usize) -> bool {
    let mut numbers = line.split_whitespace();
    let is_number = |word: Option<&str>| word.is_some_and(|word| word.parse::<u32>().is_ok());
    is_number(numbers.next()) && is_number(numbers.next()) && numbers.count() + 2 == words
}
