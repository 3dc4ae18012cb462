use toml_span::Value;
use toml_span::value::{Table as TomlTable, ValueInner};
use xoff_config::Problem;
use xoff_config::reader::rearrange::{copied, lay_below, table};
use xoff_config::reader::{Parsed, Problems, Table, parse};
use xoff_wire::units::Nanos;

use super::keys::TIME_MAX;
use super::topology::Topology;

xoff_config::keys! {
    struct ChangeKeys {
        at: Nanos = parse::time(Nanos::ZERO..=TIME_MAX);
        switch: ChangeTarget = of;
    }
}

fn of(value: &Value<'_>) -> Parsed<ChangeTarget> {
    match value.as_str() {
        Some("all") => Ok(ChangeTarget::All),
        Some(kind) if !kind.is_empty() => Ok(ChangeTarget::Kind(kind.to_owned())),
        _ => parse::integer(0..=u32::MAX)(value)
            .map(ChangeTarget::Switch)
            .map_err(|_| "\"all\", a kind of switches, or the number of a switch".into()),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeTarget {
    All,
    Kind(String),
    Switch(u32),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub at: Nanos,
    pub of: ChangeTarget,
}

impl Change {
    pub fn is_for(&self, switch: u32, kind: &str) -> bool {
        match &self.of {
            ChangeTarget::All => true,
            ChangeTarget::Kind(own) => own == kind,
            ChangeTarget::Switch(number) => *number == switch,
        }
    }
}

pub(super) fn read(
    change: &Table<'_, '_>,
    end: Nanos,
    topology: Option<&Topology>,
    problems: &mut Problems,
) -> Option<Change> {
    let keys = ChangeKeys::read(change, problems);
    if change.value("at").is_none() {
        problems.push(Problem::missing("[change]", "at", "at = \"2ms\"", change.span));
    }
    if change.has_only(ChangeKeys::KEYS) {
        problems.push(
            Problem::error("a [[change]] has no new settings")
                .at(change.span, "change without effect")
                .help("add settings, which have the keys of [switch.KIND], such as policy = \"ofc\" or class.3.xoff = \"80KB\""),
        );
    }
    super::in_time(keys.at.as_ref(), ["`at` of a change", "change after the end of the run"], end, problems);
    let kinds = topology.map_or(&[][..], |topology| topology.kind.switches());
    if let Some(of) = &keys.switch
        && let ChangeTarget::Kind(kind) = &of.value
        && topology.is_some()
        && !kinds.contains(&kind.as_str())
    {
        problems.push(
            Problem::error(format!("there are no switches of kind `{kind}` in this topology"))
                .at(of.span, "no such kind")
                .help(format!(
                    "use \"all\" for all switches, or a number for one; kinds of switches in this scenario: {}",
                    kinds.join(", ")
                )),
        );
    }
    Some(Change { at: keys.at?.value, of: keys.switch.map_or(ChangeTarget::All, |of| of.value) })
}

pub(super) fn lay_over<'de>(changes: &Value<'de>, number: usize, keys_of_kind: &mut TomlTable<'de>) {
    let change = changes.as_array().and_then(|all| all.get(number));
    let Some(mut over) = change.and_then(|change| table(copied(change).take())) else { return };
    ChangeKeys::KEYS.iter().for_each(|key| _ = over.remove(*key));
    let is_table = |of: &TomlTable<'_>| of.get("policy").is_some_and(|policy| policy.as_table().is_some());
    if is_table(keys_of_kind)
        && !is_table(&over)
        && let Some(policy) = over.get_mut("policy")
    {
        // If `policy` is a table, its key `all` is the policy itself; other keys are parameters of policies.
        let all = Value::with_span(policy.take(), policy.span);
        let key = toml_span::value::Key { name: "all".into(), span: policy.span };
        policy.set(ValueInner::Table(TomlTable::from([(key, all)])));
    }
    lay_below(&mut over, std::mem::take(keys_of_kind));
    *keys_of_kind = over;
}
