//! One direction of a link: one frame at a time at the line's rate, delivered whole after the delay.
//!
//! Frames on their way are in a queue of the link, and only the first of them is in the calendar. What may go wrong is in
//! [`faults`](crate::faults).

use std::collections::VecDeque;

use xoff_dataplane::units::{Bytes, PortId};

use crate::calendar::{Calendar, Entry};
use crate::ends::{End, Line, LinkId, NodeId};
use crate::event::Event;
use crate::faults::FaultsByLink;
use crate::pool::Packet;
use crate::time::{Pace, Picos};

#[derive(Clone, Copy, Debug)]
struct InFlight {
    arrives: Picos,
    packet: Packet,
}

/// One direction.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Link {
    to: NodeId,
    port: PortId,
    may_go_wrong: bool,
    pace: Pace,
    delay: Picos,
    in_flight: VecDeque<InFlight>,
}

/// All links, and the time.
#[derive(Debug)]
pub(crate) struct Links {
    links: Vec<Link>,
    pub(crate) calendar: Calendar,
    pub(crate) now: Picos,
    pub(crate) faults: FaultsByLink,
}

impl Link {
    pub(crate) fn new(to: End, line: Line) -> Link {
        let End { node, port } = to;
        let (pace, delay) = (Pace::of(line.rate), line.delay);
        Link { to: node, port, may_go_wrong: false, pace, delay, in_flight: VecDeque::new() }
    }
}

impl Links {
    pub(crate) fn new(links: Vec<Link>, calendar: Calendar) -> Links {
        Links { links, calendar, now: Picos::ZERO, faults: FaultsByLink::new() }
    }

    /// A frame starts now on a link that is free. When its last bit has left the link is free again. Answers when it arrives.
    #[inline]
    pub(crate) fn start(&mut self, from: NodeId, id: LinkId, packet: Packet) -> Picos {
        let link = &mut self.links[id.0 as usize];
        let left = self.now.after(link.pace.time_of(Bytes::on_line(packet.len)));
        let arrives = left.after(link.delay);
        let is_first = link.in_flight.is_empty();
        link.in_flight.push_back(InFlight { arrives, packet });
        let to = link.to;
        self.put(left, Event::Left(id), from);
        if is_first {
            self.put(arrives, Event::Arrived(id), to);
        }
        arrives
    }

    /// Whether something may go wrong on a link.
    #[inline]
    pub(crate) fn is_in_danger(&self, id: LinkId) -> bool {
        self.links[id.0 as usize].may_go_wrong
    }

    /// Something may go wrong on it from now on.
    pub(crate) fn endanger(&mut self, id: LinkId) {
        self.links[id.0 as usize].may_go_wrong = true;
    }

    /// Where a link leads.
    #[inline]
    pub(crate) fn to(&self, id: LinkId) -> End {
        let link = &self.links[id.0 as usize];
        End { node: link.to, port: link.port }
    }

    /// The first frame on a link has come to its end, whole.
    #[inline]
    pub(crate) fn arrived(&mut self, id: LinkId) -> Option<Packet> {
        let link = &mut self.links[id.0 as usize];
        let InFlight { packet, .. } = link.in_flight.pop_front()?;
        if let Some(next) = link.in_flight.front() {
            let (arrives, to) = (next.arrives, link.to);
            self.put(arrives, Event::Arrived(id), to);
        }
        Some(packet)
    }

    /// Something happens at a node.
    #[inline]
    pub(crate) fn put(&mut self, time: Picos, event: Event, at: NodeId) {
        self.calendar.put(Entry::new(time, event.subject(), at.0));
    }

    /// Frames on their way on one link, in their order.
    pub(crate) fn on_their_way(&self, id: LinkId) -> impl Iterator<Item = Packet> {
        self.links[id.0 as usize].in_flight.iter().map(|frame| frame.packet)
    }

    /// Frames on their way on all.
    pub(crate) fn in_flight(&self) -> usize {
        self.links.iter().map(|link| link.in_flight.len()).sum::<usize>() + self.late()
    }
}
