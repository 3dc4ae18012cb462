//! What ports say by LLDP and hear, as `/status` tells it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xoff_config::Choice as _;
use xoff_dataplane::punt::PuntReason;
use xoff_dataplane::settings::{Lldp, PortSettings};
use xoff_dataplane::units::{Class, Nanos, PortId};
use xoff_dataplane::wire::dcbx::{Ets, PfcState, selector};
use xoff_dataplane::wire::lldp::LldpError;

use super::view::SwitchView;
use crate::lldp::table::Neighbor;
use crate::lldp::{Counts, Port};

/// What a port says by LLDP, and hears.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LldpStatus {
    /// Whether the switch says and hears anything here.
    pub enabled: bool,
    /// `off`, `compare` or `willing`.
    pub dcbx: String,
    /// LLDP frames handed out to be sent.
    pub frames_sent: u64,
    /// LLDP frames that could not be sent because the port had no link or too much to say; each is sent again.
    #[serde(default)]
    pub frames_not_sent: u64,
    /// LLDP frames received, malformed ones included.
    pub frames_received: u64,
    /// Malformed LLDP frames, by reason.
    pub malformed: BTreeMap<String, u64>,
    /// TLVs ignored in well-formed LLDP frames, by reason.
    pub discarded: BTreeMap<String, u64>,
    /// LLDP frames of neighbors beyond the maximum number.
    pub too_many: u64,
    /// Neighbors whose time to live ended.
    pub aged_out: u64,
    /// Times that a neighbor announced a shorter time to live than before.
    pub shortened: u64,
    /// Who is there, in the order in which they came.
    pub neighbors: Vec<NeighborStatus>,
    /// In what the only one differs from the port.
    pub mismatches: Vec<MismatchStatus>,
}

/// Somebody at the other end of a link. Texts are its own; what a terminal would obey is written out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NeighborStatus {
    /// Whose chassis: an address, or a name.
    pub chassis: String,
    /// Which port of it.
    pub port: String,
    /// The address that it speaks from.
    pub mac: String,
    /// What it is called.
    pub system_name: String,
    /// What it is.
    pub system_description: String,
    /// What its port is.
    pub port_description: String,
    /// What it is at present: `bridge`, `router`, `station` and so on.
    pub capabilities: Vec<String>,
    /// Where it is managed.
    pub management: Vec<String>,
    /// Since when it is there.
    pub age_nanos: u64,
    /// When it was heard last.
    pub heard_nanos_ago: u64,
    /// For how many seconds that holds.
    pub ttl_seconds: u16,
    /// The longest frame that it takes, FCS included; `None` where it does not say.
    pub max_frame_bytes: Option<u16>,
    /// Which of its classes are paused; `None` where it does not say.
    pub pfc: Option<PfcStatus>,
    /// How its classes share the line; `None` where it does not say.
    pub ets: Option<EtsStatus>,
    /// The class of each DSCP that it names.
    pub dscp_map: BTreeMap<u16, u8>,
    /// It understands lists of flows.
    pub flow_lists: bool,
    /// It understands rates.
    pub rates: bool,
}

/// PFC at a neighbor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PfcStatus {
    /// Classes for which it is used.
    pub classes: Vec<u8>,
    /// Whether it takes over ours.
    pub willing: bool,
    /// For how many classes it can be; zero: any number.
    pub capability: u8,
}

/// Classes of a neighbor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EtsStatus {
    /// By class, percent of the line; `None` where it has no share, as a strict one.
    pub shares: Vec<Option<u8>>,
    /// Whether it takes over what is recommended to it.
    pub willing: bool,
}

/// A difference.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MismatchStatus {
    /// `pfc`, `ets` or `dscp`.
    pub kind: String,
    /// In words.
    pub detail: String,
}

/// What became of frames that are no transit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PuntStatus {
    /// Copied out of the switch.
    pub punted: u64,
    /// Refused, because more came than may.
    pub over_rate: u64,
    /// Refused, because who takes them had no room.
    pub no_room: u64,
}

/// What a port says and hears now.
pub(super) fn status(view: &SwitchView, id: PortId) -> LldpStatus {
    let (settings, ports) = (view.settings(), view.neighbors.lock());
    of_port(&settings.ports[id.index()], &ports[id.index()], (view.clock)())
}

fn of_port(settings: &PortSettings, port: &Port, now: Nanos) -> LldpStatus {
    let Counts {
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
            .map(|it| MismatchStatus { kind: it.kind.name().into(), detail: it.detail.clone() })
            .collect(),
    }
}

fn of_neighbor(neighbor: &Neighbor, now: Nanos) -> NeighborStatus {
    let Neighbor { chassis, port, mac, since, heard, ttl, said, .. } = neighbor;
    let pfc = |pfc: PfcState| PfcStatus {
        classes: pfc.classes.iter().map(Class::get).collect(),
        willing: pfc.willing,
        capability: pfc.capability,
    };
    let ets = |ets: Ets| EtsStatus { shares: ets.shares().into(), willing: ets.willing };
    let dscp = said.applications.iter().filter(|it| it.selector == selector::DSCP);
    NeighborStatus {
        chassis: chassis.clone(),
        port: port.clone(),
        mac: mac.to_string(),
        system_name: said.system_name.clone(),
        system_description: said.system_description.clone(),
        port_description: said.port_description.clone(),
        capabilities: said.capabilities().into_iter().map(str::to_owned).collect(),
        management: said.management.clone(),
        age_nanos: now.since(*since).0,
        heard_nanos_ago: now.since(*heard).0,
        ttl_seconds: *ttl,
        max_frame_bytes: said.max_frame,
        pfc: said.pfc.map(pfc),
        ets: said.ets.map(ets),
        dscp_map: dscp.map(|it| (it.protocol, it.class.get())).collect(),
        flow_lists: said.understands.flow_lists,
        rates: said.understands.rates,
    }
}

/// What became of frames that are no transit.
pub(super) fn punts(view: &SwitchView, id: PortId) -> BTreeMap<String, PuntStatus> {
    let of = |reason: PuntReason| {
        let counters = &view.counters.port(id).punts[reason.index()];
        let [punted, over_rate, no_room] =
            [&counters.punted, &counters.over_rate, &counters.no_room].map(|counter| counter.get());
        (reason.name().to_owned(), PuntStatus { punted, over_rate, no_room })
    };
    PuntReason::ALL.map(of).into()
}
