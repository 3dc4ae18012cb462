//! Overrides of a scenario's file: `--set`, and points of its sweep.
//!
//! Values of the command line are appended to the file's text, so that errors refer to them as to any line; then they move to their
//! places. A sweep is a list of values for a key. Several combine; the last varies fastest.

use toml_span::Value;
use toml_span::value::ValueInner;
use xoff_config::Problem;
use xoff_config::reader::rearrange::{copied, table};
use xoff_config::reader::{Problems, found};

use crate::set::{self, Given, leaves, list, put};

/// Lists with numbered entries.
const LISTS: [&str; 4] = ["receiver", "load", "fault", "change"];
/// Key that cannot be varied.
const SEED: [&str; 2] = ["scenario", "seed"];
/// Short for `switch.all.policy`.
const POLICY: &str = "policy";

/// Parses a key and value of a scenario.
///
/// # Errors
/// Fails if no scenario has the key.
pub fn given(text: &str) -> Result<Given, String> {
    let given: Given = text.parse()?;
    let parts = given.parts();
    if parts.len() < 2 && parts[0] != POLICY {
        return Err(format!(
            "`{}` is no key with its table, such as topology.k or scenario.duration",
            given.path
        ));
    }
    if parts[0] == "sweep" {
        return Err(
            "a sweep is set in the file only; a key given here, as in policy=ofc, is not varied".into()
        );
    }
    Ok(given)
}

/// Resolves `policy` to `switch.all.policy`, and `policy.all` to `policy`.
fn canonical(path: &[String]) -> Vec<&str> {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match path[..] {
        [POLICY] => vec!["switch", "all", POLICY],
        ["switch", kind, POLICY, "all"] => vec!["switch", kind, POLICY],
        _ => path,
    }
}

fn policy_kind(path: &[String]) -> Option<&str> {
    match canonical(path)[..] {
        ["switch", kind, POLICY] => Some(kind),
        _ => None,
    }
}

#[derive(Clone, Debug)]
pub(super) struct Axis {
    path: Vec<String>,
    labels: Vec<String>,
}

impl Axis {
    pub(super) fn len(&self) -> usize {
        self.labels.len()
    }

    fn name(&self) -> String {
        self.path.join(".")
    }
}

pub(super) fn axes(root: &Value<'_>, problems: &mut Problems) -> Vec<Axis> {
    let overridden = set::checked_values(root, canonical, problems);
    if let Some(value) =
        root.as_table().and_then(|table| table.get("sweep")).filter(|value| value.as_array().is_none())
    {
        problems.push(
            Problem::error("`sweep` has to be a list of tables")
                .at(value.span, "one table")
                .help("write [[sweep]] with two brackets, once for each key that is varied"),
        );
    }
    let mut axes: Vec<Axis> = Vec::new();
    for sweep in list(root, "sweep") {
        let mut found_here = Vec::new();
        leaves(sweep, &mut Vec::new(), &mut found_here);
        if let [(path, values)] = &found_here[..] {
            let labels: Vec<String> = values.as_array().into_iter().flatten().map(label).collect();
            if labels.is_empty() {
                problems.push(
                    Problem::error(format!(
                        "`{}` is {}, but a sweep is a list of values",
                        path.join("."),
                        found(values)
                    ))
                    .at(values.span, "not a list")
                    .help(format!(
                        "for example: {} = [{}]",
                        path.join("."),
                        found(values)
                    )),
                );
            } else if let Some(twice) = (1..labels.len()).find(|&at| labels[..at].contains(&labels[at])) {
                problems.push(
                    Problem::error(format!("`{}` is {} twice", path.join("."), labels[twice]))
                        .at(values.span, "each value once")
                        .help("to measure a point more often, give more seeds"),
                );
            } else if *path == SEED {
                problems.push(
                    Problem::error("`scenario.seed` is varied, but seeds are no points of a sweep")
                        .at(values.span, "seeds")
                        .help("give them by --seeds, as in --seeds 1..10"),
                );
            } else if axes.iter().any(|axis| canonical(&axis.path) == canonical(path)) {
                problems.push(
                    Problem::error(format!("`{}` is varied by two tables", path.join(".")))
                        .at(values.span, "varied again"),
                );
            } else if !overridden.iter().any(|(overridden, _)| canonical(overridden) == canonical(path)) {
                axes.push(Axis { path: path.clone(), labels });
            }
        } else {
            problems.push(
                Problem::error(format!(
                    "a table [[sweep]] varies one key, and this one has {}",
                    found_here.len()
                ))
                .at(sweep.span, "not one key")
                .help("write one table for each key; they are varied with each other"),
            );
        }
    }
    axes
}

fn label(value: &Value<'_>) -> String {
    value.as_str().map_or_else(|| found(value), str::to_owned)
}

/// Varies the last axis fastest.
fn places(axes: &[Axis], mut point: usize) -> Vec<usize> {
    let mut places: Vec<usize> = axes
        .iter()
        .rev()
        .map(|axis| {
            let place = point % axis.len();
            point /= axis.len();
            place
        })
        .collect();
    places.reverse();
    places
}

pub(super) fn labels(axes: &[Axis], point: usize) -> Vec<(String, String)> {
    axes.iter()
        .zip(places(axes, point))
        .map(|(axis, place)| (axis.name(), axis.labels[place].clone()))
        .collect()
}

pub(super) fn apply(root: &mut Value<'_>, axes: &[Axis], point: usize, problems: &mut Problems) {
    let mut put_all: Vec<(Vec<String>, Value<'_>)> = Vec::new();
    for (axis, place) in axes.iter().zip(places(axes, point)) {
        let mut found_here = Vec::new();
        for sweep in list(root, "sweep") {
            leaves(sweep, &mut Vec::new(), &mut found_here);
        }
        let values = found_here.into_iter().find(|(path, _)| *path == axis.path);
        let value = values.and_then(|(_, values)| values.as_array()?.get(place));
        put_all.extend(value.map(|value| (axis.path.clone(), copied(value))));
    }
    put_all.extend(set::values(root).into_iter().map(|(path, value)| (path, copied(value))));
    let mut top = table(root.take()).unwrap_or_default();
    top.remove(set::SET);
    top.remove("sweep");
    root.set(ValueInner::Table(top));
    // A policy's kind is set last: it may go into the table of the policy's parameters, which other values create.
    put_all.sort_by_key(|(path, _)| policy_kind(path).is_some());
    for (path, value) in put_all {
        let path = policy_kind(&path).map_or_else(|| path.clone(), |kind| policy_path(root, kind));
        let span = value.span;
        let is_there = |name: &str| root.as_table().is_some_and(|top| top.contains_key(name));
        if let Some(name) = LISTS.into_iter().find(|name| path[0] == *name && !is_there(name)) {
            problems.push(
                Problem::error(format!("`{}`: there is no [[{name}]]", path.join(".")))
                    .at(span, "cannot be put there")
                    .help(format!(
                        "write [[{name}]] into the file first: this changes a key of one that is there, the first by {name}.0"
                    )),
            );
        } else if let Err(at) = put(root, &path, value) {
            problems.push(
                Problem::error(format!("`{}`: {at}", path.join(".")))
                    .at(span, "cannot be put there")
                    .help("write a key with its table, as in topology.k, and a load by its number, as in load.0.load"),
            );
        }
    }
}

/// Returns `policy.all` if parameters of policies exist.
fn policy_path(root: &Value<'_>, kind: &str) -> Vec<String> {
    let has_parameters =
        root.pointer(&format!("/switch/{kind}/{POLICY}")).is_some_and(|policy| policy.as_table().is_some());
    let path = ["switch", kind, POLICY].into_iter().chain(has_parameters.then_some("all"));
    path.map(str::to_owned).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_wire::units::{BitRate, Nanos};

    use super::super::{PortLine, Source};

    const PORT: PortLine = PortLine { rate: BitRate::from_gbps(10), delay: Nanos(500), ofc: true, gfc: true };
    const FABRIC: &str = "[scenario]\nname = \"x\"\n[topology]\nkind = \"single\"\nhosts = 3\n[[load]]\nkind = \"permutation\"\nsize = 1\n";
    const POLICIES: &str = "[[sweep]]\npolicy = [\"pfc\", \"ofc\"]\n";

    fn source(text: &str, set: &[&str]) -> Result<Source, String> {
        let given: Vec<_> = set.iter().map(|text| text.parse().unwrap()).collect();
        Source::from_toml("x", &format!("{FABRIC}{text}"), &given).map_err(|error| format!("{error:?}"))
    }

    // proves: scenarios
    #[test]
    fn policies_of_all_switches_are_one_key() {
        for (one, other) in [
            ("policy=gfc", "switch.all.policy=ofc"),
            ("switch.all.policy=gfc", "policy=ofc"),
            ("switch.all.policy.all=gfc", "policy=ofc"),
        ] {
            let overridden = source(POLICIES, &[one]).unwrap();
            assert_eq!(overridden.points(), 1, "{one} is not varied");
            let policies =
                |source: &Source| source.switch(0, "switch", &[PORT]).map(|config| config.switch.policies);
            let file = source("[switch.all]\npolicy = \"gfc\"\n", &[]).unwrap();
            assert_eq!(policies(&overridden).unwrap(), policies(&file).unwrap(), "{one}");
            assert!(source("", &[one, other]).unwrap_err().contains("twice"), "{one}, {other}");
        }
        let parameters = "[switch.all.policy.ofc]\nalpha = 0.8\n";
        assert_eq!(
            source(&format!("{parameters}{POLICIES}"), &["switch.all.policy=ofc"]).unwrap().points(),
            1
        );
        let alpha = "switch.all.policy.ofc.alpha=0.8";
        let of_kind = ["switch.switch.policy=ofc", "switch.switch.policy.ofc.alpha=0.8"];
        let [one, other] = of_kind;
        for set in [
            [alpha, "policy=ofc"],
            ["policy=ofc", alpha],
            ["switch.all.policy.all=ofc", alpha],
            of_kind,
            [other, one],
        ] {
            let overridden = source("", &set).unwrap().switch(0, "switch", &[PORT]).unwrap();
            let file =
                source(&format!("{parameters}all = \"ofc\"\n").replace(".ofc]\n", "]\nofc."), &[]).unwrap();
            assert_eq!(
                overridden.switch.policies,
                file.switch(0, "switch", &[PORT]).unwrap().switch.policies,
                "{set:?}"
            );
        }
        let both = format!("{POLICIES}[[sweep]]\nswitch.all.policy = [\"pfc\", \"gfc\"]\n");
        assert!(source(&both, &[]).unwrap_err().contains("is varied by two tables"));
    }
}
