use std::net::{IpAddr, Ipv4Addr};

use xoff_netlink::packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use xoff_netlink::packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use xoff_netlink::packet_route::neighbour::{NeighbourAttribute, NeighbourFlags, NeighbourState};
use xoff_netlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use xoff_netlink::tc::Handle;
use xoff_netlink::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, link_at, link_named, neighbour, set_up};
use xoff_wire::units::MacAddr;
use xoff_xdp::finish_frames;

use super::netlink::{netlink, read_link};
use super::queue::QueueCounts;
use super::{LabError, Namespace};

pub(super) fn loopback_up(namespace: &Namespace) -> Result<(), LabError> {
    netlink(namespace, "bring lo up", |kernel| kernel.set_link(set_up(link_named("lo"), true)))
}

#[derive(Clone, Debug)]
pub struct Device {
    namespace: Namespace,
    name: String,
    index: u32,
    mac: MacAddr,
}

impl Device {
    pub fn find(namespace: &Namespace, name: &str) -> Result<Device, LabError> {
        let link = read_link(namespace, name)?;
        let (namespace, name) = (namespace.clone(), name.to_owned());
        Ok(Device { namespace, name, index: link.header.index, mac: mac_of(&link) })
    }

    pub fn mtu(&self) -> Result<u32, LabError> {
        let link = read_link(&self.namespace, &self.name)?;
        let mtu = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Mtu(mtu) => Some(*mtu),
            _ => None,
        });
        Ok(mtu.expect("a device has no MTU"))
    }

    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    pub(crate) fn ifindex(&self) -> i32 {
        i32::try_from(self.index).expect("the kernel's interface index must be a positive int")
    }

    #[must_use]
    pub fn mac(&self) -> MacAddr {
        self.mac
    }

    pub fn is_up(&self) -> Result<bool, LabError> {
        Ok(read_link(&self.namespace, &self.name)?.header.flags.contains(LinkFlags::Up))
    }

    /// Sets a veth device, and so its peer's carrier, up or down.
    pub fn set_up(&self, up: bool) -> Result<(), LabError> {
        let what = format!("set {} {}", self.name, if up { "up" } else { "down" });
        netlink(&self.namespace, &what, |kernel| kernel.set_link(set_up(link_at(self.index), up)))
    }

    pub fn delete(&self) -> Result<(), LabError> {
        let what = format!("delete {}", self.name);
        let link = RouteNetlinkMessage::DelLink(link_at(self.index));
        netlink(&self.namespace, &what, |kernel| kernel.request(link, 0))
    }

    /// Adds an IP address; the first IPv6 address enables IPv6.
    pub fn add_address(&self, address: IpAddr, prefix_len: u8) -> Result<(), LabError> {
        if address.is_ipv6() {
            self.silence_ipv6()?;
        }
        let what = format!("add {address}/{prefix_len} to {}", self.name);
        let mut message = AddressMessage::default();
        (message.header.index, message.header.prefix_len) = (self.index, prefix_len);
        message.header.family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        message.attributes = vec![
            AddressAttribute::Address(address),
            AddressAttribute::Local(address),
            AddressAttribute::Flags(AddressFlags::Nodad),
        ];
        // Set no broadcast address for prefixes of 31 and 32 bits, which have none (RFC 3021).
        if let IpAddr::V4(address) = address
            && prefix_len < 31
        {
            let broadcast = Ipv4Addr::from(u32::from(address) | u32::MAX >> prefix_len);
            message.attributes.push(AddressAttribute::Broadcast(broadcast));
        }
        let message = RouteNetlinkMessage::NewAddress(message);
        netlink(&self.namespace, &what, |kernel| kernel.request(message, NLM_F_CREATE | NLM_F_EXCL))
    }

    pub fn add_neighbour(&self, address: IpAddr, mac: MacAddr) -> Result<(), LabError> {
        self.add_neighbours([(address, mac)], NeighbourState::Permanent, NeighbourFlags::empty())
    }

    /// Adds stale neighbour entries. Without them, the kernel reorders frames, and drops some uncounted, while it resolves addresses.
    pub fn add_stale_neighbours(
        &self,
        neighbours: impl IntoIterator<Item = (IpAddr, MacAddr)>,
    ) -> Result<(), LabError> {
        // Mark neighbours as `ExtLearned`, so that they do not count towards the kernel's limit of 1,024 for all namespaces (`gc_thresh3`).
        self.add_neighbours(neighbours, NeighbourState::Stale, NeighbourFlags::ExtLearned)
    }

    fn add_neighbours(
        &self,
        neighbours: impl IntoIterator<Item = (IpAddr, MacAddr)>,
        state: NeighbourState,
        flags: NeighbourFlags,
    ) -> Result<(), LabError> {
        netlink(&self.namespace, &format!("add neighbours of {}", self.name), |kernel| {
            neighbours.into_iter().try_for_each(|(address, mac)| {
                let mut message = neighbour(self.index, address);
                (message.header.state, message.header.flags) = (state, flags);
                message.attributes.push(NeighbourAttribute::LinkLayerAddress(mac.0.to_vec()));
                let message = RouteNetlinkMessage::NewNeighbour(message);
                kernel.request(message, NLM_F_CREATE | NLM_F_REPLACE)
            })
        })
    }

    /// Makes the kernel send complete frames: with checksums, at most one MTU long, and in order.
    pub fn finish_frames(&self) -> Result<(), LabError> {
        self.namespace.try_run(|| finish_frames(&self.name)).map_err(|source| LabError::Io {
            what: format!("turn offloads of {} off", self.name),
            namespace: self.namespace.name().to_owned(),
            source,
        })
    }

    pub fn counters(&self) -> Result<Counters, LabError> {
        Ok(Counters::of(&read_link(&self.namespace, &self.name)?))
    }

    pub fn queue(&self) -> Result<QueueCounts, LabError> {
        let what = format!("read the queueing discipline of {}", self.name);
        let qdiscs = netlink(&self.namespace, &what, |kernel| kernel.qdiscs(self.ifindex()))?;
        Ok(qdiscs.iter().filter(|qdisc| qdisc.parent == Handle::ROOT).map(QueueCounts::of).sum())
    }

    pub(super) fn add_queue(&self) -> Result<(), LabError> {
        self.namespace.try_run(|| xoff_xdp::add_queue(self.ifindex())).map_err(|source| LabError::Io {
            what: format!("put a pfifo on {}", self.name),
            namespace: self.namespace.name().to_owned(),
            source,
        })
    }

    fn silence_ipv6(&self) -> Result<(), LabError> {
        const NO_LINK_LOCAL: &str = "1";
        let settings = [
            ("addr_gen_mode", NO_LINK_LOCAL),
            ("accept_ra", "0"),
            ("accept_dad", "0"),
            ("router_solicitations", "0"),
            ("keep_addr_on_down", "1"),
            ("disable_ipv6", "0"),
        ];
        settings.into_iter().try_for_each(|(setting, value)| {
            self.namespace.sysctl(&format!("ipv6/conf/{}/{setting}", self.name), value)
        })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub rx_packets: u64,
    pub rx_bytes: u64,
    pub tx_packets: u64,
    pub tx_bytes: u64,
    pub rx_dropped: u64,
    pub tx_dropped: u64,
}

impl Counters {
    pub(crate) fn of(link: &LinkMessage) -> Counters {
        let stats = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Stats64(stats) => Some(*stats),
            _ => None,
        });
        let stats = stats.expect("the kernel's link message must contain statistics");
        Counters {
            rx_packets: stats.rx_packets,
            rx_bytes: stats.rx_bytes,
            tx_packets: stats.tx_packets,
            tx_bytes: stats.tx_bytes,
            rx_dropped: stats.rx_dropped + stats.rx_errors,
            tx_dropped: stats.tx_dropped + stats.tx_errors,
        }
    }

    #[must_use]
    pub fn since(self, before: Counters) -> Counters {
        Counters {
            rx_packets: self.rx_packets - before.rx_packets,
            rx_bytes: self.rx_bytes - before.rx_bytes,
            tx_packets: self.tx_packets - before.tx_packets,
            tx_bytes: self.tx_bytes - before.tx_bytes,
            rx_dropped: self.rx_dropped - before.rx_dropped,
            tx_dropped: self.tx_dropped - before.tx_dropped,
        }
    }

    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.rx_dropped + self.tx_dropped
    }
}

fn mac_of(link: &LinkMessage) -> MacAddr {
    let octets = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Address(octets) => <[u8; 6]>::try_from(octets.as_slice()).ok(),
        _ => None,
    });
    MacAddr(octets.expect("an Ethernet device must have a MAC address"))
}
