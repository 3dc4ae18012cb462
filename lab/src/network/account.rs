//! Account of a lab's frames, with the verdict whether lossless frames were lost.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::{Deserialize, Serialize};
use xoff_config::written::{counted, grouped};

use super::links::EndStatus;
use super::purposes::{self, Purposes};
use super::view::{InterfaceCounters, NetworkStatus};
use xoff_switch::Promise;
use xoff_switch::control::status::PortStatus;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Account {
    pub verdict: NetworkVerdict,
    #[serde(flatten)]
    pub network: NetworkStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkVerdict {
    pub promise: Promise,
    pub lossless_lost: u64,
    /// Possibly lossless frames lost in the devices and XDP sockets of switches.
    pub unseen_lost: u64,
    pub host_dropped: u64,
    /// Frames that delay lines lost unintentionally, except frames known to be lossy.
    #[serde(default)]
    pub line_dropped: u64,
    #[serde(default)]
    pub on_purpose: u64,
    #[serde(default)]
    pub failed: Vec<String>,
    pub unproved: Vec<String>,
}

impl Account {
    #[must_use]
    pub fn of(network: NetworkStatus, mut failed: Vec<String>, waiting: Vec<String>) -> Account {
        let all = || network.statuses();
        let switches = || all().map(|switch| &switch.verdict);
        let interfaces =
            || network.hosts.iter().flat_map(|host| host.interfaces.iter().map(move |it| (host, it)));
        let purposes = Purposes::of(&network);
        let lossless_lost: u64 = switches().map(|verdict| verdict.lossless_lost).sum();
        let lossless_lost = lossless_lost.saturating_sub(purposes.link_down_lossless);
        let unseen_lost: u64 = switches().map(|verdict| verdict.unseen_lost).sum();
        let unseen_lost = unseen_lost.saturating_sub(purposes.at_switches);
        let counters = interfaces().filter_map(|(_, interface)| interface.counters);
        let host_dropped: u64 = counters.map(|counters| counters.dropped()).sum();
        let before_restarts: u64 = network.restarts.iter().map(|restart| restart.queue_dropped).sum();
        let host_dropped = (host_dropped + before_restarts).saturating_sub(purposes.at_hosts);
        let directions = || network.links.iter().filter_map(|link| link.line.as_ref()).flatten();
        let line_dropped: u64 = directions().map(|direction| direction.carried.mishaps()).sum();
        let line_dropped = line_dropped.saturating_sub(purposes.at_lines);
        let on_purpose = purposes.total();
        failed.extend(network.restarts.iter().flat_map(|restart| restart.failed.clone()));
        let gaps = all().flat_map(|switch| {
            switch.verdict.unproved.iter().map(move |gap| format!("{}: {gap}", switch.name))
        });
        let unread = interfaces().filter(|(_, interface)| interface.counters.is_none());
        let unread = unread.map(|(host, interface)| {
            format!("{}: counters of {} cannot be read", host.name, interface.device)
        });
        let unbalanced = all().filter(|it| it.verdict.ledger_balanced == Some(false));
        failed.extend(
            unbalanced.map(|switch| format!("{}: the ledger of this switch does not balance", switch.name)),
        );
        let kept = lossless_lost + unseen_lost + host_dropped + line_dropped == 0 && failed.is_empty();
        let lost_namespaces = network.hosts.iter().filter_map(|host| host.lost_namespace.clone());
        let unproved: Vec<String> = gaps.chain(unread).chain(lost_namespaces).chain(waiting).collect();
        let promise = match (kept, unproved.is_empty()) {
            (false, _) => Promise::NotKept,
            (true, true) => Promise::Kept,
            (true, false) => Promise::NotProved,
        };
        let verdict = NetworkVerdict {
            promise,
            lossless_lost,
            unseen_lost,
            host_dropped,
            line_dropped,
            on_purpose,
            failed,
            unproved,
        };
        Account { verdict, network }
    }

    #[must_use]
    pub fn text(&self) -> String {
        let network = &self.network;
        let mut text = format!(
            "lab {}: {}, {}, {:.1} s\n",
            network.name,
            counted(network.hosts.len(), "host", "hosts"),
            counted(network.switches.len(), "switch", "switches"),
            network.uptime_nanos as f64 / 1e9
        );
        text += &ends(network);
        text += &classes(network);
        text += &purposes::text(network);
        let unread: u64 = network.hosts.iter().map(|host| host.socket_drops).sum();
        if unread > 0 {
            let _ = writeln!(
                text,
                "hosts dropped {} datagrams because receive buffers of sockets were full",
                grouped(unread)
            );
        }
        let NetworkVerdict { promise, lossless_lost, unseen_lost, host_dropped, line_dropped, .. } =
            &self.verdict;
        let NetworkVerdict { on_purpose, failed, unproved, .. } = &self.verdict;
        let _ = match promise {
            Promise::Kept if *on_purpose > 0 => {
                writeln!(text, "nothing lossless was lost, except frames lost on purpose")
            }
            Promise::Kept => writeln!(text, "nothing lossless was lost"),
            Promise::NotProved => {
                writeln!(text, "no loss is known, but a loss cannot be excluded")
            }
            Promise::NotKept => {
                let counts = [
                    (*lossless_lost, "lossless frames were dropped by switches"),
                    (*unseen_lost, "frames were lost by devices and sockets of switches"),
                    (*host_dropped, "frames were dropped at hosts"),
                    (*line_dropped, "frames were lost by delay lines, which were full, stalled or down"),
                ];
                let counts = counts.into_iter().filter(|(count, _)| *count > 0);
                let lost: Vec<String> =
                    counts.map(|(count, what)| format!("{} {what}", grouped(count))).collect();
                match lost.is_empty() {
                    true => {
                        writeln!(text, "NOT LOSSLESS: no loss was counted, but a switch or an agent failed")
                    }
                    false => writeln!(text, "NOT LOSSLESS: {}", lost.join(", ")),
                }
            }
        };
        failed.iter().for_each(|failed| _ = writeln!(text, "FAILED: {failed}"));
        unproved.iter().for_each(|gap| _ = writeln!(text, "NOT PROVED: {gap}"));
        text
    }
}

struct EndCounts {
    sent: u64,
    received: u64,
    lost: Vec<(&'static str, u64)>,
}

impl EndCounts {
    fn and(self, other: EndCounts) -> EndCounts {
        let lost = self.lost.into_iter().zip(other.lost).map(|((what, a), (_, b))| (what, a + b));
        EndCounts {
            sent: self.sent + other.sent,
            received: self.received + other.received,
            lost: lost.collect(),
        }
    }
}

fn of_host(counters: &InterfaceCounters) -> EndCounts {
    let lost = vec![
        ("queue", counters.queue_dropped),
        ("queue, lossy", counters.queue_dropped_lossy),
        ("device out", counters.tx_dropped),
        ("device in", counters.rx_dropped),
    ];
    EndCounts { sent: counters.tx_frames, received: counters.rx_frames, lost }
}

fn of_port(port: &PortStatus) -> EndCounts {
    let sum =
        |of: fn(&xoff_switch::control::status::ClassStatus) -> u64| port.classes.iter().map(of).sum::<u64>();
    let lost =
        vec![("unseen", port.unseen.lossless + port.unseen.unknown), ("unseen, lossy", port.unseen.lossy)];
    // Receivers count flow lists (OFC) as PFC frames, so add them to those sent.
    let lists = port.classes.iter().filter_map(|class| class.flows.as_ref());
    let lists: u64 = lists.map(|flows| flows.pause_frames_sent + flows.resume_frames_sent).sum();
    let control = port.pfc_frames_received + port.pause_frames_received; // PFC frames include those with rates
    EndCounts {
        sent: sum(|class| class.tx_frames) + port.pause_frames_sent + port.rate_frames_sent + lists,
        received: sum(|class| class.rx_frames) + control,
        lost,
    }
}

fn counts(network: &NetworkStatus, end: &EndStatus) -> Option<EndCounts> {
    if end.is_switch {
        let switch = network.switches.iter().find(|switch| switch.name == end.node)?;
        let ports = network.all_of(switch).flat_map(|status| &status.ports);
        let mut counts = ports.filter(|port| port.name == end.port).map(of_port).reduce(EndCounts::and)?;
        let restarts = network.restarts.iter().filter(|restart| restart.node == end.node);
        let arrived = restarts.filter_map(|restart| restart.arrived_at.get(&end.port)).sum();
        counts.lost.push(("restart", arrived));
        return Some(counts);
    }
    let host = network.hosts.iter().find(|host| host.name == end.node)?;
    let interface = host.interfaces.iter().find(|interface| interface.device == end.port)?;
    interface.counters.as_ref().map(of_host)
}

fn ends(network: &NetworkStatus) -> String {
    let rows = network.links.iter().flat_map(|link| {
        link.ends.iter().enumerate().map(move |(index, end)| {
            let wire =
                if index == 0 { format!("{} - {}", end.node, link.ends[1].node) } else { String::new() };
            let name = format!("{}:{}", end.node, end.port);
            match counts(network, end) {
                None => vec![wire, name, "?".into(), "?".into(), "cannot be read".into()],
                Some(counts) => {
                    vec![wire, name, grouped(counts.sent), grouped(counts.received), losses(counts.lost)]
                }
            }
        })
    });
    table(&["link", "end", "frames sent", "received", "lost"], rows)
}

fn losses(counts: impl IntoIterator<Item = (&'static str, u64)>) -> String {
    let lost = counts.into_iter().filter(|(_, count)| *count > 0);
    let lost: Vec<String> = lost.map(|(what, count)| format!("{what} {}", grouped(count))).collect();
    if lost.is_empty() { "0".into() } else { lost.join(", ") }
}

fn classes(network: &NetworkStatus) -> String {
    let rows = network.switches.iter().flat_map(|switch| {
        let ports: Vec<&PortStatus> = network.all_of(switch).flat_map(|status| &status.ports).collect();
        (0..8).filter_map(move |class| {
            let of: Vec<_> = ports.iter().filter_map(|port| port.classes.get(class)).collect();
            let received: u64 = of.iter().map(|class| class.rx_frames).sum();
            let sent: u64 = of.iter().map(|class| class.tx_frames).sum();
            let mut drops: BTreeMap<&str, u64> = BTreeMap::new();
            for (reason, count) in of.iter().flat_map(|class| &class.drops).filter(|(_, count)| **count > 0) {
                *drops.entry(reason).or_default() += count;
            }
            let drops: Vec<String> =
                drops.into_iter().map(|(reason, count)| format!("{reason} {}", grouped(count))).collect();
            let pauses: u64 = of.iter().map(|class| class.pause_sent.xoff).sum();
            let kind = if of.iter().any(|class| class.lossless) { "lossless" } else { "lossy" };
            (received + sent > 0).then(|| {
                vec![
                    switch.name.clone(),
                    format!("{class} {kind}"),
                    grouped(received),
                    grouped(sent),
                    if drops.is_empty() { "0".into() } else { drops.join(", ") },
                    grouped(pauses),
                ]
            })
        })
    });
    table(&["switch", "class", "frames in", "out", "dropped", "pauses"], rows)
}

pub fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header).add_rows(rows);
    if table.is_empty() {
        return String::new();
    }
    for (column, name) in table.column_iter_mut().zip(header) {
        if ["frames sent", "received", "frames in", "out", "sent", "queued", "MiB", "MiB in the kernel"]
            .contains(name)
        {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("\n{}\n", table.trim_fmt())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use xoff_flow_control::drop_reason::DropReason;
    use xoff_switch::control::status::Status;

    use super::*;
    use crate::line::{Carried, LostFrames};
    use crate::network::links::{DirectionStatus, Downs, DroppedAt};
    use crate::network::testing::network;
    use crate::network::view::{Restart, RestartedPart};

    fn promise(change: impl FnOnce(&mut NetworkStatus)) -> Promise {
        let mut network = network();
        change(&mut network);
        Account::of(network, Vec::new(), Vec::new()).verdict.promise
    }

    fn interface(network: &mut NetworkStatus) -> &mut InterfaceCounters {
        network.hosts[0].interfaces[0].counters.as_mut().unwrap()
    }

    fn restart(switch: &Status, arrived: u64) -> Restart {
        Restart {
            node: switch.name.clone(),
            part: RestartedPart::Switch,
            at_nanos: 1,
            queued: 3,
            arrived_meanwhile: arrived,
            arrived_at: [("left".to_owned(), arrived)].into(),
            programs: 0,
            queue_dropped: 0,
            switch: None,
            failed: Vec::new(),
        }
    }

    #[test] // proves: lab-account
    fn lab_is_lossless_only_without_losses_and_unknown_counters() {
        assert_eq!(promise(|_| ()), Promise::Kept);
        assert_eq!(promise(|network| network.switches[0].verdict.lossless_lost = 1), Promise::NotKept);
        assert_eq!(promise(|network| network.switches[0].verdict.unseen_lost = 1), Promise::NotKept);
        assert_eq!(
            promise(|network| network.switches[0].verdict.ledger_balanced = Some(false)),
            Promise::NotKept
        );
        assert_eq!(promise(|network| interface(network).tx_dropped = 1), Promise::NotKept);
        assert_eq!(promise(|network| interface(network).rx_dropped = 1), Promise::NotKept);
        assert_eq!(promise(|network| interface(network).queue_dropped = 1), Promise::NotKept);
        assert_eq!(promise(|network| interface(network).queue_dropped_lossy = 1), Promise::Kept);
        assert_eq!(promise(|network| network.hosts[0].interfaces[0].counters = None), Promise::NotProved);
        assert_eq!(
            promise(|network| network.switches[0].verdict.unproved.push("x".into())),
            Promise::NotProved
        );
        let lost = "the namespace of host h1 (netns c1) is gone";
        let mut without_namespace = network();
        without_namespace.hosts[0].lost_namespace = Some(lost.into());
        let account = Account::of(without_namespace, Vec::new(), Vec::new());
        assert_eq!(account.verdict.promise, Promise::NotProved);
        assert!(account.text().contains(&format!("NOT PROVED: {lost}")), "{}", account.text());
        let failed = Account::of(network(), vec!["s1: worker 0 panicked".into()], Vec::new());
        assert_eq!((failed.verdict.promise, failed.verdict.unproved.len()), (Promise::NotKept, 0));
        let text = failed.text();
        assert!(text.contains("NOT LOSSLESS: no loss was counted, but"), "{text}");
        assert!(text.contains("FAILED: s1: worker 0 panicked"), "{text}");
        let waiting = Account::of(network(), Vec::new(), vec!["h1: 3 frames were still queued".into()]);
        assert_eq!(waiting.verdict.promise, Promise::NotProved);
        assert!(waiting.text().contains("NOT PROVED: h1: 3 frames were still queued"), "{}", waiting.text());
    }

    #[test] // proves: lab-links
    fn intended_losses_do_not_change_the_lab_verdict() {
        let on_line = |change: fn(&mut Carried)| {
            promise(|network| {
                let mut direction = DirectionStatus::default();
                change(&mut direction.carried);
                network.links[0].line = Some([DirectionStatus::default(), direction]);
            })
        };
        assert_eq!(on_line(|it| it.lost_on_purpose.lossless = 1), Promise::Kept);
        assert_eq!(on_line(|it| it.lost_taken_down.lossless = 1), Promise::Kept);
        assert_eq!(
            on_line(|it| it.lost_link_down.lossless = 1),
            Promise::NotKept,
            "losses on a link that no command took down must break the promise"
        );
        assert_eq!(on_line(|it| it.lost_link_down.lossy = 1), Promise::Kept);
        assert_eq!(on_line(|it| it.lost_line_full.lossy = 1), Promise::Kept);
        assert_eq!(on_line(|it| it.lost_line_full.lossless = 1), Promise::NotKept);
        assert_eq!(on_line(|it| it.lost_unseen = 1), Promise::NotKept);
        let at_down = |dropped: u64, count: u64, link_down: u64| {
            promise(|network| {
                let on_purpose =
                    DroppedAt { ends: [2 * count, 4 * count], link_down: [0, link_down], line: 0 };
                network.links[0].downs = Downs { count, dropped: on_purpose, ..Downs::default() };
                network.switches[0].verdict.unseen_lost = 4 * count;
                interface(network).tx_dropped = dropped * count;
                let drops = &mut network.switches[0].ports[0].classes[3].drops;
                drops.insert(DropReason::LinkDown.name().into(), 5);
                network.switches[0].verdict.lossless_lost = 5;
            })
        };
        assert_eq!([at_down(2, 1, 5), at_down(3, 1, 5)], [Promise::Kept, Promise::NotKept]);
        assert_eq!(
            at_down(0, 0, 0),
            Promise::NotKept,
            "switch drops at a link that no command took down must break the promise"
        );
        assert_eq!(
            at_down(2, 1, 4),
            Promise::NotKept,
            "a switch drop that no `xoff lab link` command caused must break the promise"
        );
        let restarted = |lossless_lost| {
            promise(|network| {
                let mut status = network.switches[0].clone();
                status.verdict.lossless_lost = lossless_lost;
                network.restarts =
                    vec![Restart { switch: Some(Box::new(status)), ..restart(&network.switches[0], 4) }];
            })
        };
        assert_eq!([restarted(0), restarted(1)], [Promise::Kept, Promise::NotKept]);
        let mut network = network();
        let lost = LostFrames { lossless: 1_000, lossy: 2, mac_control: 3 };
        let carried = Carried { lost_on_purpose: lost, ..Carried::default() };
        network.links[0].line = Some([DirectionStatus { carried, ..Default::default() }; 2]);
        let text = Account::of(network, Vec::new(), Vec::new()).text();
        let line = "lost on purpose by the link h1-s1: 2,010 (lossless 2,000, lossy 4, MAC control 6)\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("nothing lossless was lost, except frames lost on purpose"), "{text}");
    }

    #[test]
    fn lab_account_lists_losses_by_link_end_and_class() {
        let mut network = network();
        interface(&mut network).queue_dropped = 12_345;
        network.restarts = vec![restart(&network.switches[0], 4)];
        let account = Account::of(network, Vec::new(), Vec::new());
        let text = account.text();
        let line = |words: &[&str]| {
            let found = text.lines().any(|line| words.iter().all(|word| line.contains(word)));
            assert!(found, "no line contains {words:?}:\n{text}");
        };
        line(&["h1 - s1", "h1:eth0", "1,234", "77", "queue 12,345"]);
        line(&["s1:left", "unseen 3", "restart 4"]);
        line(&["s1", "3 lossless", "1,000", "headroom_exhausted"]);
        line(&["NOT LOSSLESS: 12,345 frames were dropped at hosts"]);
        let json = serde_json::to_string(&account).unwrap();
        assert_eq!(serde_json::from_str::<Account>(&json).unwrap(), account);
    }
}
