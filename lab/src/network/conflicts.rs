//! Refuses a lab if an existing namespace of a host already has a device of its name, or a route that would take frames to lab hosts.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use xoff_netlink::packet_route::AddressFamily;
use xoff_netlink::packet_route::link::LinkAttribute;
use xoff_netlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};

use super::NetworkError;
use super::leftovers::Mark;
use super::places::lab_device;
use super::view::place;
use crate::config::{Host, Interface, Network, Place};
use crate::netlink::netlink;
use crate::{LabError, Namespace, marks};

/// Number of the kernel's main routing table.
const MAIN: u32 = 254;
const LOCAL: u32 = 255;

type Prefix = (IpAddr, u8);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Route {
    to: Prefix,
    device: String,
}

struct Existing {
    devices: Vec<String>,
    routes: Vec<Route>,
}

/// Refuses conflicting devices and routes in existing namespaces. Only warns of routes that the lab's network hides in part.
pub(super) fn refuse<'a>(
    network: &Network,
    namespaces: impl Iterator<Item = &'a Namespace>,
) -> Result<(), NetworkError> {
    let mut owners: BTreeMap<(u64, String), &str> = BTreeMap::new();
    for (host, namespace) in
        network.hosts.iter().zip(namespaces).filter(|(host, _)| host.place != Place::Fresh)
    {
        let existing = Existing::of(namespace)?;
        for interface in &host.interfaces {
            let device = lab_device(host, interface);
            if let Some(first) = owners.insert((namespace.inode(), device.clone()), &host.name) {
                let (first, second) = (first.to_owned(), host.name.clone());
                return Err(NetworkError::SameNamespace { first, second, place: place(host) });
            }
            if existing.devices.contains(&device) {
                return Err(taken(host, namespace, device));
            }
            // Skip virtual machines: the lab gives them no address.
            if !matches!(host.place, Place::Tap(_)) {
                refuse_routes(network, host, interface, &existing.routes)?;
            }
        }
    }
    Ok(())
}

fn taken(host: &Host, namespace: &Namespace, device: String) -> NetworkError {
    let mark = marks(namespace).unwrap_or_default().into_iter().find(|(marked, _)| *marked == device);
    let lab = mark.and_then(|(_, mark)| Mark::read(&mark)).map(|mark| mark.name);
    let remedy = match &lab {
        Some(lab) => format!("end that lab with `xoff lab down --lab {lab}`"),
        None => format!("delete or rename {device}"),
    };
    let help = match host.place {
        Place::Tap(_) => format!("{remedy}, or give the virtual machine another TAP device"),
        _ => format!("{remedy}, or give the host another namespace"),
    };
    NetworkError::DeviceExists { host: host.name.clone(), place: place(host), device, lab, help }
}

fn refuse_routes(
    network: &Network,
    host: &Host,
    interface: &Interface,
    routes: &[Route],
) -> Result<(), NetworkError> {
    let segment = || {
        let all = network.hosts.iter().flat_map(|host| &host.interfaces);
        all.filter(|other| other.segment == interface.segment)
    };
    let ipv4 = segment().map(|other| IpAddr::from(other.ipv4.0)).collect();
    // Ignore link-local addresses: programs use them with a device, so no route of another device takes their
    // frames.
    let ipv6 = segment().map(|other| other.ipv6.0).filter(|address| !address.is_unicast_link_local());
    let ipv6 = ipv6.map(IpAddr::from).collect();
    let families: [(Prefix, Vec<IpAddr>, &str); 2] = [
        ((interface.ipv4.0.into(), interface.ipv4.1), ipv4, "ipv4"),
        ((interface.ipv6.0.into(), interface.ipv6.1), ipv6, "ipv6"),
    ];
    for (own, addresses, key) in families {
        if let Some((Route { to, device }, address)) = first_taking(routes, own, &addresses) {
            return Err(NetworkError::RouteExists {
                host: format!("{} ({})", host.name, place(host)),
                route: format!("{}/{} at {device}", to.0, to.1),
                to: address.to_string(),
                key,
            });
        }
        let hidden =
            routes.iter().filter(|route| (1..own.1).contains(&route.to.1) && contains(route.to, own.0));
        for Route { to, device } in hidden {
            tracing::warn!(
                "host {} ({}): the lab's network {}/{} hides a part of the route to {}/{} at {device} from the host's programs; if they \
                 need that part, give the hosts of the lab addresses of another network by the key `{key}`",
                host.name,
                place(host),
                network_address(own),
                own.1,
                to.0,
                to.1
            );
        }
    }
    Ok(())
}

/// Finds routes that the kernel may prefer to the lab's route `own` for one of `addresses`. Returns the one with the shortest prefix, and
/// the address.
fn first_taking<'a>(
    routes: &'a [Route],
    own: Prefix,
    addresses: &'a [IpAddr],
) -> Option<(&'a Route, &'a IpAddr)> {
    let specific = routes.iter().filter(|route| route.to.1 >= own.1);
    let taking = specific.filter_map(|route| {
        let taken = addresses.iter().filter(|address| contains(route.to, **address));
        // Rather than `own`, report the address of another host: the route misdirects frames to that host.
        Some((route, taken.max_by_key(|address| **address != own.0)?))
    });
    taking.min_by_key(|(route, _)| route.to.1)
}

fn contains((network, len): Prefix, address: IpAddr) -> bool {
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let differing = network.to_bits() ^ address.to_bits();
            differing.checked_shr(32 - u32::from(len)).unwrap_or(0) == 0
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let differing = network.to_bits() ^ address.to_bits();
            differing.checked_shr(128 - u32::from(len)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

fn network_address((address, len): Prefix) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

impl Existing {
    fn of(namespace: &Namespace) -> Result<Existing, LabError> {
        let (mut devices, mut routes) = (BTreeMap::new(), Vec::new());
        netlink(namespace, "list devices and routes", |kernel| {
            kernel.links(|link| {
                let name = link.attributes.iter().find_map(|attribute| match attribute {
                    LinkAttribute::IfName(name) => Some(name.clone()),
                    _ => None,
                });
                devices.extend(name.map(|name| (link.header.index, name)));
            })?;
            kernel.routes(|route| routes.extend(route_of(&route, &devices)))?;
            Ok::<_, io::Error>(())
        })?;
        Ok(Existing { devices: devices.into_values().collect(), routes })
    }
}

fn route_of(message: &RouteMessage, devices: &BTreeMap<u32, String>) -> Option<Route> {
    let header = &message.header;
    let mut to: IpAddr = match header.address_family {
        AddressFamily::Inet => Ipv4Addr::UNSPECIFIED.into(),
        AddressFamily::Inet6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return None,
    };
    let (mut table, mut index) = (u32::from(header.table), None);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Destination(RouteAddress::Inet(address)) => to = (*address).into(),
            RouteAttribute::Destination(RouteAddress::Inet6(address)) => to = (*address).into(),
            RouteAttribute::Oif(device) => index = Some(*device),
            RouteAttribute::MultiPath(hops) => index = hops.first().map(|hop| hop.interface_index),
            _ => {}
        }
    }
    let is_used = [MAIN, LOCAL].contains(&table);
    let device = index.and_then(|index| devices.get(&index)).map_or("no device", String::as_str);
    is_used.then(|| Route { to: (to, header.destination_prefix_length), device: device.to_owned() })
}

// Tests for SPECIFICATION.md: lab-lifecycle
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_config::Machine;

    use super::*;
    use crate::{Lab, VethOptions, set_mark};

    const TWO_HOSTS: &str =
        "[[switch]]\nname = \"s1\"\nhosts = 2\n[[host]]\nname = \"h1\"\nnetns = \"blue\"\n";

    fn network(more: &str) -> Network {
        Network::from_toml("lab.toml", &format!("{TWO_HOSTS}{more}"), "lab", &Machine::default()).unwrap()
    }

    fn message(network: &Network, namespaces: &[Namespace]) -> String {
        let refused = refuse(network, namespaces.iter()).map_err(|error| {
            let help = miette::Diagnostic::help(&error).map(|help| help.to_string());
            format!("{error}; {}", help.unwrap_or_default())
        });
        refused.err().unwrap_or_default()
    }

    fn with_address(address: impl Into<IpAddr>, prefix_len: u8, more: &str) -> String {
        let mut lab = Lab::new();
        let [blue, peer] = ["blue", "peer"].map(|name| lab.namespace(name).unwrap());
        lab.veth(blue.end("mgmt").address(address, prefix_len), peer.end("mgmt"), &VethOptions::default())
            .unwrap();
        message(&network(more), &[blue, peer])
    }

    #[test]
    fn host_whose_own_network_overlaps_the_lab_is_refused() {
        let refused = with_address([10, 1, 0, 9], 16, "");
        for part in ["host h1", "netns blue", "10.1.0.0/16 at mgmt", "frames to 10.1.0.2", "the key `ipv4`"] {
            assert!(refused.contains(part), "{part} is not in {refused:?}");
        }
        let refused = with_address([10, 1, 0, 2], 32, "");
        assert!(refused.contains("10.1.0.2/32 at mgmt"), "{refused}");
        let refused = with_address(Ipv6Addr::new(0xfd78, 0x6f66, 0x6600, 1, 0, 0, 0, 99), 64, "");
        assert!(refused.contains("fd78:6f66:6600:1::/64 at mgmt") && refused.contains("`ipv6`"), "{refused}");
        let of_other_network = "ipv4 = \"192.0.2.1/24\"\n[[host]]\nname = \"h2\"\nipv4 = \"192.0.2.2/24\"\n";
        assert_eq!(with_address([10, 1, 0, 9], 16, of_other_network), "");
        let link_local = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
        assert_eq!(with_address(link_local, 64, "ipv6 = \"fe80::1/64\"\n"), "");
        // No frame to a host takes these routes: a shorter prefix than the lab's, a part of its network without
        // hosts, another network.
        for (address, prefix_len) in [([10, 0, 0, 9], 8), ([10, 1, 7, 9], 24), ([172, 17, 0, 2], 16)] {
            assert_eq!(with_address(address, prefix_len, ""), "", "{address:?}/{prefix_len}");
        }
    }

    #[test]
    fn device_name_taken_in_host_namespace_is_refused() {
        let mut lab = Lab::new();
        let [blue, peer] = ["blue", "peer"].map(|name| lab.namespace(name).unwrap());
        lab.veth(blue.end("xoff0"), peer.end("mgmt"), &VethOptions::default()).unwrap();
        let namespaces = [blue, peer];
        let refused = message(&network(""), &namespaces);
        assert!(
            refused.starts_with("host h1: the device xoff0 exists in its namespace (netns blue)"),
            "{refused}"
        );
        assert!(refused.contains("delete or rename xoff0"), "{refused}");
        set_mark(&namespaces[0], "xoff0", &Mark::of("first").unwrap().to_string()).unwrap();
        let refused = message(&network(""), &namespaces);
        for part in ["it belongs to lab first", "`xoff lab down --lab first`", "another namespace"] {
            assert!(refused.contains(part), "{part} is not in {refused:?}");
        }
    }

    #[test]
    fn two_lab_hosts_in_one_namespace_are_refused() {
        let blue = Lab::new().namespace("blue").unwrap();
        let refused = message(&network("[[host]]\nname = \"h2\"\nnetns = \"blue\"\n"), &[blue.clone(), blue]);
        assert!(refused.starts_with("hosts h1 and h2 are the same (netns blue)"), "{refused}");
    }
}
