//! Computes the positions in pixels of nodes, wires and labels in the drawing of a network.
//!
//! Switches with hosts are in the lowest row of switches; each row above is one link farther from hosts. A switch's hosts are below it, on
//! both sides of a vertical trunk of wires. Wires are vertical in the strip of labels above each row, so that no wire crosses a label.

use std::collections::BTreeMap;

use crate::network::NetworkStatus;
use crate::network::links::LinkStatus;

pub(super) type Point = (usize, usize);

pub(super) const MARGIN: usize = 24;
pub(super) const LINE: usize = 15;
pub(super) const BOX_HEIGHT: usize = 54;
const LABEL_WIDTH: usize = 166;
const HOST_WIDTH: usize = 116;
const SWITCH_WIDTH: usize = 150;
const HOST_ROW: usize = BOX_HEIGHT + 10;
const GAP: usize = 24;
const ROWS_MAX: usize = 16;
const ONE_SIDE_MAX: usize = 4;
const STRIP: usize = 40;
const LANE: usize = 10;
/// Height of the zone for slanted wires between two rows of switches, in pixels.
const CHANNEL: usize = 70;
const BELOW_SWITCH: usize = 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeBox<'a> {
    pub node: &'a str,
    pub left: usize,
    pub top: usize,
    pub width: usize,
}

impl NodeBox<'_> {
    pub(super) fn middle(&self) -> usize {
        self.left + self.width / 2
    }

    fn centre(&self) -> Point {
        (self.middle(), self.top + BOX_HEIGHT / 2)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wire {
    pub points: Vec<Point>,
    pub label: [Point; 2],
    /// Index of the link's end (0 or 1) that is drawn above the other.
    pub upper: usize,
    /// True for a host's second and further links, whose wires may cross other nodes.
    pub is_extra: bool,
}

#[derive(Debug, Default)]
pub(super) struct Layout<'a> {
    pub boxes: Vec<NodeBox<'a>>,
    pub wires: Vec<Wire>,
    pub width: usize,
    pub height: usize,
}

#[derive(Debug, Default)]
struct Switch {
    level: usize,
    hosts: Vec<(usize, usize)>,
    above: Vec<(usize, usize)>,
}

impl Switch {
    fn sides(&self) -> usize {
        if self.hosts.len() > ONE_SIDE_MAX { 2 } else { 1 }
    }

    fn trunks(&self) -> usize {
        self.hosts.len().div_ceil(self.sides() * ROWS_MAX)
    }

    fn seats(&self) -> usize {
        self.hosts.len().div_ceil(self.sides() * self.trunks().max(1)) * self.sides()
    }

    fn trunk_width(&self) -> usize {
        self.sides() * (LABEL_WIDTH + HOST_WIDTH) + GAP
    }

    fn box_width(&self) -> usize {
        SWITCH_WIDTH.max(self.above.len() * LABEL_WIDTH)
    }

    fn width(&self) -> usize {
        self.box_width().max((self.trunks() * self.trunk_width()).saturating_sub(GAP))
    }
}

#[derive(Clone, Copy)]
enum Node {
    Host(usize),
    Switch(usize),
}

impl<'a> Layout<'a> {
    pub(super) fn of(network: &'a NetworkStatus) -> Layout<'a> {
        let hosts: Vec<&str> = network.hosts.iter().map(|host| host.name.as_str()).collect();
        let names: Vec<&str> = network.switches.iter().map(|switch| switch.name.as_str()).collect();
        let ends: Vec<[Node; 2]> =
            network.links.iter().filter_map(|link| ends(link, &hosts, &names)).collect();
        let mut layout = Layout { wires: vec![Wire::default(); ends.len()], ..Layout::default() };
        let (mut switches, is_placed) = switches(&ends, hosts.len(), names.len());
        level(&mut switches, &ends);
        let width = layout.place_switches(&mut switches, &ends, &names);
        layout.place_hosts(&switches, &ends, &hosts);
        layout.place_others(
            hosts.iter().zip(is_placed).filter(|(_, is_placed)| !is_placed).map(|(host, _)| *host),
            width,
        );
        layout.wire_extra(&ends, &hosts, &names);
        layout.width =
            layout.boxes.iter().map(|it| it.left + it.width).max().unwrap_or(0).max(width) + MARGIN;
        layout.height = layout.boxes.iter().map(|it| it.top + BOX_HEIGHT).max().unwrap_or(MARGIN) + GAP;
        layout
    }

    /// Places the switches row by row, then the wires between them. Returns the right edge of the widest row, in pixels.
    fn place_switches(&mut self, switches: &mut [Switch], ends: &[[Node; 2]], names: &[&'a str]) -> usize {
        let levels = switches.iter().map(|switch| switch.level + 1).max().unwrap_or(0);
        let of = |level: usize| switches.iter().enumerate().filter(move |(_, switch)| switch.level == level);
        let width_of = |level: usize| of(level).map(|(_, switch)| switch.width() + GAP).sum::<usize>();
        let width = (0..levels).map(width_of).max().unwrap_or(0).saturating_sub(GAP);
        let mut places = BTreeMap::new();
        let mut strips = vec![0; levels];
        let mut top = MARGIN + LINE;
        for level in (0..levels).rev() {
            let beside = |(_, [a, b]): &(usize, &[Node; 2])| match (a, b) {
                (Node::Switch(a), Node::Switch(b)) => [a, b].iter().all(|it| switches[**it].level == level),
                _ => false,
            };
            let lanes = ends.iter().enumerate().filter(beside).count();
            let has_wires = of(level).any(|(_, switch)| !switch.above.is_empty());
            strips[level] = top + lanes * LANE;
            top = strips[level] + if has_wires { STRIP } else { 0 };
            let spare = (width + GAP).saturating_sub(width_of(level)) / of(level).count().max(1);
            let mut left = MARGIN + spare / 2;
            for (index, switch) in of(level) {
                let (cell, own) = (switch.width(), switch.box_width());
                places.insert(
                    index,
                    NodeBox { node: names[index], left: left + (cell - own) / 2, top, width: own },
                );
                left += cell + GAP + spare;
            }
            top += BOX_HEIGHT + if level > 0 { CHANNEL } else { 0 };
        }
        let mut slots: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for (index, switch) in switches.iter_mut().enumerate() {
            switch.above.sort_by_key(|(link, other)| (places[other].middle(), *link));
            for (slot, (link, _)) in switch.above.iter().enumerate() {
                let place = &places[&index];
                slots.insert(
                    (*link, index),
                    place.left + (2 * slot + 1) * place.width / (2 * switch.above.len()),
                );
            }
        }
        let mut lanes = vec![0; levels];
        for (link, pair) in ends.iter().enumerate() {
            let [Node::Switch(a), Node::Switch(b)] = *pair else { continue };
            let upper = usize::from(switches[b].level > switches[a].level);
            let (above, below) = if upper == 0 { (a, b) } else { (b, a) };
            let level = switches[below].level;
            let Some(&x) = slots.get(&(link, below)) else { continue };
            let bottom = (x, places[&below].top);
            let points = match slots.get(&(link, above)) {
                Some(&from) => {
                    lanes[level] += LANE;
                    let lane = strips[level] - lanes[level];
                    vec![(from, places[&above].top), (from, lane), (x, lane), bottom]
                }
                None => vec![
                    (places[&above].middle(), places[&above].top + BOX_HEIGHT),
                    (x, strips[level]),
                    bottom,
                ],
            };
            let label = [1, 2].map(|line| (x + 6, strips[level] + line * LINE));
            self.wires[link] = Wire { points, label, upper, is_extra: false };
        }
        self.boxes.extend(places.into_values());
        MARGIN + width
    }

    fn place_hosts(&mut self, switches: &[Switch], ends: &[[Node; 2]], hosts: &[&'a str]) {
        for (index, switch) in switches.iter().enumerate() {
            let from = (self.boxes[index].middle(), self.boxes[index].top + BOX_HEIGHT);
            let first = (from.0 + GAP / 2).saturating_sub(switch.trunks() * switch.trunk_width() / 2);
            for (number, (link, host)) in switch.hosts.iter().enumerate() {
                let (trunk, seat) = (number / switch.seats(), number % switch.seats());
                let (row, side) = (seat / switch.sides(), seat % switch.sides());
                let is_right = side + 1 == switch.sides();
                let x =
                    first + trunk * switch.trunk_width() + (switch.sides() - 1) * (LABEL_WIDTH + HOST_WIDTH);
                let top = from.1 + BELOW_SWITCH + row * HOST_ROW;
                let left = if is_right { x + LABEL_WIDTH } else { x - LABEL_WIDTH - HOST_WIDTH };
                let (y, edge) = (top + BOX_HEIGHT / 2, if is_right { left } else { left + HOST_WIDTH });
                let text = x.min(edge) + 8;
                self.wires[*link] = Wire {
                    points: vec![
                        from,
                        (from.0, from.1 + BELOW_SWITCH / 2),
                        (x, from.1 + BELOW_SWITCH / 2),
                        (x, y),
                        (edge, y),
                    ],
                    label: [(text, y - 5), (text, y + LINE)],
                    upper: usize::from(matches!(ends[*link], [Node::Host(_), _])),
                    is_extra: false,
                };
                self.boxes.push(NodeBox { node: hosts[*host], left, top, width: HOST_WIDTH });
            }
        }
    }

    fn place_others(&mut self, hosts: impl Iterator<Item = &'a str>, width: usize) {
        let bottom = self.boxes.iter().map(|it| it.top + BOX_HEIGHT + BELOW_SWITCH).max();
        let mut at = (MARGIN, bottom.unwrap_or(MARGIN + LINE));
        for node in hosts {
            self.boxes.push(NodeBox { node, left: at.0, top: at.1, width: HOST_WIDTH });
            at.0 += HOST_WIDTH + LABEL_WIDTH;
            if at.0 + HOST_WIDTH > width {
                at = (MARGIN, at.1 + HOST_ROW + GAP);
            }
        }
    }

    fn wire_extra(&mut self, ends: &[[Node; 2]], hosts: &[&str], switches: &[&str]) {
        for (link, pair) in ends.iter().enumerate() {
            let name = |node: &Node| match *node {
                Node::Host(host) => hosts[host],
                Node::Switch(switch) => switches[switch],
            };
            let centre =
                |node: &Node| self.boxes.iter().find(|it| it.node == name(node)).map(NodeBox::centre);
            let ([Some(from), Some(to)], true) =
                (pair.each_ref().map(centre), self.wires[link].points.is_empty())
            else {
                continue;
            };
            let middle = (usize::midpoint(from.0, to.0), usize::midpoint(from.1, to.1));
            let label = [(middle.0, middle.1), (middle.0, middle.1 + LINE)];
            let upper = usize::from(to.1 < from.1);
            let points = if upper == 0 { vec![from, to] } else { vec![to, from] };
            self.wires[link] = Wire { points, label, upper, is_extra: true };
        }
    }
}

fn ends(link: &LinkStatus, hosts: &[&str], switches: &[&str]) -> Option<[Node; 2]> {
    let [a, b] = link.ends.each_ref().map(|end| {
        let (nodes, node): (_, fn(usize) -> Node) =
            if end.is_switch { (switches, Node::Switch) } else { (hosts, Node::Host) };
        nodes.iter().position(|name| *name == end.node).map(node)
    });
    Some([a?, b?])
}

fn switches(ends: &[[Node; 2]], hosts: usize, switches: usize) -> (Vec<Switch>, Vec<bool>) {
    let mut all: Vec<Switch> = (0..switches).map(|_| Switch::default()).collect();
    let mut is_placed = vec![false; hosts];
    for (link, pair) in ends.iter().enumerate() {
        if let [Node::Host(host), Node::Switch(switch)] | [Node::Switch(switch), Node::Host(host)] = *pair
            && !std::mem::replace(&mut is_placed[host], true)
        {
            all[switch].hosts.push((link, host));
        }
    }
    (all, is_placed)
}

fn level(switches: &mut [Switch], ends: &[[Node; 2]]) {
    let pairs = || {
        ends.iter().enumerate().filter_map(|(link, pair)| match *pair {
            [Node::Switch(a), Node::Switch(b)] if a != b => Some((link, [a, b])),
            _ => None,
        })
    };
    let mut levels: Vec<Option<usize>> =
        switches.iter().map(|switch| (!switch.hosts.is_empty()).then_some(0)).collect();
    for level in 1..=switches.len() {
        let next: Vec<usize> = pairs()
            .flat_map(|(_, [a, b])| [(a, b), (b, a)])
            .filter(|&(near, far)| levels[near] == Some(level - 1) && levels[far].is_none())
            .map(|(_, far)| far)
            .collect();
        next.into_iter().for_each(|far| levels[far] = Some(level));
    }
    for (switch, level) in switches.iter_mut().zip(levels) {
        switch.level = level.unwrap_or(0);
    }
    for (link, [a, b]) in pairs() {
        let order = switches[a].level.cmp(&switches[b].level);
        if order.is_le() {
            switches[a].above.push((link, b));
        }
        if order.is_ge() {
            switches[b].above.push((link, a));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::testing::network_of;

    type Area = (Point, Point);

    fn meet(a: Area, b: Area) -> bool {
        a.0.0 < b.1.0 && b.0.0 < a.1.0 && a.0.1 < b.1.1 && b.0.1 < a.1.1
    }

    fn labels(wire: &Wire) -> Area {
        ((wire.label[0].0, wire.label[0].1 - 11), (wire.label[1].0 + 150, wire.label[1].1 + 3))
    }

    fn passes(wire: &Wire, area: Area) -> bool {
        wire.points.windows(2).any(|part| {
            let between = |a: usize, b: usize, at: usize| (a * (200 - at) + b * at) / 200;
            (0..=200).any(|at| {
                let (x, y) = (between(part[0].0, part[1].0, at), between(part[0].1, part[1].1, at));
                area.0.0 < x && x < area.1.0 && area.0.1 < y && y < area.1.1
            })
        })
    }

    #[test] // proves: lab-account
    fn lab_drawing_is_compact_and_no_wire_crosses_a_label() {
        let host = |number: usize, switch: &str| (format!("h{number}"), switch.to_owned());
        let pair = |(a, b): (&str, &str)| (a.to_owned(), b.to_owned());
        let star = (1..=16).map(|number| host(number, "s1")).collect::<Vec<_>>();
        let chain = [("s1", "s2"), ("s2", "s3"), ("s1", "s3"), ("s1", "s2")].map(pair);
        let chain =
            (1..=18).map(|number| host(number, ["s1", "s2", "s3"][number % 3])).chain(chain).collect();
        let leaves = ["s1", "s2", "s3", "s4"];
        let spines = leaves.iter().flat_map(|leaf| [(*leaf, "s8"), (*leaf, "s9")].map(pair));
        let spines = (0..8).map(|number| host(number, leaves[number / 2])).chain(spines).collect();
        let many = (1..=100).map(|number| host(number, "s1")).collect();
        for (links, most) in
            [(star, (700, 660)), (chain, (1_900, 600)), (spines, (1_500, 500)), (many, (2_500, 1_100))]
        {
            let network = network_of(&links);
            let Layout { boxes, wires, width, height } = Layout::of(&network);
            assert!(width <= most.0 && height <= most.1, "{width} x {height}");
            assert_eq!(boxes.len(), network.hosts.len() + network.switches.len());
            let area = |it: &NodeBox<'_>| ((it.left, it.top), (it.left + it.width, it.top + BOX_HEIGHT));
            for (index, node) in boxes.iter().enumerate() {
                assert!(!boxes[..index].iter().any(|other| meet(area(node), area(other))), "{node:?}");
                assert!(!wires.iter().any(|wire| passes(wire, area(node))), "{node:?}");
            }
            for (index, wire) in wires.iter().enumerate() {
                let label = labels(wire);
                assert!(!boxes.iter().any(|node| meet(label, area(node))), "{wire:?}");
                assert!(!wires[..index].iter().any(|other| meet(label, labels(other))), "{wire:?}");
                assert!(
                    !wires.iter().enumerate().any(|(at, other)| at != index && passes(other, label)),
                    "{wire:?}"
                );
            }
        }
    }

    #[test]
    fn second_link_of_a_lab_host_is_drawn_as_extra_wire() {
        let links =
            [("h1", "s1"), ("h1", "s2"), ("h2", "h3"), ("s1", "s2")].map(|(a, b)| (a.into(), b.into()));
        let network = network_of(&links);
        let layout = Layout::of(&network);
        assert_eq!(
            layout.wires.iter().map(|wire| wire.is_extra).collect::<Vec<_>>(),
            [false, true, true, false]
        );
        assert_eq!(layout.boxes.len(), 5);
    }
}
