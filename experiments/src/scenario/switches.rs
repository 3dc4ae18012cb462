//! Configuration of a scenario's switches, on ideal hardware. `[switch.KIND]` overrides `[switch.all]`; both have the keys of a live
//! switch (docs/simulation.md).

use toml_span::value::{Table as TomlTable, ValueInner};
use toml_span::{Span, Value};
use xoff_config::reader::Problems;
use xoff_config::reader::rearrange::{copied, entry, lay_below, policies, table};
use xoff_config::{Config, Hardware, Machine, Problem};
use xoff_sim::flows::HostSettings;
use xoff_wire::units::{Class, ClassSet, ETHERNET_HEADER};

use super::changes::{self, Change, ChangeTarget};
use super::topology::{PortLine, Topology};

const TABLES: &[&str] = &["pipeline", "memory", "policy", "qcn", "defaults", "class"];
const KEYS: &[&str] =
    &["profile", "stall_budget", "smallest_frame", "accounting", "policy", "shadow", "when_full"];
const ALL: &str = "all";
const PER_METRE: u64 = 5;

pub(super) fn check(
    root: &mut Value<'_>,
    (topology, hosts): (&Topology, &HostSettings),
    changes: &[Change],
    problems: &mut Problems,
) {
    let kinds = topology.kind.switches();
    let switches = root.as_table().and_then(|table| table.get("switch"));
    if let Some(switches) = switches {
        let Some(tables) = switches.as_table() else {
            problems.push(
                Problem::error("`switch` has to be a table of kinds of switches")
                    .at(switches.span, "something else")
                    .help("write [switch.all] for all switches, or [switch.KIND] for one kind"),
            );
            return;
        };
        for (key, value) in tables {
            if key.name != ALL && !kinds.contains(&key.name.as_ref()) {
                problems.push(
                    Problem::error(format!("there are no switches of kind `{}` in this topology", key.name))
                        .at(key.span, "no such kind")
                        .help(format!(
                            "use [switch.all] for all switches; kinds of switches in this scenario: {}",
                            kinds.join(", ")
                        )),
                );
            } else if value.as_table().is_none() {
                problems.push(
                    Problem::error(format!("`{}` has to be a table", key.name))
                        .at(value.span, "something else")
                        .help(format!("write [switch.{}]", key.name)),
                );
            }
        }
    }
    if problems.has_errors() {
        return;
    }
    let lines = [topology.host, topology.fabric];
    for kind in kinds {
        if let Some(config) = config_of(copied(root), kind, &lines, &[], problems) {
            check_mtu(root, (kind, &config), hosts, problems);
        }
        // Before the fabric is built, the kind of a switch named by number is known only if there is a single kind.
        let own = |change: &Change| match &change.of {
            ChangeTarget::Switch(_) => kinds.len() == 1,
            _ => change.is_for(0, kind),
        };
        let mut own: Vec<usize> = (0..changes.len()).filter(|number| own(&changes[*number])).collect();
        own.sort_by_key(|number| changes[*number].at);
        for count in 1..=own.len() {
            if problems.has_errors() {
                return;
            }
            changed(root, kind, &lines, &own[..count], problems);
        }
    }
}

fn check_mtu(
    root: &Value<'_>,
    (kind, config): (&str, &Config),
    hosts: &HostSettings,
    problems: &mut Problems,
) {
    let most = config.switch.ports.iter().map(|port| port.mtu_frame).min().unwrap_or(u32::MAX);
    let tcp = hosts.tcp.map_or(ClassSet::NONE, |tcp| tcp.classes);
    let roce = Class::ALL.into_iter().find(|class| !tcp.contains(*class));
    let framings = [
        (roce, ["payload", "[hosts]", "/hosts/payload"]),
        (tcp.highest(), ["mss", "[hosts.tcp]", "/hosts/tcp/mss"]),
    ];
    for (class, [key, table, place]) in framings {
        let Some(framing) = class.map(|class| hosts.framing(class)).filter(|of| of.longest() > most) else {
            continue;
        };
        let (payload, len) = (framing.payload_max, framing.longest());
        let [mtu, needed] = [most, len].map(|len| len - ETHERNET_HEADER);
        let place = [place, "/switch"].iter().find_map(|place| root.pointer(place));
        problems.push(
            Problem::error(format!(
                "`{key}` is {payload}, which with headers needs an MTU of {needed}, but switches of kind `{kind}` have an MTU of {mtu}"
            ))
            .at(place.map_or(Span::default(), |place| place.span), "frames of that length would be dropped (`too_long`)")
            .help(format!(
                "set `{key}` in {table} to at most {}, or `mtu` in [switch.all.defaults] to at least {needed}",
                framing.payload_in(most)
            )),
        );
    }
}

pub(super) fn changed(
    root: &mut Value<'_>,
    kind: &str,
    ports: &[PortLine],
    changes: &[usize],
    problems: &mut Problems,
) -> Option<Config> {
    let (last, before) = changes.split_last()?;
    let running = config_of(copied(root), kind, ports, before, problems)?;
    let next = config_of(copied(root), kind, ports, changes, problems)?;
    let (next, differences) = running.changes(1, next);
    let place = root.pointer(&format!("/change/{last}")).map(|change| change.span);
    for difference in &differences.restart {
        let xoff_config::Change { what, before, after } = difference;
        let problem = Problem::error(format!("a running switch cannot change {what} ({before} -> {after})"));
        problems.push(
            problem
                .at(place.unwrap_or_default(), "needs a restart")
                .help("change only what `xoff reload` can change: policies and their parameters, thresholds, weights and rates of classes"),
        );
    }
    Some(next)
}

pub(super) fn config(
    root: &mut Value<'_>,
    kind: &str,
    ports: &[PortLine],
    problems: &mut Problems,
) -> Option<Config> {
    config_of(copied(root), kind, ports, &[], problems)
}

fn config_of(
    root: Value<'_>,
    kind: &str,
    ports: &[PortLine],
    changes: &[usize],
    problems: &mut Problems,
) -> Option<Config> {
    let root = root_of(root, kind, ports, changes, problems)?;
    Config::of_document(&root, Hardware::Ideal, &Machine::default(), problems)
}

fn root_of<'de>(
    mut scenario: Value<'de>,
    kind: &str,
    ports: &[PortLine],
    numbers: &[usize],
    problems: &mut Problems,
) -> Option<Value<'de>> {
    let span = Span::default();
    let mut keys_of_kind = TomlTable::new();
    let mut top = table(scenario.take()).unwrap_or_default();
    let topology = top.get("topology").and_then(|topology| topology.as_table());
    let is_routed = topology.and_then(|keys| keys.get("routed")?.as_bool()).unwrap_or(false);
    if let Some(mut kinds) = top.remove("switch").and_then(|mut kinds| table(kinds.take())) {
        let mut of = |name: &str| kinds.remove(name).and_then(|mut of| table(of.take())).unwrap_or_default();
        keys_of_kind = of(kind);
        lay_below(&mut keys_of_kind, of(ALL));
    }
    if let Some(all) = top.remove("change") {
        numbers.iter().for_each(|number| changes::lay_over(&all, *number, &mut keys_of_kind));
    }
    let (mut root, mut switch) = (TomlTable::new(), TomlTable::new());
    for (key, value) in keys_of_kind {
        match key.name.as_ref() {
            "policy" => policies(key, value, &mut switch, &mut root),
            name if TABLES.contains(&name) => _ = root.insert(key, value),
            name if KEYS.contains(&name) => _ = switch.insert(key, value),
            name => problems.push(
                Problem::error(format!("`{name}` cannot be set for switches of a scenario"))
                    .at(key.span, "not allowed here")
                    .help(format!(
                        "allowed keys: {}; tables: {}; ports, addresses and groups follow from [topology]",
                        KEYS.join(", "),
                        TABLES.join(", ")
                    )),
            ),
        }
    }
    let defaults = root.get("defaults").and_then(|defaults| defaults.as_table());
    let lines = "set rates and delays of lines in [topology]";
    let all = "set routed = true in [topology]; then all switches route";
    for (key, help) in [("speed", lines), ("cable", lines), ("routed", all)] {
        if let Some((key, _)) = defaults.and_then(|defaults| defaults.get_key_value(key)) {
            problems.push(
                Problem::error(format!("`{}` cannot be set for switches of a scenario", key.name))
                    .at(key.span, "not allowed here")
                    .help(help),
            );
        }
    }
    let is_set = |key: &str| defaults.is_some_and(|defaults| defaults.contains_key(key));
    let adds = ["ofc_peer", "gfc_peer"].map(|key| !is_set(key));
    let port = |(number, line): (usize, &PortLine)| {
        let name = format!("p{number}");
        let metres = line.delay.0.div_ceil(PER_METRE);
        let mut keys = TomlTable::from([
            entry("name", ValueInner::String(name.into()), span),
            entry("device", ValueInner::String(format!("line-{number}").into()), span),
            entry("routed", ValueInner::Boolean(is_routed), span),
            entry("speed", ValueInner::String(line.rate.bits_per_second().to_string().into()), span),
            entry("cable", ValueInner::String(format!("{metres}m").into()), span),
        ]);
        let peer = [("ofc_peer", line.ofc && adds[0]), ("gfc_peer", line.gfc && adds[1])];
        for (key, _) in peer.into_iter().filter(|(_, does)| *does) {
            keys.extend([entry(key, ValueInner::Boolean(true), span)]);
        }
        Value::with_span(ValueInner::Table(keys), span)
    };
    let ports = ports.iter().enumerate().map(port).collect();
    root.extend([entry("switch", ValueInner::Table(switch), span)]);
    root.extend([entry("port", ValueInner::Array(ports), span)]);
    Some(Value::with_span(ValueInner::Table(root), span))
}
