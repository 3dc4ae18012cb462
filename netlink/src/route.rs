use std::io;
use std::net::IpAddr;

use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage, Prop};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage};
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::Conversation;

#[must_use]
pub fn link_at(index: u32) -> LinkMessage {
    let mut link = LinkMessage::default();
    link.header.index = index;
    link
}

#[must_use]
pub fn link_named(name: &str) -> LinkMessage {
    let mut link = LinkMessage::default();
    link.attributes.push(LinkAttribute::IfName(name.to_owned()));
    link
}

/// Returns whether the message describes the device itself; messages about its role as a port of a kernel bridge have the same type.
#[must_use]
pub fn concerns_device(link: &LinkMessage) -> bool {
    link.header.interface_family == AddressFamily::Unspec
}

#[must_use]
pub fn alternative_names(link: &LinkMessage) -> Vec<&str> {
    let lists = link.attributes.iter().filter_map(|attribute| match attribute {
        LinkAttribute::PropList(list) => Some(list),
        _ => None,
    });
    let names = lists.flatten().filter_map(|property| match property {
        Prop::AltIfName(name) => Some(name.as_str()),
        _ => None,
    });
    names.collect()
}

#[must_use]
pub fn set_up(mut link: LinkMessage, up: bool) -> LinkMessage {
    link.header.flags.set(LinkFlags::Up, up);
    link.header.change_mask |= LinkFlags::Up;
    link
}

#[must_use]
pub fn neighbour(index: u32, address: IpAddr) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.ifindex = index;
    let (family, address) = match address {
        IpAddr::V4(address) => (AddressFamily::Inet, NeighbourAddress::Inet(address)),
        IpAddr::V6(address) => (AddressFamily::Inet6, NeighbourAddress::Inet6(address)),
    };
    message.header.family = family;
    message.attributes.push(NeighbourAttribute::Destination(address));
    message
}

impl Conversation {
    /// Requests the device that `link` identifies; returns `None` if the device does not exist.
    pub fn link(&mut self, link: LinkMessage) -> io::Result<Option<LinkMessage>> {
        Ok(self.get(RouteNetlinkMessage::GetLink(link))?.and_then(|message| match message {
            RouteNetlinkMessage::NewLink(link) => Some(link),
            _ => None,
        }))
    }

    pub fn set_link(&mut self, link: LinkMessage) -> io::Result<()> {
        self.request(RouteNetlinkMessage::SetLink(link), 0)
    }

    pub fn links(&mut self, mut give: impl FnMut(LinkMessage)) -> io::Result<bool> {
        self.dump(RouteNetlinkMessage::GetLink(LinkMessage::default()), |message| {
            if let RouteNetlinkMessage::NewLink(link) = message {
                give(link);
            }
        })
    }

    pub fn routes(&mut self, mut give: impl FnMut(RouteMessage)) -> io::Result<bool> {
        let mut is_consistent = true;
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut wanted = RouteMessage::default();
            wanted.header.address_family = family;
            is_consistent &= self.dump(RouteNetlinkMessage::GetRoute(wanted), |message| {
                if let RouteNetlinkMessage::NewRoute(route) = message {
                    give(route);
                }
            })?;
        }
        Ok(is_consistent)
    }
}
