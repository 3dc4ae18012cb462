//! Which policy decides, why it held whom, and what the shadows would have done.

use xoff_dataplane::ledger::ClassCounters;
use xoff_dataplane::policy::{Causes, ShadowCounters, Trigger};
use xoff_dataplane::units::{Class, PortId};

use super::super::exposition::{Exposition, Kind, seconds};
use super::super::view::SwitchView;
use super::{DIGITS, name, of_class, settings};

pub(super) fn write(text: &mut Exposition, view: &SwitchView) {
    write_causes(text, view);
    write_shadows(text, view);
}

fn write_causes(text: &mut Exposition, view: &SwitchView) {
    let mut family =
        text.family("xoff_class_policy", Kind::Gauge, "Flow-control policy of a class; always 1.");
    for class in Class::ALL {
        family.sample(&[("class", DIGITS[class.index()]), ("policy", view.policies.get(class).name())], 1);
    }
    let help = "Times that the peer began to be held, by what triggered it and whether the culprit egress \
                queue was held by its own peer.";
    let mut family = text.family("xoff_pfc_xoff_causes_total", Kind::Counter, help);
    for (port, class, counters) in lossless(view) {
        let [port, class] = of_class(view, port, class);
        let Causes { own, relayed } = &counters.xoff_causes;
        for (trigger, (own, relayed)) in Trigger::NAMES.into_iter().zip(own.iter().zip(relayed)) {
            family.sample(&[port, class, ("trigger", trigger), ("relayed", "false")], own.get());
            family.sample(&[port, class, ("trigger", trigger), ("relayed", "true")], relayed.get());
        }
    }
    let help = "Bytes in an egress queue that came in through a port whose peer is held now.";
    let mut family = text.family("xoff_pfc_culprit_bytes", Kind::Gauge, help);
    for (port, class, _) in lossless(view).filter(|(_, _, counters)| counters.pausing_since.get() != 0) {
        let labels = of_class(view, port, class);
        for (egress, _) in view.ports() {
            let bytes = view.counters.between(port, egress, class).get();
            if bytes > 0 {
                family.sample(&[labels[0], labels[1], ("culprit", name(view, egress))], bytes);
            }
        }
    }
}

type OfShadow = (&'static str, &'static str, fn(&ShadowCounters) -> f64);

const SHADOW_FAMILIES: [OfShadow; 3] = [
    ("xoff_shadow_xoff_total", "Times that a shadow policy would have told the peer to stop.", |shadow| {
        shadow.xoff.get() as f64
    }),
    (
        "xoff_shadow_pause_seconds_total",
        "Time in pauses that a shadow policy would have asked for, finished ones.",
        |shadow| seconds(shadow.pausing_nanos.get()),
    ),
    (
        "xoff_shadow_lost_total",
        "Frames lost for want of room while a shadow policy had not asked for a pause.",
        |shadow| shadow.lost.get() as f64,
    ),
];

fn write_shadows(text: &mut Exposition, view: &SwitchView) {
    for (metric, help, value) in SHADOW_FAMILIES {
        let mut family = text.family(metric, Kind::Counter, help);
        for (port, class, _) in lossless(view) {
            let labels = of_class(view, port, class);
            for (number, kind) in view.settings.shadows.iter().enumerate() {
                let shadow = &view.counters.shadow(number)[port.index()][class.index()];
                family.sample(&[labels[0], labels[1], ("policy", kind.name())], value(shadow));
            }
        }
    }
}

fn lossless(view: &SwitchView) -> impl Iterator<Item = (PortId, Class, &ClassCounters)> {
    view.classes().filter(|&(port, class, _)| settings(view, port, class).lossless)
}
