//! One direction of a link: one frame at a time at the line's rate, delivered whole after the delay.
//!
//! Frames on their way are in a queue of the link, and only the first of them is in the calendar.

use std::collections::VecDeque;

use xoff_dataplane::units::Bytes;

use crate::calendar::Calendar;
use crate::ends::{End, Line, LinkId};
use crate::event::Event;
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
    to: End,
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
    pub(crate) fn start(&mut self, id: LinkId, packet: Packet) {
        let link = &mut self.links[id.0 as usize];
        let left = self.now.after(link.pace.time_of(Bytes::on_line(packet.len)));
        let arrives = left.after(link.delay);
        let is_first = link.in_flight.is_empty();
        link.in_flight.push_back(InFlight { arrives, packet });
        self.calendar.put(left, Event::Left(id).subject());
        if is_first {
            self.calendar.put(arrives, Event::Arrived(id).subject());
        }
    }

    /// The first frame on a link has arrived, whole.
    #[inline]
    pub(crate) fn arrived(&mut self, id: LinkId) -> Option<(End, Packet)> {
        let link = &mut self.links[id.0 as usize];
        let InFlight { packet, .. } = link.in_flight.pop_front()?;
        if let Some(next) = link.in_flight.front() {
            self.calendar.put(next.arrives, Event::Arrived(id).subject());
        }
        Some((link.to, packet))
    }

    /// The first frame on its way.
    #[inline]
    pub(crate) fn first(&self, id: LinkId) -> Option<Packet> {
        self.links[id.0 as usize].in_flight.front().map(|first| first.packet)
    }

    /// Frames on their way.
    pub(crate) fn in_flight(&self) -> usize {
        self.links.iter().map(|link| link.in_flight.len()).sum()
    }
}
