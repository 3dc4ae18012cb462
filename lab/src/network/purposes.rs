//! Frames lost on purpose: by links with loss, at links taken down, and by restarts.

use std::fmt::Write as _;

use xoff_config::written::grouped;
use xoff_flow_control::drop_reason::DropReason;

use super::links::{DroppedAt, LinkStatus};
use super::view::{NetworkStatus, RestartedPart};
use crate::line::{Carried, LostFrames};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Purposes {
    /// Frames lost on links.
    on_links: u64,
    /// Lossless frames that switches dropped because a link was down, if a command took a link of the switch down.
    pub(super) link_down_lossless: u64,
    /// Frames dropped by devices of links that a command took down.
    pub(super) at_downs: DroppedAt,
    by_restarts: u64,
}

impl Purposes {
    pub(super) fn of(network: &NetworkStatus) -> Purposes {
        let links = network.links.iter();
        Purposes {
            on_links: links.clone().map(|link| on_purpose(link).total() + link_down(link).total()).sum(),
            link_down_lossless: network
                .switches
                .iter()
                .map(|switch| link_down_lossless(network, &switch.name))
                .sum(),
            at_downs: links.map(|link| link.downs.dropped).fold(DroppedAt::default(), DroppedAt::and),
            by_restarts: network.restarts.iter().map(|it| it.queued + it.arrived_meanwhile).sum(),
        }
    }

    pub(super) fn total(self) -> u64 {
        self.on_links + self.link_down_lossless + self.at_downs.total() + self.by_restarts
    }
}

fn sum(link: &LinkStatus, of: fn(&Carried) -> LostFrames) -> LostFrames {
    let directions = link.line.iter().flatten().map(|direction| of(&direction.carried));
    directions.fold(LostFrames::default(), |sum, lost| LostFrames {
        lossless: sum.lossless + lost.lossless,
        lossy: sum.lossy + lost.lossy,
        mac_control: sum.mac_control + lost.mac_control,
    })
}

fn on_purpose(link: &LinkStatus) -> LostFrames {
    sum(link, |carried| carried.lost_on_purpose)
}

fn link_down(link: &LinkStatus) -> LostFrames {
    sum(link, |carried| carried.lost_link_down)
}

fn link_down_lossless(network: &NetworkStatus, switch: &str) -> u64 {
    let was_down = |link: &LinkStatus| link.downs.count > 0 && link.ends.iter().any(|end| end.node == switch);
    if !network.links.iter().any(was_down) {
        return 0;
    }
    let statuses = network.statuses().filter(|status| status.name == switch);
    let classes = statuses.flat_map(|status| &status.ports).flat_map(|port| &port.classes);
    let lossless = classes.filter(|class| class.lossless_lost.is_some());
    lossless.filter_map(|class| class.drops.get(DropReason::LinkDown.name())).sum()
}

/// Describes all frames lost on purpose, a line for each link, switch and restart.
#[must_use]
pub fn text(network: &NetworkStatus) -> String {
    let mut text = String::new();
    let classes = |lost: LostFrames| {
        let LostFrames { lossless, lossy, mac_control } = lost;
        let (lossless, lossy, mac_control) = (grouped(lossless), grouped(lossy), grouped(mac_control));
        format!("{} (lossless {lossless}, lossy {lossy}, MAC control {mac_control})", grouped(lost.total()))
    };
    for link in &network.links {
        let (name, downs) = (link.name(), &link.downs);
        let lost = on_purpose(link);
        if lost.total() > 0 {
            let _ = writeln!(text, "lost on purpose by the link {name}: {}", classes(lost));
        }
        let full = sum(link, |carried| carried.lost_line_full);
        if full.total() > 0 {
            let _ = writeln!(text, "lost because the delay line of {name} was full: {}", classes(full));
        }
        if downs.count > 0 {
            let times = if downs.count == 1 { "once".into() } else { format!("{} times", downs.count) };
            let seconds = downs.nanos as f64 / 1e9;
            let _ = write!(text, "the link {name} was taken down {times}, for {seconds:.1} s");
            let (lost, dropped) = (link_down(link), downs.dropped);
            let counts = [
                (lost.total(), "on the link", classes(lost)),
                (dropped.hosts, "at hosts", grouped(dropped.hosts)),
                (dropped.switches, "at devices of switches", grouped(dropped.switches)),
                (dropped.line, "at devices of the delay line", grouped(dropped.line)),
            ];
            for (_, place, count) in counts.into_iter().filter(|(count, ..)| *count > 0) {
                let _ = write!(text, "; lost {place}: {count}");
            }
            text.push('\n');
        }
    }
    for switch in &network.switches {
        let lost = link_down_lossless(network, &switch.name);
        if lost > 0 {
            let name = &switch.name;
            let _ = writeln!(
                text,
                "lossless frames that {name} dropped because a link was down: {}",
                grouped(lost)
            );
        }
    }
    for restart in &network.restarts {
        let (node, seconds) = (&restart.node, restart.at_nanos as f64 / 1e9);
        let _ = match restart.part {
            RestartedPart::Switch => writeln!(
                text,
                "{node} was restarted at {seconds:.1} s; lost: {} frames queued in it, {} frames that arrived meanwhile",
                grouped(restart.queued),
                grouped(restart.arrived_meanwhile)
            ),
            RestartedPart::Host => writeln!(text, "{node} was restarted at {seconds:.1} s"),
            RestartedPart::Agent => writeln!(text, "the agent of {node} was restarted at {seconds:.1} s"),
        };
    }
    text
}
