//! Pauses of single flows (OFC), of ports whose peers understand them.

use xoff_dataplane::counter::Counter;
use xoff_dataplane::counters::FlowCounters;

use super::super::exposition::{Exposition, Kind};
use super::super::view::SwitchView;
use super::of_class;

type OfFlows = (&'static str, Kind, &'static str, fn(&FlowCounters) -> &Counter);

const FLOW_FAMILIES: [OfFlows; 10] = [
    (
        "xoff_ofc_pause_frames_sent_total",
        Kind::Counter,
        "Frames that asked the peer to pause single flows, refreshes included.",
        |flows| &flows.pause_frames_sent,
    ),
    (
        "xoff_ofc_resume_frames_sent_total",
        Kind::Counter,
        "Frames that asked the peer to resume single flows.",
        |flows| &flows.resume_frames_sent,
    ),
    (
        "xoff_ofc_pause_frames_received_total",
        Kind::Counter,
        "Frames by which the peer has paused single flows.",
        |flows| &flows.pause_frames_received,
    ),
    (
        "xoff_ofc_resume_frames_received_total",
        Kind::Counter,
        "Frames by which the peer has resumed single flows.",
        |flows| &flows.resume_frames_received,
    ),
    (
        "xoff_ofc_pauses_total",
        Kind::Counter,
        "Times that flows were added to those that the peer is asked to pause.",
        |flows| &flows.asked.pauses,
    ),
    (
        "xoff_ofc_flow_pauses_total",
        Kind::Counter,
        "Flows that the peer was asked to pause, each time that it was.",
        |flows| &flows.asked.flows,
    ),
    (
        "xoff_ofc_resumes_total",
        Kind::Counter,
        "Times that the peer was asked to resume all flows.",
        |flows| &flows.asked.resumes,
    ),
    ("xoff_ofc_flows_asked", Kind::Gauge, "Flows that the peer is asked to pause now.", |flows| {
        &flows.asked.now
    }),
    ("xoff_ofc_flows_paused", Kind::Gauge, "Flows that the peer has paused here now.", |flows| &flows.paused),
    (
        "xoff_ofc_fallbacks_total",
        Kind::Counter,
        "Times that a class was paused as a whole because a table of flows was full, or frames waited whose flow was not known.",
        |flows| &flows.fallbacks,
    ),
];

pub(super) fn write(text: &mut Exposition, view: &SwitchView) {
    for (metric, kind, help, counter) in FLOW_FAMILIES {
        let mut family = text.family(metric, kind, help);
        for (port, class, counters) in view.classes() {
            if view.settings().ports[port.index()].ofc_peer {
                family.sample(&of_class(view, port, class), counter(&counters.flows).get());
            }
        }
    }
}
