//! What a device is, and what the machine has it for, before a switch takes it.

use std::io;
use std::net::IpAddr;

use xoff_config::{Device, Uses};

use crate::error::XdpError;
use crate::netlink::{Link, Netlink};
use crate::sys::Ethtool;

/// Looks at the device of that name in the network namespace of the calling thread.
///
/// # Errors
/// Where the kernel does not answer.
pub fn look(device: &str) -> Result<Device, XdpError> {
    let refused = |source| XdpError::Device { doing: "look at", device: device.to_owned(), source };
    let netlink = Netlink::open().map_err(refused)?;
    let Some(link) = netlink.link(device).map_err(refused)? else { return Ok(Device::Missing) };
    let queues = Ethtool::new(device).map_err(refused)?.rx_queues();
    let index = link.ifindex.unsigned_abs();
    Ok(Device::Has { index, queues, mtu: link.mtu, uses: uses(&netlink, &link).map_err(refused)? })
}

fn uses(netlink: &Netlink, link: &Link) -> io::Result<Uses> {
    let (routes, addresses) = (netlink.default_routes(link.ifindex)?, netlink.addresses(link.ifindex)?);
    // A router beside the port advertises itself (in IPv6) to whoever listens, and is of use only to who has an address there.
    let default_route = routes.made || routes.advertised && addresses.iter().any(IpAddr::is_ipv6);
    let master = link.master.map(|index| netlink.link_at(index.cast_signed())).transpose()?.flatten();
    Ok(Uses {
        loopback: link.loopback,
        master: master.map(|master| match master.kind {
            Some(kind) => format!("{kind} {}", master.name),
            None => master.name,
        }),
        default_route,
        addresses,
    })
}
