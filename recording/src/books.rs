//! Final counts of a switch as text: one line `path = value` per nonzero number.

use std::fmt::Debug;

use xoff_dataplane::switch::Switch;
use xoff_flow_control::counters::Counters;

#[must_use]
pub fn books(switch: &Switch, counters: &Counters) -> String {
    switch.show_addresses();
    let mut lines = String::new();
    list("ledger", &switch.ledger(), &mut lines);
    list("counters", counters, &mut lines);
    lines
}

/// Lists every nonzero field of the `Debug` output, so that new counters are included automatically.
fn list(name: &str, of: &impl Debug, lines: &mut String) {
    // Stack of enclosing structures, each with its label and the number of unnamed elements read.
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
    use std::fmt;

    use super::*;

    struct Outer;

    impl Debug for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let rest: [u8; 0] = [];
            let mut fields = f.debug_struct("Outer");
            fields.field("pairs", &[(0, 0), (0, 7)]).field("inner", &Inner).field("rest", &rest).finish()
        }
    }

    struct Inner;

    impl Debug for Inner {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Inner").field("one", &1).field("none", &None::<u8>).finish()
        }
    }

    #[test]
    fn final_counts_of_recording_list_every_nonzero_counter() {
        let mut lines = String::new();
        list("it", &Outer, &mut lines);
        assert_eq!(lines, "it.pairs.1.1 = 7\nit.inner.one = 1\nit.inner.none = None\nit.rest = []\n");
    }
}
