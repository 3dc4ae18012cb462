use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xoff_config::Choice as _;
use xoff_flow_control::punt_reason::PuntReason;
use xoff_flow_control::settings::{Lldp, PortSettings};
use xoff_wire::dcbx::{Application, Ets, PfcState, selector};
use xoff_wire::lldp::LldpError;
use xoff_wire::units::{Class, Nanos, PortId};

use super::view::SwitchView;
use crate::lldp::mismatch::{algorithm_name, application_name};
use crate::lldp::table::Neighbor;
use crate::lldp::{LldpCounts, Port};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LldpStatus {
    /// True if the switch sends and receives LLDP at the port.
    pub enabled: bool,
    /// DCBX mode: `off`, `compare` or `willing`.
    pub dcbx: String,
    /// LLDP frames passed to the port for transmission.
    pub frames_sent: u64,
    /// LLDP frames delayed because the link was down or no frame memory was free.
    #[serde(default)]
    pub frames_not_sent: u64,
    /// LLDP frames received, malformed ones included.
    pub frames_received: u64,
    /// Malformed LLDP frames received, by reason.
    pub malformed: BTreeMap<String, u64>,
    /// TLVs ignored in well-formed LLDP frames, by reason.
    pub discarded: BTreeMap<String, u64>,
    /// LLDP frames ignored because the port already has the maximum number of neighbors.
    pub too_many: u64,
    /// Neighbors removed because their time to live ended.
    pub aged_out: u64,
    /// Number of times that a neighbor announced a shorter time to live than before.
    pub shortened: u64,
    /// LLDP neighbors of the port, the oldest first.
    pub neighbors: Vec<NeighborStatus>,
    /// Differences between the settings of the port and of its only neighbor that announces DCBX.
    pub mismatches: Vec<MismatchStatus>,
    /// Reason why the port's settings are not compared with a neighbor's; `None` if they are.
    #[serde(default)]
    pub not_compared: Option<String>,
}

/// LLDP neighbor. Control characters in its strings are escaped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NeighborStatus {
    /// Chassis ID of the neighbor: an address or a name.
    pub chassis: String,
    /// Port ID of the neighbor.
    pub port: String,
    /// Source address of the neighbor's frames.
    pub mac: String,
    /// System name of the neighbor.
    pub system_name: String,
    /// System description of the neighbor.
    pub system_description: String,
    /// Description of the neighbor's port.
    pub port_description: String,
    /// Enabled capabilities of the neighbor: `bridge`, `router`, `station` and so on.
    pub capabilities: Vec<String>,
    /// Management addresses of the neighbor.
    pub management: Vec<String>,
    /// Nanoseconds since the neighbor's first frame.
    pub age_nanos: u64,
    /// Nanoseconds since the neighbor's last frame.
    pub silent_nanos: u64,
    /// Time to live in the neighbor's last announcement, in seconds.
    pub ttl_seconds: u16,
    /// Maximum frame size that the neighbor announced, in bytes with FCS; `None` if not announced.
    pub max_frame_bytes: Option<u16>,
    /// PFC configuration that the neighbor announced; `None` if not announced.
    pub pfc: Option<PfcStatus>,
    /// ETS configuration that the neighbor announced; `None` if not announced.
    pub ets: Option<EtsStatus>,
    /// Class that the neighbor announced for each DSCP.
    pub dscp_map: BTreeMap<u16, u8>,
    /// Class that the neighbor announced for each application, such as `UDP port 4791` (DSCPs: `dscp_map`).
    #[serde(default)]
    pub applications: BTreeMap<String, u8>,
    /// DCBX versions that the neighbor announced: `ieee`, `cee`, `cin`. The first supplies `pfc`, `ets`, `dscp_map`
    /// and `applications`; `cin` supplies none.
    #[serde(default)]
    pub dcbx: Vec<String>,
    /// True if the neighbor understands pauses of listed flows (OFC).
    pub flow_lists: bool,
    /// True if the neighbor understands rates in pause frames (GFC).
    pub rates: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PfcStatus {
    /// Classes with PFC.
    pub classes: Vec<u8>,
    /// True if the neighbor is willing to adopt this port's configuration.
    pub willing: bool,
    /// Maximum number of classes with PFC that the neighbor supports; zero means any number.
    pub capability: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EtsStatus {
    /// Share of the line in percent, by class; `None` for a class without a share.
    pub shares: Vec<Option<u8>>,
    /// Transmission selection by class: `strict`, `credit-based`, `ets` or `vendor specific`.
    #[serde(default)]
    pub algorithms: Vec<String>,
    /// True if the neighbor is willing to adopt this port's recommendation.
    pub willing: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MismatchStatus {
    /// Subject of the difference: `pfc`, `dscp`, `application`, `ets` or `lossy`.
    pub kind: String,
    /// True if the difference can cause loss of lossless frames.
    #[serde(default)]
    pub can_lose: bool,
    /// Description of the difference, with the values of both ends.
    pub detail: String,
}

/// Outcomes of slow-path (punted) frames of a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PuntStatus {
    /// Slow-path frames copied to the host path.
    pub punted: u64,
    /// Slow-path frames not copied because they exceeded the allowed rate.
    pub over_rate: u64,
    /// Slow-path frames not copied because the receiver's queue was full.
    pub no_room: u64,
}

pub(super) fn status(view: &SwitchView, id: PortId) -> LldpStatus {
    let (settings, ports) = (view.settings(), view.neighbors.lock());
    lldp_status(&settings.ports[id.index()], &ports[id.index()], (view.clock)())
}

#[must_use]
pub fn lldp_status(settings: &PortSettings, port: &Port, now: Nanos) -> LldpStatus {
    let LldpCounts {
        frames_in,
        frames_out,
        not_sent,
        malformed,
        discarded,
        too_many,
        aged_out,
        shortened,
        mismatches: _,
    } = &port.counts;
    let by_reason = |counts: &[u64; LldpError::COUNT]| {
        LldpError::ALL.map(|reason| (reason.name().to_owned(), counts[reason.index()])).into()
    };
    let mismatches = port.mismatches.iter();
    LldpStatus {
        enabled: settings.lldp == Lldp::Switch,
        dcbx: settings.dcbx.word().into(),
        frames_sent: *frames_out,
        frames_not_sent: *not_sent,
        frames_received: *frames_in,
        malformed: by_reason(malformed),
        discarded: by_reason(discarded),
        too_many: *too_many,
        aged_out: *aged_out,
        shortened: *shortened,
        neighbors: port.table.all().iter().map(|neighbor| of_neighbor(neighbor, now)).collect(),
        mismatches: mismatches
            .map(|it| MismatchStatus {
                kind: it.kind.name().into(),
                can_lose: it.kind.can_lose(),
                detail: it.detail.clone(),
            })
            .collect(),
        not_compared: port.not_compared(settings),
    }
}

fn of_neighbor(neighbor: &Neighbor, now: Nanos) -> NeighborStatus {
    let Neighbor { chassis, port, mac, since, last_received, ttl, announced, .. } = neighbor;
    let pfc = |pfc: PfcState| PfcStatus {
        classes: pfc.classes.iter().map(Class::get).collect(),
        willing: pfc.willing,
        capability: pfc.capability,
    };
    let ets = |ets: Ets| EtsStatus {
        shares: ets.shares().into(),
        algorithms: ets.algorithms().map(algorithm_name).into(),
        willing: ets.willing,
    };
    let (dscps, others): (Vec<&Application>, Vec<&Application>) =
        announced.applications.iter().partition(|it| it.selector == selector::DSCP);
    NeighborStatus {
        chassis: chassis.clone(),
        port: port.clone(),
        mac: mac.to_string(),
        system_name: announced.system_name.clone(),
        system_description: announced.system_description.clone(),
        port_description: announced.port_description.clone(),
        capabilities: announced.capabilities().into_iter().map(str::to_owned).collect(),
        management: announced.management.clone(),
        age_nanos: now.since(*since).0,
        silent_nanos: now.since(*last_received).0,
        ttl_seconds: *ttl,
        max_frame_bytes: announced.max_frame,
        pfc: announced.pfc.map(pfc),
        ets: announced.ets.map(ets),
        dscp_map: dscps.iter().map(|it| (it.protocol, it.class.get())).collect(),
        applications: others.iter().map(|it| (application_name(**it), it.class.get())).collect(),
        dcbx: announced.dcbx.iter().map(|&version| version.to_owned()).collect(),
        flow_lists: announced.understands.flow_lists,
        rates: announced.understands.rates,
    }
}

pub(super) fn punts(view: &SwitchView, id: PortId) -> BTreeMap<String, PuntStatus> {
    let of = |reason: PuntReason| {
        let counters = &view.counters.port(id).punts[reason.index()];
        let [punted, over_rate, no_room] =
            [&counters.punted, &counters.over_rate, &counters.no_room].map(|counter| counter.get());
        (reason.name().to_owned(), PuntStatus { punted, over_rate, no_room })
    };
    PuntReason::ALL.map(of).into()
}
