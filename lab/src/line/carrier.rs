//! Carrier of a link with a delay line: the device at one end loses its carrier while the device at the other end is down.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use xoff_netlink::packet_route::link::LinkFlags;
use xoff_netlink::{Conversation, Group, Notifications, link_at, set_up};

use crate::{Device, LabError};

/// Receive buffer for link notifications, in bytes. The line reads all link states after each notification, and after lost ones.
const BUFFER: usize = 1 << 16;

#[derive(Debug)]
pub(super) struct Carrier {
    nodes: [NodeEnd; 2],
    kernel: Conversation,
    /// Indices of the line's devices, each the veth peer of a node's device.
    line: [u32; 2],
    is_up: [bool; 2],
    carries: bool,
}

#[derive(Debug)]
struct NodeEnd {
    kernel: Conversation,
    changes: Notifications,
    device: u32,
}

impl NodeEnd {
    fn open(device: &Device) -> Result<NodeEnd, LabError> {
        let open =
            || Ok::<_, io::Error>((Conversation::open()?, Notifications::open(&[Group::Link], BUFFER)?));
        let (kernel, changes) = device.namespace().try_run(open).map_err(|source| LabError::Io {
            what: format!("watch {}", device.name()),
            namespace: device.namespace().name().to_owned(),
            source,
        })?;
        Ok(NodeEnd { kernel, changes, device: device.index() })
    }

    fn is_up(&mut self) -> io::Result<bool> {
        let link = self.kernel.link(link_at(self.device))?;
        Ok(link.is_some_and(|link| link.header.flags.contains(LinkFlags::Up)))
    }
}

impl Carrier {
    pub(super) fn open(line: [&Device; 2], nodes: [&Device; 2]) -> Result<Carrier, LabError> {
        let [a, b] = nodes.map(NodeEnd::open);
        let namespace = line[0].namespace();
        let kernel = namespace.try_run(Conversation::open).map_err(|source| LabError::Io {
            what: "open netlink".into(),
            namespace: namespace.name().to_owned(),
            source,
        })?;
        let line = line.map(Device::index);
        Ok(Carrier { nodes: [a?, b?], kernel, line, is_up: [true; 2], carries: true })
    }

    pub(super) fn changes(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.nodes.iter().map(|node| node.changes.as_fd())
    }

    pub(super) fn carries(&self) -> bool {
        self.carries
    }

    /// Sets the line's device at each end up or down, like the device of the node at the line's other end. With `is_down`, sets both down.
    pub(super) fn follow(&mut self, is_down: bool) -> io::Result<()> {
        let mut has_link = [false; 2];
        for (node, has_link) in self.nodes.iter_mut().zip(&mut has_link) {
            node.changes.read(|_| ())?;
            *has_link = node.is_up()? && !is_down;
        }
        self.carries = has_link == [true; 2];
        for end in 0..2 {
            let up = has_link[1 - end];
            if self.is_up[end] != up {
                // Ignore an error: the node's device is gone, so no frame passes anyway.
                let _ = self.kernel.set_link(set_up(link_at(self.line[end]), up));
                self.is_up[end] = up;
            }
        }
        Ok(())
    }
}
