use std::fmt::Write as _;

use xoff_config::format::{bytes, scaled};
use xoff_switch::causes::Causes;
use xoff_switch::control::status::PortStatus;

use super::layout::{BOX_HEIGHT, LINE, Layout, MARGIN, NodeBox, Point, Wire};
use super::screen::{between, classes, earlier, rate, volume};
use crate::network::NetworkStatus;
use crate::network::links::{EndStatus, LinkStatus};

/// Draws a network as SVG. Wires show rates since `before`, or totals without `before`.
#[must_use]
pub fn svg(now: &NetworkStatus, before: Option<&NetworkStatus>) -> String {
    let before = earlier(now, before);
    let layout = Layout::of(now);
    let causes = Causes::of(&now.switches);
    let remarks: Vec<String> = if causes.is_empty() {
        vec!["no peer is paused".into()]
    } else {
        causes.text().lines().map(str::to_owned).collect()
    };
    let longest = remarks.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let width = layout.width.max(2 * MARGIN + longest * 7).max(360);
    let below = layout.height;
    let height = below + remarks.len() * LINE + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let title = format!("lab {}, up {:.0} s", now.name, now.uptime_nanos as f64 / 1e9);
    label(&mut svg, (MARGIN, MARGIN), "#333", &title);
    let flows: Vec<(&Wire, &LinkStatus, Flow)> = layout
        .wires
        .iter()
        .zip(&now.links)
        .map(|(wire, link)| (wire, link, flow(now, link, wire.upper, before)))
        .collect();
    // Draw red wires last, so that they cover crossing wires.
    let is_held = |held: bool| flows.iter().filter(move |(.., flow)| flow.held.is_empty() != held);
    is_held(false).chain(is_held(true)).for_each(|(wire, _, flow)| line(&mut svg, wire, flow));
    layout.boxes.iter().for_each(|place| node(&mut svg, now, place));
    flows.iter().for_each(|(wire, link, flow)| labels(&mut svg, wire, link, flow));
    for (line, remark) in remarks.iter().enumerate() {
        let color = if causes.is_empty() { QUIET } else { RED };
        // Keep the indentation of remarks, which shows the cause of each pause.
        let indent = remark.chars().take_while(|c| *c == ' ').count();
        label(&mut svg, (MARGIN + indent * 8, below + line * LINE), color, remark.trim_start());
    }
    svg + "</svg>\n"
}

const RED: &str = "#b00020";
const QUIET: &str = "#777";

fn label(svg: &mut String, (x, y): Point, color: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{y}\" fill=\"{color}\" stroke=\"white\" stroke-width=\"3\" \
         paint-order=\"stroke\">{text}</text>"
    );
}

fn node(svg: &mut String, network: &NetworkStatus, place: &NodeBox<'_>) {
    let NodeBox { node: name, left, top, width } = *place;
    let x = place.middle();
    let switch = network.switches.iter().find(|switch| switch.name == name);
    let (fill, radius) = if switch.is_some() { ("#dbe9f6", 10) } else { ("#f7f7f7", 2) };
    let _ = writeln!(
        svg,
        "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{BOX_HEIGHT}\" rx=\"{radius}\" fill=\"{fill}\" stroke=\"#555\"/>"
    );
    let mut lines = Vec::new();
    if let Some(switch) = switch {
        let queued: u64 =
            switch.ports.iter().flat_map(|port| &port.classes).map(|class| class.egress.bytes).sum();
        lines.push((format!("{} queued", bytes(queued)), "#333"));
        let lost = switch.verdict.lossless_lost + switch.verdict.unseen_lost;
        lines.push((format!("{lost} lossless frames lost"), if lost > 0 { RED } else { QUIET }));
    }
    if let Some(host) = network.hosts.iter().find(|host| host.name == name) {
        let address = host.interfaces.first().map_or("", |interface| interface.ipv4.as_str());
        lines.push((address.to_owned(), "#333"));
        let dropped: u64 =
            host.interfaces.iter().filter_map(|it| it.counters).map(|counters| counters.dropped()).sum();
        let kind = if host.nic { "obeys pauses" } else { "no agent" };
        lines.push(match dropped {
            _ if host.lost_namespace.is_some() => ("namespace gone".to_owned(), RED),
            _ if host.lacks_agent() => ("agent does not answer".to_owned(), RED),
            0 => (kind.to_owned(), QUIET),
            dropped => (format!("{dropped} dropped"), RED),
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

struct Flow {
    forth: Option<String>,
    back: Option<String>,
    held: Vec<String>,
    pauses: u64,
}

fn line(svg: &mut String, wire: &Wire, flow: &Flow) {
    let color = if flow.held.is_empty() { "#888" } else { RED };
    let dashes = if wire.is_extra { " stroke-dasharray=\"6 4\"" } else { "" };
    let points: Vec<String> = wire.points.iter().map(|(x, y)| format!("{x},{y}")).collect();
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"{dashes}/>",
        points.join(" ")
    );
}

fn labels(svg: &mut String, wire: &Wire, link: &LinkStatus, flow: &Flow) {
    let [traffic, state] = wire.label;
    let both = [("\u{2193}", &flow.forth), ("\u{2191}", &flow.back)];
    let both = both.iter().filter_map(|(arrow, amount)| Some(format!("{arrow} {}", amount.as_ref()?)));
    label(svg, traffic, "#333", &both.collect::<Vec<_>>().join("  "));
    let speed = scaled(link.speed_bits_per_second as f64, "b/s");
    match (flow.held.is_empty(), flow.pauses) {
        (false, _) => label(svg, state, RED, &flow.held.join("; ")),
        (true, 0) => label(svg, state, QUIET, &speed),
        (true, pauses) => label(svg, state, QUIET, &format!("{speed}, {pauses} pauses")),
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

fn flow(now: &NetworkStatus, link: &LinkStatus, upper: usize, before: Option<&NetworkStatus>) -> Flow {
    let (above, below) = (&link.ends[upper], &link.ends[1 - upper]);
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
    use crate::network::testing::network;

    #[test] // proves: lab-account
    fn lab_drawing_shows_rates_and_pauses_with_their_causes() {
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
