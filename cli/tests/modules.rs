//! Within each crate, modules depend on each other in one direction: no circle can be left that way.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

type Graph = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_modules_depend_on_each_other_in_a_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (name, least) in [
        ("config", 15),
        ("dataplane", 20),
        ("experiments", 20),
        ("host", 15),
        ("lab", 8),
        ("nic", 10),
        ("sim", 10),
        ("switch", 12),
        ("testkit", 4),
        ("xdp", 12),
    ] {
        let modules = modules(&root.join(name).join("src"));
        assert!(modules.len() >= least, "{name}: {} modules found", modules.len());
        let circle = circle(modules);
        assert!(circle.is_empty(), "{name}: among these modules there is a circle: {circle:#?}");
    }
}

/// The modules at the top of a crate, each with those that it names, but for tests.
fn modules(src: &Path) -> Graph {
    let mut modules = Graph::new();
    for entry in fs::read_dir(src).expect("every crate has sources") {
        let path = entry.expect("a directory can be read").path();
        let name = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
        if !["lib", "main", "testing"].contains(&name.as_str()) {
            let named = named(&path);
            modules.insert(name, named);
        }
    }
    let names: BTreeSet<String> = modules.keys().cloned().collect();
    for (name, named) in &mut modules {
        named.retain(|other| other != name && names.contains(other));
    }
    modules
}

/// What follows `crate::` in a file, or in all files of a directory.
fn named(path: &Path) -> BTreeSet<String> {
    if path.is_dir() {
        let entries = fs::read_dir(path).expect("a directory can be read");
        return entries.flat_map(|entry| named(&entry.expect("a directory can be read").path())).collect();
    }
    let is_test = path.ends_with("tests.rs") || path.ends_with("bench.rs");
    if is_test || path.extension().is_none_or(|extension| extension != "rs") {
        return BTreeSet::new();
    }
    let text = fs::read_to_string(path).expect("a source file can be read");
    let code = text.split("\nmod tests {").next().unwrap_or_default().lines();
    let code: String = code.filter(|line| !line.trim_start().starts_with("//")).collect();
    let rest = code.split("crate::").skip(1).map(|rest| rest.split(';').next().unwrap_or_default());
    rest.flat_map(|rest| {
        let many =
            rest.strip_prefix('{').unwrap_or(rest.split(|c: char| !is_of_name(c)).next().unwrap_or_default());
        many.split(|c: char| !is_of_name(c)).map(str::to_owned).collect::<Vec<_>>()
    })
    .collect()
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// What is left once every module is taken away that depends on none of the others, or that none depends on.
fn circle(mut modules: Graph) -> Graph {
    loop {
        let used: BTreeSet<String> = modules.values().flatten().cloned().collect();
        let before = modules.len();
        modules.retain(|name, named| !named.is_empty() && used.contains(name));
        if modules.len() == before {
            return modules;
        }
        let names: BTreeSet<String> = modules.keys().cloned().collect();
        modules.values_mut().for_each(|named| named.retain(|other| names.contains(other)));
    }
}
