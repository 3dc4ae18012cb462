//! What stands at the ends of links: a fabric is the same whatever its switches and hosts are made of.
//!
//! A node hears of what happens at its ports, and does at once all that follows from it. It may start a frame on a line of its own
//! that is free, and may ask to be woken. Nothing else of the fabric is within its reach.

use std::collections::VecDeque;

use xoff_dataplane::units::PortId;

use crate::ends::{LinkId, NodeId};
use crate::event::Event;
use crate::link::Links;
use crate::pool::{Chain, Packet, Pool};
use crate::time::Picos;

/// A switch or a host.
pub trait Node {
    /// A frame has come in, whole. It is the node's: it is freed there, or started on a line of its own.
    fn arrived(&mut self, port: PortId, packet: Packet, net: &mut Net);

    /// The last bit of the frame on the line of `port` has left; the line is free.
    fn left(&mut self, port: PortId, net: &mut Net);

    /// A time that it asked for has come. It may have asked for several.
    fn due(&mut self, net: &mut Net);

    /// The link at `port` has gone down, or come up again; what was on its way is lost. A frame that the node has on its line leaves
    /// all the same, and is lost, as is whatever it starts while the link is down.
    fn linked(&mut self, port: PortId, is_up: bool, net: &mut Net) {
        let _ = (port, is_up, net);
    }

    /// What it needs soon is brought near, a part of it at each step from 0 on, while something happens at the node before it; answers
    /// whether there is more. Of switches only.
    fn prefetch(&self, step: usize, net: &Net) -> bool {
        let _ = (step, net);
        false
    }

    /// Frames of the pool that are in it; of those on its lines it has none.
    fn holds(&self) -> u64;
}

/// Where a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    id: NodeId,
    /// Of its port 0; those of the others follow.
    first_link: u32,
}

impl Place {
    pub(crate) const fn new(id: NodeId, first_link: u32) -> Place {
        Place { id, first_link }
    }

    #[inline]
    fn link_out(self, port: PortId) -> LinkId {
        LinkId(self.first_link + u32::from(port.0))
    }

    /// Its number.
    #[must_use]
    pub const fn id(self) -> NodeId {
        self.id
    }
}

/// What nodes have in common: time, lines, and the frames.
#[derive(Debug)]
pub struct Net {
    pub(crate) links: Links,
    /// Nodes that have something to say to who drives the fabric.
    pub(crate) told: VecDeque<NodeId>,
    /// All frames.
    pub pool: Pool,
}

impl Net {
    /// What time it is.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Picos {
        self.links.now
    }

    /// A frame starts on the line of `port`, which is free until then.
    #[inline]
    pub fn start(&mut self, at: Place, port: PortId, packet: Packet) {
        let link = at.link_out(port);
        if self.links.is_in_danger(link) {
            return self.start_in_danger(at.id, link, packet);
        }
        self.links.start(at.id, link, packet, &mut self.pool);
    }

    /// Has the frame brought near that arrives next on a link.
    #[inline]
    pub(crate) fn prefetch_next(&self, link: LinkId) {
        self.links.on_their_way(link).prefetch_first(&self.pool);
    }

    /// Frames on their way from a node by `port`.
    #[inline]
    pub(crate) fn going(&self, at: Place, port: PortId) -> &Chain {
        self.links.on_their_way(at.link_out(port))
    }

    /// Frames on their way to a node that come in by `port`.
    #[inline]
    pub(crate) fn coming(&self, at: Place, port: PortId) -> &Chain {
        self.links.on_their_way(self.links.back(at.link_out(port)))
    }

    /// Has the link brought near by which frames leave by `port`.
    #[inline]
    pub(crate) fn prefetch_out(&self, at: Place, port: PortId) {
        self.links.prefetch(at.link_out(port));
    }

    /// Has the link brought near by which frames come in by `port`. The other direction says which it is.
    #[inline]
    pub(crate) fn prefetch_in(&self, at: Place, port: PortId) {
        self.links.prefetch(self.links.back(at.link_out(port)));
    }

    /// The node has something to say to who drives the fabric: see [`Fabric::run_until_told`](crate::Fabric::run_until_told).
    #[inline]
    pub fn tell(&mut self, at: Place) {
        self.told.push_back(at.id);
    }

    /// The node is due at `time`, or now where that is over.
    #[inline]
    pub fn wake(&mut self, at: Place, time: Picos) {
        let time = time.max(self.links.now);
        self.links.put(time, Event::Due(at.id), at.id);
    }
}
