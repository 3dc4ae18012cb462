//! `xoff lab check`: calculates the memory that a network needs.

use xoff_config::Machine;
use xoff_config::written::grouped;
use xoff_lab::config::Network;
use xoff_lab::network::account::table;
use xoff_wire::units::Bytes;

pub(super) fn text(network: &Network, machine: &Machine) -> String {
    let needs = network.needs(machine);
    let mebibytes = |bytes: Bytes| grouped(bytes.0.div_ceil(1 << 20));
    let switches = needs
        .switches
        .iter()
        .map(|(name, plan)| vec![format!("switch {name}"), mebibytes(plan.total), mebibytes(plan.kernel)]);
    let agents = vec![format!("{} host agents", needs.agents), mebibytes(needs.of_agents()), "0".into()];
    let rows = table(&["what", "MiB", "MiB in the kernel"], switches.chain([agents]));
    let available =
        machine.memory.map_or_else(String::new, |all| format!(" of {} MiB available memory", mebibytes(all)));
    format!(
        "lab {}: {} hosts, {} switches, {} links\n{rows}\nneeds {} MiB{available}\n",
        network.name,
        network.hosts.len(),
        network.switches.len(),
        network.links.len(),
        mebibytes(needs.total()),
    )
}
