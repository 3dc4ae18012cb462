use std::io;
use std::net::IpAddr;

use crate::error::XdpError;
use crate::netlink::{Link, Netlink};
use crate::sys::Ethtool;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub index: u32,
    pub queues: u32,
    pub mtu: u32,
    pub loopback: bool,
    /// Kind and name of the bridge, bond or similar device to which the interface belongs, such as `bridge br0`.
    pub master: Option<String>,
    /// True if a default route uses the interface.
    pub default_route: bool,
    /// IP addresses, without IPv6 link-local ones.
    pub addresses: Vec<IpAddr>,
}

impl Interface {
    /// Finds an interface in the calling thread's network namespace.
    pub fn find(name: &str) -> Result<Option<Interface>, XdpError> {
        let refused =
            |source| XdpError::Device { fault: "cannot read the interface", device: name.to_owned(), source };
        let netlink = Netlink::open().map_err(refused)?;
        let Some(link) = netlink.link(name).map_err(refused)? else { return Ok(None) };
        let queues = Ethtool::new(name).map_err(refused)?.rx_queues();
        Interface::of(&netlink, link, queues).map(Some).map_err(refused)
    }

    fn of(netlink: &Netlink, link: Link, queues: u32) -> io::Result<Interface> {
        let (routes, addresses) = (netlink.default_routes(link.ifindex)?, netlink.addresses(link.ifindex)?);
        // An advertised default route counts only if the interface also has an IPv6 address, because any IPv6 router
        // can advertise itself.
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
