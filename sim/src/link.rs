//! One direction of a link. Its frames in flight form a list in the [pool](crate::pool); the calendar has only the
//! first frame's arrival.

use std::collections::BTreeMap;

use xoff_flow_control::prefetch::prefetch;
use xoff_wire::units::{Bytes, PortId};

use crate::calendar::{Calendar, Entry};
use crate::ends::{End, Line, LinkId, NodeId};
use crate::event::Event;
use crate::faults::FaultsByLink;
use crate::pool::{Chain, Packet, Pool};
use crate::time::{Pace, Picos};

#[derive(Debug)]
struct Link {
    to: NodeId,
    port_in: PortId,
    port_out: PortId,
    may_go_wrong: bool,
    line: u32,
    back: LinkId,
    on_its_way: Chain,
}

const _: () = assert!(
    size_of::<Link>() == 24,
    "struct Link must have 24 bytes: keep it small, because a switch reads many at once"
);

#[derive(Debug)]
pub(crate) struct Links {
    links: Box<[Link]>,
    lines: Vec<(Pace, Picos)>,
    pub(crate) calendar: Calendar,
    pub(crate) now: Picos,
    pub(crate) faults: FaultsByLink,
}

impl Links {
    pub(crate) fn new(directions: &[(End, End, Line)], calendar: Calendar) -> Links {
        let mut lines = Vec::new();
        let mut indexes = BTreeMap::new();
        let link = |&(from, to, Line { rate, delay }): &(End, End, Line)| {
            let line = *indexes.entry((rate.bits_per_second(), delay)).or_insert_with(|| {
                lines.push((Pace::of(rate), delay));
                count(lines.len() - 1)
            });
            let back = directions.binary_search_by_key(&to, |(from, ..)| *from);
            Link {
                to: to.node,
                port_in: to.port,
                port_out: from.port,
                may_go_wrong: false,
                line,
                back: LinkId(count(back.expect("each link must have a reverse direction"))),
                on_its_way: Chain::EMPTY,
            }
        };
        let links = directions.iter().map(link).collect();
        Links { links, lines, calendar, now: Picos::ZERO, faults: FaultsByLink::new() }
    }

    #[inline]
    pub(crate) fn start(
        &mut self,
        from: NodeId,
        id: LinkId,
        (packet, bytes): (Packet, Bytes),
        pool: &mut Pool,
    ) -> Picos {
        let link = &mut self.links[id.0 as usize];
        let (pace, delay) = self.lines[link.line as usize];
        let left = self.now.after(pace.time_of(bytes));
        let arrives = left.after(delay);
        let is_first = link.on_its_way.push(pool, packet, arrives);
        let to = link.to;
        self.put(left, Event::Left(id), from);
        if is_first {
            self.put(arrives, Event::Arrived(id), to);
        }
        arrives
    }

    #[inline]
    pub(crate) fn is_in_danger(&self, id: LinkId) -> bool {
        self.links[id.0 as usize].may_go_wrong
    }

    pub(crate) fn endanger(&mut self, id: LinkId) {
        self.links[id.0 as usize].may_go_wrong = true;
    }

    #[inline]
    pub(crate) fn to(&self, id: LinkId) -> End {
        let link = &self.links[id.0 as usize];
        End { node: link.to, port: link.port_in }
    }

    pub(crate) fn from(&self, id: LinkId) -> End {
        End { node: self.to(self.back(id)).node, port: self.port_out(id) }
    }

    #[inline]
    pub(crate) fn port_out(&self, id: LinkId) -> PortId {
        self.links[id.0 as usize].port_out
    }

    pub(crate) fn leaving(&self, end: End) -> Option<LinkId> {
        let from = |link: &Link| End { node: self.to(link.back).node, port: link.port_out };
        let place = self.links.binary_search_by_key(&end, from).ok()?;
        Some(LinkId(count(place)))
    }

    #[inline]
    pub(crate) fn prefetch(&self, id: LinkId) {
        prefetch(&self.links[id.0 as usize]);
    }

    #[inline]
    pub(crate) fn back(&self, id: LinkId) -> LinkId {
        self.links[id.0 as usize].back
    }

    #[inline]
    pub(crate) fn arrived(&mut self, id: LinkId, pool: &Pool) -> Option<Packet> {
        let link = &mut self.links[id.0 as usize];
        let (packet, next_arrives) = link.on_its_way.pop(pool)?;
        if let Some(arrives) = next_arrives {
            let to = link.to;
            self.put(arrives, Event::Arrived(id), to);
        }
        Some(packet)
    }

    #[inline]
    pub(crate) fn put(&mut self, time: Picos, event: Event, at: NodeId) {
        self.calendar.put(Entry::new(time, event.subject(), at.0));
    }

    #[inline]
    pub(crate) fn on_their_way(&self, id: LinkId) -> &Chain {
        &self.links[id.0 as usize].on_its_way
    }

    pub(crate) fn in_flight(&self, pool: &Pool) -> usize {
        self.links.iter().map(|link| link.on_its_way.packets(pool).count()).sum::<usize>() + self.late()
    }
}

fn count(index: usize) -> u32 {
    u32::try_from(index).expect("the number of links must fit into 32 bits")
}

#[cfg(test)]
mod tests {
    use xoff_wire::units::BitRate;

    use super::*;
    use crate::calendar::Parts;

    #[test]
    fn link_direction_yields_its_two_ends_and_its_reverse() {
        let end = |node, port| End { node: NodeId(node), port: PortId(port) };
        let both = |(one, other, gbps, delay)| {
            let line = Line { rate: BitRate::from_gbps(gbps), delay: Picos(delay) };
            [(one, other, line), (other, one, line)]
        };
        let pairs = [
            (end(0, 0), end(2, 0), 1, 1),
            (end(0, 1), end(1, 1), 2, 1),
            (end(1, 0), end(1, 2), 1, 1),
            (end(1, 3), end(2, 1), 1, 2),
        ];
        let mut directions: Vec<_> = pairs.into_iter().flat_map(both).collect();
        directions.sort_unstable_by_key(|(from, ..)| *from);
        let links = Links::new(
            &directions,
            Calendar::new(4, Parts::new(vec![0; 3], vec![false], [(0, 1), (1, 0)].into_iter())),
        );
        assert_eq!(links.lines.len(), 3);
        for (id, (from, to, line)) in (0..).map(LinkId).zip(&directions) {
            assert_eq!((links.from(id), links.to(id)), (*from, *to));
            assert_eq!((links.port_out(id), links.leaving(*from)), (from.port, Some(id)));
            let back = links.back(id);
            assert_eq!((links.from(back), links.back(back)), (*to, id));
            let (pace, delay) = links.lines[links.links[id.0 as usize].line as usize];
            assert_eq!((pace.rate(), delay), (line.rate, line.delay));
        }
        assert_eq!(links.leaving(end(2, 2)), None);
    }
}
