//! Drawing of a network as SVG: a tree of switches and hosts, with traffic and paused peers at each wire.
//!
//! The switch with the most neighbours is on top; others keep the order of the file.

use std::fmt::Write as _;

use super::screen::{between, classes, rate, volume};
use xoff_config::format::{bytes, scaled};
use xoff_lab::network::NetworkStatus;
use xoff_lab::network::view::{EndStatus, LinkStatus};
use xoff_switch::causes::Causes;
use xoff_switch::control::status::PortStatus;

const COLUMN: usize = 190;
const ROW: usize = 170;
const MARGIN: usize = 30;
const BOX_WIDTH: usize = 150;
const BOX_HEIGHT: usize = 56;
const LINE: usize = 15;

/// Position of a node in the drawing, in half columns and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spot {
    half_column: usize,
    row: usize,
}

impl Spot {
    fn middle(self) -> (usize, usize) {
        (MARGIN + COLUMN / 2 + self.half_column * COLUMN / 2, MARGIN + BOX_HEIGHT / 2 + LINE + self.row * ROW)
    }
}

/// Position of each node in the drawing, and the wires that form a tree.
struct Layout<'a> {
    network: &'a NetworkStatus,
    spots: Vec<(&'a str, Spot)>,
    /// Wires of the tree: index of the link, and name of the node at its lower end.
    tree: Vec<(usize, &'a str)>,
    columns: usize,
}

impl<'a> Layout<'a> {
    fn of(network: &'a NetworkStatus) -> Layout<'a> {
        let mut layout = Layout { network, spots: Vec::new(), tree: Vec::new(), columns: 0 };
        let mut tops: Vec<&str> = network.switches.iter().map(|switch| switch.name.as_str()).collect();
        // The sort is stable: of switches with equally many neighbours, the first of the file wins.
        tops.sort_by_key(|name| std::cmp::Reverse(layout.trunks(name)));
        let hosts = network.hosts.iter().map(|host| host.name.as_str());
        for top in tops.into_iter().chain(hosts) {
            if !layout.is_placed(top) {
                layout.place(top, 0);
            }
        }
        layout
    }

    fn trunks(&self, switch: &str) -> usize {
        self.network
            .links
            .iter()
            .filter(|link| link.ends.iter().all(|end| end.is_switch) && other_end(link, switch).is_some())
            .count()
    }

    fn is_placed(&self, node: &str) -> bool {
        self.spots.iter().any(|(name, _)| *name == node)
    }

    /// Places a node and all nodes below it; returns its half column.
    fn place(&mut self, node: &'a str, row: usize) -> usize {
        let index = self.spots.len();
        self.spots.push((node, Spot { half_column: 0, row }));
        let (network, mut below) = (self.network, Vec::new());
        for (link, wire) in network.links.iter().enumerate() {
            let Some(end) = other_end(wire, node) else { continue };
            // A host forwards nothing, so a switch is not placed below it, but below another wire or at the top of its own tree.
            let goes_on = network.switches.iter().any(|switch| switch.name == node) || !end.is_switch;
            if goes_on && !self.is_placed(&end.node) {
                self.tree.push((link, &end.node));
                below.push(self.place(&end.node, row + 1));
            }
        }
        let half_column = match (below.first(), below.last()) {
            (Some(first), Some(last)) => usize::midpoint(*first, *last),
            _ => {
                self.columns += 1;
                (self.columns - 1) * 2
            }
        };
        self.spots[index].1.half_column = half_column;
        half_column
    }

    fn spot(&self, node: &str) -> Spot {
        let found = self.spots.iter().find(|(name, _)| *name == node);
        found.map_or(Spot { half_column: 0, row: 0 }, |(_, spot)| *spot)
    }
}

fn other_end<'a>(link: &'a LinkStatus, node: &str) -> Option<&'a EndStatus> {
    match &link.ends {
        [a, b] if a.node == node => Some(b),
        [a, b] if b.node == node => Some(a),
        _ => None,
    }
}

/// Draws the network. Wires show rates since `before`; without `before`, totals.
pub(super) fn svg(now: &NetworkStatus, before: Option<&NetworkStatus>) -> String {
    let before = before.filter(|before| before.name == now.name && before.uptime_nanos < now.uptime_nanos);
    let layout = Layout::of(now);
    let causes = Causes::of(&now.switches);
    let remarks: Vec<String> = if causes.is_empty() {
        vec!["no peer is paused".into()]
    } else {
        causes.text().lines().map(str::to_owned).collect()
    };
    let rows = layout.spots.iter().map(|(_, spot)| spot.row + 1).max().unwrap_or(0);
    let longest = remarks.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let width = (2 * MARGIN + layout.columns * COLUMN).max(2 * MARGIN + longest * 8).max(360);
    let below = MARGIN + rows * ROW;
    let height = below + (remarks.len() + 1) * LINE + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let title = format!("lab {}, up {:.0} s", now.name, now.uptime_nanos as f64 / 1e9);
    label(&mut svg, (MARGIN, MARGIN), "start", "#333", &title);
    for (index, link) in now.links.iter().enumerate() {
        wire(&mut svg, &layout, index, link, before);
    }
    for (name, spot) in &layout.spots {
        node(&mut svg, now, name, *spot);
    }
    for (line, remark) in remarks.iter().enumerate() {
        let color = if causes.is_empty() { "#777" } else { "#b00020" };
        // Indentation of remarks shows which pause caused which.
        let indent = remark.chars().take_while(|c| *c == ' ').count();
        label(&mut svg, (MARGIN + indent * 8, below + line * LINE), "start", color, remark.trim_start());
    }
    svg + "</svg>\n"
}

fn label(svg: &mut String, (x, y): (usize, usize), anchor: &str, color: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" fill=\"{color}\" stroke=\"white\" stroke-width=\"3\" \
         paint-order=\"stroke\">{text}</text>"
    );
}

fn node(svg: &mut String, network: &NetworkStatus, name: &str, spot: Spot) {
    let (x, y) = spot.middle();
    let (left, top) = (x - BOX_WIDTH / 2, y - BOX_HEIGHT / 2);
    let switch = network.switches.iter().find(|switch| switch.name == name);
    let (fill, radius) = if switch.is_some() { ("#dbe9f6", 10) } else { ("#f7f7f7", 2) };
    let _ = writeln!(
        svg,
        "<rect x=\"{left}\" y=\"{top}\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"{radius}\" fill=\"{fill}\" stroke=\"#555\"/>"
    );
    let mut lines = Vec::new();
    if let Some(switch) = switch {
        let queued: u64 =
            switch.ports.iter().flat_map(|port| &port.classes).map(|class| class.egress.bytes).sum();
        lines.push((format!("{} queued", bytes(queued)), "#333"));
        let lost = switch.verdict.lossless_lost + switch.verdict.unseen_lost;
        lines.push((format!("{lost} lossless frames lost"), if lost > 0 { "#b00020" } else { "#777" }));
    }
    if let Some(host) = network.hosts.iter().find(|host| host.name == name) {
        let address = host.interfaces.first().map_or("", |interface| interface.ipv4.as_str());
        lines.push((address.to_owned(), "#333"));
        let dropped: u64 =
            host.interfaces.iter().filter_map(|it| it.counters).map(|counters| counters.dropped()).sum();
        let kind = if host.nic { "obeys pauses" } else { "no agent" };
        lines.push(match dropped {
            _ if host.lacks_agent() => ("agent does not answer".to_owned(), "#b00020"),
            0 => (kind.to_owned(), "#777"),
            dropped => (format!("{dropped} dropped"), "#b00020"),
        });
    }
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\" font-weight=\"bold\">{name}</text>",
        top + 18
    );
    for (number, (text, color)) in lines.iter().enumerate() {
        let y = top + 18 + (number + 1) * LINE;
        let _ =
            writeln!(svg, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" fill=\"{color}\">{text}</text>");
    }
}

/// Traffic and pauses of a wire, from its upper node (forth) and back.
struct Flow {
    forth: Option<String>,
    back: Option<String>,
    held: Vec<String>,
    pauses: u64,
}

fn wire(
    svg: &mut String,
    layout: &Layout<'_>,
    index: usize,
    link: &LinkStatus,
    before: Option<&NetworkStatus>,
) {
    let lower = layout.tree.iter().find(|(of, _)| *of == index).map(|(_, lower)| *lower);
    let (above, below) = match &link.ends {
        [a, b] if lower == Some(&a.node) => (b, a),
        [a, b] => (a, b),
    };
    let flow = flow(layout.network, link, above, below, before);
    let ((from_x, from_y), (to_x, to_y)) =
        (layout.spot(&above.node).middle(), layout.spot(&below.node).middle());
    let color = if flow.held.is_empty() { "#888" } else { "#b00020" };
    let dashes = if lower.is_some() { "" } else { " stroke-dasharray=\"6 4\"" };
    let _ = writeln!(
        svg,
        "<line x1=\"{from_x}\" y1=\"{from_y}\" x2=\"{to_x}\" y2=\"{to_y}\" stroke=\"{color}\" stroke-width=\"2\"{dashes}/>"
    );
    let mut lines = vec![(scaled(link.speed_bits_per_second as f64, "b/s"), "#777")];
    lines.extend(flow.forth.map(|text| (format!("\u{2193} {text}"), "#333")));
    lines.extend(flow.back.map(|text| (format!("\u{2191} {text}"), "#333")));
    if flow.held.is_empty() && flow.pauses > 0 {
        lines.push((format!("{} pauses", flow.pauses), "#777"));
    }
    lines.extend(flow.held.into_iter().map(|text| (text, "#b00020")));
    // Labels are above the lower node, or at the middle of a wire that is not in the tree.
    let (x, bottom) = match lower {
        Some(_) => (to_x, to_y - BOX_HEIGHT / 2 - 8),
        None => (usize::midpoint(from_x, to_x), usize::midpoint(from_y, to_y) + lines.len() * LINE / 2),
    };
    for (number, (text, color)) in lines.iter().rev().enumerate() {
        label(svg, (x, bottom - number * LINE), "middle", color, text);
    }
}

fn port<'a>(network: &'a NetworkStatus, end: &EndStatus) -> Option<&'a PortStatus> {
    let switch = network.switches.iter().find(|switch| switch.name == end.node)?;
    switch.ports.iter().find(|port| port.name == end.port)
}

fn counted(network: &NetworkStatus, end: &EndStatus) -> Option<(u64, u64)> {
    if end.is_switch {
        return port(network, end).map(volume);
    }
    let host = network.hosts.iter().find(|host| host.name == end.node)?;
    let interface = host.interfaces.iter().find(|interface| interface.device == end.port)?;
    interface.counters.map(|counters| (counters.tx_bytes, counters.rx_bytes))
}

fn flow(
    now: &NetworkStatus,
    link: &LinkStatus,
    above: &EndStatus,
    below: &EndStatus,
    before: Option<&NetworkStatus>,
) -> Flow {
    let old = before.and_then(|before| Some((counted(before, above)?, between(now, before))));
    let amount = |of: fn(&(u64, u64)) -> u64| {
        counted(now, above).map(|new| match &old {
            Some((old, nanos)) => scaled(rate(of(&new), of(old), *nanos), "b/s"),
            None => bytes(of(&new)),
        })
    };
    let mut held = Vec::new();
    let mut pauses = 0;
    for end in link.ends.iter().filter(|end| end.is_switch) {
        let Some(port) = port(now, end) else { continue };
        let peer = if end.node == above.node { below } else { above };
        let who = classes(port, |class| class.pause_sent.now);
        if !who.is_empty() {
            held.push(format!("{} held, class {who}", peer.node));
        }
        pauses += port.classes.iter().map(|class| class.pause_sent.xoff).sum::<u64>();
    }
    Flow { forth: amount(|(sent, _)| *sent), back: amount(|(_, received)| *received), held, pauses }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use xoff_lab::network::testing::network;

    // proves: lab-account
    #[test]
    fn network_drawing_places_nodes_without_overlap() {
        let mut network = network();
        let [mut second, mut third] = [0, 1].map(|_| network.switches[0].clone());
        (second.name, third.name) = ("s2".into(), "s3".into());
        network.switches.extend([second, third]);
        let end =
            |node: &str| EndStatus { node: node.into(), port: "p".into(), is_switch: node.starts_with('s') };
        for (a, b) in [("s1", "s2"), ("s2", "s3"), ("h2", "s3")] {
            network.links.push(LinkStatus { ends: [end(a), end(b)], speed_bits_per_second: 1_000_000_000 });
        }
        let layout = Layout::of(&network);
        assert_eq!(layout.spot("s2").row, 0);
        assert_eq!((layout.spot("s1").row, layout.spot("s3").row, layout.spot("h1").row), (1, 1, 2));
        assert_eq!(layout.spots.len(), 5);
        for (index, (_, spot)) in layout.spots.iter().enumerate() {
            let beside = layout.spots[..index].iter().filter(|(_, other)| other.row == spot.row);
            beside.for_each(|(_, other)| assert!(other.half_column.abs_diff(spot.half_column) >= 2));
        }
        // The second wire of h2 is not in the tree.
        assert_eq!(layout.tree.len(), 4);
        assert_eq!(svg(&network, None), svg(&network, None));
    }

    // proves: lab-account
    #[test]
    fn network_drawing_shows_rates_pauses_and_causes() {
        let (before, mut now) = (network(), network());
        now.uptime_nanos += 1_000_000_000;
        now.switches[0].ports[0].classes[3].rx_bytes += 125_000;
        let text = svg(&now, Some(&before));
        for words in
            ["h1</text>", "10.1.0.2", "\u{2191} 1.00 Mb/s", "h1 held, class 3", "s1 pauses the peer of left"]
        {
            assert!(text.contains(words), "{words} is not in\n{text}");
        }
        now.name = "a<b".into();
        assert!(svg(&now, None).contains("a&lt;b"));
    }
}
