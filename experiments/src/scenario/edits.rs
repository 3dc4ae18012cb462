use toml_span::Value;
use toml_span::value::ValueInner;
use xoff_config::Problem;
use xoff_config::reader::rearrange::{copied, table};
use xoff_config::reader::{Problems, found};

use crate::set::{self, Given, leaves, list, put};

const LISTS: [&str; 4] = ["receiver", "load", "fault", "change"];
const SEED: [&str; 2] = ["scenario", "seed"];
const POLICY: &str = "policy";

/// Parses KEY=VALUE for a scenario.
///
/// # Errors
/// If no scenario can have the key.
pub fn given(text: &str) -> Result<Given, String> {
    let given: Given = text.parse()?;
    let parts = given.parts();
    if parts.len() < 2 && parts[0] != POLICY {
        return Err(format!(
            "`{}` does not have the form TABLE.KEY: write for example topology.k or scenario.duration",
            given.path
        ));
    }
    if parts[0] == "sweep" {
        return Err(
            "--set cannot add a sweep: write [[sweep]] in the file; to give a swept key one value, set this key, as in policy=ofc".into()
        );
    }
    Ok(given)
}

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
                .at(value.span, "no list of tables")
                .help("write one table [[sweep]], with two brackets, for each varied key"),
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
                        .at(values.span, "repeated value")
                        .help("list each value once; for more runs of a point use more seeds"),
                );
            } else if *path == SEED {
                problems.push(
                    Problem::error("`scenario.seed` cannot be varied by a sweep")
                        .at(values.span, "seeds in a sweep")
                        .help("give seeds by --seeds, as in --seeds 1..10"),
                );
            } else if axes.iter().any(|axis| canonical(&axis.path) == canonical(path)) {
                problems.push(
                    Problem::error(format!("`{}` is varied by two [[sweep]] tables", path.join(".")))
                        .at(values.span, "varied again"),
                );
            } else if !overridden.iter().any(|(overridden, _)| canonical(overridden) == canonical(path)) {
                axes.push(Axis { path: path.clone(), labels });
            }
        } else {
            problems.push(
                Problem::error(format!("a [[sweep]] has {} keys, but has to vary one key", found_here.len()))
                    .at(sweep.span, "not one key")
                    .help("write one table [[sweep]] for each key; all combinations are run"),
            );
        }
    }
    axes
}

fn label(value: &Value<'_>) -> String {
    value.as_str().map_or_else(|| found(value), str::to_owned)
}

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
    // Set the policy last. Its key is `policy`, unless another edit (such as `policy.KEY`) has made `policy` a table:
    // then it is `policy.all`.
    put_all.sort_by_key(|(path, _)| policy_kind(path).is_some());
    for (path, value) in put_all {
        let path = policy_kind(&path).map_or_else(|| path.clone(), |kind| policy_path(root, kind));
        let span = value.span;
        let is_there = |name: &str| root.as_table().is_some_and(|top| top.contains_key(name));
        if let Some(name) = LISTS.into_iter().find(|name| path[0] == *name && !is_there(name)) {
            problems.push(
                Problem::error(format!("`{}`: the file has no [[{name}]]", path.join(".")))
                    .at(span, "entry does not exist")
                    .help(format!(
                        "add a [[{name}]] to the file first: this key changes an existing one; {name}.0 is the first"
                    )),
            );
        } else if let Err(at) = put(root, &path, value) {
            problems.push(
                Problem::error(format!("`{}`: {at}", path.join(".")))
                    .at(span, "cannot be set")
                    .help("write a key with its table, as in topology.k, and a list's entry by number, as in load.0.load"),
            );
        }
    }
}

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

    #[test] // proves: scenarios
    fn override_replaces_policy_in_short_and_long_spelling() {
        for (one, other) in [
            ("policy=gfc", "switch.all.policy=ofc"),
            ("switch.all.policy=gfc", "policy=ofc"),
            ("switch.all.policy.all=gfc", "policy=ofc"),
        ] {
            let overridden = source(POLICIES, &[one]).unwrap();
            assert_eq!(overridden.points(), 1, "{one} is still varied");
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
        assert!(source(&both, &[]).unwrap_err().contains("is varied by two [[sweep]]"));
    }
}
