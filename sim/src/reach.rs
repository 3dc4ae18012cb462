//! Divides a fabric into parts for the [`calendar`](crate::calendar), and calculates the fabric's [reach](crate::Fabric::reach).

use xoff_wire::units::Bytes;

use crate::calendar::Parts;
use crate::ends::{End, Line};
use crate::time::{Pace, Picos};

pub(crate) fn reach(directions: &[(End, End, Line)], smallest: Bytes) -> Picos {
    let empty = |line: &Line| Pace::of(line.rate).time_of(smallest).after(line.delay);
    directions.iter().map(|(.., line)| empty(line)).min().unwrap_or(Picos(1))
}

/// Maximum links in a part of the fabric: their state (1 KB each) must fit into a core's cache. Another value alters
/// simulation results.
const LINKS: usize = 512;
const PARTS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    One,
    Other,
}

impl Side {
    const fn across(self) -> Side {
        match self {
            Side::One => Side::Other,
            Side::Other => Side::One,
        }
    }
}

pub(crate) fn parts(nodes: usize, directions: &[(End, End, Line)]) -> Parts {
    let mut links = vec![0; nodes];
    directions.iter().for_each(|(from, ..)| links[from.node.index()] += 1);
    let most = LINKS.max(directions.len().div_ceil(PARTS));
    let mut waits = Vec::new();
    let mut open = [None; 2];
    let part_of = |(side, links): (&Side, usize)| {
        let (part, used) =
            open[*side as usize].filter(|(_, used)| used + links <= most).unwrap_or_else(|| {
                waits.push(*side == Side::Other);
                (waits.len() - 1, 0)
            });
        open[*side as usize] = Some((part, used + links));
        u16::try_from(part).expect("the number of parts must fit into 16 bits")
    };
    let of = sides(nodes, directions).iter().zip(links).map(part_of).collect();
    Parts::new(of, waits, directions.iter().map(|(from, to, _)| (from.node.0, to.node.0)))
}

fn sides(nodes: usize, directions: &[(End, End, Line)]) -> Box<[Side]> {
    let mut peers = vec![Vec::new(); nodes];
    directions.iter().for_each(|(from, to, _)| peers[from.node.index()].push(to.node.index()));
    let mut sides = vec![None; nodes];
    for first in 0..nodes {
        let mut reached = Vec::new();
        if sides[first].is_none() {
            sides[first] = Some(Side::One);
            reached.push(first);
        }
        while let Some(node) = reached.pop() {
            let side = sides[node].map(Side::across);
            for &peer in &peers[node] {
                if sides[peer].is_none() {
                    sides[peer] = side;
                    reached.push(peer);
                } else if sides[peer] != side {
                    return vec![Side::One; nodes].into_boxed_slice();
                }
            }
        }
    }
    sides.into_iter().flatten().collect()
}

// Tests for SPECIFICATION.md: sim-timing
#[cfg(test)]
mod tests {
    use xoff_wire::units::{BitRate, PortId};

    use super::*;
    use crate::ends::NodeId;

    const EMPTY: Picos = Picos::from_nanos(672);

    fn links(links: &[(u32, u32, u64)]) -> Vec<(End, End, Line)> {
        let end = |node| End { node: NodeId(node), port: PortId(0) };
        let line = |delay| Line { rate: BitRate::from_gbps(1), delay: Picos::from_nanos(delay) };
        let both =
            |&(one, other, delay)| [(end(one), end(other), line(delay)), (end(other), end(one), line(delay))];
        links.iter().flat_map(both).collect()
    }

    #[test]
    fn minimum_link_delay_is_time_of_empty_frame_on_fastest_link() {
        let found = reach(&links(&[(0, 1, 500), (1, 2, 300), (3, 4, 700)]), Bytes::on_line(0));
        assert_eq!(found, EMPTY.after(Picos::from_nanos(300)));
    }

    #[test]
    fn fabric_has_two_sides_if_bipartite_otherwise_one() {
        let [one, other] = [Side::One, Side::Other];
        let chain_and_pair = links(&[(0, 1, 9), (1, 2, 9), (3, 4, 9)]);
        assert_eq!(*sides(6, &chain_and_pair), [one, other, one, one, other, one]);
        let of_four = links(&[(0, 1, 9), (1, 2, 9), (2, 3, 9), (3, 0, 9)]);
        assert_eq!(*sides(4, &of_four), [one, other, one, other]);
        let of_three = links(&[(0, 1, 9), (1, 2, 9), (2, 0, 9)]);
        let with_itself = links(&[(0, 1, 9), (2, 2, 9)]);
        assert_eq!([&*sides(3, &of_three), &*sides(3, &with_itself)], [[one; 3]; 2]);
    }

    #[test]
    fn fabric_part_has_nodes_of_one_side_up_to_link_limit() {
        let to_last = |count: [usize; 3]| {
            let of = |(node, count): (u32, usize)| vec![(node, 3, 9); count];
            let ways: Vec<_> = (0..).zip(count).flat_map(of).collect();
            parts(4, &links(&ways))
        };
        let pairs = |_| [0, 1, 2].into_iter().flat_map(|node| [(node, 3), (3, node)]);
        let waits = vec![false, false, true];
        assert_eq!(to_last([200, 312, 1]), Parts::new(vec![0, 0, 1, 2], waits.clone(), pairs(())));
        assert_eq!(to_last([200, 313, 199]), Parts::new(vec![0, 1, 1, 2], waits, pairs(())));
    }
}
