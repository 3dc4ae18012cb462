use std::collections::VecDeque;

use xoff_wire::units::{Bytes, PortId};

use crate::ends::{LinkId, NodeId};
use crate::event::Event;
use crate::link::Links;
use crate::pool::{Chain, Packet, Pool};
use crate::time::Picos;

/// Switch or host of a simulated fabric.
pub trait Node {
    /// Processes a frame whose last bit has arrived, and owns it from now on.
    fn arrived(&mut self, port: PortId, packet: Packet, net: &mut Net);

    /// Processes the departure of a frame's last bit; the line at `port` is now free.
    fn left(&mut self, port: PortId, net: &mut Net);

    /// Processes a wakeup; several may be pending.
    fn due(&mut self, net: &mut Net);

    /// Processes a change of the link at `port`, whose frames in flight were lost.
    ///
    /// Frames that a node sends on a down link are lost.
    fn linked(&mut self, port: PortId, is_up: bool, net: &mut Net) {
        let _ = (port, is_up, net);
    }

    /// Prefetches data for the node's next event, in steps from 0; returns whether more steps follow.
    fn prefetch(&self, step: usize, net: &Net) -> bool {
        let _ = (step, net);
        false
    }

    /// Returns how many frames are in the node, its lines excluded.
    fn holds(&self) -> u64;
}

/// Index of a node, and index of its first link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    id: NodeId,
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

    /// Returns the node's number in the plan.
    #[must_use]
    pub const fn id(self) -> NodeId {
        self.id
    }
}

/// State that all nodes share: time, links and frames.
#[derive(Debug)]
pub struct Net {
    pub(crate) links: Links,
    pub(crate) reports: VecDeque<NodeId>,
    /// Memory of all frames.
    pub pool: Pool,
}

impl Net {
    /// Returns the simulated time.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Picos {
        self.links.now
    }

    /// Starts to send a frame on a port's line, which must be free.
    #[inline]
    pub fn start(&mut self, at: Place, port: PortId, packet: Packet) {
        self.start_bytes(at, port, packet, Bytes::on_line(packet.len));
    }

    #[inline]
    pub(crate) fn start_bytes(&mut self, at: Place, port: PortId, packet: Packet, bytes: Bytes) {
        let link = at.link_out(port);
        if self.links.is_in_danger(link) {
            return self.start_in_danger(at.id, link, (packet, bytes));
        }
        self.links.start(at.id, link, (packet, bytes), &mut self.pool);
    }

    #[inline]
    pub(crate) fn prefetch_next(&self, link: LinkId) {
        self.links.on_their_way(link).prefetch_first(&self.pool);
    }

    #[inline]
    pub(crate) fn going(&self, at: Place, port: PortId) -> &Chain {
        self.links.on_their_way(at.link_out(port))
    }

    #[inline]
    pub(crate) fn coming(&self, at: Place, port: PortId) -> &Chain {
        self.links.on_their_way(self.links.back(at.link_out(port)))
    }

    #[inline]
    pub(crate) fn prefetch_out(&self, at: Place, port: PortId) {
        self.links.prefetch(at.link_out(port));
    }

    #[inline]
    pub(crate) fn prefetch_in(&self, at: Place, port: PortId) {
        self.links.prefetch(self.links.back(at.link_out(port)));
    }

    /// Reports this node to [`Fabric::run_until_report`](crate::Fabric::run_until_report).
    #[inline]
    pub fn report(&mut self, at: Place) {
        self.reports.push_back(at.id);
    }

    /// Schedules a wakeup of a node at `time`, or now if that is past.
    #[inline]
    pub fn wake(&mut self, at: Place, time: Picos) {
        let time = time.max(self.links.now);
        self.links.put(time, Event::Due(at.id), at.id);
    }
}
