//! LLDP and DCBX, and all that is punted.

use xoff_dataplane::counter::Counter;
use xoff_dataplane::counters::PuntCounters;
use xoff_dataplane::punt::PuntReason;
use xoff_dataplane::units::Nanos;
use xoff_dataplane::wire::lldp::LldpError;

use super::super::exposition::{Exposition, Kind, seconds};
use super::super::view::SwitchView;
use super::name;
use crate::lldp::Counts;
use crate::lldp::dcbx::Kind as Mismatched;
use crate::lldp::table::Neighbor;

/// A family of one number for each port.
type OfPort = (&'static str, &'static str, fn(&Counts) -> u64);

const FAMILIES: [OfPort; 6] = [
    ("xoff_lldp_frames_sent_total", "LLDP frames handed out to be sent.", |counts| counts.frames_out),
    (
        "xoff_lldp_frames_not_sent_total",
        "LLDP frames handed out that could not be sent: the port had no link, or too much to say.",
        |counts| counts.not_sent,
    ),
    ("xoff_lldp_frames_received_total", "LLDP frames received.", |counts| counts.frames_in),
    (
        "xoff_lldp_neighbors_refused_total",
        "LLDP frames of neighbors for which there was no place.",
        |counts| counts.too_many,
    ),
    ("xoff_lldp_neighbors_aged_total", "Neighbors that fell silent.", |counts| counts.aged_out),
    (
        "xoff_lldp_shortened_total",
        "Times that a neighbor said that it holds for less long than it had.",
        |counts| counts.shortened,
    ),
];

/// A family of one number for each port and reason.
type ByReason = (&'static str, &'static str, fn(&Counts) -> &[u64; LldpError::COUNT]);

const BY_REASON: [ByReason; 2] = [
    ("xoff_lldp_malformed_total", "LLDP frames that say nothing, by reason.", |counts| &counts.malformed),
    (
        "xoff_lldp_discarded_total",
        "Parts (TLVs) that were left out of LLDP frames that say something, by reason.",
        |counts| &counts.discarded,
    ),
];

pub(super) fn write(text: &mut Exposition, view: &SwitchView) {
    write_punts(text, view);
    let ports = view.neighbors.lock();
    for (metric, help, of) in FAMILIES {
        let mut family = text.family(metric, Kind::Counter, help);
        for (id, _) in view.ports() {
            family.sample(&[("port", name(view, id))], of(&ports[id.index()].counts));
        }
    }
    for (metric, help, of) in BY_REASON {
        let mut family = text.family(metric, Kind::Counter, help);
        for (id, _) in view.ports() {
            let counts = of(&ports[id.index()].counts);
            for reason in LldpError::ALL {
                let labels = [("port", name(view, id)), ("reason", reason.name())];
                family.sample(&labels, counts[reason.index()]);
            }
        }
    }
    let mut family = text.family("xoff_lldp_neighbors", Kind::Gauge, "Neighbors at the port now.");
    for (id, _) in view.ports() {
        family.sample(&[("port", name(view, id))], ports[id.index()].table.all().len() as u64);
    }
    let help = "Time since the neighbor at the port was heard that has been silent for longest.";
    let mut family = text.family("xoff_lldp_neighbor_heard_seconds", Kind::Gauge, help);
    for (id, _) in view.ports() {
        let silent = |neighbor: &Neighbor| (view.clock)().since(neighbor.heard);
        let longest = ports[id.index()].table.all().iter().map(silent).max().unwrap_or(Nanos::ZERO);
        family.sample(&[("port", name(view, id))], seconds(longest.0));
    }
    let help = "1 while the neighbor's classes are not the port's: by pfc, ets, dscp.";
    let mut family = text.family("xoff_lldp_dcbx_mismatch", Kind::Gauge, help);
    for (id, _) in view.ports() {
        for kind in Mismatched::ALL {
            let differs = ports[id.index()].mismatches.iter().any(|it| it.kind == kind);
            family.sample(&[("port", name(view, id)), ("kind", kind.name())], u8::from(differs));
        }
    }
}

/// What became of a frame, and where that is counted.
type Outcome = (&'static str, fn(&PuntCounters) -> &Counter);

fn write_punts(text: &mut Exposition, view: &SwitchView) {
    const OUTCOMES: [Outcome; 3] = [
        ("punted", |punts| &punts.punted),
        ("over_rate", |punts| &punts.over_rate),
        ("no_room", |punts| &punts.no_room),
    ];
    let help = "Frames that are no transit, by why: copied out of the switch (punted), or refused because more came than may \
                (over_rate) or who takes them had no room (no_room).";
    let mut family = text.family("xoff_punt_frames_total", Kind::Counter, help);
    for (id, _) in view.ports() {
        for reason in PuntReason::ALL {
            for (outcome, of) in OUTCOMES {
                let counters = &view.counters.port(id).punts[reason.index()];
                let labels = [("port", name(view, id)), ("reason", reason.name()), ("outcome", outcome)];
                family.sample(&labels, of(counters).get());
            }
        }
    }
}
