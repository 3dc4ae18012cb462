use toml_span::value::Table as TomlTable;
use toml_span::{Span, Value};
use xoff_config::Problem;
use xoff_config::reader::Problems;

use super::topology::Topology;

const SWITCH: &[&str] = &["class", "qcn", "defaults"];
const DEFAULTS: &[&str] = &["mtu"];
const CLASS: &[&str] = &["xoff", "xon", "headroom", "ingress_max"];

pub(super) fn check(root: &Value<'_>, topology: &Topology, longest: u32, problems: &mut Problems) {
    let Some(fabric) = topology.scheduled() else { return };
    let place = |place: &str| root.pointer(place).map_or(Span::default(), |value| value.span);
    let cells = fabric.cells(longest);
    if fabric.credits < cells {
        problems.push(
            Problem::error(format!(
                "an output has {} credits, but the longest frame needs {cells}, one for each cell",
                fabric.credits
            ))
            .at(place("/topology/credits"), "this frame would wait forever")
            .help(format!(
                "set `credits` to at least {cells}, or a larger `cell`, or a smaller `payload` in [hosts] or `mss` in [hosts.tcp]"
            )),
        );
    }
    for name in ["fault", "change"] {
        if let Some(value) = root.pointer(&format!("/{name}")) {
            problems.push(
                Problem::error(format!("a scheduled fabric cannot have a [[{name}]]"))
                    .at(value.span, "not for this kind of topology")
                    .help(format!("remove [[{name}]], or set `kind` in [topology] to \"leaf-spine\"")),
            );
        }
    }
    let (pauses, marks) = ("pause whole classes", "do not mark ECN");
    for (key, choice, why) in [
        ("ofc", "ofc", pauses),
        ("gfc", "gfc", pauses),
        ("control", "dcqcn", marks),
        ("tcp/control", "dctcp", marks),
        ("tcp/ecn", "ecn", marks),
    ] {
        let is_chosen = |value: &&Value<'_>| value.as_bool() == Some(true) || value.as_str() == Some(choice);
        if let Some(value) = root.pointer(&format!("/hosts/{key}")).filter(is_chosen) {
            problems.push(
                Problem::error(format!(
                    "`{choice}` has no effect, because leaves of a scheduled fabric {why}"
                ))
                .at(value.span, "no effect")
                .help("remove this key"),
            );
        }
    }
    let Some(switches) = root.pointer("/switch").and_then(Value::as_table) else { return };
    for (kind, settings) in switches {
        let Some(settings) = settings.as_table() else { continue };
        if kind.name == "spine" {
            problems.push(
                Problem::error("spines of a scheduled fabric have no settings")
                    .at(kind.span, "no such settings")
                    .help("set `spine_buffer` in [topology]; leaves have settings in [switch.leaf]"),
            );
            continue;
        }
        refuse_others(settings, SWITCH, problems);
        if let Some(defaults) = settings.get("defaults").and_then(Value::as_table) {
            refuse_others(defaults, DEFAULTS, problems);
        }
        let classes = settings.get("class").and_then(Value::as_table);
        for class in classes.into_iter().flat_map(TomlTable::values).filter_map(Value::as_table) {
            refuse_others(class, CLASS, problems);
        }
    }
}

fn refuse_others(table: &TomlTable<'_>, allowed: &[&str], problems: &mut Problems) {
    for key in table.keys().filter(|key| !allowed.contains(&key.name.as_ref())) {
        problems.push(
            Problem::error(format!("`{}` has no effect in a scheduled fabric", key.name))
                .at(key.span, "not for this kind of topology")
                .help(format!("remove this key; here leaves have {}", allowed.join(", "))),
        );
    }
}
