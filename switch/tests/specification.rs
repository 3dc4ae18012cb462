//! SPECIFICATION.md names a test for each promise: they exist.

use std::path::Path;

/// Shorthands that SPECIFICATION.md declares.
const SHORTHANDS: [(&str, &str); 7] = [
    ("dp/", "dataplane/src/"),
    ("bed/", "dataplane/tests/behaviour/"),
    ("wire/", "netns-tests/tests/wire/"),
    ("sw/", "switch/src/"),
    ("xdp/", "xdp/src/"),
    ("hosts/", "hosts/src/"),
    ("cfg/", "config/"),
];

#[test]
fn every_test_that_is_named_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join("SPECIFICATION.md")).expect("it stands at the root");
    let named = text.split('`').filter_map(|word| word.split_once(".rs::"));
    let mut count = 0;
    let mut missing = Vec::new();
    for (file, test) in named.filter(|(file, _)| *file != "file") {
        let path = SHORTHANDS
            .iter()
            .find_map(|(short, long)| file.strip_prefix(short).map(|rest| format!("{long}{rest}.rs")))
            .unwrap_or_else(|| format!("{file}.rs"));
        let code = std::fs::read_to_string(root.join(&path)).unwrap_or_default();
        if !code.contains(&format!("fn {test}(")) {
            missing.push(format!("{path}::{test}"));
        }
        count += 1;
    }
    assert!(missing.is_empty(), "named in SPECIFICATION.md, and not there: {missing:#?}");
    assert!(count > 50, "the document has changed its form: {count} tests found");
}
