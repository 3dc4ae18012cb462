use std::io;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use xoff_netlink::packet_route::RouteNetlinkMessage;
use xoff_netlink::packet_route::address::{AddressAttribute, AddressMessage, AddressScope};
use xoff_netlink::packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType,
    LinkMessage, LinkXdp,
};
use xoff_netlink::packet_route::route::{RouteAttribute, RouteMessage, RouteProtocol, RouteType};
use xoff_netlink::tc::{Handle, Node, Place, Qdisc};
use xoff_netlink::{Conversation, link_at, link_named, set_up};
use xoff_wire::units::MacAddr;

const PFIFO: &str = "pfifo";

#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) ifindex: i32,
    pub(crate) name: String,
    pub(crate) mac: MacAddr,
    pub(crate) permanent_address: MacAddr,
    pub(crate) mtu: u32,
    pub(crate) up: bool,
    pub(crate) carrier: bool,
    pub(crate) running: bool,
    pub(crate) qdisc: String,
    pub(crate) gso_max_segs: u32,
    pub(crate) program: Option<u32>,
    pub(crate) own_addresses: Option<OwnAddresses>,
    pub(crate) loopback: bool,
    pub(crate) ethernet: bool,
    pub(crate) master: Option<u32>,
    /// Index of the device below this one; `None` if there is none in this network namespace.
    pub(crate) lower: Option<u32>,
    pub(crate) kind: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnAddresses(u8);

impl OwnAddresses {
    pub(crate) const NONE: OwnAddresses = OwnAddresses(1);
}

#[derive(Debug)]
pub(crate) struct Netlink(Mutex<Conversation>);

impl Netlink {
    pub(crate) fn open() -> io::Result<Netlink> {
        Conversation::open().map(Mutex::new).map(Netlink)
    }

    fn kernel(&self) -> MutexGuard<'_, Conversation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn link(&self, device: &str) -> io::Result<Option<Link>> {
        Ok(self.read(link_named(device))?.map(|link| read(&link)))
    }

    pub(crate) fn link_at(&self, ifindex: i32) -> io::Result<Option<Link>> {
        Ok(self.read(link_at(ifindex.cast_unsigned()))?.map(|link| read(&link)))
    }

    /// Returns the devices on top of a device, such as VLAN devices. The other end of a veth or netkit does not count.
    pub(crate) fn upper(&self, ifindex: i32) -> io::Result<Vec<Link>> {
        let mut links = Vec::new();
        self.kernel().links(|link| links.push(read(&link)))?;
        let is_pair = |link: &Link| matches!(link.kind.as_deref(), Some("veth" | "netkit"));
        let is_upper = |link: &Link| link.lower == Some(ifindex.cast_unsigned()) && !is_pair(link);
        links.retain(|link| is_upper(link) && link.ifindex != ifindex);
        Ok(links)
    }

    pub(crate) fn read(&self, link: LinkMessage) -> io::Result<Option<LinkMessage>> {
        self.kernel().link(link)
    }

    pub(crate) fn set_up(&self, ifindex: i32, up: bool) -> io::Result<()> {
        self.kernel().set_link(set_up(link_at(ifindex.cast_unsigned()), up))
    }

    pub(crate) fn set_own_addresses(&self, ifindex: i32, mode: OwnAddresses) -> io::Result<()> {
        let mode = AfSpecInet6::AddrGenMode(In6AddrGenMode::from(mode.0));
        self.set(ifindex, LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![mode])]))
    }

    pub(crate) fn set_gso_max_segs(&self, ifindex: i32, segments: u32) -> io::Result<()> {
        self.set(ifindex, LinkAttribute::GsoMaxSegs(segments))
    }

    fn set(&self, ifindex: i32, attribute: LinkAttribute) -> io::Result<()> {
        let mut link = link_at(ifindex.cast_unsigned());
        link.attributes.push(attribute);
        self.kernel().set_link(link)
    }

    pub(crate) fn addresses(&self, ifindex: i32) -> io::Result<Vec<IpAddr>> {
        let mut addresses = Vec::new();
        let all = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        self.kernel().dump(all, |message| {
            if let RouteNetlinkMessage::NewAddress(message) = message
                && message.header.index == ifindex.cast_unsigned()
                && message.header.scope != AddressScope::Link
            {
                addresses.extend(address(&message));
            }
        })?;
        Ok(addresses)
    }

    pub(crate) fn default_routes(&self, ifindex: i32) -> io::Result<DefaultRoutes> {
        let mut found = DefaultRoutes::default();
        self.kernel().routes(|route| match route.header.protocol {
            _ if !is_default(&route, ifindex.cast_unsigned()) => {}
            RouteProtocol::Ra => found.advertised = true,
            _ => found.made = true,
        })?;
        Ok(found)
    }

    pub(crate) fn add_pfifo(&self, ifindex: i32, major: u16) -> io::Result<()> {
        let pfifo = Qdisc::Other { kind: PFIFO.to_owned(), options: Vec::new() };
        let mut request = pfifo.add(Place { handle: Handle::new(major, 0), ..root(ifindex) });
        Ok(self.kernel().send(&mut request)?)
    }

    pub(crate) fn add_clsact(&self, ifindex: i32) -> io::Result<()> {
        Ok(self.kernel().send(&mut Qdisc::Clsact.add(clsact(ifindex)))?)
    }

    pub(crate) fn remove_clsact(&self, ifindex: i32) -> io::Result<()> {
        Ok(self.kernel().send(&mut Qdisc::delete(clsact(ifindex)))?)
    }

    pub(crate) fn filters(&self, ifindex: i32, parent: Handle) -> io::Result<Vec<Node>> {
        Ok(self.kernel().filters(ifindex, parent)?)
    }

    pub(crate) fn has_pfifo(&self, ifindex: i32, major: u16) -> io::Result<bool> {
        let qdiscs = self.kernel().qdiscs(ifindex)?;
        Ok(qdiscs.iter().any(|qdisc| qdisc.kind == PFIFO && qdisc.handle.major() == major))
    }

    pub(crate) fn has_clsact(&self, ifindex: i32) -> io::Result<bool> {
        let qdiscs = self.kernel().qdiscs(ifindex)?;
        Ok(qdiscs.iter().any(|qdisc| qdisc.kind == Qdisc::Clsact.kind()))
    }

    pub(crate) fn remove_qdisc(&self, ifindex: i32) -> io::Result<()> {
        Ok(self.kernel().send(&mut Qdisc::delete(root(ifindex)))?)
    }
}

fn root(ifindex: i32) -> Place {
    Place { ifindex, parent: Handle::ROOT, handle: Handle::NONE }
}

fn clsact(ifindex: i32) -> Place {
    Place { parent: Handle::CLSACT, ..root(ifindex) }
}

fn address(message: &AddressMessage) -> Option<IpAddr> {
    let (mut local, mut other) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(address) => local = Some(*address),
            AddressAttribute::Address(address) => other = Some(*address),
            _ => {}
        }
    }
    local.or(other)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DefaultRoutes {
    pub(crate) made: bool,
    pub(crate) advertised: bool,
}

fn is_default(route: &RouteMessage, ifindex: u32) -> bool {
    let via = |attribute: &RouteAttribute| match attribute {
        RouteAttribute::Oif(index) => *index == ifindex,
        RouteAttribute::MultiPath(hops) => hops.iter().any(|hop| hop.interface_index == ifindex),
        _ => false,
    };
    let header = &route.header;
    header.destination_prefix_length == 0
        && header.kind == RouteType::Unicast
        && route.attributes.iter().any(via)
}

fn read(message: &LinkMessage) -> Link {
    let mut link = Link {
        ifindex: message.header.index.cast_signed(),
        name: String::new(),
        mac: MacAddr::default(),
        permanent_address: MacAddr::default(),
        mtu: 0,
        up: message.header.flags.contains(LinkFlags::Up),
        carrier: message.header.flags.contains(LinkFlags::Up | LinkFlags::LowerUp),
        running: message.header.flags.contains(LinkFlags::Running),
        qdisc: String::new(),
        gso_max_segs: 0,
        program: None,
        own_addresses: None,
        loopback: message.header.flags.contains(LinkFlags::Loopback),
        ethernet: matches!(message.header.link_layer_type, LinkLayerType::Ether | LinkLayerType::Loopback),
        master: None,
        lower: None,
        kind: None,
    };
    let address = |octets: &[u8]| octets.try_into().map(MacAddr).unwrap_or_default();
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::Address(octets) => link.mac = address(octets),
            LinkAttribute::PermAddress(octets) => link.permanent_address = address(octets),
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::GsoMaxSegs(segments) => link.gso_max_segs = *segments,
            LinkAttribute::Qdisc(name) => link.qdisc.clone_from(name),
            LinkAttribute::Xdp(facts) => link.program = Some(program(facts)).filter(|&id| id != 0),
            LinkAttribute::Controller(master) => link.master = Some(*master).filter(|&index| index != 0),
            LinkAttribute::Link(lower) => link.lower = Some(*lower),
            LinkAttribute::LinkInfo(facts) => link.kind = facts.iter().find_map(kind),
            LinkAttribute::AfSpecUnspec(families) => {
                link.own_addresses = families.iter().find_map(own_addresses)
            }
            _ => {}
        }
    }
    if message.attributes.iter().any(|attribute| matches!(attribute, LinkAttribute::LinkNetNsId(_))) {
        link.lower = None; // the index is of another namespace
    }
    link
}

fn kind(fact: &LinkInfo) -> Option<String> {
    match fact {
        LinkInfo::Kind(kind) => Some(kind.to_string()),
        _ => None,
    }
}

fn own_addresses(family: &AfSpecUnspec) -> Option<OwnAddresses> {
    let AfSpecUnspec::Inet6(facts) = family else { return None };
    facts.iter().find_map(|fact| match fact {
        AfSpecInet6::AddrGenMode(mode) => Some(OwnAddresses(mode.into())),
        _ => None,
    })
}

pub(crate) fn program(facts: &[LinkXdp]) -> u32 {
    let id = |fact: &LinkXdp| match fact {
        LinkXdp::ProgId(id) | LinkXdp::DrvProgId(id) | LinkXdp::SkbProgId(id) | LinkXdp::HwProgId(id) => {
            Some(*id)
        }
        _ => None,
    };
    facts.iter().filter_map(id).find(|&id| id != 0).unwrap_or(0)
}
