//! Link state of the ports' devices, by notifications of the kernel.

use std::io;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkFlags, LinkMessage};
use xoff_netlink::{Conversation, Group, Notification, Notifications, link_named};

const BUFFER: usize = 1 << 20;

pub struct Links {
    notifications: Notifications,
    conversation: Conversation,
    /// Device name and interface index of each port.
    devices: Vec<(String, u32)>,
}

impl Links {
    pub fn open(devices: &[String]) -> io::Result<Links> {
        let notifications = Notifications::open(&[Group::Link], BUFFER)?;
        let mut conversation = Conversation::open()?;
        let mut index = |name: &String| {
            let link = conversation.link(link_named(name))?;
            let link = link.ok_or_else(|| io::Error::other(format!("no interface `{name}` exists")))?;
            Ok((name.clone(), link.header.index))
        };
        let devices = devices.iter().map(&mut index).collect::<io::Result<_>>()?;
        Ok(Links { notifications, conversation, devices })
    }

    /// Passes each change to `give`: the port, and whether its link is up.
    pub fn read(&mut self, mut give: impl FnMut(usize, bool)) -> io::Result<()> {
        let Links { notifications, conversation, devices } = self;
        let mut is_lost = false;
        let mut state = |link: &LinkMessage| {
            let at = devices.iter().position(|&(_, index)| index == link.header.index);
            if let Some(at) = at {
                give(at, link.header.flags.contains(LinkFlags::Up | LinkFlags::LowerUp));
            }
        };
        notifications.read(|notification| match notification {
            Notification::Message(RouteNetlinkMessage::NewLink(link), _) => state(&link),
            Notification::Message(..) | Notification::Nexthop => {}
            Notification::Lost => is_lost = true,
        })?;
        if is_lost {
            conversation.links(|link| state(&link))?;
        }
        Ok(())
    }
}
