//! Uses of a device by the machine, which end when the device becomes a port.
//!
//! A use whose end disconnects the machine or breaks another interface is an error. If only addresses become unreachable, it is a warning.

use std::net::IpAddr;

use crate::reader::problem::Problem;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    pub loopback: bool,
    /// Bridge or bond to which the device belongs, such as `bridge br0`.
    pub master: Option<String>,
    /// True if the default route uses the device.
    pub default_route: bool,
    /// Addresses without IPv6 link-local ones.
    pub addresses: Vec<IpAddr>,
}

pub(crate) fn lost(port: &str, device: &str, uses: &Uses) -> Option<(Problem, String)> {
    let Uses { loopback, master, default_route, addresses } = uses;
    let alone = "the machine's network stack cannot use the device of a port";
    if *loopback {
        let problem = Problem::error(format!("port {port}: {device} is the machine's loopback interface"))
            .help("`ip link` lists the interfaces; `xoff lab up` creates hosts and cables for tests");
        return Some((problem, "no cable".to_owned()));
    }
    if let Some(master) = master {
        let problem = Problem::error(format!(
            "port {port}: {device} belongs to {master}, which would lose this interface"
        ))
        .help(format!("run `ip link set {device} nomaster`, or choose another interface"));
        return Some((problem, format!("belongs to {master}")));
    }
    if *default_route {
        let problem = Problem::error(format!(
            "port {port}: the machine's default route uses {device}, so the machine would lose its connection"
        ))
        .help(format!(
            "{alone}: choose another interface, or delete the route (`ip route del default dev {device}`) if the machine is \
             reachable by another"
        ));
        return Some((problem, "the default route".to_owned()));
    }
    let (first, more) = addresses.split_first()?;
    let more = if more.is_empty() { String::new() } else { format!(" (and {} more)", more.len()) };
    let problem = Problem::warning(format!(
        "port {port}: {device} has the address {first}{more}, which is unreachable while the switch runs"
    ))
    .help(format!("{alone}: `ip address flush dev {device}` deletes the addresses"));
    Some((problem, format!("has {first}")))
}
