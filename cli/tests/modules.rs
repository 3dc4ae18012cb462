//! Checks that sibling modules have no cyclic dependencies. A module may use its parent, and a parent its children.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree};

type Names = Vec<String>;

type Graph = BTreeMap<String, BTreeSet<String>>;

#[test]
fn modules_have_no_dependency_cycle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut cycles = Vec::new();
    for (name, least) in [
        ("config", 30),
        ("dataplane", 50),
        ("ebpf", 3),
        ("experiments", 60),
        ("flow-control", 50),
        ("host", 15),
        ("lab", 15),
        ("netlink", 8),
        ("nic", 20),
        ("recording", 8),
        ("sim", 40),
        ("switch", 80),
        ("tester", 15),
        ("testkit", 15),
        ("wire", 20),
        ("xdp", 20),
        ("cli", 25),
    ] {
        let modules = Modules::of(&root.join(name).join("src"));
        assert!(modules.uses.len() >= least, "{name}: {} modules found", modules.uses.len());
        for (parent, graph) in modules.graphs() {
            let (place, cycle) = (format!("{name}::{}", parent.join("::")), cycle(graph));
            if !cycle.is_empty() {
                cycles.push(format!("{place}: {cycle:?}"));
            }
        }
    }
    assert!(cycles.is_empty(), "modules depend on each other in cycles:\n{}", cycles.join("\n"));
}

#[test]
fn cycle_search_finds_siblings_that_depend_on_each_other() {
    let directory = tempfile::tempdir().expect("no directory can be made");
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().expect("the path has no directory"))
            .expect("no directory can be made");
        fs::write(path, text).expect("the file cannot be written");
    };
    write("lib.rs", "mod a; mod b; mod c; pub use a::deep::Deep;");
    write("a/mod.rs", "mod deep; mod leaf; #[cfg(test)] mod tests;");
    write("a/leaf.rs", "use super::deep; // a child may use its sibling\n");
    write("a/tests.rs", "use super::leaf; use crate::b;");
    write("a/deep.rs", "pub struct Deep; fn f() { crate::b::g() }");
    write("b.rs", "pub fn g() {} #[cfg(test)] mod tests { use crate::c; }");
    write("c.rs", "use crate::{Deep, b::g};");
    let found = |modules: Modules| modules.graphs().into_values().map(cycle).collect::<Vec<_>>().concat();
    assert_eq!(found(Modules::of(directory.path())), Names::new());
    write("b.rs", "use super::Deep;");
    assert_eq!(found(Modules::of(directory.path())), ["a", "b"]);
    write("b.rs", "");
    write("a/deep.rs", "pub struct Deep; mod inner { use super::super::leaf::Leaf; }");
    assert_eq!(found(Modules::of(directory.path())), ["deep", "leaf"]);
}

#[derive(Default)]
struct Modules {
    uses: BTreeMap<Names, Vec<Names>>,
    of_tests: BTreeSet<Names>,
}

impl Modules {
    fn of(src: &Path) -> Modules {
        let mut modules = Modules::default();
        for file in files(src) {
            let text = fs::read_to_string(&file).expect("the source file cannot be read");
            let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let mut module = Names::new();
            let relative = file.strip_prefix(src).expect("the file is outside `src`").with_extension("");
            module.extend(relative.iter().map(|name| name.to_string_lossy().into_owned()));
            if module.last().is_some_and(|name| ["lib", "main", "mod"].contains(&name.as_str())) {
                module.pop();
            }
            let mut reader = Reader { modules: &mut modules, module };
            reader.modules.uses.entry(reader.module.clone()).or_default();
            reader.visit_file(&parsed);
        }
        let of_tests = std::mem::take(&mut modules.of_tests);
        modules.uses.retain(|module, _| (0..=module.len()).all(|len| !of_tests.contains(&module[..len])));
        modules
    }

    fn graphs(&self) -> BTreeMap<Names, Graph> {
        let mut graphs: BTreeMap<Names, Graph> = BTreeMap::new();
        for module in self.uses.keys() {
            if let Some((name, parent)) = module.split_last() {
                graphs.entry(parent.to_vec()).or_default().entry(name.clone()).or_default();
            }
        }
        for (module, paths) in &self.uses {
            for path in paths {
                let common = module.iter().zip(path).take_while(|(here, there)| here == there).count();
                let (Some(here), Some(there)) = (module.get(common), path.get(common)) else { continue };
                let parent = &path[..common];
                let sibling = match self.uses.contains_key(&path[..=common]) {
                    true => Some(there),
                    false => self.re_exported(parent, there),
                };
                if let Some(sibling) = sibling.filter(|sibling| *sibling != here) {
                    let graph = graphs.get_mut(parent).expect("the parent has no graph");
                    graph.entry(here.clone()).or_default().insert(sibling.clone());
                }
            }
        }
        graphs
    }

    fn re_exported(&self, parent: &[String], item: &str) -> Option<&String> {
        let re_exports = |path: &&Names| {
            path.len() > parent.len() + 1
                && path.last().is_some_and(|last| last == item)
                && path.starts_with(parent)
                && self.uses.contains_key(&path[..=parent.len()])
        };
        Some(&self.uses.get(parent)?.iter().find(re_exports)?[parent.len()])
    }
}

struct Reader<'a> {
    modules: &'a mut Modules,
    module: Names,
}

impl Reader<'_> {
    fn add(&mut self, names: &[String]) {
        let mut path = self.module.clone();
        let mut names = names.iter().peekable();
        match names.peek().map(|name| name.as_str()) {
            Some("crate") => path.clear(),
            Some("super" | "self") => (),
            // Other paths begin with another crate or a child module. They make no dependency on a sibling, but may re-export a
            // child's item.
            Some(_) => {
                return self.modules.uses.entry(path.clone()).or_default().push({
                    path.extend(names.cloned());
                    path
                });
            }
            None => return,
        }
        while let Some(first) = names.next_if(|name| ["crate", "self", "super"].contains(&name.as_str())) {
            if first == "super" {
                path.pop();
            }
        }
        path.extend(names.cloned());
        self.modules.uses.entry(self.module.clone()).or_default().push(path);
    }

    fn add_tree(&mut self, tree: &UseTree, mut before: Names) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.add_tree(&path.tree, before);
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_tree(tree, before.clone())),
            UseTree::Name(name) => {
                before.push(name.ident.to_string());
                self.add(&before);
            }
            UseTree::Rename(name) => {
                before.push(name.ident.to_string());
                self.add(&before);
            }
            UseTree::Glob(_) => self.add(&before),
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes: &[Attribute] = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => &[],
        };
        if attributes.iter().any(is_of_tests) {
            if let Item::Mod(item) = item {
                let module = [&self.module[..], &[item.ident.to_string()]].concat();
                self.modules.of_tests.insert(module);
            }
            return;
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.module.push(item.ident.to_string());
        if item.content.is_some() {
            self.modules.uses.entry(self.module.clone()).or_default();
        }
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.add_tree(&item.tree, Names::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if names.len() > 1 && ["crate", "self", "super"].contains(&names[0].as_str()) {
            self.add(&names);
        }
        visit::visit_path(self, path);
    }
}

fn is_of_tests(attribute: &Attribute) -> bool {
    let tokens = attribute.meta.require_list().map(|list| list.tokens.to_string()).unwrap_or_default();
    let words: Vec<&str> = tokens.split(|c: char| !c.is_alphanumeric()).collect();
    attribute.path().is_ident("cfg") && words.contains(&"test") && !words.contains(&"not")
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("the directory cannot be read");
    let paths = entries.map(|entry| entry.expect("the directory cannot be read").path());
    let below = |path: PathBuf| match path.is_dir() {
        true => files(&path),
        false => Vec::from_iter(path.extension().is_some_and(|it| it == "rs").then_some(path)),
    };
    paths.flat_map(below).collect()
}

/// Returns the modules on dependency cycles, and on paths from one cycle to another.
fn cycle(mut modules: Graph) -> Names {
    loop {
        let used: BTreeSet<String> = modules.values().flatten().cloned().collect();
        let before = modules.len();
        modules.retain(|name, uses| !uses.is_empty() && used.contains(name));
        if modules.len() == before {
            return modules.into_keys().collect();
        }
        let names: BTreeSet<String> = modules.keys().cloned().collect();
        modules.values_mut().for_each(|uses| uses.retain(|other| names.contains(other)));
    }
}
