//! `/status` of an agent. A field has the name of a switch's field if both mean the same. Fields are never removed.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use crate::dcbx;
use crate::{NicSettings, NicView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xoff_flow_control::settings::Trust;
use xoff_wire::units::{Class, MacAddr, Nanos, PortId};
use xoff_wire::{CnmError, MacControlError};

use xoff_switch::control::logging;
use xoff_switch::control::snapshot::{by_name, spread};
use xoff_switch::control::status::{LldpStatus, PauseStatus, Spread, lldp_status};

/// State of a host's agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NicStatus {
    /// Name of the interface.
    pub device: String,
    /// Version of the program.
    pub version: String,
    /// Time since the start.
    pub uptime_nanos: u64,
    /// Index of the interface.
    pub ifindex: u32,
    /// MAC address of the interface.
    pub mac: String,
    /// Line rate of the port, layer 1.
    pub speed_bits_per_second: u64,
    /// Source of a frame's class: `dscp` or `pcp`.
    pub trust: String,
    /// Queueing discipline that stops a class: `plug` or `tbf`.
    pub leaf: String,
    /// True if the agent has real-time priority.
    pub real_time: bool,
    /// LLDP state of the device; disabled unless `dcbx` is `compare` or `willing`.
    #[serde(default)]
    pub lldp: LldpStatus,
    /// True while the agent uses the switch's lossless classes and DSCP map.
    #[serde(default)]
    pub dcbx_followed: bool,
    /// Class of each DSCP, 0 to 63.
    #[serde(default)]
    pub dscp_classes: Vec<u8>,
    /// Faults that keep the agent from obeying pauses, as text.
    pub faults: Vec<String>,
    /// Changes of queues that the kernel refused.
    pub changes_refused: u64,
    /// Repairs of queues that another program had changed.
    #[serde(default)]
    pub queue_repairs: u64,
    /// True if changed queues could not be repaired.
    #[serde(default)]
    pub queues_broken: bool,
    /// Number of times that the agent turned off offloads that another program turned on.
    #[serde(default)]
    pub offload_repairs: u64,
    /// True while an XDP program is attached to the interface, which may consume MAC control.
    #[serde(default)]
    pub xdp_attached: bool,
    /// MAC control frames and CNMs lost because the agent read them too slowly.
    #[serde(default)]
    pub control_missed: u64,
    /// Unexpected ends of the process that guards the queues.
    pub guards_lost: u64,
    /// Time from the arrival of a pause frame until its class is stopped.
    pub obey_reaction: Spread,
    /// Longest time from the arrival of a pause frame until its class was stopped.
    pub obey_reaction_max_nanos: u64,
    /// `peer_response` that the switch's port needs: measured, or expected before the first measurement.
    pub peer_response_nanos: u64,
    /// True if `peer_response_nanos` was measured.
    pub peer_response_measured: bool,
    /// PFC frames sent, because of `pause_above`.
    pub pause_frames_sent: u64,
    /// Well-formed PFC frames received.
    pub pfc_frames_received: u64,
    /// Well-formed 802.3x PAUSE frames received.
    pub pause_frames_received: u64,
    /// Well-formed pause frames received that pause no lossless class.
    pub pause_frames_ignored: u64,
    /// PFC frames with rates (GFC) received and obeyed.
    pub rate_frames_received: u64,
    /// Malformed MAC control frames received, which paused nothing, by defect.
    pub malformed_control: BTreeMap<String, u64>,
    /// Sender of the last obeyed pause frame; `None` before the first.
    pub pause_peer: Option<String>,
    /// Well-formed CNMs received.
    pub cnms_received: u64,
    /// Malformed CNMs received, by defect.
    pub malformed_cnms: BTreeMap<String, u64>,
    /// Bytes queued in the fullest UDP socket of the host; `None` without `pause_above`.
    pub receive_backlog_bytes: Option<u64>,
    /// Log lines dropped because writing failed or was too slow.
    pub log_lines_dropped: u64,
    /// Classes 0 to 7.
    pub classes: Vec<NicClassStatus>,
}

/// State of one class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NicClassStatus {
    /// Number of the class, 0 to 7.
    pub class: u8,
    /// True if the class is lossless: it obeys pauses.
    pub lossless: bool,
    /// Frames sent.
    pub tx_frames: u64,
    /// Bytes of frames sent, FCS included.
    pub tx_bytes: u64,
    /// Frames queued.
    pub waiting_frames: u64,
    /// Bytes queued.
    pub waiting_bytes: u64,
    /// Maximum bytes queued since the start.
    #[serde(default)]
    pub waiting_max_bytes: u64,
    /// Frames dropped because the host's own queue was full.
    pub lost: u64,
    /// Pauses received from the switch.
    pub pause_received: PauseStatus,
    /// Longest single pause.
    pub longest_pause_nanos: u64,
    /// Time in which a paused class may have sent, because another program had changed the queues.
    #[serde(default)]
    pub disobeyed_nanos: u64,
    /// Number of times that another program deleted the class's queue, with its frames.
    #[serde(default)]
    pub queues_deleted: u64,
    /// Pauses sent to the switch (`pause_above`).
    pub pause_sent: PauseStatus,
    /// XOFF refreshes sent.
    #[serde(default)]
    pub refreshes_sent: u64,
    /// CNMs received for the class.
    pub cnms_received: u64,
    /// Rate limit of the class (GFC, QCN). Without a limit: `None`, in metrics zero.
    pub rate_obeyed_bits_per_second: Option<u64>,
}

impl NicStatus {
    pub(super) fn of(view: &NicView) -> NicStatus {
        let (port, now) = (view.counters.port(PortId(0)), crate::guard::now());
        let in_force = view.in_force.get();
        NicStatus {
            device: view.device.get().as_ref().clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_nanos: now.since(view.started_at).0,
            ifindex: view.ifindex,
            mac: view.address().to_string(),
            speed_bits_per_second: view.settings.speed.bits_per_second(),
            trust: if view.settings.trust == Trust::Pcp { "pcp" } else { "dscp" }.into(),
            leaf: view.leaf.into(),
            real_time: view.real_time.load(Relaxed),
            lldp: lldp(view, &in_force, now),
            dcbx_followed: dcbx::is_followed(view),
            dscp_classes: in_force.dscp_to_class.map(Class::get).into(),
            faults: view.faults(),
            changes_refused: view.refused.get(),
            queue_repairs: view.repairs.get(),
            queues_broken: !view.defects().is_empty(),
            offload_repairs: view.offload_repairs.get(),
            xdp_attached: view.xdp_program.get() != 0,
            control_missed: view.missed.get(),
            guards_lost: view.guards_lost.get(),
            obey_reaction: Spread {
                p50_nanos: view.response.quantile(0.5).map(|time| time.0),
                p99_nanos: view.response.quantile(0.99).map(|time| time.0),
                ..spread(view.response.times())
            },
            obey_reaction_max_nanos: view.response.longest().0,
            peer_response_nanos: view.peer_response().0,
            peer_response_measured: view.response.recommended().is_some(),
            pause_frames_sent: port.pause_frames_sent.get(),
            pfc_frames_received: port.pfc_frames_received.get(),
            pause_frames_received: port.pause_frames_received.get(),
            pause_frames_ignored: port.pause_frames_ignored.get(),
            rate_frames_received: port.rate_frames_received.get(),
            malformed_control: by_name(
                MacControlError::ALL.map(MacControlError::name),
                &port.malformed_control,
            ),
            pause_peer: Some(port.pause_peer.get())
                .filter(|&peer| peer != 0)
                .map(|peer| MacAddr::from_number(peer).to_string()),
            cnms_received: port.cnms_received.get(),
            malformed_cnms: by_name(CnmError::ALL.map(CnmError::name), &port.malformed_cnms),
            receive_backlog_bytes: view.settings.pause_above.map(|_| view.receive_backlog.get()),
            log_lines_dropped: logging::lines_dropped(),
            classes: Class::ALL.into_iter().map(|class| of_class(view, class, now)).collect(),
        }
    }
}

fn lldp(view: &NicView, in_force: &NicSettings, now: Nanos) -> LldpStatus {
    let port = dcbx::port(in_force, view.address(), 0);
    lldp_status(&port, &view.neighbors.lock()[dcbx::PORT.index()], now)
}

fn of_class(view: &NicView, class: Class, now: Nanos) -> NicClassStatus {
    let (counters, index) = (view.counters.class(PortId(0), class), class.index());
    let running = |since: u64| if since == 0 { 0 } else { now.since(Nanos(since)).0 };
    let [received, sent] = [counters.paused_since.get(), counters.held_since.get()];
    NicClassStatus {
        class: class.get(),
        lossless: view.in_force.get().lossless.contains(class),
        tx_frames: counters.tx_frames.get(),
        tx_bytes: counters.tx_bytes.get(),
        waiting_frames: view.waiting_frames[index].get(),
        waiting_bytes: counters.egress_bytes.get(),
        waiting_max_bytes: counters.egress_watermark.get(),
        lost: view.dropped[index].get(),
        pause_received: PauseStatus {
            xoff: counters.xoff_received.get(),
            xon: counters.xon_received.get(),
            now: received != 0,
            nanos: counters.paused_nanos.get() + running(received),
            durations: spread(&counters.paused_durations),
        },
        longest_pause_nanos: view.longest_pause[index].get(),
        disobeyed_nanos: view.disobeyed[index].get(),
        queues_deleted: view.deleted[index].get(),
        pause_sent: PauseStatus {
            xoff: counters.xoff_sent.get(),
            xon: counters.xon_sent.get(),
            now: sent != 0,
            nanos: counters.held_nanos.get() + running(sent),
            durations: spread(&counters.held_durations),
        },
        refreshes_sent: counters.refreshes_sent.get(),
        cnms_received: view.cnms[index].get(),
        rate_obeyed_bits_per_second: Some(counters.rate_obeyed.get()).filter(|&rate| rate > 0),
    }
}
