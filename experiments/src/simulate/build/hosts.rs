use miette::miette;
use xoff_config::quantity;
use xoff_sim::flows::{Control, RoceSettings, Transport};
use xoff_sim::{At, Line, Plan};
use xoff_wire::units::{Class, ClassSet};

use super::AnyFabric;
use crate::scenario::Scenario;

pub(super) fn lossy_classes(scenario: &Scenario) -> ClassSet {
    let (acks, cnps) = match scenario.hosts.transport {
        Transport::Roce(RoceSettings { ack_class, control: Control::Dcqcn(of), .. }) => {
            (ack_class, Some(of.cnp_class))
        }
        Transport::Roce(RoceSettings { ack_class, .. }) => (ack_class, None),
        Transport::LineRate => (None, None),
    };
    let acks = acks.into_iter().chain(scenario.hosts.tcp.and_then(|tcp| tcp.ack_class));
    // Switches send CNMs untagged, so other switches put them into class 0.
    let cnms = scenario.hosts.qcn.map(|_| Class::ALL[0]);
    scenario.loads.iter().map(|load| load.class).chain(acks).chain(cnps).chain(cnms).collect()
}

pub(super) fn slow_down(fabric: &mut AnyFabric, scenario: &Scenario, plan: &Plan) -> miette::Result<()> {
    let count = fabric.fabric().hosts().len();
    for receiver in &scenario.receivers {
        for host in &receiver.hosts {
            if *host as usize >= count {
                let last = count.saturating_sub(1);
                return Err(miette!(
                    "a [[receiver]] names host {host}, but this fabric has hosts 0 to {last}"
                ));
            }
            let is_own = |(a, b, _): &&(At, At, Line)| {
                [a, b].iter().any(|at| matches!(at, At::Host(number, _) if number == host))
            };
            let line = plan.links().iter().filter(is_own).map(|(.., line)| line.rate).min();
            if let Some(line) = line.filter(|line| receiver.slow.rate > *line) {
                let [rate, line] = [receiver.slow.rate, line].map(quantity::rate);
                return Err(miette!(
                    help = format!(
                        "set `rate` to at most {line}, or remove the [[receiver]]: hosts receive at line rate without one"
                    ),
                    "a [[receiver]] has a `rate` of {rate}, but the line of host {host} has {line}"
                ));
            }
            fabric.slow_down(*host, receiver.slow);
        }
    }
    Ok(())
}
