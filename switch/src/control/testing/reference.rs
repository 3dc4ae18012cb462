use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

/// Environment variable with which a test writes its document instead of comparing it.
pub const WRITE: &str = "XOFF_WRITE_REFERENCE";

#[derive(Default)]
struct MetricFamily {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

fn families(text: &str) -> BTreeMap<String, MetricFamily> {
    let mut families = BTreeMap::<String, MetricFamily>::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            families.entry(name.to_owned()).or_default().help = help.to_owned();
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            families.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if let Some((name, rest)) = line.split_once('{') {
            let suffixes = ["_bucket", "_sum", "_count"];
            let of_histogram =
                suffixes.iter().find_map(|suffix| families.get(name.strip_suffix(suffix)?).map(|_| suffix));
            let name = of_histogram.map_or(name, |suffix| name.trim_end_matches(suffix));
            let labels = rest.split("=\"").filter_map(|part| part.rsplit([',', '{']).next());
            let labels = labels.filter(|label| label.chars().all(|c| c == '_' || c.is_ascii_lowercase()));
            let labels = labels.filter(|label| !["switch", "le"].contains(label)).map(str::to_owned);
            families.get_mut(name).expect("a metric's family must precede its samples").labels.extend(labels);
        }
    }
    families
}

#[must_use]
pub fn metric_table(text: &str) -> String {
    let mut table = "| metric | labels | meaning |\n|---|---|---|\n".to_owned();
    for (name, MetricFamily { kind, help, labels }) in families(text) {
        let labels = labels.into_iter().collect::<Vec<_>>().join(", ");
        let of_name = if name.ends_with("_total") { "counter" } else { "gauge" };
        let kind = if kind == of_name { String::new() } else { format!(" ({kind})") };
        let _ = writeln!(table, "| `{name}`{kind} | {labels} | {help} |");
    }
    table
}

pub fn compare(section: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference.md");
    let document = fs::read_to_string(&path).expect("docs/reference.md must be readable");
    let heading = section.lines().next().expect("a section of the reference must begin with its heading");
    let start = document
        .find(&format!("{heading}\n"))
        .unwrap_or_else(|| panic!("docs/reference.md must have the heading {heading}"));
    let end = document[start + 1..].find("\n## ").map_or(document.len(), |at| start + 1 + at + 1);
    let written = document[start..end].trim_end();
    let section = section.trim_end();
    if env::var_os(WRITE).is_some() {
        let rest = &document[end..];
        let gap = if rest.is_empty() { "\n" } else { "\n\n" };
        fs::write(&path, format!("{}{section}{gap}{rest}", &document[..start]))
            .expect("docs/reference.md must be writable");
        return;
    }
    let [there, here] = [written, section].map(|text| text.lines().collect::<Vec<_>>());
    let differs =
        there.iter().find(|line| !here.contains(line)).or(here.iter().find(|line| !there.contains(line)));
    assert!(
        written == section,
        "docs/reference.md differs from the code: {differs:?}; write it with {WRITE}=1 cargo nextest run -j 1 -E 'test(reference)'"
    );
}
