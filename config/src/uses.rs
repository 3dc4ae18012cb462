//! Uses of a device by the machine, which end when it becomes a port.
//!
//! A use is an error if its end cuts the machine off or breaks another interface, and a warning if only addresses
//! become unreachable.

use std::net::IpAddr;

use crate::reader::problem::Problem;

/// Uses of a device by the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// True for the loopback.
    pub loopback: bool,
    /// Bridge, bond or similar above the device: `bridge br0`.
    pub master: Option<String>,
    /// True if a default route uses the device.
    pub default_route: bool,
    /// Addresses, without IPv6 link-local ones.
    pub addresses: Vec<IpAddr>,
}

pub(crate) fn lost(port: &str, device: &str, uses: &Uses) -> Option<(Problem, String)> {
    let Uses { loopback, master, default_route, addresses } = uses;
    let alone = "the machine's own stack neither receives nor sends on a port";
    if *loopback {
        let problem = Problem::error(format!(
            "port {port}: {device} is the machine's loopback, by which it talks to itself"
        ))
        .help("`ip link` lists the interfaces; `xoff lab up` makes hosts and cables to try with");
        return Some((problem, "no cable".to_owned()));
    }
    if let Some(master) = master {
        let problem = Problem::error(format!(
            "port {port}: {device} belongs to {master}, which would lose it"
        ))
        .help(format!("`ip link set {device} nomaster` takes it out of there, or choose another interface"));
        return Some((problem, format!("belongs to {master}")));
    }
    if *default_route {
        let problem = Problem::error(format!(
            "port {port}: the machine's default route goes by {device}: it would lose its connection"
        ))
        .help(format!(
            "{alone}: choose another interface, or take the route away (`ip route del default dev {device}`) where the machine is \
             reached by another"
        ));
        return Some((problem, "the default route".to_owned()));
    }
    let (first, more) = addresses.split_first()?;
    let more = if more.is_empty() { String::new() } else { format!(" (and {} more)", more.len()) };
    let problem = Problem::warning(format!(
        "port {port}: {device} has the address {first}{more}, where nobody reaches the machine while the switch runs"
    ))
    .help(format!("{alone}: `ip address flush dev {device}` takes its addresses away"));
    Some((problem, format!("has {first}")))
}
