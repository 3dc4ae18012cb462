use xoff_config::written::grouped;

use crate::cli::{self, URL_VARIABLE};
use crate::commands::status::layout::table;
use crate::commands::status::{StatusError, fetch};
use xoff_config::format::{bytes, scaled, span};
use xoff_nic::DEFAULT_HTTP;
use xoff_nic::serve::{NicClassStatus, NicStatus};
use xoff_switch::client::{self, Silent};
use xoff_switch::control::status::LldpStatus;

/// Show a running agent.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Address of the agent: a URL or unix:PATH.
    #[arg(long, value_name = "URL", env = URL_VARIABLE, default_value_t = format!("http://{DEFAULT_HTTP}"), value_parser = client::url)]
    url: String,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(Args { url, json }: &Args) -> miette::Result<()> {
    let body = fetch(url).map_err(|error| miette::miette!("{}", describe(&error)))?;
    if *json {
        return cli::print(body + "\n");
    }
    let status: NicStatus = serde_json::from_str(&body).map_err(|error| {
        miette::miette!("the reply of {url} is not the status of an agent of this version of xoff: {error}")
    })?;
    cli::print(render(&status))
}

fn describe(error: &StatusError) -> String {
    match error {
        StatusError::Silent(Silent { url, error }) => {
            let start = "start an agent with `xoff nic --device INTERFACE --speed RATE`, or give its address with --url";
            client::silence(url, error, "agent", start)
        }
        other => other.to_string(),
    }
}

fn render(status: &NicStatus) -> String {
    let NicStatus { device, leaf, obey_reaction: reaction, .. } = status;
    let time = |nanos: Option<u64>| nanos.map_or_else(|| "-".to_owned(), span);
    let mut text = format!(
        "{device} ({}) at {}, up {}; classes by {}, stopped by {leaf}{}\n",
        status.mac,
        scaled(status.speed_bits_per_second as f64, "b/s"),
        span(status.uptime_nanos),
        status.trust,
        if status.real_time { "" } else { ", WITHOUT real-time priority" },
    );
    text += &format!(
        "response to {} pauses: p50 {}, p99 {}, longest {}; the switch's port needs peer_response = \"{}\"{}\n",
        grouped(reaction.count),
        time(reaction.p50_nanos),
        time(reaction.p99_nanos),
        span(status.obey_reaction_max_nanos),
        xoff_config::quantity::time(xoff_wire::units::Nanos(status.peer_response_nanos)),
        if status.peer_response_measured { "" } else { " (not measured yet)" },
    );
    text += &format!(
        "received frames: {} PFC, {} with rates, {} PAUSE ({} not obeyed), {} CNMs\n",
        status.pfc_frames_received,
        status.rate_frames_received,
        status.pause_frames_received,
        status.pause_frames_ignored,
        status.cnms_received
    );
    text += &dcbx(status);
    for (reason, frames) in
        status.malformed_control.iter().chain(&status.malformed_cnms).filter(|(_, frames)| **frames > 0)
    {
        text += &format!("malformed, {reason}: {frames}\n");
    }
    if let Some(backlog) = status.receive_backlog_bytes {
        text += &format!(
            "{} unread in the fullest UDP socket; {} PFC frames sent\n",
            bytes(backlog),
            status.pause_frames_sent
        );
    }
    if status.offload_repairs > 0 {
        text += &format!(
            "offloads set again after another program changed them: {} times\n",
            grouped(status.offload_repairs)
        );
    }
    for fault in &status.faults {
        text += &format!("FAULT: {fault}\n");
    }
    let used = |class: &&NicClassStatus| class.lossless || class.tx_frames > 0 || class.waiting_frames > 0;
    text + "\n"
        + &table(
            &["class", "", "sent", "waits", "paused", "in all", "longest", "rate", "dropped"],
            status.classes.iter().filter(used).map(row),
        )
        + "\n"
}

fn dcbx(status: &NicStatus) -> String {
    let LldpStatus { enabled, dcbx, neighbors, mismatches, not_compared, .. } = &status.lldp;
    if !enabled {
        return String::new();
    }
    let state = match not_compared {
        Some(reason) => format!("{reason}; own classes"),
        None if status.dcbx_followed => "lossless classes and DSCP map are those of the switch".into(),
        None if mismatches.iter().any(|it| it.can_lose) => {
            "own classes, which differ from the switch's".into()
        }
        None => "own classes, the same as the switch's".into(),
    };
    let mut text = format!("DCBX ({dcbx}): {state}\n");
    for neighbor in neighbors {
        let name = if neighbor.system_name.is_empty() { &neighbor.chassis } else { &neighbor.system_name };
        text += &format!("neighbor {name}, port {}: DCBX {}\n", neighbor.port, neighbor.dcbx.join(", "));
    }
    for mismatch in mismatches {
        let severity = if mismatch.can_lose { "can lose frames" } else { "loses nothing" };
        text += &format!("difference ({}, {severity}): {}\n", mismatch.kind, mismatch.detail);
    }
    text
}

fn row(class: &NicClassStatus) -> Vec<String> {
    let pause = &class.pause_received;
    vec![
        class.class.to_string(),
        if class.lossless { "lossless" } else { "" }.into(),
        grouped(class.tx_frames),
        format!("{} ({})", grouped(class.waiting_frames), bytes(class.waiting_bytes)),
        if pause.now { "NOW".into() } else { format!("{} x", grouped(pause.xoff)) },
        span(pause.nanos),
        span(class.longest_pause_nanos),
        class.rate_obeyed_bits_per_second.map_or_else(|| "line".into(), |rate| scaled(rate as f64, "b/s")),
        grouped(class.lost),
    ]
}
