//! All that a switch has counted, in lines of text: one for each number that is not zero, with where it stands.

use std::fmt::Debug;

use xoff_dataplane::counters::Counters;
use xoff_dataplane::switch::Switch;

/// The ledger and the counters of a switch, once it has come to its end.
#[must_use]
pub fn books(switch: &Switch, counters: &Counters) -> String {
    switch.show_addresses();
    let mut lines = String::new();
    list("ledger", &switch.ledger(), &mut lines);
    list("counters", counters, &mut lines);
    lines
}

/// Whatever a type shows of itself is there, so that nothing is forgotten that comes to it.
fn list(name: &str, of: &impl Debug, lines: &mut String) {
    // What is open: where it stands, and how many have stood in it.
    let mut open: Vec<(String, usize)> = Vec::new();
    for line in format!("{of:#?}").lines() {
        let line = line.trim().trim_end_matches(',');
        if line.starts_with([')', ']', '}']) {
            open.pop();
            continue;
        }
        let (label, value) = match (line.split_once(": "), open.last_mut()) {
            (Some((label, value)), _) => (label.to_owned(), value),
            (None, Some((_, index))) => {
                *index += 1;
                ((*index - 1).to_string(), line)
            }
            (None, None) => (name.to_owned(), line),
        };
        if value.ends_with(['(', '[', '{']) {
            open.push((label, 0));
        } else if value != "0" {
            let place: Vec<&str> = open.iter().map(|(label, _)| label.as_str()).collect();
            *lines += &format!("{}.{label} = {value}\n", place.join("."));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    #[allow(dead_code)] // shown
    struct Outer {
        pairs: [(u8, u8); 2],
        inner: Inner,
        rest: Vec<u8>,
    }

    #[derive(Debug)]
    #[allow(dead_code)] // shown
    struct Inner {
        one: u8,
        none: Option<u8>,
    }

    #[test]
    fn each_number_that_is_not_zero_has_its_line() {
        let of = Outer { pairs: [(0, 0), (0, 7)], inner: Inner { one: 1, none: None }, rest: vec![] };
        let mut lines = String::new();
        list("it", &of, &mut lines);
        assert_eq!(lines, "it.pairs.1.1 = 7\nit.inner.one = 1\nit.inner.none = None\nit.rest = []\n");
    }
}
