//! Uses of a device that end when it becomes a port. It is an error to take the machine's default route, or a member of a bridge or
//! bond; other uses cause warnings.

use std::net::IpAddr;

use crate::reader::problem::Problem;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    pub loopback: bool,
    /// True if frames have no Ethernet header, as with a TUN device.
    pub no_ethernet: bool,
    /// Bridge or bond to which the device belongs, such as `bridge br0`.
    pub master: Option<String>,
    pub kind: Option<String>,
    pub upper: Vec<String>,
    /// Device that has the default route: this device, or one on top of it.
    pub default_route: Option<String>,
    /// Addresses of the device, without IPv6 link-local ones.
    pub addresses: Vec<IpAddr>,
}

const UNSUITABLE: [(&[&str], &str, &str); 4] = [
    (
        &["vlan"],
        "is a VLAN device, which untagged frames, such as pauses, never reach",
        "choose the device below it, and give the port its VLAN (`vlan`)",
    ),
    (
        &["macvlan", "macvtap", "ipvlan", "ipvtap"],
        "gets no frames for stations behind the switch, because it filters by its own address",
        "choose its parent device, or a veth",
    ),
    (
        &["bond", "team"],
        "joins several links, but a pause stops only one of them",
        "make each link a port, and join the ports by a [[group]]",
    ),
    (
        &["bridge"],
        "is a bridge, which consumes pauses at its own ports",
        "make the bridge's interfaces ports of the switch",
    ),
];

pub(crate) fn lost(port: &str, device: &str, uses: &Uses) -> Vec<(Problem, String)> {
    let Uses { loopback, no_ethernet, master, default_route, .. } = uses;
    let alone = "the machine's network stack cannot use the device of a port";
    if *loopback {
        let problem = Problem::error(format!("port {port}: {device} is the machine's loopback interface"))
            .help("`ip link` lists the interfaces; `xoff lab up` creates hosts and cables for tests");
        return vec![(problem, "no cable".to_owned())];
    }
    if *no_ethernet {
        let kind = uses.kind.as_ref().map_or_else(String::new, |kind| format!(" ({kind})"));
        let problem = Problem::error(format!(
            "port {port}: {device}{kind} carries no Ethernet frames, which a switch forwards"
        ));
        let other = "choose a device that `ip link` shows as link/ether";
        let help = match uses.kind.as_deref() {
            Some("tun") => format!("make it a TAP device (`ip tuntap add {device} mode tap`), or {other}"),
            _ => other.to_owned(),
        };
        return vec![(problem.help(help), "no Ethernet".to_owned())];
    }
    if let Some(master) = master {
        let problem = Problem::error(format!(
            "port {port}: {device} belongs to {master}, which would lose this interface"
        ))
        .help(format!("run `ip link set {device} nomaster`, or choose another interface"));
        return vec![(problem, format!("belongs to {master}"))];
    }
    if let Some(used) = default_route {
        let which = if used == device { device.to_owned() } else { format!("{used} on {device}") };
        let problem = Problem::error(format!(
            "port {port}: the machine's default route uses {which}, so the machine would lose its connection"
        ))
        .help(format!(
            "{alone}: choose another interface, or delete the route (`ip route del default dev {used}`) if the machine is \
             reachable by another"
        ));
        return vec![(problem, "the default route".to_owned())];
    }
    let warnings =
        [unsuitable(port, device, uses), cut_off(port, device, uses), unreachable(port, device, uses)];
    warnings.into_iter().flatten().collect()
}

fn unsuitable(port: &str, device: &str, uses: &Uses) -> Option<(Problem, String)> {
    let kind = uses.kind.as_deref()?;
    let (_, why, remedy) = UNSUITABLE.iter().find(|(kinds, ..)| kinds.contains(&kind))?;
    let problem = Problem::warning(format!("port {port}: {device} ({kind}) {why}")).help(*remedy);
    Some((problem, format!("a {kind}")))
}

fn cut_off(port: &str, device: &str, uses: &Uses) -> Option<(Problem, String)> {
    let upper = Some(uses.upper.join(", ")).filter(|upper| !upper.is_empty())?;
    let problem = Problem::warning(format!(
        "port {port}: {upper} on {device} would receive nothing while the switch runs"
    ))
    .help(format!("the switch takes all frames of {device}: delete {upper}, or choose another interface"));
    Some((problem, format!("below {upper}")))
}

fn unreachable(port: &str, device: &str, uses: &Uses) -> Option<(Problem, String)> {
    let (first, more) = uses.addresses.split_first()?;
    let more = if more.is_empty() { String::new() } else { format!(" (and {} more)", more.len()) };
    let problem = Problem::warning(format!(
        "port {port}: {device} has the address {first}{more}, which is unreachable while the switch runs"
    ))
    .help(format!("`ip address flush dev {device}` deletes the addresses"));
    Some((problem, format!("has {first}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test] // proves: check
    fn device_without_ethernet_is_refused_as_port() {
        let refusal = |kind: &str| {
            let uses = Uses { no_ethernet: true, kind: Some(kind.into()), ..Uses::default() };
            let problems = lost("a", "eth1", &uses);
            let problem = problems.into_iter().map(|(problem, _)| problem).find(Problem::is_error);
            problem.map(|problem| (problem.message, problem.help.unwrap_or_default()))
        };
        let (message, help) = refusal("tun").unwrap_or_default();
        assert!(message.starts_with("port a: eth1 (tun) carries no Ethernet frames"), "{message}");
        assert!(help.contains("`ip tuntap add eth1 mode tap`"), "{help}");
        let (message, help) = refusal("wireguard").unwrap_or_default();
        assert!(message.contains("(wireguard)") && help.starts_with("choose a device"), "{message}; {help}");
    }
}
