//! One direction of a link: one frame at a time at the line's rate, delivered whole after the delay.
//!
//! Frames on their way are in a queue of the link, and only the first of them is in the calendar.

use std::collections::VecDeque;

use xoff_dataplane::units::{BitRate, Bytes, PortId};

use crate::calendar::Calendar;
use crate::event::Event;
use crate::pool::Packet;
use crate::time::{Pace, Picos};

/// A switch or a host, in the order of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// As an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// Whose.
    pub node: NodeId,
    /// At which of its ports; a host has port 0.
    pub port: PortId,
}

/// What both directions of a link are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its rate.
    pub rate: BitRate,
    /// From one end to the other.
    pub delay: Picos,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    arrives: Picos,
    packet: Packet,
    len: u32,
}

/// One direction.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Link {
    to: End,
    pace: Pace,
    delay: Picos,
    in_flight: VecDeque<InFlight>,
}

/// The number of a direction, in the order of nodes and ports that send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkId(pub(crate) u32);

/// All links, and the time.
#[derive(Debug)]
pub(crate) struct Links {
    links: Vec<Link>,
    pub(crate) calendar: Calendar,
    pub(crate) now: Picos,
}

impl Link {
    pub(crate) fn new(to: End, line: Line) -> Link {
        Link { to, pace: Pace::of(line.rate), delay: line.delay, in_flight: VecDeque::new() }
    }
}

impl Links {
    pub(crate) fn new(links: Vec<Link>, calendar: Calendar) -> Links {
        Links { links, calendar, now: Picos::ZERO }
    }

    /// A frame starts now on a link that is free. When its last bit has left the link is free again.
    #[inline]
    pub(crate) fn start(&mut self, id: LinkId, packet: Packet, len: u32) {
        let link = &mut self.links[id.0 as usize];
        let left = self.now.after(link.pace.time_of(Bytes::on_line(len)));
        let arrives = left.after(link.delay);
        let is_first = link.in_flight.is_empty();
        link.in_flight.push_back(InFlight { arrives, packet, len });
        self.calendar.put(left, Event::Left(id).subject());
        if is_first {
            self.calendar.put(arrives, Event::Arrived(id).subject());
        }
    }

    /// The first frame on a link has arrived, whole.
    #[inline]
    pub(crate) fn arrived(&mut self, id: LinkId) -> Option<(End, Packet, u32)> {
        let link = &mut self.links[id.0 as usize];
        let InFlight { packet, len, .. } = link.in_flight.pop_front()?;
        if let Some(next) = link.in_flight.front() {
            self.calendar.put(next.arrives, Event::Arrived(id).subject());
        }
        Some((link.to, packet, len))
    }

    /// Frames on their way.
    pub(crate) fn in_flight(&self) -> usize {
        self.links.iter().map(|link| link.in_flight.len()).sum()
    }
}
