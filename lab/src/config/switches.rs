//! Builds each switch's configuration from `[[switch]]`, `[defaults.switch]`, and a port for each wire. Errors show the line in the
//! lab's file.

use toml_span::value::{Table, ValueInner};
use toml_span::{Span, Value};
use xoff_config::reader::Problems;
use xoff_config::reader::rearrange::{array, copied, entry, lay_below, policies, table, text};
use xoff_config::{Choice as _, Config, Hardware, Machine, Problem, ReceiveChunks, Remedy, ZeroCopy};

use xoff_wire::units::Nanos;

use super::keys::{File, NAME_EXAMPLE, SwitchKeys};
use super::wires::{Port, Wiring};
use super::{End, Link, LinkRates, Rates};

struct PlannedPort<'a> {
    port: &'a Port,
    link: &'a Link,
    end: usize,
    rates: LinkRates,
}

struct Running {
    has_small_chunks: bool,
    stall: Option<Nanos>,
}

pub(super) fn configs(
    root: &Value<'_>,
    file: &File,
    wiring: &Wiring,
    rates: &Rates,
    machine: &Machine,
    problems: &mut Problems,
) -> Vec<Option<Config>> {
    each(root, file, wiring, rates, machine, problems, |root, problems| {
        // On a reload, pass the running configuration only to its own switch.
        let name = root.as_table().and_then(|root| root.get("switch")?.as_table()?.get("name")?.as_str());
        let is_own = |running: &&std::sync::Arc<Config>| name == Some(running.shell.name.as_str());
        let running = machine.running.as_ref().filter(is_own).cloned();
        Config::of_document(root, Hardware::Software, &Machine { running, ..machine.clone() }, problems)
    })
}

pub(super) fn remedies(
    root: &Value<'_>,
    file: &File,
    wiring: &Wiring,
    rates: &Rates,
    machine: &Machine,
) -> Vec<Remedy> {
    let of_switch =
        |root: &Value<'_>, _: &mut Problems| Some(Config::remedies(root, Hardware::Software, machine));
    let switches = each(root, file, wiring, rates, machine, &mut Problems::default(), of_switch);
    Remedy::of_all(switches.into_iter().flatten().flatten())
}

fn each<T>(
    root: &Value<'_>,
    file: &File,
    wiring: &Wiring,
    rates: &Rates,
    machine: &Machine,
    problems: &mut Problems,
    work: impl Fn(&Value<'_>, &mut Problems) -> Option<T>,
) -> Vec<Option<T>> {
    let has_small_chunks = (machine.has_small_chunks)();
    let of_switch = |(index, switch): (usize, &super::keys::SwitchTable)| {
        if wiring.ports[index].is_empty() {
            return None; // reported already
        }
        let ports = wiring.ports[index].iter().enumerate().map(|(number, port)| {
            let link = &wiring.wires[port.link];
            let here = End::Port { switch: index, port: number };
            let end = usize::from(link.ends[1] == here);
            PlannedPort { port, link, end, rates: rates.of(port.link, link) }
        });
        let running = machine
            .running
            .as_ref()
            .filter(|running| switch.name.as_ref().is_some_and(|name| name.value == running.shell.name));
        let running = Running { has_small_chunks, stall: running.map(|running| running.shell.stall_budget) };
        let root = root_of(copied(root), index, switch.span, ports.collect(), running, problems)?;
        work(&root, problems)
    };
    file.switches.iter().enumerate().map(of_switch).collect()
}

fn root_of<'de>(
    mut lab: Value<'de>,
    index: usize,
    span: Span,
    ports: Vec<PlannedPort<'_>>,
    Running { has_small_chunks, stall }: Running,
    problems: &mut Problems,
) -> Option<Value<'de>> {
    let mut top = table(lab.take())?;
    let mut own_table = table(array(top.remove("switch")?.take())?.into_iter().nth(index)?.take())?;
    let below = top.remove("defaults").and_then(|mut defaults| table(defaults.take())?.remove("switch"));
    if let Some(below) = below.and_then(|mut below| table(below.take())) {
        for key in SwitchKeys::KEYS.iter().chain(&["port"]) {
            if let Some((key, _)) = below.get_key_value(*key) {
                problems.push(
                    Problem::error(format!("`{}` is not a key in [defaults.switch]", key.name))
                        .at(key.span, "unknown key")
                        .help("set this key for a single switch, in [[switch]]"),
                );
            }
        }
        lay_below(&mut own_table, below);
    }
    own_table.remove("hosts");
    let own_ports = own_table.remove("port");
    let mut root = Table::new();
    let mut switch = Table::new();
    for (key, value) in own_table {
        match key.name.as_ref() {
            "policy" => policies(key, value, &mut switch, &mut root),
            "defaults" if value.as_table().is_none() => {
                problems.push(
                    Problem::error("`defaults` has to be a table of settings")
                        .at(value.span, "something else")
                        .help("write [switch.defaults]"),
                );
            }
            "defaults" => {
                refuse(&value, &["speed", "mtu"], problems);
                root.insert(key, value);
            }
            name if Config::TABLES.contains(&name) => _ = root.insert(key, value),
            _ => _ = switch.insert(key, value),
        }
    }
    if !switch.contains_key("workers") {
        // Use one worker for each switch, because all switches of the lab share the machine's CPUs.
        let names = ports.iter().map(|PlannedPort { port, .. }| text(port.name.clone(), port.span)).collect();
        let worker = Table::from([entry("ports", ValueInner::Array(names), span)]);
        let worker = Value::with_span(ValueInner::Table(worker), span);
        switch.extend([entry("workers", ValueInner::Array(vec![worker]), span)]);
    }
    let is_slower = |it: &PlannedPort<'_>| it.rates != LinkRates::of(it.link);
    if let Some(stall) = stall.filter(|_| ports.iter().any(is_slower) && !switch.contains_key("stall_budget"))
    {
        // Keep the running switch's stall budget: the default would follow the ports' changed speeds and need rings of another size, which
        // a reload cannot change.
        let stall = xoff_config::quantity::time(stall);
        switch.extend([entry("stall_budget", ValueInner::String(stall.into()), span)]);
    }
    let may_copy = switch.get("zero_copy").is_none_or(|value| value.as_str() != Some(ZeroCopy::On.word()));
    if may_copy && has_small_chunks {
        receive_small(&mut root, span);
    }
    root.extend([entry("switch", ValueInner::Table(switch), span)]);
    let mut defaults =
        root.remove("defaults").and_then(|mut defaults| table(defaults.take())).unwrap_or_default();
    if !defaults.contains_key("peer_response") {
        defaults.extend([entry("peer_response", ValueInner::String("software".into()), span)]);
    }
    if !defaults.contains_key("lldp") {
        // Turn LLDP off by default: kernels of hosts count LLDP frames as dropped if no program receives them.
        defaults.extend([entry("lldp", ValueInner::Boolean(false), span)]);
    }
    root.extend([entry("defaults", ValueInner::Table(defaults), span)]);
    let ports = with_own(ports, own_ports, problems);
    root.extend([entry("port", ValueInner::Array(ports), span)]);
    Some(Value::with_span(ValueInner::Table(root), span))
}

/// Makes small receive chunks the default. Only zero copy, which veth devices lack, would need large ones.
fn receive_small(root: &mut Table<'_>, span: Span) {
    const KEY: &str = "receive_chunks";
    let small = || entry(KEY, ValueInner::String(ReceiveChunks::Small.word().into()), span);
    match root.get_mut("memory") {
        None => root.extend([entry("memory", ValueInner::Table(Table::from([small()])), span)]),
        Some(memory) => match memory.take() {
            ValueInner::Table(mut keys) => {
                if !keys.contains_key(KEY) {
                    keys.extend([small()]);
                }
                memory.set(ValueInner::Table(keys));
            }
            other => memory.set(other),
        },
    }
}

fn with_own<'de>(
    ports: Vec<PlannedPort<'_>>,
    own: Option<Value<'de>>,
    problems: &mut Problems,
) -> Vec<Value<'de>> {
    let mut own = own_ports(own, problems);
    let made = ports.into_iter().map(|PlannedPort { port, link, end, rates }| {
        let span = port.span;
        let mut keys = Table::from([
            entry("name", ValueInner::String(port.name.clone().into()), span),
            entry("device", ValueInner::String(port.name.clone().into()), span),
            entry("speed", ValueInner::String(rates.speed.bits_per_second().to_string().into()), span),
            entry("mtu", ValueInner::Integer(link.mtu.into()), span),
        ]);
        if rates.sending[end] < rates.speed {
            let rate = rates.sending[end].bits_per_second().to_string();
            keys.extend([entry("max_rate", ValueInner::String(rate.into()), span)]);
        }
        if let Some(metres) = link.cable_metres(end) {
            keys.extend([entry("cable", ValueInner::String(format!("{metres}m").into()), span)]);
        }
        if let Some(at) = own.iter().position(|(name, _)| *name == port.name) {
            let (_, mut own_keys) = own.swap_remove(at);
            refuse(&own_keys, &["device", "speed", "mtu"], problems);
            if let Some(mut own_keys) = table(own_keys.take()) {
                ["name", "device", "speed", "mtu"].iter().for_each(|key| _ = own_keys.remove(*key));
                keys.extend(own_keys);
            }
        }
        Value::with_span(ValueInner::Table(keys), span)
    });
    let made: Vec<_> = made.collect();
    for (name, value) in own {
        let port_names: Vec<String> =
            made.iter().filter_map(|port| Some(port.as_table()?.get("name")?.as_str()?.to_owned())).collect();
        problems.push(
            Problem::error(format!("no wire leads to port {name:?}"))
                .at(Span::new(value.span.start, value.span.end.min(value.span.start + 15)), "configured here")
                .help(format!("ports of this switch: {}", port_names.join(", "))),
        );
    }
    made
}

fn own_ports<'de>(own: Option<Value<'de>>, problems: &mut Problems) -> Vec<(String, Value<'de>)> {
    let Some(mut own) = own else { return Vec::new() };
    let span = own.span;
    let Some(entries) = array(own.take()) else {
        problems.push(
            Problem::error("`port` has to be a list of tables")
                .at(span, "something else")
                .help("write one table [[switch.port]], with two brackets, for each port"),
        );
        return Vec::new();
    };
    let mut named = Vec::new();
    for entry in entries {
        match entry.as_table().map(|keys| keys.get("name").and_then(|name| name.as_str())) {
            Some(Some(name)) => named.push((name.to_owned(), entry)),
            _ => problems.push(Problem::missing("[[switch.port]]", "name", NAME_EXAMPLE, entry.span)),
        }
    }
    named
}

fn refuse(value: &Value<'_>, keys: &[&str], problems: &mut Problems) {
    let refused = keys.iter().filter_map(|key| value.as_table()?.get_key_value(*key));
    for (key, _) in refused {
        let help = match key.name.as_ref() {
            "device" => "remove the key: the lab makes the devices and names them after their ports",
            _ => "set this key in [[link]] or [[host]] for one wire, or in [defaults] for all wires",
        };
        problems.push(
            Problem::error(format!("`{}` cannot be set for ports of a switch in a lab", key.name))
                .at(key.span, "not allowed here")
                .help(help),
        );
    }
}
