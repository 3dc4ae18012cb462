use xoff_config::format::{bytes, scaled};
use xoff_config::written::{counted, grouped};

use crate::network::account::table;
use crate::network::links::LinkStatus;
use crate::network::{NetworkStatus, purposes};
use xoff_switch::causes::Causes;
use xoff_switch::control::status::{ClassStatus, PortStatus};

/// Returns a network's status as text, with rates since `before`, or totals without `before`.
#[must_use]
pub fn text(now: &NetworkStatus, before: Option<&NetworkStatus>) -> String {
    let before = earlier(now, before);
    let mut text = format!(
        "lab {}, up {:.0} s: {}, {}\n",
        now.name,
        now.uptime_nanos as f64 / 1e9,
        counted(now.hosts.len(), "host", "hosts"),
        counted(now.switches.len(), "switch", "switches")
    );
    text += &table(&HOSTS, hosts(now, before).into_iter());
    text += &table(&PORTS, ports(now, before).into_iter());
    text += &format!("\n{}\n", conclusions(now).join("\n"));
    text += &purposes::text(now);
    let causes = Causes::of(&now.switches);
    if !causes.is_empty() {
        text += &format!("\npaused peers, with the causes of their pauses:\n{}", causes.text());
    }
    text
}

pub(super) fn earlier<'a>(
    now: &NetworkStatus,
    before: Option<&'a NetworkStatus>,
) -> Option<&'a NetworkStatus> {
    before.filter(|before| before.name == now.name && before.uptime_nanos < now.uptime_nanos)
}

pub(super) fn conclusions(now: &NetworkStatus) -> Vec<String> {
    let lost: u64 = now.statuses().map(|switch| switch.verdict.lossless_lost).sum();
    let unseen: u64 = now.statuses().map(|switch| switch.verdict.unseen_total()).sum();
    let dropped = now.hosts.iter().flat_map(|host| &host.interfaces).filter_map(|it| it.counters);
    let dropped: u64 = dropped.map(|counters| counters.dropped()).sum();
    let before_restarts: u64 = now.restarts.iter().map(|restart| restart.queue_dropped).sum();
    let on_lines = now.links.iter().flat_map(|link| link.line.iter().flatten());
    let on_lines: u64 = on_lines.map(|direction| direction.carried.mishaps()).sum();
    let losses = format!(
        "lossless frames lost: {} in switches, {} at their devices and sockets, {} at hosts, {} on delay lines",
        grouped(lost),
        grouped(unseen),
        grouped(dropped + before_restarts),
        grouped(on_lines)
    );
    let failed = now.hosts.iter().filter(|host| host.lacks_agent()).map(|host| {
        format!(
            "FAILED: the agent of host {} does not answer, so the host may not obey pauses; end the lab and start it again",
            host.name
        )
    });
    let lost = now.hosts.iter().filter_map(|host| host.lost_namespace.as_ref());
    let lost = lost.map(|lost| format!("FAILED: {lost}; end the lab and start it again"));
    let lines = now.links.iter().filter_map(LinkStatus::failure_text);
    let lines = lines.map(|failure| format!("FAILED: {failure}; end the lab and start it again"));
    std::iter::once(losses).chain(failed).chain(lost).chain(lines).collect()
}

pub(super) const HOSTS: [&str; 7] = ["host", "device", "address", "sent", "received", "dropped", "pauses"];
pub(super) const PORTS: [&str; 8] =
    ["switch", "port", "sent", "received", "queued", "peer held", "held by peer", "dropped"];

fn traffic(now: u64, before: Option<(u64, u64)>) -> String {
    match before {
        None => bytes(now),
        Some((before, nanos)) => scaled(rate(now, before, nanos), "b/s"),
    }
}

pub(super) fn rate(now: u64, before: u64, nanos: u64) -> f64 {
    now.saturating_sub(before) as f64 * 8e9 / nanos.max(1) as f64
}

pub(super) fn between(now: &NetworkStatus, before: &NetworkStatus) -> u64 {
    now.uptime_nanos.saturating_sub(before.uptime_nanos).max(1)
}

pub(super) fn hosts(now: &NetworkStatus, before: Option<&NetworkStatus>) -> Vec<Vec<String>> {
    let rows = now.hosts.iter().enumerate().flat_map(|(index, host)| {
        host.interfaces.iter().enumerate().map(move |(number, interface)| {
            let name = if number == 0 { host.name.clone() } else { String::new() };
            let Some(counters) = interface.counters else {
                return vec![
                    name,
                    interface.device.clone(),
                    interface.ipv4.clone(),
                    "?".into(),
                    "?".into(),
                    "cannot be read".into(),
                    String::new(),
                ];
            };
            let old = before.and_then(|before| {
                let counters = before.hosts.get(index)?.interfaces.get(number)?.counters?;
                Some((counters, between(now, before)))
            });
            let agent = match &interface.agent {
                _ if host.lost_namespace.is_some() => "NAMESPACE GONE".into(),
                None if host.nic => "AGENT GONE OR SILENT".into(),
                None => "-".into(),
                Some(agent) => {
                    let held = agent.classes.iter().filter(|class| class.pause_received.now);
                    let held: Vec<String> = held.map(|class| class.class.to_string()).collect();
                    if held.is_empty() {
                        "obeys".into()
                    } else {
                        format!("obeys, class {} held NOW", held.join(" "))
                    }
                }
            };
            vec![
                name,
                interface.device.clone(),
                interface.ipv4.clone(),
                traffic(counters.tx_bytes, old.map(|(old, nanos)| (old.tx_bytes, nanos))),
                traffic(counters.rx_bytes, old.map(|(old, nanos)| (old.rx_bytes, nanos))),
                grouped(counters.dropped()),
                agent,
            ]
        })
    });
    rows.collect()
}

pub(super) fn volume(port: &PortStatus) -> (u64, u64) {
    let sum = |of: fn(&ClassStatus) -> u64| port.classes.iter().map(of).sum();
    (sum(|class| class.tx_bytes), sum(|class| class.rx_bytes))
}

pub(super) fn classes(port: &PortStatus, of: fn(&ClassStatus) -> bool) -> String {
    let classes = port.classes.iter().filter(|class| of(class));
    classes.map(|class| class.class.to_string()).collect::<Vec<_>>().join(" ")
}

pub(super) fn ports(now: &NetworkStatus, before: Option<&NetworkStatus>) -> Vec<Vec<String>> {
    let rows = now.switches.iter().enumerate().flat_map(|(index, switch)| {
        switch.ports.iter().enumerate().map(move |(number, port)| {
            let name = if number == 0 { switch.name.clone() } else { String::new() };
            let old = before.and_then(|before| {
                let port = before.switches.get(index)?.ports.get(number)?;
                Some((volume(port), between(now, before)))
            });
            let (sent, received) = volume(port);
            let pauses = |of: fn(&ClassStatus) -> u64, now: fn(&ClassStatus) -> bool| {
                let count: u64 = port.classes.iter().map(of).sum();
                let held = classes(port, now);
                if held.is_empty() { grouped(count) } else { format!("{}, class {held} NOW", grouped(count)) }
            };
            let queued: u64 = port.classes.iter().map(|class| class.egress.bytes).sum();
            let dropped: u64 = port.classes.iter().flat_map(|class| class.drops.values()).sum();
            vec![
                name,
                port.name.clone(),
                traffic(sent, old.map(|((sent, _), nanos)| (sent, nanos))),
                traffic(received, old.map(|((_, received), nanos)| (received, nanos))),
                bytes(queued),
                pauses(|class| class.pause_sent.xoff, |class| class.pause_sent.now),
                pauses(|class| class.pause_received.xoff, |class| class.pause_received.now),
                grouped(dropped),
            ]
        })
    });
    rows.collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::network::testing::network;

    #[test] // proves: lab-account, lab-lifecycle
    fn lab_screen_shows_nodes_with_rates_and_pauses() {
        let (before, mut now) = (network(), network());
        now.uptime_nanos += 2_000_000_000;
        now.hosts[0].interfaces[0].counters.as_mut().unwrap().tx_bytes += 250_000;
        now.switches[0].ports[0].classes[3].rx_bytes += 500_000;
        let line = |text: &str, words: &[&str]| {
            let found = text.lines().any(|line| words.iter().all(|word| line.contains(word)));
            assert!(found, "no line with {words:?} in:\n{text}");
        };
        let rates = text(&now, Some(&before));
        line(&rates, &["h1", "eth0", "10.1.0.1", "1.00 Mb/s", "0 b/s"]);
        line(&rates, &["left", "2.00 Mb/s", "class 3 NOW"]);
        line(&rates, &["paused peers, with the causes"]);
        line(&text(&now, None), &["h1", "250 kB"]);
        line(&text(&before, Some(&now)), &["h1", "0 B"]);
        assert!(!rates.contains("FAILED"), "{rates}");
        now.hosts[0].nic = true;
        now.links[0].failure = Some("its thread panicked".into());
        let without_agent = text(&now, None);
        line(&without_agent, &["FAILED: the delay line of h1-s1 ended: its thread panicked"]);
        line(&without_agent, &["h1", "eth0", "AGENT GONE OR SILENT"]);
        line(&without_agent, &["FAILED: the agent of host h1 does not answer"]);
        now.hosts[0].lost_namespace =
            Some("the namespace of host h1 is gone, so new programs lack the lab's devices".into());
        let lost = text(&now, None);
        line(&lost, &["h1", "eth0", "NAMESPACE GONE"]);
        line(&lost, &["FAILED: the namespace of host h1 is gone, so", "start it again"]);
    }
}
