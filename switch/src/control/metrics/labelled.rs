use std::collections::BTreeMap;

use xoff_flow_control::drop_reason::DropReason;
use xoff_wire::units::PortId;

use super::super::exposition::{Exposition, Kind};
use super::super::judged::LACP_OUT;
use super::super::lldp::LldpStatus;
use super::super::routes::RouterStatus;
use super::super::series::Table;
use super::super::status::{
    ClassStatus, GroupStatus, LacpStatus, MulticastStatus, PortStatus, SocketMemory, Status, XdpMode,
};
use super::super::view::{Link, ProgramState, SwitchView};
use super::{DIGITS, classes, of_class, with};
use crate::lacp::member::Standing;
use crate::lldp::mismatch::MismatchKind;

pub(super) fn write_ports(text: &mut Exposition, table: &Table<PortStatus>, status: &Status) {
    let mut family =
        text.family("xoff_port_info", Kind::Gauge, "Device and configuration of a port as labels; value 1.");
    for port in &status.ports {
        let labels = [
            ("port", &port.name[..]),
            ("device", &port.device),
            ("mac", &port.mac),
            ("xdp", if port.xdp == XdpMode::Native { "native" } else { "generic" }),
            ("memory", if port.memory == SocketMemory::ZeroCopy { "zero-copy" } else { "copy" }),
            ("worker", &port.worker.to_string()),
        ];
        family.sample(&labels, 1);
    }
    let states: [State; 3] = [
        ("xoff_port_up", "1 while the port's link is up.", |port| port.link == Link::Up),
        (
            "xoff_port_gone",
            "1 while the port is closed because its device was deleted or left the network namespace.",
            |port| port.link == Link::Gone,
        ),
        ("xoff_xdp_program_attached", "1 while the port's XDP program is on its device.", |port| {
            port.program == ProgramState::Attached && port.link != Link::Gone
        }),
    ];
    for (metric, help, holds) in states {
        let mut family = text.family(metric, Kind::Gauge, help);
        for port in &status.ports {
            family.sample(&[("port", &port.name)], u8::from(holds(port)));
        }
    }
    let by_reason: [ByReason; 4] = [
        ("xoff_mac_control_malformed_total", "malformed_control", |port| &port.malformed_control),
        ("xoff_cnms_malformed_total", "malformed_cnms", |port| &port.malformed_cnms),
        ("xoff_lldp_malformed_total", "lldp.malformed", |port| &port.lldp.malformed),
        ("xoff_lldp_discarded_total", "lldp.discarded", |port| &port.lldp.discarded),
    ];
    for (metric, field, counts) in by_reason {
        let mut family = text.family(metric, Kind::Counter, &table.help(field));
        for port in &status.ports {
            for (reason, &count) in counts(port) {
                family.sample(&[("port", &port.name), ("reason", reason)], count);
            }
        }
    }
    write_losses(text, table, status);
    write_punts(text, table, status);
    let lldp: Vec<_> = status.ports.iter().map(|port| (&port.name[..], &port.lldp)).collect();
    write_neighbors(text, &lldp);
    write_lacp(text, status);
}

pub(super) fn write_multicast(
    text: &mut Exposition,
    table: &Table<MulticastStatus>,
    multicast: &MulticastStatus,
) {
    let help = table.help("malformed");
    let mut family = text.family("xoff_multicast_malformed_total", Kind::Counter, &help);
    for (reason, count) in &multicast.malformed {
        family.sample(&[("reason", reason)], count);
    }
}

type State = (&'static str, &'static str, fn(&PortStatus) -> bool);
type ByReason = (&'static str, &'static str, fn(&PortStatus) -> &BTreeMap<String, u64>);

fn write_losses(text: &mut Exposition, table: &Table<PortStatus>, status: &Status) {
    let help = "Frames that the port's XDP sockets dropped, according to their statistics; the switch never saw them.";
    let mut family = text.family("xoff_xdp_drops_total", Kind::Counter, help);
    for port in &status.ports {
        for (reason, frames) in port.xdp_statistics.iter().flat_map(|statistics| statistics.drops()) {
            family.sample(&[("port", &port.name), ("reason", reason)], frames);
        }
    }
    let help = "Frames that the port's device dropped, according to the device's statistics.";
    let mut family = text.family("xoff_device_drops_total", Kind::Counter, help);
    for port in &status.ports {
        for (reason, frames) in port.device_drops.iter().flat_map(|drops| drops.losses()) {
            family.sample(&[("port", &port.name), ("reason", reason)], frames);
        }
    }
    let mut family = text.family("xoff_unseen_lost_frames_total", Kind::Counter, &table.help("unseen"));
    for port in &status.ports {
        let unseen = &port.unseen;
        for (classes, frames) in
            [("lossless", unseen.lossless), ("unknown", unseen.unknown), ("lossy", unseen.lossy)]
        {
            family.sample(&[("port", &port.name), ("classes", classes)], frames);
        }
    }
}

fn write_punts(text: &mut Exposition, table: &Table<PortStatus>, status: &Status) {
    let mut family = text.family("xoff_punt_frames_total", Kind::Counter, &table.help("punts"));
    for port in &status.ports {
        for (reason, punts) in &port.punts {
            let outcomes =
                [("punted", punts.punted), ("over_rate", punts.over_rate), ("no_room", punts.no_room)];
            for (outcome, frames) in outcomes {
                family.sample(&[("port", &port.name), ("reason", reason), ("outcome", outcome)], frames);
            }
        }
    }
}

fn write_lacp(text: &mut Exposition, status: &Status) {
    let members = || {
        let member = |group: &GroupStatus| group.members.clone();
        let is_written = |name: &str| status.ports.iter().any(|port| port.name == name);
        let members = status.groups.iter().flat_map(member).filter(move |member| is_written(&member.port));
        members.filter_map(|member| Some((member.port, member.lacp?)))
    };
    if members().next().is_none() {
        return;
    }
    let help = "1 while LACP permits the port, a member of a group, to send data.";
    let mut family = text.family("xoff_lacp_distributing", Kind::Gauge, help);
    for (port, lacp) in members() {
        family.sample(&[("port", &port)], u8::from(lacp.state == Standing::Distributing.name()));
    }
    let help =
        "1 while for 10 s or more LACP has let no port of the group send data, although one has a link.";
    let mut family = text.family("xoff_lacp_group_idle", Kind::Gauge, help);
    for group in status.groups.iter().filter(|group| group.lacp.is_some()) {
        family.sample(&[("group", &group.name)], u8::from(group.idle));
    }
    let help = "1 while for 10 s or more LACP has let the port, a member of a group, send no data, although the port has a link and \
                another port of the group sends.";
    let mut family = text.family("xoff_lacp_member_out", Kind::Gauge, help);
    for (port, _) in members() {
        let is_out = status.ongoing.iter().any(|it| it.event == LACP_OUT && it.port.as_ref() == Some(&port));
        family.sample(&[("port", &port)], u8::from(is_out));
    }
    let counters: [LacpCounter; 3] = [
        ("xoff_lacp_received_frames_total", "Well-formed LACP frames received.", |lacp| lacp.frames_received),
        ("xoff_lacp_sent_frames_total", "LACP frames passed to the port for transmission.", |lacp| {
            lacp.frames_sent
        }),
        ("xoff_lacp_changes_total", "Changes of a member's LACP state in its group.", |lacp| lacp.changes),
    ];
    for (metric, help, count) in counters {
        let mut family = text.family(metric, Kind::Counter, help);
        members().for_each(|(port, lacp)| family.sample(&[("port", &port)], count(&lacp)));
    }
    let mut family =
        text.family("xoff_lacp_malformed_total", Kind::Counter, "Malformed LACP frames, by reason.");
    for (port, lacp) in members() {
        for (reason, count) in lacp.malformed {
            family.sample(&[("port", &port), ("reason", &reason)], count);
        }
    }
}

type LacpCounter = (&'static str, &'static str, fn(&LacpStatus) -> u64);

pub fn write_neighbors(text: &mut Exposition, ports: &[(&str, &LldpStatus)]) {
    let mut family = text.family("xoff_lldp_neighbors", Kind::Gauge, "LLDP neighbors at the port.");
    for (port, lldp) in ports {
        family.sample(&[("port", port)], lldp.neighbors.len());
    }
    let help = "Time since the last LLDP frame of the longest silent neighbor at the port.";
    let mut family = text.family("xoff_lldp_neighbor_silence_seconds", Kind::Gauge, help);
    for (port, lldp) in ports {
        let longest = lldp.neighbors.iter().map(|neighbor| neighbor.silent_nanos).max().unwrap_or(0);
        family.sample(&[("port", port)], super::seconds(longest));
    }
    let help = "1 while exactly one LLDP neighbor announces DCBX and is compared with the port.";
    let mut family = text.family("xoff_lldp_dcbx_compared", Kind::Gauge, help);
    for (port, lldp) in ports {
        family.sample(&[("port", port)], u8::from(lldp.not_compared.is_none()));
    }
    let help = "1 while the port and its LLDP neighbor differ in this kind. Frames can be lost by pfc, dscp and application, \
                not by ets and lossy.";
    let mut family = text.family("xoff_lldp_dcbx_mismatch", Kind::Gauge, help);
    for (port, lldp) in ports {
        for kind in MismatchKind::ALL.map(MismatchKind::name) {
            let differs = lldp.mismatches.iter().any(|mismatch| mismatch.kind == kind);
            family.sample(&[("port", port), ("kind", kind)], u8::from(differs));
        }
    }
}

pub(super) fn write_classes(
    text: &mut Exposition,
    view: &SwitchView,
    table: &Table<ClassStatus>,
    status: &Status,
    only: Option<PortId>,
) {
    let mut family =
        text.family("xoff_class_policy", Kind::Gauge, "Flow-control policy of a class as label; value 1.");
    for (class, policy) in DIGITS.iter().zip(&status.policies) {
        family.sample(&[("class", class), ("policy", policy)], 1);
    }
    let pipeline = &status.pipeline;
    let labels = [("ingress", &pipeline.ingress[..]), ("when_full", &pipeline.when_full)];
    let help =
        "Order of a port's frames in the pipeline, and effect of a full egress queue, as labels; value 1.";
    text.family("xoff_pipeline_info", Kind::Gauge, help).sample(&labels, 1);
    text.family("xoff_pipeline_delay_seconds", Kind::Gauge, "Delay of the pipeline.")
        .sample(&[], super::seconds(pipeline.delay_nanos));
    if let Some(rate) = pipeline.rate_frames_per_second {
        let help = "Maximum rate of the pipeline in frames a second; absent if there is none.";
        text.family("xoff_pipeline_frames_per_second", Kind::Gauge, help).sample(&[], rate);
    }
    let help = "Frames that the switch consumed or dropped, by reason. kind: consumed (the switch was the destination), \
                filtered (not to be forwarded, by bridging or configuration), lost (no memory, timeout, no link). A \
                reason appears with its first frame.";
    let mut family = text.family("xoff_drops_total", Kind::Counter, help);
    for (labels, class) in classes(status) {
        for reason in DropReason::ALL {
            let count = class.drops[reason.name()];
            // Write drops by the storm limit even at zero: an alert sees no growth from an absent sample to the first drop.
            if count > 0 || reason == DropReason::StormLimit {
                let labels = with(&labels, ("reason", reason.name()));
                family.sample(&with(&labels, ("kind", reason.kind().name())), count);
            }
        }
    }
    let mut family = text.family("xoff_pfc_xoff_causes_total", Kind::Counter, &table.help("causes"));
    for (labels, class) in classes(status).filter(|(_, class)| class.lossless) {
        for (trigger, counts) in &class.causes {
            let labels = with(&labels, ("trigger", trigger));
            family.sample(&with(&labels, ("relayed", "false")), counts.own);
            family.sample(&with(&labels, ("relayed", "true")), counts.relayed);
        }
    }
    write_culprits(text, view, only);
}

fn write_culprits(text: &mut Exposition, view: &SwitchView, only: Option<PortId>) {
    let help = "Bytes in the egress queue `culprit` that arrived through this port, whose peer is paused.";
    let mut family = text.family("xoff_pfc_culprit_bytes", Kind::Gauge, help);
    let settings = view.settings();
    for (port, class, counters) in view.classes() {
        let lossless = settings.ports[port.index()].classes[class.index()].lossless;
        if !lossless || counters.held_since.get() == 0 || only.is_some_and(|only| only != port) {
            continue;
        }
        for (egress, _) in view.ports() {
            let bytes = view.counters.between(port, egress, class).get();
            if bytes > 0 {
                let [port, class] = of_class(view, port, class);
                family.sample(&[port, class, ("culprit", view.name_of(egress))], bytes);
            }
        }
    }
}

pub(super) fn write_routes(text: &mut Exposition, router: &RouterStatus) {
    let help = "IP prefixes in the workers' routing table, host routes to neighbours included.";
    let mut family = text.family("xoff_router_routes", Kind::Gauge, help);
    for (name, count) in [("ipv4", router.routes_v4), ("ipv6", router.routes_v6)] {
        family.sample(&[("family", name)], count);
    }
}
