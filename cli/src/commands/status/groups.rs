use serde_json::Value;
use xoff_config::written::grouped;

use super::layout::table;
use xoff_config::format::bytes;
use xoff_switch::control::status::{GroupStatus, MemberStatus, Status};

fn picked(status: &Status) -> impl Iterator<Item = &GroupStatus> {
    let is_there = |member: &MemberStatus| status.ports.iter().any(|port| port.name == member.port);
    status.groups.iter().filter(move |group| group.members.iter().any(is_there))
}

pub(super) fn json(status: &Status) -> Value {
    serde_json::json!(picked(status).collect::<Vec<_>>())
}

pub(super) fn group_table(status: &Status) -> String {
    let rows = picked(status).flat_map(|group| {
        let of_all: u64 = group.members.iter().map(|member| member.tx_frames).sum();
        group.members.iter().map(move |member| {
            let share = member.tx_frames as f64 * 100.0 / of_all.max(1) as f64;
            vec![
                group.name.clone(),
                spread(group),
                member.port.clone(),
                super::tables::link(member.link).to_owned(),
                member.lacp.as_ref().map_or_else(|| "-".into(), |lacp| lacp.state.clone()),
                member.weight.to_string(),
                format!("{} ({share:.0} %)", grouped(member.tx_frames)),
                bytes(member.egress_bytes),
            ]
        })
    });
    table(&["group", "spread", "port", "link", "lacp", "weight", "sent", "waiting"], rows)
}

fn spread(group: &GroupStatus) -> String {
    let limits = group.low_bytes.zip(group.high_bytes);
    let limits = limits.map_or(String::new(), |(low, high)| format!(" ({}, {})", bytes(low), bytes(high)));
    let uplinks = if group.uplinks { ", uplinks" } else { "" };
    let lacp = group.lacp.as_ref().map_or_else(String::new, |mode| format!(", LACP {mode}"));
    format!("{}{limits}{uplinks}{lacp}", group.spread)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::tables::tests::{line, status};
    use super::*;
    use xoff_switch::control::Link;
    use xoff_switch::control::status::LacpStatus;

    #[test]
    fn group_table_shows_frames_sent_by_each_member() {
        let mut status = status();
        assert_eq!(group_table(&status), "");
        let member = |port: &str, link, tx_frames| MemberStatus {
            port: port.into(),
            weight: 2,
            link,
            tx_frames,
            tx_bytes: 0,
            egress_bytes: 1_500,
            lacp: (link == Link::Up).then(|| LacpStatus { state: "attached".into(), ..Default::default() }),
        };
        status.groups = vec![GroupStatus {
            name: "up".into(),
            spread: "adaptive".into(),
            low_bytes: Some(16_000),
            high_bytes: Some(32_000),
            uplinks: true,
            lacp: Some("active".into()),
            idle: true,
            members: vec![member("left", Link::Up, 3_000), member("right", Link::Down, 1_000)],
        }];
        let text = group_table(&status);
        line(
            &text,
            &[
                "up",
                "adaptive (16.0 kB, 32.0 kB), uplinks, LACP active",
                "left",
                "up",
                "attached",
                "2",
                "3,000 (75 %)",
                "1.50 kB",
            ],
        );
        line(&text, &["right", "DOWN", "-", "2", "1,000 (25 %)"]);
        assert_eq!(json(&status)[0]["members"][1]["tx_frames"], 1_000);
        status.ports.clear();
        assert_eq!(group_table(&status), "", "groups without selected ports must not be shown");
    }
}
