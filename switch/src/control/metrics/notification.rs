//! Congestion notification as metrics: what congestion points found and said, and CNMs that pass through.

use xoff_dataplane::counter::Counter;
use xoff_dataplane::counters::ClassCounters;
use xoff_dataplane::wire::CnmError;

use super::super::exposition::{Exposition, Kind};
use super::super::notification::classes;
use super::super::view::SwitchView;
use super::{name, of_class};

type OfPoint = (&'static str, Kind, &'static str, fn(&ClassCounters) -> &Counter);

const POINT_FAMILIES: [OfPoint; 5] = [
    ("xoff_qcn_samples_total", Kind::Counter, "Samples taken by the congestion point.", |class| {
        &class.qcn_samples
    }),
    ("xoff_qcn_feedback", Kind::Gauge, "Quantized feedback of the last sample, 0 to 63.", |class| {
        &class.qcn_feedback
    }),
    ("xoff_qcn_cnms_sent_total", Kind::Counter, "CNMs sent by the congestion point.", |class| {
        &class.cnms_sent
    }),
    (
        "xoff_qcn_cnm_feedback_total",
        Kind::Counter,
        "Quantized feedback of all CNMs sent, added up: divided by their number it is the mean.",
        |class| &class.cnm_feedback_sum,
    ),
    (
        "xoff_qcn_cnms_not_sent_total",
        Kind::Counter,
        "CNMs not sent: no link, no free control frame, or the culprit was no station.",
        |class| &class.cnms_not_sent,
    ),
];

/// Families of congestion points, where there are any, and of CNMs that pass.
pub(super) fn write(text: &mut Exposition, view: &SwitchView) {
    let points = classes(view);
    for (metric, kind, help, counter) in POINT_FAMILIES.into_iter().filter(|_| !points.is_empty()) {
        let mut family = text.family(metric, kind, help);
        for (port, class, counters) in view.classes().filter(|(_, class, _)| points.contains(*class)) {
            family.sample(&of_class(view, port, class), counter(counters).get());
        }
    }
    let help = "Well-formed CNMs received and forwarded.";
    let mut family = text.family("xoff_cnms_received_total", Kind::Counter, help);
    for (port, _) in view.ports() {
        family.sample(&[("port", name(view, port))], view.counters.port(port).cnms_received.get());
    }
    let help = "Malformed CNMs received and forwarded, by what is wrong with them.";
    let mut family = text.family("xoff_cnms_malformed_total", Kind::Counter, help);
    for (port, _) in view.ports() {
        let counters = &view.counters.port(port).malformed_cnms;
        for (error, counter) in CnmError::ALL.into_iter().zip(counters) {
            family.sample(&[("port", name(view, port)), ("reason", error.name())], counter.get());
        }
    }
}
