//! Frames in flight on a link, in the order of arrival. Each frame stores its successor's arrival time, so that readers
//! need only one cache line.

use super::{NONE, Packet, Pool};
use crate::time::Picos;

#[derive(Debug)]
pub(crate) struct Chain {
    first: u32,
    last: u32,
}

impl Chain {
    pub(crate) const EMPTY: Chain = Chain { first: NONE, last: NONE };

    #[inline]
    pub(crate) fn push(&mut self, pool: &mut Pool, packet: Packet, arrives: Picos) -> bool {
        debug_assert_eq!(
            pool.cells[packet.index()].len,
            packet.len,
            "a packet and its cell must have the same frame length"
        );
        pool.prefetch(packet.number); // the next append writes there
        let last = std::mem::replace(&mut self.last, packet.number);
        let is_first = self.first == NONE;
        if is_first {
            self.first = packet.number;
        } else {
            let last = &mut pool.cells[last as usize];
            (last.next, last.next_arrives) = (packet.number, arrives);
        }
        is_first
    }

    #[inline]
    pub(crate) fn pop(&mut self, pool: &Pool) -> Option<(Packet, Option<Picos>)> {
        let cell = pool.cells.get(self.first as usize)?;
        let (next, next_arrives) =
            if self.first == self.last { (NONE, None) } else { (cell.next, Some(cell.next_arrives)) };
        let packet = Packet { number: std::mem::replace(&mut self.first, next), len: cell.len };
        Some((packet, next_arrives))
    }

    pub(crate) fn packets(&self, pool: &Pool) -> impl Iterator<Item = Packet> {
        let mut rest = Chain { ..*self };
        std::iter::from_fn(move || rest.pop(pool).map(|(packet, _)| packet))
    }

    #[inline]
    pub(crate) fn prefetch_first(&self, pool: &Pool) {
        pool.prefetch(self.first);
    }

    #[inline]
    pub(crate) fn prefetch_last(&self, pool: &Pool) {
        if self.first != NONE {
            pool.prefetch(self.last);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn frames_on_link_leave_in_order_with_next_arrival_time() {
        let mut pool = Pool::default();
        let [one, two, three] = [60, 61, 62].map(|len| pool.add(&[], len));
        let mut chain = Chain::EMPTY;
        for _ in 0..2 {
            assert_eq!(chain.pop(&pool), None);
            assert!(chain.push(&mut pool, one, Picos(10)));
            assert_eq!(chain.pop(&pool), Some((one, None)), "pop of a single frame");
            assert!(chain.push(&mut pool, three, Picos(20)), "push to an empty chain");
            assert!(!chain.push(&mut pool, one, Picos(30)));
            assert!(!chain.push(&mut pool, two, Picos(30)));
            assert_eq!(chain.packets(&pool).collect::<Vec<_>>(), [three, one, two]);
            assert_eq!(chain.pop(&pool), Some((three, Some(Picos(30)))));
            assert!(!chain.push(&mut pool, three, Picos(40)));
            assert_eq!(chain.pop(&pool), Some((one, Some(Picos(30)))));
            assert_eq!(chain.pop(&pool), Some((two, Some(Picos(40)))));
            assert_eq!(chain.pop(&pool), Some((three, None)));
        }
        assert_eq!(chain.packets(&pool).count(), 0);
    }

    #[test]
    fn frame_moves_from_list_of_one_link_to_list_of_another() {
        let mut pool = Pool::default();
        let [one, two, three] = [60, 61, 62].map(|len| pool.add(&[], len));
        let (mut first, mut second) = (Chain::EMPTY, Chain::EMPTY);
        [one, two].into_iter().for_each(|packet| _ = first.push(&mut pool, packet, Picos(10)));
        let (moved, _) = first.pop(&pool).unwrap();
        second.push(&mut pool, moved, Picos(20));
        first.push(&mut pool, three, Picos(30));
        assert_eq!(first.packets(&pool).collect::<Vec<_>>(), [two, three]);
        assert_eq!(second.pop(&pool), Some((one, None)));
    }
}
