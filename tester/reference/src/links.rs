//! Polls the link state of the ports' devices: the kernel may not report a short interruption.

use std::io;

use netlink_packet_route::link::LinkFlags;
use xoff_netlink::{Conversation, link_named};

pub struct Links {
    conversation: Conversation,
    devices: Vec<(String, bool)>,
}

impl Links {
    pub fn open(devices: &[String]) -> io::Result<Links> {
        let devices = devices.iter().map(|name| (name.clone(), true)).collect();
        Ok(Links { conversation: Conversation::open()?, devices })
    }

    /// Reads all link states. Calls `give` for each change, with the port's index and true if its link is up.
    pub fn read(&mut self, mut give: impl FnMut(usize, bool)) -> io::Result<()> {
        for (at, (name, was_up)) in self.devices.iter_mut().enumerate() {
            let link = self.conversation.link(link_named(name))?;
            let is_up =
                link.is_some_and(|link| link.header.flags.contains(LinkFlags::Up | LinkFlags::LowerUp));
            if is_up != *was_up {
                *was_up = is_up;
                give(at, is_up);
            }
        }
        Ok(())
    }
}
