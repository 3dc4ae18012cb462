use std::io;
use std::net::IpAddr;

use xoff_wire::units::MacAddr;

use crate::error::XdpError;
use crate::netlink::{Link, Netlink};
use crate::sys::Ethtool;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub index: u32,
    pub queues: u32,
    pub mtu: u32,
    pub loopback: bool,
    pub ethernet: bool,
    /// Kind and name of the bridge or bond that contains the interface, such as `bridge br0`.
    pub master: Option<String>,
    pub kind: Option<String>,
    /// Kinds and names of the interfaces on top of this one, such as `vlan eth0.5`.
    pub upper: Vec<String>,
    /// Name of the interface that a default route uses: this one, or one on top of it.
    pub default_route: Option<String>,
    /// IP addresses, except IPv6 link-local addresses.
    pub addresses: Vec<IpAddr>,
}

impl Interface {
    pub fn find(name: &str) -> Result<Option<Interface>, XdpError> {
        let refused =
            |source| XdpError::Device { fault: "cannot read the interface", device: name.to_owned(), source };
        let netlink = Netlink::open().map_err(refused)?;
        let Some(link) = netlink.link(name).map_err(refused)? else { return Ok(None) };
        let queues = Ethtool::new(name).map_err(refused)?.rx_queues();
        Interface::of(&netlink, link, queues).map(Some).map_err(refused)
    }

    fn of(netlink: &Netlink, link: Link, queues: u32) -> io::Result<Interface> {
        let addresses = netlink.addresses(link.ifindex)?;
        let upper = netlink.upper(link.ifindex)?;
        let mut default_route = is_default(netlink, &link)?.then(|| link.name.clone());
        for link in &upper {
            if default_route.is_none() && is_default(netlink, link)? {
                default_route = Some(link.name.clone());
            }
        }
        let named = |link: Link| match link.kind {
            Some(kind) => format!("{kind} {}", link.name),
            None => link.name,
        };
        let master = link.master.map(|index| netlink.link_at(index.cast_signed())).transpose()?.flatten();
        Ok(Interface {
            index: link.ifindex.unsigned_abs(),
            queues,
            mtu: link.mtu,
            loopback: link.loopback,
            ethernet: link.ethernet,
            master: master.map(named),
            kind: link.kind,
            upper: upper.into_iter().map(named).collect(),
            default_route,
            addresses,
        })
    }
}

/// Properties of a device that other programs may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceState {
    pub name: String,
    pub address: MacAddr,
    pub mtu: u32,
    pub is_running: bool,
    /// Identifier of the XDP program attached in any mode.
    pub program: Option<u32>,
}

/// Reader of a device's state by the device's index, even after a rename. Reading opens no file, so it works at the
/// limit of open files.
#[derive(Debug)]
pub struct DeviceReader {
    ifindex: i32,
    netlink: Netlink,
}

impl DeviceReader {
    /// Opens a reader in the calling thread's network namespace.
    pub fn open(ifindex: i32) -> io::Result<DeviceReader> {
        Ok(DeviceReader { ifindex, netlink: Netlink::open()? })
    }

    /// Returns `None` if the device was removed.
    pub fn read(&self) -> io::Result<Option<DeviceState>> {
        let link = self.netlink.link_at(self.ifindex)?;
        Ok(link.map(|Link { name, mac, mtu, running, program, .. }| DeviceState {
            name,
            address: mac,
            mtu,
            is_running: running,
            program,
        }))
    }
}

/// Returns whether a default route uses the interface. Advertised routes count only if the interface has an IPv6
/// address, because any IPv6 router can advertise itself.
fn is_default(netlink: &Netlink, link: &Link) -> io::Result<bool> {
    let routes = netlink.default_routes(link.ifindex)?;
    let is_used = || Ok(netlink.addresses(link.ifindex)?.iter().any(IpAddr::is_ipv6));
    if routes.advertised && !routes.made { is_used() } else { Ok(routes.made) }
}
