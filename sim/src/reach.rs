//! How soon nodes feel each other, which is what the [`calendar`](crate::calendar) goes by.

use xoff_dataplane::units::Bytes;

use crate::calendar::Side;
use crate::ends::{End, Line};
use crate::time::{Pace, Picos};

/// How long a frame takes from one node to another at least.
pub(crate) fn reach(directions: &[(End, End, Line)]) -> Picos {
    let empty = |line: &Line| Pace::of(line.rate).time_of(Bytes::on_line(0)).after(line.delay);
    directions.iter().map(|(.., line)| empty(line)).min().unwrap_or(Picos(1))
}

/// Each node on another side than those that it is linked with, where there are such sides; else all on one.
pub(crate) fn sides(nodes: usize, directions: &[(End, End, Line)]) -> Box<[Side]> {
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

#[cfg(test)]
mod tests {
    use xoff_dataplane::units::{BitRate, PortId};

    use super::*;
    use crate::ends::NodeId;

    /// The shortest frame at 1 Gb/s, of 84 bytes with what is between frames.
    const EMPTY: Picos = Picos::from_nanos(672);

    fn links(links: &[(u32, u32, u64)]) -> Vec<(End, End, Line)> {
        let end = |node| End { node: NodeId(node), port: PortId(0) };
        let line = |delay| Line { rate: BitRate::from_gbps(1), delay: Picos::from_nanos(delay) };
        let both =
            |&(one, other, delay)| [(end(one), end(other), line(delay)), (end(other), end(one), line(delay))];
        links.iter().flat_map(both).collect()
    }

    #[test]
    fn the_shortest_link_is_what_a_fabric_reaches() {
        let found = reach(&links(&[(0, 1, 500), (1, 2, 300), (3, 4, 700)]));
        assert_eq!(found, EMPTY.after(Picos::from_nanos(300)));
    }

    #[test]
    fn nodes_in_circles_of_odd_length_have_one_side_and_all_others_two() {
        let [one, other] = [Side::One, Side::Other];
        let chain_and_pair = links(&[(0, 1, 9), (1, 2, 9), (3, 4, 9)]);
        assert_eq!(*sides(6, &chain_and_pair), [one, other, one, one, other, one]);
        let of_four = links(&[(0, 1, 9), (1, 2, 9), (2, 3, 9), (3, 0, 9)]);
        assert_eq!(*sides(4, &of_four), [one, other, one, other]);
        let of_three = links(&[(0, 1, 9), (1, 2, 9), (2, 0, 9)]);
        let with_itself = links(&[(0, 1, 9), (2, 2, 9)]);
        assert_eq!([&*sides(3, &of_three), &*sides(3, &with_itself)], [[one; 3]; 2]);
    }
}
