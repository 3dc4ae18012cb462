//! Metrics of an agent. A metric that an agent and a switch have in common has the same name at both.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use xoff_flow_control::drop_reason::DropReason;
use xoff_switch::control::exposition::{Exposition, Format, Kind};
use xoff_switch::control::metrics::{DIGITS, PAUSES, PREFIX, RECEIVED, SENT, write_neighbors};
use xoff_switch::control::process;
use xoff_switch::control::series::{Part, Table, series};

use super::status::{NicClassStatus, NicStatus};
use crate::NicView;

static AGENT: LazyLock<Table<NicStatus>> = LazyLock::new(|| {
    series! { "log_lines_dropped_total" Counter log_lines_dropped; }
});

static PORT: LazyLock<Table<NicStatus>> = LazyLock::new(|| {
    series! {
        "nic_peer_response_seconds" Gauge peer_response_nanos;
        "nic_changes_refused_total" Counter changes_refused;
        "nic_queue_repairs_total" Counter queue_repairs;
        "nic_queues_broken" Gauge queues_broken;
        "nic_offload_repairs_total" Counter offload_repairs;
        "nic_xdp_attached" Gauge xdp_attached;
        "nic_control_missed_total" Counter control_missed;
        "nic_guards_lost_total" Counter guards_lost;
        "nic_dcbx_followed" Gauge dcbx_followed;
        "nic_receive_backlog_bytes" Gauge receive_backlog_bytes;
        "port_speed_bytes_per_second" Gauge speed_bits_per_second;
        "sent_pause_frames_total" Counter pause_frames_sent;
        "received_pfc_frames_total" Counter pfc_frames_received;
        "received_pause_frames_total" Counter pause_frames_received;
        "ignored_pause_frames_total" Counter pause_frames_ignored;
        "received_rate_frames_total" Counter rate_frames_received;
        "cnms_received_total" Counter cnms_received;
    }
});

static CLASSES: LazyLock<Table<NicClassStatus>> = LazyLock::new(|| {
    series! {
        "class_lossless" Gauge lossless;
        "sent_frames_total" Counter tx_frames;
        "sent_bytes_total" Counter tx_bytes;
        "egress_occupancy_bytes" Gauge waiting_bytes;
        "egress_occupancy_max_bytes" Gauge waiting_max_bytes;
        "pfc_xoff_sent_total" Counter pause_sent.xoff = "XOFFs sent, without refreshes.";
        "pfc_xon_sent_total" Counter pause_sent.xon = "XONs sent.";
        "pfc_refreshes_sent_total" Counter refreshes_sent;
        "pfc_xoff_received_total" Counter pause_received.xoff = "XOFFs received and obeyed, refreshes included.";
        "pfc_xon_received_total" Counter pause_received.xon = "XONs received and obeyed.";
        "rate_obeyed_bytes_per_second" Gauge rate_obeyed_bits_per_second;
        "nic_disobeyed_seconds_total" Counter disobeyed_nanos;
        "nic_queues_deleted_total" Counter queues_deleted;
    }
});

pub(super) fn render(view: &NicView, format: Format) -> String {
    let status = NicStatus::of(view);
    let device = status.device.as_str();
    let mut text = Exposition::new(format, &[("switch", device)]);
    write_agent(&mut text, view, &status);
    PORT.write(&mut text, PREFIX, &[(vec![("port", device)], &status)]);
    write_neighbors(&mut text, &[(device, &status.lldp)]);
    write_malformed(
        &mut text,
        device,
        "xoff_mac_control_malformed_total",
        "malformed_control",
        &status.malformed_control,
    );
    write_malformed(&mut text, device, "xoff_cnms_malformed_total", "malformed_cnms", &status.malformed_cnms);
    let labels = |class: u8| vec![("port", device), ("class", DIGITS[usize::from(class)])];
    let classes = status.classes.iter().map(|class| (labels(class.class), class));
    CLASSES.write(&mut text, PREFIX, &classes.clone().collect::<Vec<_>>());
    let pauses = classes.clone().flat_map(|(labels, class)| {
        [(SENT, &class.pause_sent), (RECEIVED, &class.pause_received)]
            .map(|(direction, pauses)| (labels.iter().copied().chain([direction]).collect(), pauses))
    });
    PAUSES.write(&mut text, PREFIX, &pauses.collect::<Vec<Part<'_, _>>>());
    let full = DropReason::EgressFull;
    let mut family = text.family("xoff_drops_total", Kind::Counter, &CLASSES.help("lost"));
    for (labels, class) in classes {
        let reason = [("reason", full.name()), ("kind", full.kind().name())];
        family.sample(&labels.into_iter().chain(reason).collect::<Vec<_>>(), class.lost);
    }
    text.finish()
}

fn write_agent(text: &mut Exposition, view: &NicView, status: &NicStatus) {
    text.family("xoff_build_info", Kind::Gauge, "Version of the program as label; value 1.")
        .sample(&[("version", &status.version)], 1);
    process::write(text);
    AGENT.write(text, PREFIX, &[(Vec::new(), status)]);
    let labels = [
        ("port", &status.device[..]),
        ("device", &status.device),
        ("mac", &status.mac),
        ("leaf", &status.leaf),
        ("real_time", if status.real_time { "yes" } else { "no" }),
    ];
    text.family("xoff_nic_info", Kind::Gauge, "Device and queues of a host as labels; value 1.")
        .sample(&labels, 1);
    text.family("xoff_pfc_obey_reaction_seconds", Kind::Histogram, &PORT.help("obey_reaction"))
        .histogram(&[("port", &status.device)], view.response.times());
}

fn write_malformed(
    text: &mut Exposition,
    device: &str,
    metric: &str,
    field: &str,
    counts: &BTreeMap<String, u64>,
) {
    let mut family = text.family(metric, Kind::Counter, &PORT.help(field));
    for (reason, &count) in counts {
        family.sample(&[("port", device), ("reason", reason)], count);
    }
}

#[cfg(test)]
mod tests {
    use crate::config::NicWishes;
    use xoff_switch::control::testing::reference::{compare, metric_table};
    use xoff_wire::units::{BitRate, Bytes};

    use super::*;
    use crate::response::Response;

    const SECTION: &str = "\
## Metrics of an agent

The agent `xoff nic` serves these metrics at `/metrics`. Every sample has the label `switch`, the name of the device. Metrics that
a switch also has mean the same.

";

    #[test] // proves: monitoring, host-service
    fn reference_page_lists_every_metric_of_agents() {
        let speed = BitRate::from_mbps(200);
        let wishes = NicWishes {
            device: Some("eth0".into()),
            speed: Some(speed),
            pause_above: Some(Some(Bytes(100_000))),
            ..NicWishes::default()
        };
        let settings = wishes.settings().expect("settings with device and speed must be accepted");
        let view = NicView::new(settings, 1, "plug", Response::new(speed, Bytes::ZERO));
        compare(&format!("{SECTION}{}", metric_table(&render(&view, Format::Prometheus))));
    }
}
