use std::fmt::Write as _;

use xoff_config::written::{counted, grouped};

use super::links::{LinkStatus, link_down_lossless};
use super::view::{NetworkStatus, Restart, RestartedPart};
use crate::line::{Carried, LostFrames};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Purposes {
    /// Frames lost by delay lines as configured, or while a command held the link down.
    on_links: u64,
    pub(super) link_down_lossless: u64,
    /// Frames lost by switches' devices and sockets while a command held the link down.
    pub(super) at_switches: u64,
    /// Frames lost by hosts' devices and queues while a command held the link down.
    pub(super) at_hosts: u64,
    pub(super) at_lines: u64,
    by_restarts: u64,
}

impl Purposes {
    pub(super) fn of(network: &NetworkStatus) -> Purposes {
        let links = network.links.iter();
        Purposes {
            on_links: links.clone().map(|link| on_purpose(link).total() + taken_down(link).total()).sum(),
            link_down_lossless: network
                .switches
                .iter()
                .map(|switch| taken_down_lossless(network, &switch.name))
                .sum(),
            at_switches: links.clone().map(|link| at_ends(link, true)).sum(),
            at_hosts: links.clone().map(|link| at_ends(link, false)).sum(),
            at_lines: links.map(|link| link.downs.dropped.line).sum(),
            by_restarts: network.restarts.iter().map(|it| it.queued + it.arrived_meanwhile).sum(),
        }
    }

    pub(super) fn total(self) -> u64 {
        self.on_links
            + self.link_down_lossless
            + self.at_switches
            + self.at_hosts
            + self.at_lines
            + self.by_restarts
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

fn taken_down(link: &LinkStatus) -> LostFrames {
    sum(link, |carried| carried.lost_taken_down)
}

fn at_ends(link: &LinkStatus, is_switch: bool) -> u64 {
    let ends = link.ends.iter().zip(link.downs.dropped.ends);
    ends.filter(|(end, _)| end.is_switch == is_switch).map(|(_, dropped)| dropped).sum()
}

/// Returns the lossless frames that a switch dropped while links were taken down. Links that were down together count the same frames, so
/// the sum is limited to the switch's own count.
fn taken_down_lossless(network: &NetworkStatus, switch: &str) -> u64 {
    let ends = network.links.iter().flat_map(|link| link.ends.iter().zip(link.downs.dropped.link_down));
    let recorded: u64 =
        ends.filter(|(end, _)| end.is_switch && end.node == switch).map(|(_, dropped)| dropped).sum();
    let statuses = network.statuses().filter(|status| status.name == switch);
    recorded.min(statuses.map(link_down_lossless).sum())
}

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
        let down = sum(link, |carried| carried.lost_link_down);
        if down.total() > 0 {
            let _ = writeln!(text, "lost because a device of the link {name} was down: {}", classes(down));
        }
        let full = sum(link, |carried| carried.lost_line_full);
        if full.total() > 0 {
            let _ = writeln!(text, "lost because the delay line of {name} was full: {}", classes(full));
        }
        if downs.count > 0 {
            let times = if downs.count == 1 { "once".into() } else { format!("{} times", downs.count) };
            let seconds = downs.nanos as f64 / 1e9;
            let _ = write!(text, "the link {name} was taken down {times}, for {seconds:.1} s");
            let lost = taken_down(link);
            let (hosts, switches, line) = (at_ends(link, false), at_ends(link, true), downs.dropped.line);
            let counts = [
                (lost.total(), "on the link", classes(lost)),
                (hosts, "at hosts", grouped(hosts)),
                (switches, "at devices of switches", grouped(switches)),
                (line, "at devices of the delay line", grouped(line)),
            ];
            for (_, place, count) in counts.into_iter().filter(|(count, ..)| *count > 0) {
                let _ = write!(text, "; lost {place}: {count}");
            }
            text.push('\n');
        }
    }
    for switch in &network.switches {
        let (name, lost) = (&switch.name, taken_down_lossless(network, &switch.name));
        if lost > 0 {
            let lost = grouped(lost);
            let _ = writeln!(
                text,
                "lossless frames that {name} dropped while a command held a link down: {lost}"
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
            RestartedPart::Host => writeln!(
                text,
                "{node} was restarted at {seconds:.1} s, which ended {}{}",
                counted(restart.programs, "program", "programs"),
                of_agent(restart)
            ),
            RestartedPart::Agent => {
                writeln!(text, "the agent of {node} was restarted at {seconds:.1} s{}", of_agent(restart))
            }
        };
    }
    text
}

fn of_agent(restart: &Restart) -> String {
    let counts =
        [(restart.queued, "queued"), (restart.queue_dropped, "dropped by full queues before the restart")];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    counts.map(|(count, how)| format!("; lost: {} frames {how}", grouped(count))).collect()
}
