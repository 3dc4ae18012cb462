//! What rtnetlink knows and does about a device: its facts, its counters, up and down, its queueing
//! discipline.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures::{StreamExt, TryStreamExt};
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage, AddressScope};
use rtnetlink::packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use rtnetlink::packet_route::route::{RouteAttribute, RouteMessage, RouteProtocol, RouteType};
use rtnetlink::packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use rtnetlink::{Error, Handle, LinkGetRequest, LinkUnspec, RouteMessageBuilder};
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};
use xoff_dataplane::units::MacAddr;

use crate::reading::program;

/// The queueing discipline that says busy instead of dropping.
pub(crate) const PFIFO: &str = "pfifo";

/// Where filters of a device hang that are for what it is given to send.
const CLSACT: &str = "clsact";

/// A device as the kernel shows it.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) ifindex: i32,
    pub(crate) name: String,
    pub(crate) mac: MacAddr,
    /// The address that its hardware has; zero of a device that has none (a veth).
    pub(crate) permanent_address: MacAddr,
    pub(crate) mtu: u32,
    pub(crate) up: bool,
    /// Up, and what is at the other end is there, too.
    pub(crate) carrier: bool,
    pub(crate) qdisc: String,
    /// Most frames of one superframe.
    pub(crate) gso_max_segs: u32,
    /// Id of the XDP program that it runs.
    pub(crate) program: Option<u32>,
    /// How the kernel makes IPv6 addresses of its own there; `None` where it speaks no IPv6.
    pub(crate) own_addresses: Option<OwnAddresses>,
    pub(crate) loopback: bool,
    /// Index of the bridge, the bond or the like that it belongs to.
    pub(crate) master: Option<u32>,
    /// Of a device that is none of hardware: `bridge`, `veth`.
    pub(crate) kind: Option<String>,
}

/// How the kernel makes IPv6 addresses of its own for a device (`addrgenmode`), by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnAddresses(u8);

impl OwnAddresses {
    /// Not at all.
    pub(crate) const NONE: OwnAddresses = OwnAddresses(1);
}

/// A conversation with the kernel, about one network namespace: that of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Netlink {
    runtime: Runtime,
    handle: Handle,
}

impl Netlink {
    pub(crate) fn open() -> io::Result<Netlink> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let guard = runtime.enter();
        let (connection, handle, _) = rtnetlink::new_connection()?;
        drop(guard);
        runtime.spawn(connection);
        Ok(Netlink { runtime, handle })
    }

    /// `None`: there is no such device.
    pub(crate) fn link(&self, device: &str) -> io::Result<Option<Link>> {
        self.first(self.handle.link().get().match_name(device.to_owned()))
    }

    /// The same by its index, whatever its name is by now.
    pub(crate) fn link_at(&self, ifindex: i32) -> io::Result<Option<Link>> {
        self.first(self.handle.link().get().match_index(ifindex.cast_unsigned()))
    }

    fn first(&self, request: LinkGetRequest) -> io::Result<Option<Link>> {
        let mut links = request.execute();
        match self.runtime.block_on(links.try_next()) {
            Ok(link) => Ok(link.map(|link| read(&link))),
            Err(Error::NetlinkError(error)) if error.to_io().raw_os_error() == Some(libc::ENODEV) => Ok(None),
            Err(error) => Err(to_io(error)),
        }
    }

    pub(crate) fn set_up(&self, ifindex: i32, up: bool) -> io::Result<()> {
        let link = LinkUnspec::new_with_index(ifindex.cast_unsigned());
        let link = if up { link.up() } else { link.down() };
        self.runtime.block_on(self.handle.link().set(link.build()).execute()).map_err(to_io)
    }

    /// From now on; what the kernel has made before stays.
    pub(crate) fn set_own_addresses(&self, ifindex: i32, mode: OwnAddresses) -> io::Result<()> {
        let mode = AfSpecInet6::AddrGenMode(In6AddrGenMode::from(mode.0));
        let mode = LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![mode])]);
        let link = LinkUnspec::new_with_index(ifindex.cast_unsigned()).append_extra_attribute(mode);
        self.runtime.block_on(self.handle.link().set(link.build()).execute()).map_err(to_io)
    }

    /// Addresses of the device, but for those that are its own in IPv6 (link-local ones).
    pub(crate) fn addresses(&self, ifindex: i32) -> io::Result<Vec<IpAddr>> {
        let ours = self.handle.address().get().set_link_index_filter(ifindex.cast_unsigned()).execute();
        let ours: Vec<AddressMessage> = self.runtime.block_on(ours.try_collect()).map_err(to_io)?;
        let given = ours.iter().filter(|it| it.header.scope != AddressScope::Link);
        let address = |message: &AddressMessage| {
            let local = message.attributes.iter().find_map(|attribute| match attribute {
                AddressAttribute::Local(address) => Some(*address),
                _ => None,
            });
            local.or_else(|| {
                message.attributes.iter().find_map(|attribute| match attribute {
                    AddressAttribute::Address(address) => Some(*address),
                    _ => None,
                })
            })
        };
        Ok(given.filter_map(address).collect())
    }

    /// Default routes by the device: whether there is one that somebody made, and whether there is one that a router has advertised.
    pub(crate) fn default_routes(&self, ifindex: i32) -> io::Result<DefaultRoutes> {
        let mut found = DefaultRoutes::default();
        let (v4, v6) = (RouteMessageBuilder::<Ipv4Addr>::new(), RouteMessageBuilder::<Ipv6Addr>::new());
        for request in [v4.build(), v6.build()] {
            let routes = self.handle.route().get(request).execute();
            let routes: Vec<RouteMessage> = self.runtime.block_on(routes.try_collect()).map_err(to_io)?;
            for route in routes.iter().filter(|route| is_default(route, ifindex.cast_unsigned())) {
                match route.header.protocol {
                    RouteProtocol::Ra => found.advertised = true,
                    _ => found.made = true,
                }
            }
        }
        Ok(found)
    }

    pub(crate) fn set_gso_max_segs(&self, ifindex: i32, segments: u32) -> io::Result<()> {
        let link = LinkUnspec::new_with_index(ifindex.cast_unsigned());
        let link = link.append_extra_attribute(LinkAttribute::GsoMaxSegs(segments));
        self.runtime.block_on(self.handle.link().set(link.build()).execute()).map_err(to_io)
    }

    /// Puts a pfifo on a device that has no queueing discipline. `major`: of its handle; 0: the kernel's choice.
    pub(crate) fn add_pfifo(&self, ifindex: i32, major: u16) -> io::Result<()> {
        let mut qdisc = root(ifindex);
        qdisc.header.handle.major = major;
        qdisc.attributes.push(TcAttribute::Kind(PFIFO.to_owned()));
        self.ask(RouteNetlinkMessage::NewQueueDiscipline(qdisc), NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Gives the device a clsact, where filters are. False where it has one.
    pub(crate) fn add_clsact(&self, ifindex: i32) -> io::Result<bool> {
        let mut qdisc = clsact(ifindex);
        qdisc.attributes.push(TcAttribute::Kind(CLSACT.to_owned()));
        match self.ask(RouteNetlinkMessage::NewQueueDiscipline(qdisc), NLM_F_CREATE | NLM_F_EXCL) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            result => result.map(|()| true),
        }
    }

    /// Takes the clsact away, with all filters.
    pub(crate) fn remove_clsact(&self, ifindex: i32) -> io::Result<()> {
        self.ask(RouteNetlinkMessage::DelQueueDiscipline(clsact(ifindex)), 0)
    }

    /// Whether the device has a pfifo with that major number.
    pub(crate) fn has_pfifo(&self, ifindex: i32, major: u16) -> io::Result<bool> {
        self.has_qdisc(ifindex, PFIFO, Some(major))
    }

    /// Whether the device has a clsact.
    pub(crate) fn has_clsact(&self, ifindex: i32) -> io::Result<bool> {
        self.has_qdisc(ifindex, CLSACT, None)
    }

    fn has_qdisc(&self, ifindex: i32, kind: &str, major: Option<u16>) -> io::Result<bool> {
        let kind = TcAttribute::Kind(kind.to_owned());
        let ours = |qdisc: &TcMessage| {
            qdisc.header.index == ifindex
                && major.is_none_or(|major| qdisc.header.handle.major == major)
                && qdisc.attributes.contains(&kind)
        };
        let qdiscs = self.handle.qdisc().get().index(ifindex).execute();
        let qdiscs: Vec<TcMessage> = self.runtime.block_on(qdiscs.try_collect()).map_err(to_io)?;
        Ok(qdiscs.iter().any(ours))
    }

    /// Takes the queueing discipline away: the device has its default again.
    pub(crate) fn remove_qdisc(&self, ifindex: i32) -> io::Result<()> {
        self.ask(RouteNetlinkMessage::DelQueueDiscipline(root(ifindex)), 0)
    }

    fn ask(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        let mut handle = self.handle.clone();
        self.runtime.block_on(async {
            let mut answers = handle.request(request).map_err(to_io)?;
            while let Some(answer) = answers.next().await {
                if let NetlinkPayload::Error(error) = answer.payload
                    && error.code.is_some()
                {
                    return Err(error.to_io());
                }
            }
            Ok(())
        })
    }
}

fn root(ifindex: i32) -> TcMessage {
    let mut message = TcMessage::with_index(ifindex);
    message.header.parent = TcHandle::ROOT;
    message
}

fn clsact(ifindex: i32) -> TcMessage {
    let mut message = TcMessage::with_index(ifindex);
    message.header.parent = TcHandle { major: 0xffff, minor: 0xfff1 };
    message.header.handle = TcHandle { major: 0xffff, minor: 0 };
    message
}

/// Which there are.
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

fn to_io(error: Error) -> io::Error {
    match error {
        Error::NetlinkError(error) => error.to_io(),
        error => io::Error::other(error),
    }
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
        qdisc: String::new(),
        gso_max_segs: 0,
        program: None,
        own_addresses: None,
        loopback: message.header.flags.contains(LinkFlags::Loopback),
        master: None,
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
            LinkAttribute::LinkInfo(facts) => link.kind = facts.iter().find_map(kind),
            LinkAttribute::AfSpecUnspec(families) => {
                link.own_addresses = families.iter().find_map(own_addresses)
            }
            _ => {}
        }
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
