use xoff_config::written::grouped;

use xoff_config::format::{scaled, span};
use xoff_switch::control::status::{Books, ClassStatus, OngoingStatus, PortStatus, Status};

/// Log events of faults that have no line `NOW:`, because the summary shows them elsewhere.
const SHOWN_BY_OTHER_LINES: [&str; 12] = [
    "loss",
    "unseen-loss",
    "unseen-loss-unproved",
    "unseen-loss-lossy",
    "stall",
    "storm",
    "long-pauses",
    "loop",
    "duplicate-address",
    "peer-too-fast",
    "peer-excess",
    "peer-late",
];

pub(super) fn heading(status: &Status) -> String {
    let addresses = grouped(status.fdb_total.max(status.fdb.len() as u64));
    format!(
        "{}: xoff {}, up {}, {addresses} addresses known",
        status.name,
        status.version,
        span(status.uptime_nanos)
    )
}

pub(super) fn policies(status: &Status) -> String {
    let classes = || status.ports.iter().flat_map(|port| &port.classes);
    let lossless =
        |number: usize| classes().any(|class| usize::from(class.class) == number && class.lossless);
    let policies = status.policies.iter().enumerate().filter(|(class, _)| lossless(*class));
    let policies: Vec<String> = policies.map(|(class, name)| format!("class {class} {name}")).collect();
    if policies.is_empty() { String::new() } else { format!("policies: {}", policies.join(", ")) }
}

pub(super) fn verdict(status: &Status) -> String {
    let verdict = &status.verdict;
    let headroom = match verdict.headroom_free_min_bytes {
        Some(free) => format!("least headroom left {} bytes", grouped(free)),
        None => "no lossless class".into(),
    };
    let unseen = match verdict.unseen_lost {
        0 => String::new(),
        frames => {
            let at_least = if verdict.unseen_at_least { "at least " } else { "" };
            format!(
                ", {at_least}{} frames that may be lossless were lost outside the switch",
                grouped(frames)
            )
        }
    };
    let lossy: String = verdict.unseen_lossy_at.iter().map(|lost| format!("\n{lost}")).collect();
    let unproved: String = verdict.unproved.iter().map(|gap| format!("\nNOT PROVED: {gap}")).collect();
    let acknowledged: String =
        verdict.acknowledged.iter().map(|gap| format!("\nacknowledged: {gap}")).collect();
    let loops: String = status.ports.iter().filter_map(looped).collect();
    let duplicates: String = status.ports.iter().filter_map(duplicate).collect();
    let peers: String = status.ports.iter().filter_map(peer).collect();
    let interfaces = status.router.iter().flat_map(|router| &router.interfaces);
    let missing =
        interfaces.filter_map(|of| Some(format!("\nHOST INTERFACE {}: {}", of.name, of.state.fault()?)));
    let missing: String = missing.collect();
    format!(
        "lossless classes: {} lost{unseen}, {headroom}{unproved}{lossy}{acknowledged}{loops}{duplicates}{peers}{}{missing}",
        grouped(verdict.lossless_lost),
        ongoing(status, |event| !SHOWN_BY_OTHER_LINES.contains(&event))
    )
}

pub(super) fn ongoing(status: &Status, is_shown: impl Fn(&str) -> bool) -> String {
    let line = |it: &OngoingStatus| {
        let places = [("port", &it.port), ("group", &it.group)];
        let places = places.iter().filter_map(|(kind, name)| Some(format!("{kind} {}", name.as_ref()?)));
        let class = it.class.map(|class| format!("class {class}"));
        let place = places.chain(class).collect::<Vec<_>>().join(", ");
        let detail = it.detail.as_ref().map_or(String::new(), |detail| format!(" ({detail})"));
        format!("\nNOW: {place}: {}{detail}", it.text)
    };
    status.ongoing.iter().filter(|it| is_shown(&it.event)).map(line).collect()
}

fn peer(port: &PortStatus) -> Option<String> {
    let frames = |of: fn(&ClassStatus) -> u64| grouped(port.classes.iter().map(of).sum());
    let speed = scaled(port.speed_bits_per_second as f64, "b/s");
    let fast = port.peer.too_fast.then(|| {
        format!(
            "sends faster than the port's speed of {speed} ({} bytes too many, {} frames too many after XOFF)",
            grouped(port.peer.overspeed_bytes),
            frames(|class| class.response.excess_frames)
        )
    });
    let late = port.peer.too_late.then(|| {
        let declared = port.peer.response_declared_nanos.map_or("nothing".into(), span);
        let late = frames(|class| class.response.late_frames);
        format!(
            "has sent while paused, for longer than its declared response of {declared} ({late} frames too late): run `xoff nic` \
             there if it is a Linux host without PFC in its NIC"
        )
    });
    let faults: Vec<String> = fast.into_iter().chain(late).collect();
    (!faults.is_empty()).then(|| {
        format!(
            "\nPEER: the peer of port {} {}; see `xoff status headroom`",
            port.name,
            faults.join(", and ")
        )
    })
}

fn looped(port: &PortStatus) -> Option<String> {
    let other = port.loop_with.as_ref()?;
    let now = if port.looped { " NOW" } else { "" };
    let moving = port.loop_addresses.join(", ");
    let moving = if moving.is_empty() { moving } else { format!("; moving: {moving}") };
    Some(format!(
        "\nLOOP{now}: ports {} and {other} seem to be connected outside the switch (detected {} times{moving})",
        port.name, port.loops
    ))
}

fn duplicate(port: &PortStatus) -> Option<String> {
    let (other, addresses) = (port.duplicate_with.as_ref()?, port.duplicate_addresses.join(" and "));
    Some(format!(
        "\nDUPLICATE ADDRESS: {addresses} at ports {} and {other}: two hosts with one address? (for {} s)",
        port.name, port.duplicates
    ))
}

pub(super) fn ledger(status: &Status) -> String {
    let Some(books) = status.ledger else {
        return "ledger of frames: unknown, because a worker does not answer".into();
    };
    let state = if books.balanced { "balanced".into() } else { format!("{} MISSING", books.missing) };
    let Books { received, copied, made, taken_over, sent, dropped, consumed, handed_over, held, .. } = books;
    let came = sum([
        (received, "received"),
        (made, "made here"),
        (copied, "copied for floods"),
        (taken_over, "taken over"),
    ]);
    let went = sum([
        (sent, "sent"),
        (dropped, "dropped"),
        (consumed, "consumed"),
        (held, "held"),
        (handed_over, "handed over"),
    ]);
    format!("ledger: {state}; {came} = {went}")
}

fn sum<const N: usize>(parts: [(u64, &str); N]) -> String {
    let (first, name) = parts[0];
    let rest = parts[1..].iter().filter(|(count, _)| *count > 0);
    rest.fold(format!("{} {name}", grouped(first)), |sum, (count, name)| {
        format!("{sum} + {} {name}", grouped(*count))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::tables::render;
    use super::super::tables::tests::{line, status};
    use super::*;

    #[test] // proves: ledger
    fn both_sides_of_printed_frame_account_have_equal_sums() {
        let mut status = status();
        status.ledger = Some(Books {
            received: 1_000,
            copied: 20,
            made: 3,
            sent: 1_010,
            dropped: 5,
            consumed: 6,
            held: 2,
            balanced: true,
            ..Books::default()
        });
        let text = render(&status, None);
        let books = line(&text, &["ledger: balanced; "]).split_once("; ").unwrap().1;
        let side = |side: &str| -> u64 {
            let digits = |part: &str| part.chars().filter(char::is_ascii_digit).collect::<String>();
            side.split(" + ").map(|part| digits(part).parse::<u64>().unwrap()).sum()
        };
        let (came, went) = books.split_once(" = ").unwrap();
        assert_eq!((side(came), side(went)), (1_023, 1_023), "{books}");
        assert!(came.contains("3 made here") && !books.contains("handed over"), "{books}");
    }

    #[test]
    fn summary_prints_ongoing_faults_that_no_other_line_shows() {
        let events = include_str!("../../../../docs/log.md");
        for event in SHOWN_BY_OTHER_LINES {
            assert!(events.contains(&format!("`{event}`")), "docs/log.md must contain the event {event}");
        }
        let ongoing = |event: &str, text: &str| OngoingStatus {
            event: event.into(),
            text: text.into(),
            port: Some("left".into()),
            class: Some(3),
            group: None,
            worker: None,
            cause: None,
            count: 1,
            detail: Some("cause".into()),
            began_nanos_ago: 0,
        };
        let mut status = status();
        status.ongoing = vec![ongoing("too-long", "frames are too long"), ongoing("storm", "a storm")];
        let text = render(&status, None);
        line(&text, &["NOW: port left, class 3: frames are too long (cause)"]);
        assert!(!text.contains("a storm"), "{text}");
    }

    #[test]
    fn summary_prints_loops_and_duplicate_addresses() {
        let mut status = status();
        let (one, two) = ("02:00:00:00:00:01", "02:00:00:00:00:02");
        let port = &mut status.ports[1];
        (port.loop_with, port.loops, port.looped) = (Some("left".into()), 3, true);
        port.loop_addresses = vec![one.into(), two.into()];
        (port.duplicate_with, port.duplicates) = (Some("left".into()), 4);
        port.duplicate_addresses = vec![one.into()];
        let text = render(&status, None);
        line(
            &text,
            &[
                "LOOP NOW: ports ",
                " and left ",
                "(detected 3 times; moving: 02:00:00:00:00:01, 02:00:00:00:00:02)",
            ],
        );
        line(&text, &["DUPLICATE ADDRESS: 02:00:00:00:00:01 at ports ", " and left:", "(for 4 s)"]);
    }

    #[test] // proves: peer-faults
    fn status_warns_of_peer_that_exceeds_declared_behaviour() {
        let mut status = status();
        assert!(!render(&status, None).contains("PEER"));
        status.ports[0].peer.too_fast = true;
        status.ports[0].peer.overspeed_bytes = 7_000;
        status.ports[0].classes[3].response.excess_frames = 12;
        status.ports[1].peer.too_late = true;
        status.ports[1].peer.response_declared_nanos = Some(20_000_000);
        status.ports[1].classes[3].response.late_frames = 5;
        let text = render(&status, None);
        line(
            &text,
            &[
                "PEER: the peer of port left sends faster",
                "1.00 Gb/s",
                "7,000 bytes",
                "12 frames too many after XOFF",
            ],
        );
        line(&text, &["PEER: the peer of port right has sent while paused", "20.0 ms", "5 frames too late"]);
    }
}
