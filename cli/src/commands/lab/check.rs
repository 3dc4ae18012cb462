use serde_json::{Value, json};
use xoff_config::Machine;
use xoff_config::written::{counted, grouped, mebibytes};
use xoff_lab::config::Network;
use xoff_lab::network::account::table;

use crate::commands::check::view;

pub(super) fn text(network: &Network, machine: &Machine) -> String {
    let needs = network.needs(machine);
    let mebibytes = |bytes| grouped(mebibytes(bytes));
    let switches = needs
        .switches
        .iter()
        .map(|(name, plan)| vec![format!("switch {name}"), mebibytes(plan.total), mebibytes(plan.kernel)]);
    let agents = usize::try_from(needs.agents).unwrap_or(usize::MAX);
    let agents = vec![counted(agents, "host agent", "host agents"), mebibytes(needs.of_agents()), "0".into()];
    let (count, bytes) = needs.lines;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let lines = vec![counted(count, "delay line", "delay lines"), mebibytes(bytes), String::new()];
    let rows = switches.chain((count > 0).then_some(lines)).chain([agents]);
    let rows = table(&["what", "MiB", "MiB in the kernel"], rows);
    let available = machine.memory.as_ref().map_or_else(String::new, |available| format!(" of {available}"));
    format!(
        "lab {}: {}, {}, {}\n{rows}\nneeds {} MiB{available}\n",
        network.name,
        counted(network.hosts.len(), "host", "hosts"),
        counted(network.switches.len(), "switch", "switches"),
        counted(network.links.len(), "link", "links"),
        mebibytes(needs.total()),
    )
}

pub(super) fn view(file: &str, network: &Network, machine: &Machine) -> Value {
    let needs = network.needs(machine);
    let switches = network.switches.iter().map(|switch| view::view(file, &switch.config, machine));
    json!({
        "file": file,
        "valid": true,
        "name": network.name,
        "hosts": network.hosts.iter().map(|host| &host.name).collect::<Vec<_>>(),
        "links": network.links.len(),
        "switches": switches.collect::<Vec<_>>(),
        "host_agents": needs.agents,
        "host_agents_bytes": needs.of_agents().0,
        "delay_lines": needs.lines.0,
        "delay_lines_bytes": needs.lines.1.0,
        "needed_bytes": needs.total().0,
        "available_bytes": machine.memory.as_ref().map(|memory| memory.bytes.0),
        "warnings": view::problems(&network.warnings),
        "notes": view::problems(&network.notes),
    })
}
