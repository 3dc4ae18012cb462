//! What a network interface is, and what the machine uses it for, before it becomes a port.

use std::io;
use std::net::IpAddr;

use crate::error::XdpError;
use crate::netlink::{Link, Netlink};
use crate::sys::Ethtool;

/// A network interface, and what the machine uses it for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its index, whichever of its names it was found by.
    pub index: u32,
    /// Number of its receive queues.
    pub queues: u32,
    /// Payload bytes of its longest frame.
    pub mtu: u32,
    /// Whether it is the loopback.
    pub loopback: bool,
    /// The bridge, bond or the like that it belongs to, in words: `bridge br0`.
    pub master: Option<String>,
    /// Whether a default route goes out of it.
    pub default_route: bool,
    /// Its addresses, without the link-local ones of IPv6.
    pub addresses: Vec<IpAddr>,
}

impl Interface {
    /// Finds the interface of that name in the network namespace of the calling thread.
    ///
    /// # Errors
    /// Where the kernel does not answer.
    pub fn find(name: &str) -> Result<Option<Interface>, XdpError> {
        let refused = |source| XdpError::Device { doing: "look at", device: name.to_owned(), source };
        let netlink = Netlink::open().map_err(refused)?;
        let Some(link) = netlink.link(name).map_err(refused)? else { return Ok(None) };
        let queues = Ethtool::new(name).map_err(refused)?.rx_queues();
        Interface::of(&netlink, link, queues).map(Some).map_err(refused)
    }

    fn of(netlink: &Netlink, link: Link, queues: u32) -> io::Result<Interface> {
        let (routes, addresses) = (netlink.default_routes(link.ifindex)?, netlink.addresses(link.ifindex)?);
        // A router beside the port advertises itself (in IPv6) to whoever listens, and is of use only to who has an address there.
        let default_route = routes.made || routes.advertised && addresses.iter().any(IpAddr::is_ipv6);
        let master = link.master.map(|index| netlink.link_at(index.cast_signed())).transpose()?.flatten();
        Ok(Interface {
            index: link.ifindex.unsigned_abs(),
            queues,
            mtu: link.mtu,
            loopback: link.loopback,
            master: master.map(|master| match master.kind {
                Some(kind) => format!("{kind} {}", master.name),
                None => master.name,
            }),
            default_route,
            addresses,
        })
    }
}
